"""What a provider family states of itself: facts only."""

from __future__ import annotations

import os
import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from plugins.spec.rows import Row
from providers.spec import Auth, Connection, EmbeddingWire, Waits, Wire


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do and what of it is exposed; the one source for emitter, 400 messages, API, page and docs."""

    thinking: t.Literal["none", "hidden", "summary", "full", "as_sent"] = "none"
    """How much of the model's reasoning the vendor exposes; ``as_sent``: whatever comes (generic families).
    Default: ``none``."""
    thinking_control: tuple[str, ...] = ()
    """The levels of contract section 2 the model can be asked for; ``budget`` stands for a token budget.
    Default: none."""
    thinking_signed: bool = False
    """Thinking must go back verbatim with its signature. Default: False."""
    tools: t.Literal["none", "serial", "parallel"] = "none"
    """Live tool calls. Default: ``none``."""
    forced_tool_choice: bool = True
    """``tool_choice: required`` or a name is accepted. Default: True."""
    forced_tool_with_thinking: bool = True
    """A forced tool is accepted while thinking is on. Default: True."""
    structured_output: t.Literal["none", "tool", "native"] = "none"
    """How a response format is honoured: by the vendor's own schema mode (``native``), or by telling the schema in the
    prompt and checking the answer against it (``tool``). Default: ``none``."""
    inputs: tuple[str, ...] = ("text",)
    """Input kinds. Default: text only."""
    context_window: int | None = None
    """Tokens of context. Default: unknown."""
    max_output: int | None = None
    """Most tokens of one answer. Default: unknown."""
    price: tuple[float, float] | None = None
    """USD per million input and output tokens; ``(0, 0)`` is free, None unknown. Default: unknown."""
    cache_price: tuple[float, float] | None = None
    """USD per million input tokens read from, and written to, the vendor's prompt cache. Default: as other input."""
    usage_in_stream: bool = True
    """The stream states token usage. Default: True."""
    notes: str = ""
    """One sentence for the table. Default: empty."""
    source: str = ""
    """Where the claims come from: a vendor page, a measurement. Default: empty."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """By field name, where that claim comes from when it is not ``source``: the model registry's row, or the
    family's default. Default: empty."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One more value of a connection, beside address and key.

    :ivar name: its key in ``Connection.credentials`` (``secret``) or ``Connection.options``.
    :ivar variables: environment variables, tried in order; ``STUDIO_<FAMILY>_<NAME>`` is tried first.
    :ivar required: without it the family is not configured; the message names the variable.
    :ivar default: its value when no variable is set.
    :ivar multiline: a secret that may have line ends, e.g. a JSON document.
    """

    name: str
    variables: tuple[str, ...]
    doc: str
    required: bool = False
    default: str | None = None
    secret: bool = False
    multiline: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionSpec:
    """How a family's address and credentials are found: per request, from the environment.

    ``base_vars`` and ``key_vars`` are tried in order; ``STUDIO_<FAMILY>_API_BASE`` and ``_API_KEY`` are tried first.
    A base is accepted with or without its trailing ``/v1``; ``version_path`` is what the wire expects to be there.
    ``default_base`` None: an address must be set; empty: the wire needs none. It may name settings in braces,
    e.g. ``https://bedrock-runtime.{region}.amazonaws.com``, or be made of the options by a function.
    ``check``: what is wrong with a connection whose parts are each there or not, as ``(sentence with the cure,
    variable)``; for families that accept one of several kinds of credentials.
    """

    default_base: str | Callable[[Mapping[str, str]], str | None] | None = None
    base_vars: tuple[str, ...] = ()
    key_vars: tuple[str, ...] = ()
    key_required: bool = True
    version_path: str = "/v1"
    settings: tuple[Setting, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every call, e.g. a beta switch; values may name settings in braces; an empty value is left out."""
    idle_s: float = 60.0
    """Longest silence inside a stream that is still normal, in seconds; ``STUDIO_IDLE_S`` and an agent's ``idle_s``
    win over it."""
    check: Callable[[Mapping[str, str], Mapping[str, str]], tuple[str, str] | None] | None = None
    """``check(credentials, options)``."""
    read_base: Callable[[str], str] | None = None
    """Makes an address of what a variable holds, for vendors whose variable may hold less than one (a bare host)."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """How a family makes vectors of texts.

    :ivar wire: a built-in embedding wire's name (``openai_embeddings``) or an object of one's own.
    :ivar source: where the claims come from: a vendor page, a measurement.
    :ivar known: models that are known to make vectors; others are a warning. Empty: no opinion.
    :ivar models: the closed list of models, or None.
    :ivar batch: how many texts one call takes, or a rule by model.
    :ivar dialect: switches the wire documents.
    :ivar model_dialect: switches that depend on the model, laid over ``dialect``.
    :ivar registry_providers: ``litellm_provider`` values under which the registry lists these models without the
        family's prefix; what a token costs is read there.
    :ivar price: USD per million tokens, where the registry does not say; None: unknown.
    """

    wire: str | EmbeddingWire
    source: str = ""
    known: Sequence[str] = ()
    models: Sequence[str] | None = None
    batch: int | Callable[[str], int] = 64
    dialect: Mapping[str, t.Any] = field(default_factory=dict)
    model_dialect: Callable[[str], Mapping[str, t.Any]] | None = None
    registry_providers: tuple[str, ...] = ()
    price: float | None = None


@dataclass(frozen=True, slots=True)
class ProviderFamily:
    """One vendor, gateway or local server.

    :ivar id: the part of a model id before the first slash; ``[a-z0-9.-]+``.
    :ivar wire: a built-in wire's name (``openai_chat``, ``anthropic_messages``) or an object of one's own.
    :ivar models: the closed list of model names, a callable that gives it when asked (e.g. scripts of a
        folder), or None for an open family.
    :ivar capabilities: rule ``(model, registry_row | None) -> Capabilities``.
    :ivar dialect: switches the wire documents.
    :ivar model_wire: another wire for some models (a name or an object); None from it means ``wire``.
    :ivar other_wires: further wires that ``STUDIO_<FAMILY>_WIRE`` may name for all models of the family.
    :ivar on_wire: what is otherwise on one of ``other_wires``: ``on_wire(wire, capabilities) -> capabilities``; e.g.
        thinking that only the family's own wire shows. Default: nothing.
    :ivar list_models: asks the server behind a connection what it has, ``list_models(connection, waits)``, raising
        ``ProviderError``; asked off the hot path, kept for ``list_ttl_s`` seconds, the last good answer kept longer.
    :ivar max_concurrency: how many calls of this family may run at once in one worker; None: no limit.
        ``STUDIO_<FAMILY>_MAX_CONCURRENCY`` overrides it.
    :ivar registry_prefix: prefix of this family's rows in the model registry.
    :ivar registry_providers: ``litellm_provider`` values under which the registry lists this family's models
        without a prefix.
    :ivar known: models an open family has heard of; others are a warning in validation. They are also its rows in
        the capability table. Empty: no opinion.
    :ivar model_dialect: switches that depend on the model, laid over ``dialect``.
    :ivar recordings: the folder of recorded answers that the conformance kit plays; the runtime never reads it.
    :ivar embeddings: how it makes vectors of texts; None: it does not.
    """

    id: str
    title: str
    wire: str | Wire
    auth: Auth
    connection: ConnectionSpec
    capabilities: Callable[[str, Row | None], Capabilities]
    models: Sequence[str] | Callable[[], Sequence[str]] | None = None
    dialect: Mapping[str, t.Any] = field(default_factory=dict)
    model_wire: Callable[[str], str | Wire | None] | None = None
    other_wires: tuple[str, ...] = ()
    on_wire: Callable[[str, Capabilities], Capabilities] | None = None
    list_models: Callable[[Connection, Waits], Sequence[str]] | None = None
    list_ttl_s: float = 300.0
    max_concurrency: int | None = None
    registry_prefix: str | None = None
    registry_providers: tuple[str, ...] = ()
    known: Sequence[str] = ()
    model_dialect: Callable[[str], Mapping[str, t.Any]] | None = None
    recordings: str | os.PathLike[str] | None = None
    embeddings: Embeddings | None = None


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """Everything a model call needs but the request itself."""

    family: ProviderFamily
    model: str
    wire: Wire
    connection: Connection
    capabilities: Capabilities
    dialect: Mapping[str, t.Any]
    max_concurrency: int | None = None
    """How many calls of the family may run at once in one worker. Default: no limit."""


@dataclass(frozen=True, slots=True)
class ResolvedEmbedding:
    """Everything a call for vectors needs but the texts.

    :ivar batch: how many texts one call takes.
    :ivar price: USD per million tokens; None: unknown.
    """

    family: ProviderFamily
    model: str
    wire: EmbeddingWire
    connection: Connection
    dialect: Mapping[str, t.Any]
    batch: int
    price: float | None
    max_concurrency: int | None = None

    @property
    def id(self) -> str:
        """``<family>/<model>``."""
        return f"{self.family.id}/{self.model}"

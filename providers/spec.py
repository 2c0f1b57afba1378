"""The vocabulary between a wire and everything above it.

Law of this room: types here are pure values. A wire turns a :class:`ModelRequest` into vendor
bytes and vendor bytes into model events; it never logs, stores, retries or shapes a client frame.
Whoever drives a wire passes a :class:`Waits`, so wires can be interrupted without importing app.
"""

from __future__ import annotations

import typing as t
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import msgspec

#: A JSON object under construction, or as a vendor sent it.
Json = dict[str, t.Any]

FinishReason = t.Literal["stop", "length", "tool_calls", "content_filter", "refusal", "other"]

#: Stable codes of contract section 11 that a provider failure can carry.
ProviderErrorCode = t.Literal[
    "provider_auth",
    "provider_rate_limited",
    "provider_overloaded",
    "provider_bad_request",
    "context_length_exceeded",
    "content_filtered",
    "provider_unavailable",
    "provider_idle",
    "provider_bad_stream",
]


class ModelEvent(msgspec.Struct, frozen=True, gc=False):
    """Base of what one model call can say. Built positionally on the token path."""


class TextDelta(ModelEvent, frozen=True, gc=False):
    """A piece of answer text (refusal text included); never empty, never a lone surrogate."""

    text: str


class ThinkingDelta(ModelEvent, frozen=True, gc=False):
    """A piece of provider-exposed thinking. ``redacted``: the vendor withheld it and ``text`` is empty."""

    text: str
    redacted: bool = False


class ToolCallStarted(ModelEvent, frozen=True, gc=False):
    """A call whose id and name are known and frozen from now on. Exactly once per call."""

    id: str
    name: str


class ToolCallReady(ModelEvent, frozen=True, gc=False):
    """A call whose arguments are complete, or known to be unusable.

    ``arguments`` is the parsed object, or None when ``error`` says why there is none:
    ``invalid_json`` (does not parse), ``not_an_object`` (parses to something else),
    ``cut`` (the output limit ended it). ``raw`` keeps the vendor's own text.
    """

    id: str
    name: str
    arguments: dict[str, t.Any] | None
    raw: str
    error: str | None = None


class SourceCited(ModelEvent, frozen=True, gc=False):
    """A source the vendor attached to the answer."""

    url: str
    title: str = ""


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Token counts of one model call as the vendor last stated them; None where it said nothing.

    Every wire brings its vendor's counts into one shape: ``input`` is all of the prompt, what was read from
    (``cache_read``) and written to (``cache_write``) the vendor's prompt cache included; ``output`` is all that was
    generated, ``reasoning`` included. ``estimated``: counted by us, because the vendor said nothing.
    """

    input: int | None = None
    output: int | None = None
    total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    estimated: bool = False


class UsageStated(ModelEvent, frozen=True, gc=False):
    """Usage the vendor stated before the end; what counts if the end never comes. The last one replaces the others."""

    usage: Usage


class ModelFinished(ModelEvent, frozen=True, gc=False):
    """The last event of a model call; exactly once, after every ``ToolCallReady``.

    ``reason`` is normalised from the content first and the vendor's label second. ``replay`` is
    what the vendor wants back verbatim on the next turn, opaque to all but the wire that made it.
    """

    reason: FinishReason
    usage: Usage | None
    replay: t.Any
    model: str | None = None


class ProviderError(Exception):
    """A model call failed. ``message`` is ours and safe to show; ``detail`` is the vendor's own text.

    :param code: one of :data:`ProviderErrorCode`.
    :param message: one sentence naming the thing and the cure, without vendor text or secrets.
    :param detail: the vendor's words (may hold secrets; masked before it is stored).
    :param status: the HTTP status, when there was one.
    :param retry_after: seconds the vendor asked to wait, when it did.
    """

    def __init__(
        self,
        code: ProviderErrorCode,
        message: str,
        *,
        detail: str = "",
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code: ProviderErrorCode = code
        self.message = message
        self.detail = detail
        self.status = status
        self.retry_after = retry_after


class FilePart(msgspec.Struct, frozen=True):
    """A file shown to the model. ``text`` files are UTF-8; ``media_type`` is e.g. ``image/png``; ``data`` its bytes."""

    kind: t.Literal["image", "pdf", "text"]
    media_type: str
    data: bytes
    name: str = ""


class UserMessage(msgspec.Struct, frozen=True):
    """What the user side said, and the files it showed, which come before the text on the vendor's side."""

    text: str
    files: tuple[FilePart, ...] = ()


class ToolCall(msgspec.Struct, frozen=True):
    """One call of an assistant turn, as announced."""

    id: str
    name: str
    arguments: dict[str, t.Any] | None
    raw: str


class AssistantMessage(msgspec.Struct, frozen=True):
    """One earlier model turn. ``wire`` names who made ``replay``; another wire rebuilds from text and calls."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    replay: t.Any = None
    wire: str = ""


class ToolResult(msgspec.Struct, frozen=True):
    """What a tool answered, as text for the model. Follows its assistant message, in call order."""

    call_id: str
    name: str
    content: str
    is_error: bool = False


Message = UserMessage | AssistantMessage | ToolResult


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model is told of it. ``parameters`` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, t.Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call. ``mint_id`` makes a fresh call id; ``used_ids`` are those already spoken for in this run.

    A wire replaces a vendor id that is missing, or in ``used_ids``, or repeated inside the turn for
    another call, by ``mint_id()``, and uses the replacement in ``replay`` too.
    ``tool_choice`` is ``auto``, ``none``, ``required`` or a tool's name. ``thinking`` is a level of
    contract section 2, a token budget, or None. ``show_thinking``: someone may see it.
    ``cache``: mark the part of the prompt that later calls repeat for the vendor's prompt cache, where the vendor
    wants marks. ``conversation`` names the conversation for vendors that route by it (a cache key); never shown.
    ``dialect`` holds the family's switches for this wire.
    """

    model: str
    messages: Sequence[Message]
    mint_id: Callable[[], str]
    system: str | None = None
    tools: Sequence[ToolSpec] = ()
    tool_choice: str = "auto"
    thinking: str | int | None = None
    show_thinking: bool = False
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: Sequence[str] = ()
    seed: int | None = None
    parallel_tool_calls: bool | None = None
    response_format: Mapping[str, t.Any] | None = None
    used_ids: t.AbstractSet[str] = frozenset()
    cache: bool = False
    conversation: str = ""
    dialect: Mapping[str, t.Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connection:
    """Where and as whom to call: resolved per request, never stored.

    ``base_url`` has no trailing slash. ``auth.apply`` is called after the body is known.
    ``credentials`` are secret (``api_key`` and what a family's settings name); ``options`` are not (a region,
    a deployment, an API version). Times are seconds. ``idle_s``: longest silence between two pieces of progress.
    """

    base_url: str
    auth: Auth
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    connect_s: float = 10.0
    idle_s: float = 60.0


@dataclass(slots=True)
class HttpRequest:
    """A request about to be sent; ``auth`` schemes may add headers or query to it."""

    method: str
    url: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Auth(t.Protocol):
    """An authentication scheme (``providers/auth.py``, or a family's own)."""

    def apply(self, request: HttpRequest, credentials: Mapping[str, str]) -> None:
        """Add what the vendor needs to ``request``. Synchronous; may cache tokens.

        ``credentials`` are the connection's credentials and options together.
        A scheme that has to ask somebody for a token is a :class:`FetchingAuth` as well.
        """


@t.runtime_checkable
class FetchingAuth(Auth, t.Protocol):
    """A scheme that fetches a token first (OAuth, a command); called before :meth:`Auth.apply`, never per token."""

    def prepare(self, credentials: Mapping[str, str], connect_s: float, waits: Waits) -> None:
        """Make sure that a fresh token is cached. Waits only inside ``waits``.

        :raises ProviderError: ``provider_auth`` or ``provider_unavailable`` when there is none to be had.
        """


class Waits(t.Protocol):
    """What a wire needs of whoever drives it (``app.engine.scope.RunScope`` implements it)."""

    def wait(self) -> AbstractContextManager[t.Any]:
        """Guard one blocking step: cancellation is thrown only inside it, and raised at entry if already due."""

    def progress(self) -> None:
        """Say that the upstream moved; restarts the idle limit. A ping or a comment is no progress."""

    def idle_limit(self, seconds: float) -> AbstractContextManager[t.Any]:
        """While open, ``seconds`` without :meth:`progress` end the wait with ``ProviderError("provider_idle")``."""

    def gate(self) -> None:
        """Block while the run's reader is too far behind. Call before each upstream read; not idle time."""


class Wire(t.Protocol):
    """A protocol spoken by vendors."""

    @property
    def name(self) -> str:
        """Stable; recorded beside ``replay``."""

    def stream(
        self, request: ModelRequest, connection: Connection, waits: Waits
    ) -> Iterator[list[ModelEvent]]:
        """Make one model call; yield what each read brought (never an empty list).

        Closing the iterator closes the upstream connection at once.

        :raises ProviderError: the call failed, at any point.
        """


class Embedded(msgspec.Struct, frozen=True):
    """What one embedding call gave.

    ``vectors``: one for each text, in order, float32, all of one length and of finite numbers. ``usage`` has no
    output; None where the vendor said nothing.
    """

    vectors: tuple[array[float], ...]
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Texts to be made vectors of, none of them empty.

    ``purpose``: whether they are what is searched or what is searched for; vendors and models that tell the two apart
    are told. ``dialect`` holds the family's switches for this wire.
    """

    model: str
    texts: Sequence[str]
    purpose: t.Literal["document", "query"]
    dialect: Mapping[str, t.Any] = field(default_factory=dict)


class EmbeddingWire(t.Protocol):
    """A protocol by which vendors make vectors of texts."""

    @property
    def name(self) -> str:
        """Stable; for tables and logs."""

    def embed(self, request: EmbeddingRequest, connection: Connection, waits: Waits) -> Embedded:
        """Make one call. Waits only inside ``waits``; one that is cancelled has closed its connection.

        :raises ProviderError: the call failed.
        """

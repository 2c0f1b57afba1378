"""What an agent asks for, held against what its model can do.

Law of this room: the same :class:`~plugins.spec.Capabilities` that the runtime obeys says no here, names
what there is, and says it before a run exists.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from app.agents.files import refusal
from app.workflows.file_entries import known_kind
from plugins.connections import RegistryError
from plugins.spec import Capabilities


class AgentLike(t.Protocol):
    """What the checks read of an agent's config."""

    model: str
    fallbacks: list[str]
    files: t.Any
    thinking: str | int | None
    tools: list[t.Any]
    tool_choice: str
    capture: bool
    response_format: dict[str, t.Any] | None


def checker(
    capabilities_of: Callable[[str], Capabilities], doubt: Callable[[str], str | None] = lambda model: None
) -> Callable[[AgentLike], list[tuple[str, str]]]:
    """The rule set for validation: ``check(config) -> [(member, message)]``.

    :param capabilities_of: what the model behind an id can do; raises LookupError or the registry's error
        for a model that cannot be, which validation reports by itself.
    :param doubt: says that a model may not be there; what it cannot do is then only assumed.
    """

    def check(config: AgentLike) -> list[tuple[str, str]]:
        found = list(_problems(config, config.model, capabilities_of, doubt))
        for place, model in enumerate(config.fallbacks):
            # A fallback gets the very same request, so all of it has to be possible there, too.
            problems = _problems(config, model, capabilities_of, doubt)
            found += [(f"fallbacks[{place}]", message) for _, message in problems]
        return found

    return check


def _problems(
    config: AgentLike,
    model: str,
    capabilities_of: Callable[[str], Capabilities],
    doubt: Callable[[str], str | None],
) -> t.Iterator[tuple[str, str]]:
    try:
        can = capabilities_of(model)
        unknown = doubt(model)
    except (LookupError, RegistryError):
        return
    assumed = f"{unknown}. As nothing is known of it, it is assumed that " if unknown else ""
    for rule in (_thinking, _tools, _structured, _files):
        for member, message in rule(config, model, can):
            yield member, f"{assumed}{message}"


def _thinking(config: AgentLike, model: str, can: Capabilities) -> t.Iterator[tuple[str, str]]:
    """A level is held against those the model has; what it does by itself (no level, ``auto``) it always can."""
    wanted = config.thinking
    if wanted in (None, "auto") or can.thinking == "as_sent":  # of a generic family a level is a wish
        return
    if can.thinking == "none":
        if wanted != "none":
            yield "thinking", f"{model} does not think; leave thinking out or set it to none."
        return
    name = "budget" if isinstance(wanted, int) else wanted
    if name not in can.thinking_control:
        if name == "none":
            yield "thinking", f"{model} always thinks; it has: {_levels(can)}."
            return
        asked = f"token budget ({wanted})" if isinstance(wanted, int) else f"level {wanted}"
        yield "thinking", f"{model} has no thinking {asked}; it has: {_levels(can)}."


def _levels(can: Capabilities) -> str:
    levels = dict.fromkeys((*can.thinking_control, "auto"))
    return ", ".join(levels).replace("budget", "a token budget")


def _tools(config: AgentLike, model: str, can: Capabilities) -> t.Iterator[tuple[str, str]]:
    if not config.tools and not config.capture:  # with capture it has one: release
        return
    if can.tools == "none":
        what, cure = (
            ("tools", "remove them") if config.tools else ("capture", "so it never lets go; leave it out")
        )
        yield what, f"{model} cannot call tools, it only answers; {cure} or choose a model that can."
        return
    if config.tool_choice in ("auto", "none"):
        return
    if not can.forced_tool_choice:
        yield "tool_choice", f"{model} cannot be forced to call a tool; it has: auto, none."
    elif not can.forced_tool_with_thinking and _will_think(config, can):
        cure = "thinking to none or " if "none" in can.thinking_control else ""
        yield (
            "tool_choice",
            f"{model} cannot be forced to call a tool while it thinks; set {cure}tool_choice to auto.",
        )


def _will_think(config: AgentLike, can: Capabilities) -> bool:
    """Whether thinking was asked for, or cannot be kept from happening. Without a level the wire leaves it off."""
    if can.thinking == "none":
        return False
    return config.thinking not in (None, "none") or "none" not in can.thinking_control


def _structured(config: AgentLike, model: str, can: Capabilities) -> t.Iterator[tuple[str, str]]:
    if config.response_format is not None and can.structured_output == "none":
        yield (
            "response_format",
            f"{model} cannot follow a response format, it answers in free text; "
            "remove it or choose a model that can.",
        )


def _files(config: AgentLike, model: str, can: Capabilities) -> t.Iterator[tuple[str, str]]:
    """Kinds of files that are known from the document; what a template or an address brings is seen at the run."""
    entries = config.files if isinstance(config.files, list) else []
    for place, entry in enumerate(entries):
        kind = known_kind(entry)
        if kind is not None and kind != "text" and kind not in can.inputs:
            yield f"files[{place}]", refusal(model, [kind], can.inputs)

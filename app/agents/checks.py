"""What an agent asks for, held against what its model can do.

Law of this room: the same :class:`~plugins.spec.Capabilities` that the runtime obeys says no here, names
what there is, and says it before a run exists.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from plugins.connections import RegistryError
from plugins.spec import Capabilities


class AgentLike(t.Protocol):
    """What the checks read of an agent's config."""

    model: str
    thinking: str | int | None
    tools: list[t.Any]
    tool_choice: str
    response_format: dict[str, t.Any] | None


def checker(capabilities_of: Callable[[str], Capabilities]) -> Callable[[AgentLike], list[tuple[str, str]]]:
    """The rule set for validation: ``check(config) -> [(member, message)]``.

    :param capabilities_of: what the model behind an id can do; raises LookupError or the registry's error
        for a model that cannot be, which validation reports by itself.
    """

    def check(config: AgentLike) -> list[tuple[str, str]]:
        try:
            can = capabilities_of(config.model)
        except (LookupError, RegistryError):
            return []
        return [*_thinking(config, can), *_tools(config, can), *_structured(config, can)]

    return check


def _thinking(config: AgentLike, can: Capabilities) -> t.Iterator[tuple[str, str]]:
    wanted = config.thinking
    if wanted is None or wanted in ("none", "auto") or can.thinking == "as_sent":
        return
    if can.thinking == "none":
        yield "thinking", f"{config.model} does not think; leave thinking out or set it to none."
        return
    name = "budget" if isinstance(wanted, int) else wanted
    if name not in can.thinking_control:
        offered = ", ".join(("none", "auto", *can.thinking_control)).replace("budget", "a token budget")
        asked = f"a token budget ({wanted})" if isinstance(wanted, int) else f"level {wanted}"
        yield "thinking", f"{config.model} has no thinking {asked}; it has: {offered}."


def _tools(config: AgentLike, can: Capabilities) -> t.Iterator[tuple[str, str]]:
    if config.tools and can.tools == "none":
        yield "tools", f"{config.model} cannot call tools; remove them or choose a model that can."
    forced = config.tool_choice not in ("auto", "none")
    if not forced or not config.tools:
        return
    if not can.forced_tool_choice:
        yield "tool_choice", f"{config.model} cannot be forced to call a tool; use auto or none."
    thinks = config.thinking not in (None, "none")
    if thinks and not can.forced_tool_with_thinking:
        yield (
            "tool_choice",
            f"{config.model} cannot be forced to call a tool while it thinks; "
            "set thinking to none or tool_choice to auto.",
        )


def _structured(config: AgentLike, can: Capabilities) -> t.Iterator[tuple[str, str]]:
    if config.response_format is not None and can.structured_output == "none":
        yield (
            "response_format",
            f"{config.model} cannot follow a response format; remove it or choose a model that can.",
        )

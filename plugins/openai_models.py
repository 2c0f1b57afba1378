"""What is true of OpenAI's models wherever they are served, read from their names.

Law of this room: facts by generation, since new dated names appear all the time. A name may stand inside a longer
one (a fine-tune, an Azure deployment called after its model). Sources, as of late 2026: the reasoning guide and the
model pages of developers.openai.com; efforts per model from the model registry where a page is silent. The switches
made here are those of the Responses wire and, where they mean the same, of the chat-completions wire.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, replace

from plugins.spec import Capabilities

SOURCE = "developers.openai.com: reasoning guide, model pages"

_O_SERIES = re.compile(r"(?<![a-z0-9])o(?P<version>[1-9])(?P<rest>(?:-[a-z]+)*)(?![a-z0-9.])")
_GPT = re.compile(r"(?<![a-z0-9])gpt-?(?P<major>\d+)(?:\.(?P<minor>\d+))?(?P<rest>[a-z0-9-]*)")
_FROM_LOW = ("low", "medium", "high", "xhigh", "max")

#: What is taken of any of them where the registry is silent; true of xAI's models as well.
OTHERWISE: Mapping[str, t.Any] = {
    "tools": "parallel",
    "structured_output": "native",
    "inputs": ("text", "image"),
}

Sampling = bool | t.Literal["unless_thinking"]


@dataclass(frozen=True, slots=True)
class Thinking:
    """How a model thinks.

    :ivar levels: efforts it takes; empty: it does not think.
    :ivar by_default: it thinks unless told not to.
    :ivar summary: a summary of it can be asked for.
    :ivar chat_tools: the chat-completions endpoint lets it think and call tools in one request.
    """

    levels: tuple[str, ...] = ()
    by_default: bool = False
    summary: bool = False
    chat_tools: bool = True


#: A model that does not think.
PLAIN = Thinking()


def thinking_of(name: str) -> Thinking | None:
    """How the model that ``name`` names thinks; None when the name tells no model of OpenAI's."""
    name = name.lower()
    if (gpt := _GPT.search(name)) is not None:
        return _gpt(int(gpt["major"]), int(gpt["minor"] or 0), set(gpt["rest"].split("-")))
    if (series := _O_SERIES.search(name)) is not None:
        summary = int(series["version"]) >= 3 and (series["version"], series["rest"][:5]) != ("3", "-mini")
        return Thinking(("low", "medium", "high"), by_default=True, summary=summary)
    if "chat-latest" in name:
        return Thinking(("medium",), by_default=True)
    return None


def _gpt(major: int, minor: int, variant: set[str]) -> Thinking:
    version = (major, minor)
    if not (5,) <= version < (10,):  # up to 4.1, 4o and 4.5; Azure writes 3.5 as 35
        return PLAIN
    if "chat" in variant:
        return PLAIN if version == (5, 0) else Thinking(("medium",), by_default=True)
    levels = _levels(version, variant)
    by_default = "none" not in levels or version >= (5, 5)
    return Thinking(levels, by_default, summary=True, chat_tools=version < (5, 4))


def _levels(version: tuple[int, int], variant: set[str]) -> tuple[str, ...]:
    """The efforts of the generations from GPT-5 on."""
    most = 5 if version >= (6, 0) else 4 if version >= (5, 2) or "max" in variant else 3
    levels = _FROM_LOW[:most]
    if "pro" in variant:
        return ("high",) if version < (5, 2) else levels[1:]
    always = variant & {"codex", "astra", "rosalind"} or (version == (6, 1) and "sol" in variant)
    if always:
        return levels
    return ("minimal", *levels) if version == (5, 0) else ("none", *levels)


def control_of(thinking: Thinking) -> tuple[str, ...]:
    """The levels that a workflow may set; ``auto`` leaves the effort to the model."""
    return (*thinking.levels, "auto") if thinking.levels else ()


def dialect_of(thinking: Thinking | None) -> Mapping[str, t.Any]:
    """The wires' switches for a model; None for one of which nothing is known: it is asked for nothing special."""
    common: dict[str, t.Any] = {
        "max_tokens_field": "max_completion_tokens",
        "conversation_field": "prompt_cache_key",
    }
    if thinking is None or not thinking.levels:
        return {**common, "thinking": "never"}
    sampling: Sampling = "unless_thinking" if "none" in thinking.levels else False
    return {
        **common,
        "thinking": "summary" if thinking.summary else "effort",
        "thinks_by_default": thinking.by_default,
        "encrypted": True,
        "sampling": sampling,
        "levels": {"auto": None, **({"max": "max"} if "max" in thinking.levels else {})},
    }


def claims_of(thinking: Thinking | None) -> Mapping[str, t.Any]:
    """What is stated of a model's thinking, as fields of ``Capabilities``; over the Responses protocol."""
    if thinking is None or not thinking.levels:
        return {"thinking": "none", "thinking_control": (), "thinking_signed": False}
    return {
        "thinking": "summary" if thinking.summary else "hidden",
        "thinking_control": control_of(thinking),
        "thinking_signed": True,
    }


def on_wire(wire: str, claims: Capabilities) -> Capabilities:
    """What the chat-completions endpoint leaves of the claims: it counts what was thought and shows nothing of it."""
    if wire != "openai_chat" or claims.thinking != "summary":
        return claims
    return replace(claims, thinking="hidden", thinking_signed=False)


def note_of(thinking: Thinking | None, variable: str) -> str:
    """One sentence or two for the table.

    :param variable: the environment variable that would choose the chat-completions wire.
    """
    if thinking is None:
        return "No name of OpenAI's: no thinking is asked for and none is shown."
    if not thinking.levels:
        return "Does not think."
    when = "Thinks by default" if thinking.by_default else "Thinks when asked"
    seen = "what is shown is a summary" if thinking.summary else "nothing of it is shown"
    chat = f"over chat completions ({variable}) nothing of it is" if thinking.summary else ""
    tools = "" if thinking.chat_tools else "; tools with thinking need the Responses protocol"
    return f"{when}; {seen}{'; ' + chat if chat else ''}{tools}."

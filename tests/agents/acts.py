"""What models say and tools do in tests of processes that end, and what of it can be compared."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable

from app import events as ev
from app.agents.config import AgentConfig
from app.agents.driver import run_agent
from app.agents.participants import ParticipantConfig
from plugins.spec import Tool
from providers.spec import (
    FinishReason,
    ModelEvent,
    ModelFinished,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolResult,
    Usage,
)
from tests.agents.cutting import World

OPEN: dict[str, t.Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
#: What may be told as often as a turn is asked.
_OF_TURNS = (ev.TextDelta, ev.ThinkingDelta, ev.UsageReported, ev.TurnEnded, ev.BlockStarted)


def text(*parts: str) -> list[ModelEvent]:
    """An answer, after some thinking."""
    return [ThinkingDelta("hm"), *map(TextDelta, parts), _end("stop")]


def calls(*named: tuple[str, str, dict[str, t.Any]]) -> list[ModelEvent]:
    """A turn that asks for tools."""
    made: list[ModelEvent] = []
    for call_id, name, arguments in named:
        made += [
            ToolCallStarted(call_id, name),
            ToolCallReady(call_id, name, arguments, json.dumps(arguments)),
        ]
    return [*made, _end("tool_calls")]


def _end(reason: FinishReason) -> ModelFinished:
    return ModelFinished(reason, Usage(3, 2, 5), [{"opaque": 1}], "m")


def tool(name: str, **more: t.Any) -> Tool:
    """One that answers its name and its ``n``."""
    return Tool(name, name, OPEN, lambda arguments, context: f"{name} {arguments.get('n')}", **more)


def results(request: ModelRequest) -> list[str]:
    """What a model was told of its calls."""
    return [message.content for message in request.messages if isinstance(message, ToolResult)]


def turns(request: ModelRequest) -> int:
    """How often it has answered before."""
    return sum(type(message).__name__ == "AssistantMessage" for message in request.messages)


def asked(request: ModelRequest) -> str:
    """What it is asked."""
    return str(next(m.text for m in reversed(request.messages) if type(m).__name__ == "UserMessage"))


def agent(**more: t.Any) -> Callable[[t.Any], t.Any]:
    """As a process makes it: with a config of its own."""
    return lambda context: run_agent(
        context, AgentConfig("made/m", system="Be brief.", prompt="{{ input.message }}", **more)
    )


def part(name: str, **more: t.Any) -> ParticipantConfig:
    """An agent of a composite."""
    return ParticipantConfig("made/m", system=name, prompt=None, name=name, **more)


def facts(world: World) -> list[ev.RunEvent]:
    """What was told that may be told once only, in order."""
    return [event for event in world.told if not isinstance(event, _OF_TURNS)]


def said(world: World) -> list[ev.RunEvent]:
    """:func:`facts` but for tools, whose calls get other ids when a turn is asked again."""
    return [event for event in facts(world) if not type(event).__name__.startswith("Tool")]


def without_ids(output: t.Any) -> t.Any:
    """An output whose calls may have been announced in a turn that was cut off, and so have got other ids."""
    if isinstance(output, dict):
        return {k: without_ids(v) for k, v in output.items() if k not in ("id", "toolCallId")}
    return [without_ids(v) for v in output] if isinstance(output, (list, tuple)) else output


def each_ended_once(world: World) -> None:
    """Every call that was announced ended once, and was told to be made once at most."""
    started = [e.id for e in world.told if isinstance(e, ev.ToolStarted)]
    ended = [e.id for e in world.told if isinstance(e, ev.ToolFinished)]
    assert len(started) == len(set(started))
    assert sorted(started) == sorted(ended)
    making = [e.id for e in world.told if isinstance(e, ev.ToolExecuting)]
    assert len(making) == len(set(making))

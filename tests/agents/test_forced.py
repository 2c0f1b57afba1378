"""A forced tool and thinking that exclude each other: without a level the forced tool wins, for all of the run."""

from __future__ import annotations

import typing as t

import pytest

from tests.agents.conftest import Agents
from tests.field.wires import Messages

TOOL = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}, "result": "seen"}


@pytest.mark.parametrize(("choice", "thinks"), [("auto", True), ("required", False)])
def test_nobody_asks_for_thinking_that_would_be_refused(agents: Agents, choice: str, thinks: bool) -> None:
    claude = Messages()
    live = agents.start("anthropic/claude-sonnet-4-5", tools=[TOOL], tool_choice=choice)
    bodies: list[t.Any] = []
    call = live.call()
    bodies.append(call.body)
    if thinks:  # a loop that began without may not begin to think
        claude.think(call, "Let me look.")
    claude.tool(call, 0, "call_1", "look", "{}")
    claude.finish(call, "tool_use")
    call = live.call()
    bodies.append(call.body)
    claude.text(call, "Done.")
    claude.finish(call)
    live.end()
    assert [("thinking" in body) for body in bodies] == [thinks, thinks]
    assert [body.get("tool_choice", {}).get("type", "auto") for body in bodies] == [
        "any" if choice == "required" else "auto",
        "auto",
    ]

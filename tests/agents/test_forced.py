"""A forced tool: how long it is forced, and thinking that it excludes: without a level the forced tool wins, for all of
the run.
"""

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


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
BROKEN = {"name": "look", "description": "Looks.", "parameters": CITY, "http": {"url": "http://127.0.0.1:1/"}}
HELD = {**TOOL, "parameters": CITY, "approval": "always"}


@pytest.mark.parametrize("choice", ["required", "look"])
@pytest.mark.parametrize(
    ("tool", "arguments", "then"),
    [
        (TOOL, "{}", "auto"),
        (BROKEN, '{"city": "Rome"}', "auto"),  # what it does may have been done: not once more
        (BROKEN, "{}", "forced"),
        (HELD, "{}", "forced"),  # nobody was asked: it may be allowed once it is right
    ],
    ids=["ran", "failed", "wrong", "held and wrong"],
)
def test_a_tool_is_forced_until_it_did_what_it_can(
    agents: Agents, choice: str, tool: t.Any, arguments: str, then: str
) -> None:
    claude = Messages()
    live = agents.start("anthropic/claude-sonnet-4-5", tools=[tool], tool_choice=choice)
    call = live.call()
    first = call.body["tool_choice"]
    assert first["type"] == ("any" if choice == "required" else "tool")
    claude.tool(call, 0, "call_1", "look", arguments)
    claude.finish(call, "tool_use")
    call = live.call()
    assert call.body.get("tool_choice", {"type": "auto"}) == (first if then == "forced" else {"type": "auto"})
    claude.text(call, "Done.")
    claude.finish(call)
    assert live.end().output["content"] == "Done."


def test_what_an_agent_lets_go_with_can_be_forced_too(agents: Agents) -> None:
    """It is its only tool, and thinking gives way to it as to any."""
    claude = Messages()
    live = agents.start("anthropic/claude-sonnet-4-5", capture=True, tool_choice="release")
    call = live.call()
    assert call.body["tool_choice"] == {"type": "tool", "name": "release"}
    assert "thinking" not in call.body
    claude.tool(call, 0, "call_1", "release", "{}")
    claude.finish(call, "tool_use")
    call = live.call()
    assert call.body.get("tool_choice") in (None, {"type": "auto"})
    claude.text(call, "Bye.")
    claude.finish(call)
    assert live.end().output["content"] == "Bye."

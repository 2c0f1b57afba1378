"""When a model fails for good the next one is asked: what is retracted, what is kept, and who answered."""

from __future__ import annotations

import json
import logging
import typing as t

import pytest

from app import events as ev
from app.engine.catalog import runnable
from app.engine.recompiled import compiled
from app.errors import ApiError
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.rights import Rights
from app.web.catalog import check_configured
from tests.agents.conftest import Agents
from tests.field.rig import Live
from tests.field.wires import Chat, Messages
from tests.support.engine import agent
from tests.support.vendor import Call

CHAT, CLAUDE = "priced/first", "anthropic/claude-sonnet-4-5"
BOTH = {"fallbacks": [CLAUDE], "retries": 0}
chat, claude = Chat(), Messages()


def overloaded(call: Call) -> None:
    call.answer(529, b'{"error":{"type":"overloaded_error"}}')


def says(text: str, speaker: Chat | Messages = claude) -> t.Callable[[Call], None]:
    def say(call: Call) -> None:
        speaker.text(call, text)
        speaker.finish(call, usage=(10, 5))

    return say


def shows(text: str) -> t.Callable[[Call], None]:
    """The chat vendor shows text, then fails."""

    def show(call: Call) -> None:
        call.text(text)
        chat.error(call, "server_error", "broken")
        call.end_body()

    return show


def frames(live: Live, *, negotiated: bool) -> list[t.Any]:
    """What a client got, without the sentinel."""
    options = AgentEventsOptions(
        live.run.id, negotiated, False, Rights(True, True), None, answer_blocks=("agent_1",)
    )
    projection = AgentEvents(options)
    body = b"".join(projection.frames(envelope) for envelope in live.recorder.envelopes).decode()
    data = [line[6:] for line in body.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in data[:-1]]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, b"{}"),
        (429, b"{}"),
        (529, b"{}"),
        (500, b"{}"),
        (400, b'{"error":{"code":"context_length_exceeded"}}'),
        (400, b'{"error":{"code":"content_filter"}}'),
        (404, b"{}"),
    ],
)
def test_any_failure_of_a_vendor_goes_on_to_the_next_model(agents: Agents, status: int, body: bytes) -> None:
    live = agents.run(CHAT, lambda call: call.answer(status, body), says("Hello"), **BOTH)
    assert live.calls[1].path.endswith("/messages")
    assert live.output["content"] == live.text == "Hello"
    assert live.output["model"] == "claude"  # as the vendor calls itself
    assert [s["name"] for s in live.output["providerTiming"]["timeSegments"]] == [CLAUDE]
    assert set(live.terminal.usage["byModel"]) == {CLAUDE}
    assert all(frame.get("event") != "chunk_reset" for frame in frames(live, negotiated=True))


def test_the_first_is_repeated_before_the_next_is_asked_and_the_next_too(agents: Agents) -> None:
    live = agents.run(CHAT, overloaded, overloaded, overloaded, says("Hello"), fallbacks=[CLAUDE], retries=1)
    assert [call.path.rpartition("/")[2] for call in live.calls] == ["completions"] * 2 + ["messages"] * 2


def test_a_vendor_without_room_is_left_at_once(agents: Agents) -> None:
    busy: t.Callable[[Call], None] = lambda call: call.answer(429, b"{}", retry_after="3600")  # noqa: E731
    assert agents.run(CHAT, busy, says("Hello"), fallbacks=[CLAUDE]).output["content"] == "Hello"
    assert agents.clock.slept == []


def test_shown_text_is_retracted_first(agents: Agents) -> None:
    live = agents.run(CHAT, shows("Half an ans"), says("Hello"), **BOTH)
    shown = frames(live, negotiated=True)
    assert shown[:3] == [
        {"blockId": "agent_1", "chunk": "Half an ans"},
        {"blockId": "agent_1", "event": "chunk_reset", "reason": "fallback"},
        {"blockId": "agent_1", "chunk": "Hello"},
    ]
    assert sum(frame.get("event") == "chunk_reset" for frame in shown) == 1
    assert live.output["content"] == "Hello"
    assert not live.row["partial_text"]


def test_a_client_without_the_header_never_meets_what_did_not_stand(agents: Agents) -> None:
    live = agents.run(CHAT, shows("Half an ans"), says("Hello"), **BOTH)
    assert [f for f in frames(live, negotiated=False) if "chunk" in f] == [
        {"blockId": "agent_1", "chunk": "Hello"}
    ]


def test_thinking_that_was_shown_stays_and_is_no_reason_to_retract(agents: Agents) -> None:
    def think(call: Call) -> None:
        chat.think(call, "hm")
        chat.error(call, "server_error", "broken")
        call.end_body()

    live = agents.run("openai-compatible/x", think, says("Hello"), **BOTH)
    shown = [f for f in frames(live, negotiated=True) if f.get("event") != "final"]
    assert shown == [
        {"blockId": "agent_1", "event": "thinking", "data": "hm"},
        {"blockId": "agent_1", "chunk": "Hello"},
    ]


def test_calls_of_the_model_that_gave_way_are_settled_and_never_run(agents: Agents) -> None:
    """Half a call of the first, then the same id and name from the second: one run, with the second's arguments."""

    def half(call: Call) -> None:
        call.text("Let me")
        chat.tool(call, 0, "c", "calculator", '{"expression": "1+')
        chat.error(call, "server_error", "broken")
        call.end_body()

    def whole(call: Call) -> None:
        claude.tool(call, 0, "c", "calculator", '{"expression": "2+3"}')
        claude.finish(call, "tool_calls")

    # The vendor's ids begin anew with each turn.
    live = agents.run(CHAT, half, whole, whole, says("It is 5."), tools=["calculator"], **BOTH)
    ends = live.recorder.of(ev.ToolFinished)
    ran = ("success", {"expression": "2+3"})
    assert [(e.status, e.arguments) for e in ends] == [("error", None), ran, ran]
    assert len({e.id for e in ends}) == 3
    kinds = [type(e.event) for e in live.recorder.envelopes]
    assert kinds.index(ev.TurnEnded) < kinds.index(ev.ToolFinished)
    assert live.output["toolCalls"]["count"] == 2
    assert live.output["content"] == "It is 5."
    assert claude.results(live.calls[2].body) == [(ends[1].id, '{"result":5}')]


def test_the_run_stays_with_the_model_that_answered(agents: Agents) -> None:
    def look(call: Call) -> None:
        claude.tool(call, 0, "c1", "clock", "{}")
        claude.finish(call, "tool_calls")

    live = agents.run(CHAT, overloaded, look, says("Done."), tools=["clock"], **BOTH)
    assert [call.path.rpartition("/")[2] for call in live.calls] == ["completions", "messages", "messages"]


def test_another_model_gets_words_and_calls_but_no_private_state(agents: Agents) -> None:
    """A signature of one vendor makes a 400 at another; calls that ran are not run again."""

    def thinks(call: Call) -> None:
        claude.think(call, "secret thoughts")
        claude.text(call, "I look.")
        claude.tool(call, 0, "c1", "calculator", '{"expression": "6*7"}')
        claude.finish(call, "tool_calls")

    live = agents.run(
        CLAUDE, thinks, overloaded, says("It is 42.", chat), tools=["calculator"], fallbacks=[CHAT], retries=0
    )
    body = live.calls[2].body
    assert "secret thoughts" in json.dumps(live.calls[1].body)
    assert "secret thoughts" not in json.dumps(body)
    assert chat.said(body) == ["I look."]
    assert chat.results(body) == [("c1", '{"result":42}')]
    assert len(live.recorder.of(ev.ToolFinished)) == 1
    assert live.output["content"] == "It is 42."
    assert set(live.terminal.usage["byModel"]) == {CLAUDE, CHAT}
    assert live.output["tokens"] == live.terminal.usage["tokens"]


def test_a_fallback_of_the_same_wire_gets_no_private_state_either(agents: Agents) -> None:
    def thinks(call: Call) -> None:
        claude.think(call, "secret thoughts")
        claude.tool(call, 0, "c1", "clock", "{}")
        claude.finish(call, "tool_calls")

    other = "anthropic/claude-haiku-4-5"
    live = agents.run(
        CLAUDE, thinks, overloaded, says("Done."), tools=["clock"], fallbacks=[other], retries=0
    )
    assert live.calls[2].body["model"] == "claude-haiku-4-5"
    assert "secret thoughts" not in json.dumps(live.calls[2].body)


def test_when_all_have_failed_the_run_fails_as_the_last_one_did(agents: Agents) -> None:
    live = agents.run(
        CHAT, shows("Half"), overloaded, lambda call: call.answer(401, b"{}"),
        fallbacks=[CLAUDE, "plain/two"], retries=0,
    )  # fmt: skip
    assert (live.terminal.code, live.terminal.block) == ("provider_auth", "agent_1")
    assert live.text == "Half"
    assert live.ends == []


def test_both_attempts_count_and_each_has_its_model(agents: Agents) -> None:
    live = agents.run(CHAT, shows("Half an answer"), says("Hello"), **BOTH)
    by_model = live.terminal.usage["byModel"]
    assert by_model[CLAUDE]["tokens"] == {"input": 10, "output": 5, "total": 15}
    assert by_model[CHAT]["tokens"]["output"] > 0
    stored = {usage["model"]: usage["estimated"] for usage in live.row["usages"]}
    assert stored == {CHAT: True, CLAUDE: False}


def test_a_fallback_that_is_not_there_any_more_is_passed_over(
    agents: Agents, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with caplog.at_level(logging.WARNING, "studio.agents"):
        live = agents.run(CHAT, overloaded, says("Hello", chat), fallbacks=[CLAUDE, "plain/x"], retries=0)
    assert live.output["content"] == "Hello"
    assert any("passed over" in line and "ANTHROPIC_API_KEY" in line for line in caplog.messages)


def test_a_fallback_without_a_key_is_found_before_the_first_byte(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = agents.services.plugins
    found = runnable("wf", 1, compiled(agent(CHAT, fallbacks=["plain/x", CLAUDE]), plugins))
    check_configured(found.models, plugins, public=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(ApiError) as refused:
        check_configured(found.models, plugins, public=False)
    assert (refused.value.status, refused.value.code) == (400, "provider_not_configured")
    (problem,) = refused.value.details
    assert problem.path == "blocks[1].config.fallbacks[1]"
    assert "ANTHROPIC_API_KEY" in problem.message

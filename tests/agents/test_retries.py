"""A failed model call is repeated while nothing of it was shown: how often, when, and what is said of it."""

from __future__ import annotations

import dataclasses
import json
import logging
import typing as t

import gevent.event
import pytest

from app import events as ev
from app.agents.backoff import MAX_BACKOFF_S, MAX_RETRY_AFTER_S
from tests.agents.conftest import Agents
from tests.field.wires import sse
from tests.support.servers import wait_until
from tests.support.vendor import Call

MODEL = "priced/one"


def refused(status: int, **headers: str) -> t.Callable[[Call], None]:
    return lambda call: call.answer(status, b'{"error":{"message":"no"}}', **headers)


def answer(call: Call) -> None:
    call.text("Hello")
    call.finish()


def test_the_vendors_own_wait_is_obeyed(agents: Agents) -> None:
    live = agents.run(MODEL, refused(429, retry_after="3"), answer)
    assert live.output["content"] == live.text == "Hello"
    (slept,) = agents.clock.slept
    assert 3.0 <= slept <= 3.3


@pytest.mark.parametrize("asked", ["0", "-5", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_a_wait_that_is_over_is_none(agents: Agents, asked: str) -> None:
    agents.run(MODEL, refused(503, retry_after=asked, date="Wed, 21 Oct 2015 07:29:00 GMT"), answer)
    assert agents.clock.slept == [0.0]


def test_a_vendor_who_wants_more_than_the_bound_is_not_asked_again(agents: Agents) -> None:
    live = agents.run(MODEL, refused(429, retry_after=str(MAX_RETRY_AFTER_S + 1)))
    assert live.terminal.code == "provider_rate_limited"
    assert agents.clock.slept == []


def test_without_a_stated_wait_the_bound_doubles_and_the_wait_is_random(agents: Agents) -> None:
    live = agents.run(MODEL, *[refused(500)] * 7, retries=6)
    assert live.terminal.code == "provider_unavailable"
    bounds = [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert all(0 <= s <= bound <= MAX_BACKOFF_S for s, bound in zip(agents.clock.slept, bounds, strict=True))
    assert len(set(agents.clock.slept)) == len(bounds)


def test_two_repetitions_are_the_default_and_each_attempt_is_logged(
    agents: Agents, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "studio.agents"):
        live = agents.run(MODEL, *[refused(503)] * 3)
    assert live.terminal.code == "provider_overloaded"
    lines = [r.getMessage() for r in caplog.records if "model call failed" in r.getMessage()]
    assert len(lines) == 3
    for number, line in enumerate(lines, 1):
        parts = (f"run={live.run.id}", "block=agent_1", "family=priced", "model=one", "status=503")
        assert all(part in line for part in (*parts, f"attempt={number}/3", "code=provider_overloaded"))
        assert ("retry_in=" in line) == (number < 3)
    assert lines[-1].endswith("not repeated: it was the last attempt")
    failures = live.run.record()["model_failures"]
    assert [(one["model"], one["status"], one["attempt"]) for one in failures] == [
        ("priced/one", 503, number) for number in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"status": 401}, "a repetition would fail as well"),
        ({"status": 429, "retry_after": "3600"}, "Retry-After of 3600 s is more than 60 s"),
    ],
)
def test_what_is_never_repeated_says_why_and_counts_no_attempts(
    agents: Agents, caplog: pytest.LogCaptureFixture, answers: dict[str, t.Any], why: str
) -> None:
    with caplog.at_level(logging.WARNING, "studio.agents"):
        live = agents.run(MODEL, refused(**answers))
    (line,) = [r.getMessage() for r in caplog.records if "model call failed" in r.getMessage()]
    assert line.endswith(f"not repeated: {why}")
    assert "attempt=" not in line
    assert live.run.record()["error"]["model"] == "priced/one"


@pytest.mark.parametrize("more_environ", [{"STUDIO_MODEL_RETRIES": "0"}])
def test_the_setting_is_the_default_and_the_agent_goes_before_it(agents: Agents) -> None:
    assert isinstance(agents.run(MODEL, refused(503)).terminal, ev.RunFailed)
    assert agents.run(MODEL, refused(503), answer, retries=1).output["content"] == "Hello"


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_what_will_fail_again_is_not_repeated(agents: Agents, status: int) -> None:
    assert isinstance(agents.run(MODEL, refused(status)).terminal, ev.RunFailed)
    assert agents.clock.slept == []


def broken_off(call: Call) -> None:
    call.send_bytes(b": nothing yet\n\n")
    call.cut()


def test_a_stream_that_broke_off_before_it_said_anything_is_asked_again(agents: Agents) -> None:
    assert agents.run(MODEL, broken_off, answer).output["content"] == "Hello"


def test_a_silence_before_anything_came_is_asked_again(agents: Agents) -> None:
    live = agents.start(MODEL, idle_s=0.5)
    assert live.call().left.wait(20)
    answer(live.call())
    assert live.end().output["content"] == "Hello"


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "Hel"},
        {"reasoning_content": "hm"},
        {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "clock", "arguments": ""}}]},
    ],
    ids=["text", "thinking", "a call"],
)
def test_nothing_is_repeated_once_it_was_shown(agents: Agents, delta: dict[str, t.Any]) -> None:
    def fail(call: Call) -> None:
        call.send(delta)
        call.cut()

    live = agents.run("openai-compatible/one", fail, tools=["clock"], retries=5)
    assert live.terminal.code == "provider_bad_stream"
    assert agents.clock.slept == []


def test_text_and_usage_in_one_read_count_as_shown(agents: Agents) -> None:
    """The last event of a read says nothing about the others."""

    def fail(call: Call) -> None:
        chunk = {"choices": [{"index": 0, "delta": {"content": "Hel"}}], "usage": {"prompt_tokens": 3}}
        call.send_bytes(sse(chunk) + sse({"error": {"message": "no", "code": 500}}))
        call.end_body()

    live = agents.run(MODEL, fail, retries=5)
    assert live.text == "Hel"
    assert isinstance(live.terminal, ev.RunFailed)


def test_a_stop_ends_the_wait(agents: Agents) -> None:
    agents.clock.hold = gevent.event.Event()
    live = agents.start(MODEL)
    refused(429, retry_after="30")(live.call())
    wait_until(lambda: agents.clock.slept, "it waits to ask again")
    live.run.cancel("stop_requested")
    assert isinstance(live.end().terminal, ev.RunCancelled)


def test_what_a_failed_attempt_used_counts(agents: Agents) -> None:
    """Both in the run's usage and in what the agent says it took."""

    def fail(call: Call) -> None:
        call.send_bytes(sse({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 1}}))
        call.send_bytes(sse({"error": {"message": "busy", "code": 503}}))
        call.end_body()

    def say(call: Call) -> None:
        call.text("Hello")
        call.send({}, "stop")
        call.send_bytes(sse({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 2}}))
        call.send_bytes(b"data: [DONE]\n\n")
        call.end_body()

    live = agents.run(MODEL, fail, say)
    assert live.output["tokens"] == {"input": 200, "output": 3, "total": 203}
    assert live.terminal.usage["tokens"] == live.output["tokens"]
    assert live.terminal.usage["cost"]["total"] == pytest.approx(200 * 2e-6 + 3 * 10e-6)
    assert live.output["cost"]["total"] == pytest.approx(live.terminal.usage["cost"]["total"])


def test_every_attempt_asks_the_same(agents: Agents) -> None:
    bodies: list[bytes] = []

    def noted(turn: t.Callable[[Call], None]) -> t.Callable[[Call], None]:
        return lambda call: (bodies.append(json.dumps(call.body).encode()), turn(call))[1]

    agents.run(MODEL, noted(refused(503)), noted(answer))
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("setting", ["agent", "server"])
def test_a_call_that_takes_too_long_in_all_ends_though_it_moves(
    agents: Agents, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the idle limit, and not to be repeated; the message names the limits."""
    given: dict[str, t.Any] = {"call_timeout_s": 1} if setting == "agent" else {}
    if setting == "server":
        agents.services.settings = dataclasses.replace(agents.services.settings, model_call_s=1)
    live = agents.start(MODEL, idle_s=30, retries=3, **given)
    call = live.call()
    while not call.left.is_set():
        try:
            call.text("on and on ")
        except OSError:
            break
        gevent.sleep(0.01)
    end = live.end().terminal
    assert (end.code, end.block) == ("provider_unavailable", "agent_1")
    assert "1 s" in end.message
    assert "call_timeout_s" in end.message
    assert live.row["partial_text"]["agent_1"].startswith("on and on ")

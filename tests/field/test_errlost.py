"""ERRLOST: a failure after the stream has begun is a failure, said once, and never repaired by repeating."""

from __future__ import annotations

import logging
import socket
import typing as t

import pytest

from app import events as ev
from app.agents.checks import checker
from app.engine.registry import RunRequest
from app.workflows.validation import compile_document
from tests.field.rig import SECRET, Engine, Server
from tests.field.wires import Messages, Speaker, sse
from tests.support.engine import agent
from tests.support.vendor import Call, Vendor


@pytest.mark.parametrize("shown", ["", "Some text. "])
def test_errlost_01_an_error_object_inside_a_200(engine: Engine, shown: str) -> None:
    """The run fails as rate limited, with our words; nothing is a success and nothing is stored as an answer."""

    def full(call: Call) -> None:
        if shown:
            engine.speaker.text(call, shown)
        if engine.speaker.name == "openai_chat":
            call.send_bytes(sse({"error": {"message": "queue full", "code": 429}}) + sse("[DONE]"))
        else:
            engine.speaker.error(call, "rate_limit_error", "queue full")
        call.end_body()

    live = engine.run(full, retries=0)
    # Ollama sends a sentence and no kind.
    code = "provider_unavailable" if engine.speaker.name == "ollama_chat" else "provider_rate_limited"
    assert live.terminal.code == code
    assert "queue full" not in live.terminal.message
    assert live.recorder.of(ev.RunCompleted) == []
    row = live.row
    assert (row["status"], row["cause"], row["output"]) == ("failed", code, None)
    assert row["error"]["detail"] == "queue full"
    assert (row["partial_text"] or {}).get("agent_1", "") == shown


def test_errlost_02_typed_events_that_say_failure(chat: Engine) -> None:
    """An error event and a failed response give one failure."""

    def fail(call: Call) -> None:
        call.text("Hel")
        call.send_bytes(sse({"type": "error", "error": {"code": "rate_limit_exceeded"}}, "error"))
        call.send_bytes(sse({"type": "response.failed", "response": {"status": "failed"}}, "response.failed"))
        call.end_body()

    live = chat.run(fail)
    assert live.terminal.code == "provider_rate_limited"


@pytest.mark.parametrize("kind", ["response.failed", "stream_error", "response.incomplete"])
def test_errlost_02_a_type_that_ends_in_failure_is_not_skipped(engine: Engine, kind: str) -> None:
    """Even one nobody has heard of, and even when the answer before it looks whole."""

    def fail(call: Call) -> None:
        engine.speaker.text(call, "Hel")
        call.send_bytes(sse({"type": kind, "response": {"status": "failed"}}, kind))
        engine.speaker.finish(call)

    live = engine.run(fail)
    assert isinstance(live.terminal, ev.RunFailed)
    assert live.row["status"] == "failed"


def test_errlost_02_other_unknown_types_are_skipped(messages: Engine) -> None:
    """A new kind of event does no harm."""
    speaker = t.cast(Messages, messages.speaker)

    def say(call: Call) -> None:
        speaker.text(call, "Hel")
        speaker.event(call, {"type": "novelty", "value": 1})
        speaker.text(call, "lo")
        speaker.finish(call)

    assert messages.run(say).output["content"] == "Hello"


def half(engine: Engine) -> t.Callable[[Call], None]:
    def say(call: Call) -> None:
        engine.speaker.text(call, "Hel")
        engine.speaker.tool(call, 0, "c", "act", '{"from":"attempt 1"')
        engine.speaker.error(call, "overloaded_error", "no")
        call.end_body()

    return say


def test_errlost_05_what_was_shown_is_not_repeated(fragmented: Engine) -> None:
    """No second attempt, and nothing of the first runs."""
    live = fragmented.run(half(fragmented), tools=[fragmented.tool("act")], retries=3)
    assert live.text == "Hel"
    assert fragmented.ran == []
    assert live.ends == [("act", "error")]
    assert isinstance(live.terminal, ev.RunFailed)


def test_errlost_05_shown_thinking_is_not_repeated(engine: Engine) -> None:
    """Thinking counts as shown."""

    def say(call: Call) -> None:
        engine.speaker.think(call, "hm")
        engine.speaker.error(call, "overloaded_error", "no")
        call.end_body()

    live = engine.run(say, retries=3)
    assert live.thinking == "hm"
    assert isinstance(live.terminal, ev.RunFailed)


def test_errlost_05_before_anything_was_shown_it_is_tried_again(engine: Engine) -> None:
    """The second attempt is the answer, whole and alone."""

    def busy(call: Call) -> None:
        call.answer(529, b'{"error":{"type":"overloaded_error"}}', retry_after="0")

    live = engine.run(busy, engine.answer("Hello"), retries=1)
    assert live.text == live.output["content"] == "Hello"


def test_errlost_06_a_failure_is_logged_with_or_without_a_listener(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """Run, family, status and code are in the log; the viewer gets the code."""
    made, plugins = engine.services, engine.services.plugins
    workflow = compile_document(
        agent(engine.speaker.model, retries=0),
        plugins.block_types,
        plugins.check_model,
        frozenset(plugins.tools),
        check_agent=checker(plugins.capabilities_of),
    )
    run = made.runs.start(RunRequest("run_alone", "wf", 1, workflow, {}, 30.0))
    with caplog.at_level(logging.WARNING, "studio"):
        engine.vendor.next_call().answer(429, b'{"error":{"message":"slow down"}}')
        assert run.done.wait(20)
    (line,) = [r.getMessage() for r in caplog.records if "model call failed" in r.getMessage()]
    family = engine.speaker.model.partition("/")[0]
    for part in ("run=run_alone", f"family={family}", "status=429", "code=provider_rate_limited"):
        assert part in line
    row = made.store.runs.get("run_alone")
    assert row is not None
    assert row["error"]["code"] == "provider_rate_limited"


def test_errlost_07_a_block_that_fails_after_the_200(
    served: Server, vendor: Vendor, speaker: Speaker
) -> None:
    """The last event says which block and why, and the body is properly closed."""
    workflow = served.agent(speaker.model)
    with socket.create_connection(("127.0.0.1", served.studio.port)) as sock:
        sock.settimeout(20)
        body = b'{"stream":true}'
        head = f"POST /api/workflows/{workflow}/execute HTTP/1.1\r\nHost: x\r\nX-API-Key: {served.studio.key}\r\n"
        head += "X-Studio-Stream-Protocol: agent-events-v1\r\nContent-Type: application/json\r\n"
        sock.sendall(head.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        call = vendor.next_call()
        speaker.text(call, "one ")
        speaker.text(call, "two ")
        got = b""
        while b"two " not in got:
            got += sock.recv(65536)
        call.cut()
        while piece := sock.recv(65536):
            got += piece
    assert got.endswith(b'data: "[DONE]"\n\n\r\n0\r\n\r\n')
    last = got.rpartition(b'data: {"event":"error"')[2]
    assert b'"code":"provider_bad_stream"' in last
    assert b'"blockId":"agent_1"' in last


# -- EXPOSE ------------------------------------------------------------------------------------


@pytest.mark.parametrize("echo", ["Incorrect API key provided: %s", "GET https://x/v1?key=%s&alt=sse failed"])
def test_expose_05_a_key_in_a_vendors_error_is_seen_nowhere(
    served: Server, vendor: Vendor, speaker: Speaker, echo: str
) -> None:
    """The viewer gets a code; the record has the vendor's words with the key masked, for scope ``read`` only."""
    workflow = served.agent(speaker.model)
    run_key = served.studio.cli("key", "create", "--name", "r", "--scopes", "run").strip()
    stream = served.studio.execute(
        workflow, {"stream": True}, {"X-API-Key": run_key, "X-Studio-Stream-Protocol": "agent-events-v1"}
    )
    call = vendor.next_call()
    assert SECRET in str(call.headers)
    call.answer(401, ('{"error":{"message":"%s"}}' % (echo % SECRET)).encode())
    body = stream.body()
    assert b'"code":"provider_auth"' in body
    run_id = stream.headers["X-Run-Id"]
    mine = served.call("GET", f"/api/runs/{run_id}", run_key)
    assert mine[0] == 200
    assert "detail" not in str(mine)
    detail = served.record(run_id)["error"]["detail"]
    assert detail.startswith(echo.split("%s")[0][:10])
    row = served.store.runs.get(run_id)
    for place in (body, mine, detail, row, served.studio.log.read_text(errors="replace")):
        assert SECRET not in str(place)
        assert SECRET[3:20] not in str(place)

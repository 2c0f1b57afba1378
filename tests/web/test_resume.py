"""``POST /api/runs/{id}/resume``: on each surface, every refusal before the first byte, and what pauses look like."""

from __future__ import annotations

import typing as t

import gevent
import pytest

from app.web import resume as resuming
from tests.support import sse
from tests.support.servers import NEGOTIATE
from tests.web import asking
from tests.web.asking import open_of, paused, resume, send, values
from tests.web.conftest import Studio, assert_error, document

REVIEW = {"kind": "tool", "tool": "secretive", "arguments": asking.ARGUMENTS, "reasons": []}


@pytest.fixture
def call(studio: Studio) -> str:
    """The id of a workflow whose agent's call needs approval."""
    return studio.deploy(asking.call())


@pytest.fixture
def draft(studio: Studio) -> str:
    """The id of a workflow whose agent's text is released by a person."""
    return studio.deploy(asking.draft())


# -- surfaces ----------------------------------------------------------------------------------------


def test_a_stream_goes_on_as_a_stream_and_repeats_nothing(studio: Studio, call: str) -> None:
    body = {"stream": True, "input": "hi", "includeToolCalls": True}
    first = studio.execute(call, body, headers=NEGOTIATE)
    told = values(first)
    run = first.headers["X-Run-Id"]
    assert told[:-2] == [
        {"blockId": "agent_1", "chunk": "Let me look. "},
        {"blockId": "agent_1", "event": "tool", "phase": "start", "id": "call_1", "name": "secretive"},
        {"blockId": "agent_1", "event": "chunk_reset", "reason": "tool_turn"},
    ]
    end = told[-2]["data"]
    (asked,) = open_of(studio, run)
    assert (end["success"], end["status"], end["output"]) == (True, "paused", {})
    assert end["resume"] == {
        "url": f"/api/runs/{run}/resume",
        "pauseId": asked["id"],
        "threadId": asked["threadId"],
    }
    assert told[-1] == "[DONE]"

    answer = send(studio, end["resume"]["url"], {"pauseId": asked["id"], "decision": "approve"})
    assert answer.headers["X-Run-Id"] == run
    assert answer.headers["X-Studio-Stream-Protocol"] == "agent-events-v1"
    rest = values(answer)
    assert rest[:2] == [
        {
            "blockId": "agent_1",
            "event": "tool",
            "phase": "end",
            "id": "call_1",
            "name": "secretive",
            "status": "success",
        },
        {"blockId": "agent_1", "chunk": "It is settled."},
    ]
    assert rest[2]["data"]["status"] == "completed"
    assert rest[2]["data"]["output"]["content"] == "It is settled."
    assert rest[2]["data"]["usage"]["humanWaitMs"] >= 0
    assert rest[3:] == ["[DONE]"]


def test_without_the_header_settled_text_comes_once(studio: Studio, draft: str) -> None:
    first = studio.execute(draft, {"stream": True, "selectedOutputs": ["agent_1.content", "said.text"]})
    told = values(first)
    assert told[0] == {"blockId": "agent_1", "chunk": "Hello there."}
    assert told[1]["data"]["status"] == "paused"
    assert told[2] == "[DONE]"
    rest = values(resume(studio, first.headers["X-Run-Id"], {"decision": "approve"}))
    assert [frame["event"] for frame in rest[:-1]] == ["final"]
    assert rest[0]["data"]["output"] == {"said": {"text": "Hello there."}}


def test_one_who_waited_is_answered_in_one_piece(studio: Studio, draft: str) -> None:
    first = studio.execute(draft, {"input": "hi"}).get_json()
    assert list(first) == ["success", "runId", "status", "output", "usage", "resume"]
    assert (first["success"], first["status"], first["output"]) == (True, "paused", {})
    answer = resume(studio, first["runId"], {"decision": "edit", "text": "Good day."})
    assert answer.status_code == 200
    assert answer.mimetype == "application/json"
    body = answer.get_json()
    assert (body["status"], body["output"]) == ("completed", {"text": "Good day."})
    assert body["runId"] == first["runId"]


def test_an_async_run_goes_on_by_itself(studio: Studio, draft: str) -> None:
    run = studio.execute(draft, {"async": True}).get_json()["runId"]
    _until(studio, run, "paused")
    answer = resume(studio, run, {"decision": "reject", "reason": "Too short."})
    assert answer.status_code == 202
    assert answer.get_json() == {
        "runId": run,
        "statusUrl": f"/api/runs/{run}",
        "eventsUrl": f"/api/runs/{run}/events",
    }
    assert _until(studio, run, "completed")["output"] == {"text": "Kept back."}


def test_run_events_pause_and_begin_again_with_their_thread(studio: Studio, call: str) -> None:
    first = send(studio, f"/api/workflows/{call}/runs", {"message": "hi", "events": "messages"})
    told = values(first)
    run, thread = first.headers["X-Run-Id"], told[0]["thread_id"]
    (asked,) = open_of(studio, run)
    kinds = [frame["type"] for frame in told]
    assert kinds[-4:] == ["decision_requested", "workflow_paused", "flow_state", "done"]
    pause = {"node_id": "agent_1", "pause_id": asked["id"], "tool_call_id": "call_1", "review": REVIEW}
    assert told[-4]["data"] == told[-3]["data"] == pause
    assert told[-1]["data"]["status"] == "paused"
    assert told[-1]["usage"]["human_wait_ms"] == 0

    rest = values(resume(studio, run, {"decision": "approve"}))
    kinds = [frame["type"] for frame in rest]
    assert kinds[:5] == ["thread", "decision_settled", "tool_use", "tool_executing", "tool_result"]
    assert rest[0]["data"] == {"thread_id": thread}
    assert rest[1]["data"] == {"node_id": "agent_1", "pause_id": asked["id"], "decision": "approve"}
    assert rest[2]["tool_input"] == asking.ARGUMENTS
    assert kinds[-1] == "done"
    assert rest[-1]["data"]["status"] == "completed"
    assert min(frame["seq"] for frame in rest) > max(frame["seq"] for frame in told)


def test_without_a_key_nothing_of_what_is_asked_is_told(studio: Studio) -> None:
    """EXPOSE: what nobody has released, and what a tool would be called with, is for those who decide."""
    public = asking.call(settings={"public": True})
    run = send(studio, f"/api/workflows/{studio.deploy(public)}/runs", {"message": "hi"}, key=None)
    text = run.get_data(as_text=True)
    assert '"review":{"kind":"tool","tool":"secretive"}' in text
    assert "private" not in text
    waiting = studio.execute(studio.deploy(public), {"input": "hi"}, key=None)
    assert waiting.get_json()["status"] == "paused"
    assert "private" not in waiting.get_data(as_text=True)


def test_what_a_run_of_nobodys_key_asks_is_for_admins_to_answer(studio: Studio) -> None:
    public = studio.deploy({**asking.draft(), "settings": {"public": True}})
    run = paused(studio, public, key=None)
    assert_error(resume(studio, run, {"decision": "approve"}), 404, "not_found")
    assert_error(resume(studio, run, {"decision": "approve"}, "read"), 403, "forbidden")
    assert_error(resume(studio, run, {"decision": "approve"}, None), 401, "unauthorized")
    assert resume(studio, run, {"decision": "approve"}, "admin").get_json()["status"] == "completed"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process is always quicker to take up what was answered."""
    taken = resuming.go_on

    def lose(*given: t.Any) -> None:
        assert taken(*given) is not None

    monkeypatch.setattr(resuming, "go_on", lose)


@pytest.mark.usefixtures("elsewhere")
def test_one_who_waits_is_answered_whoever_goes_on_with_the_run(studio: Studio) -> None:
    run = paused(studio, studio.deploy(asking.both()))
    one, two = sorted(open_of(studio, run), key=lambda decision: str(decision["blockId"]))
    first = resume(studio, run, {"decision": "approve", "pauseId": two["id"]}).get_json()
    assert (first["status"], first["success"]) == ("paused", True)
    assert first["resume"]["pauseId"] == one["id"]
    last = resume(studio, run, {"decision": "approve"}).get_json()
    assert last["status"] == "completed"
    assert last["output"]["one_said"] == {"text": "Text of one."}
    assert last["usage"] == studio.get(f"/api/runs/{run}").get_json()["usage"]


@pytest.mark.usefixtures("elsewhere")
def test_streams_are_attached_to_whoever_goes_on_with_the_run(studio: Studio, call: str) -> None:
    first = studio.execute(call, {"stream": True, "includeToolCalls": True}, headers=NEGOTIATE)
    assert values(first)[-1] == "[DONE]"
    rest = values(resume(studio, first.headers["X-Run-Id"], {"decision": "approve"}))
    assert rest[0]["phase"] == "end"
    assert rest[1] == {"blockId": "agent_1", "chunk": "It is settled."}
    second = send(studio, f"/api/workflows/{call}/runs", {"message": "hi", "events": "minimal"})
    assert values(second)[-1]["data"]["status"] == "paused"
    told = values(resume(studio, second.headers["X-Run-Id"], {"decision": "approve"}))
    assert [frame["type"] for frame in told] == ["thread", "decision_settled", "agent_message", "done"]


# -- answers -----------------------------------------------------------------------------------------


def test_a_rejected_call_does_not_run_and_its_model_is_told_why(studio: Studio, call: str) -> None:
    run = paused(studio, call)
    body = resume(studio, run, {"decision": "reject", "reason": "Not today."}).get_json()
    (settled,) = body["output"]["toolCalls"]["list"]
    assert settled["status"] == "error"
    assert "Not today." in str(settled["result"])
    assert "private answer" not in str(body)


def test_a_call_runs_with_the_arguments_a_person_gave(studio: Studio, call: str) -> None:
    run = paused(studio, call)
    body = resume(studio, run, {"decision": "edit", "arguments": {"q": "harmless"}}).get_json()
    (settled,) = body["output"]["toolCalls"]["list"]
    assert (settled["id"], settled["status"], settled["arguments"]) == (
        "call_1",
        "success",
        {"q": "harmless"},
    )


def test_a_call_is_approved_by_the_id_that_was_told_first(studio: Studio, call: str) -> None:
    """HITL-11."""
    run = paused(studio, call)
    body = resume(studio, run, {"decision": "approve", "pauseId": "call_1"}).get_json()
    assert [entry["id"] for entry in body["output"]["toolCalls"]["list"]] == ["call_1"]
    history = studio.get(f"/api/runs/{run}").get_json()["toolCalls"]["agent_1"]["list"]
    assert [entry["id"] for entry in history] == ["call_1"]


def test_an_approval_is_remembered_for_the_thread(studio: Studio, call: str) -> None:
    run = paused(studio, call, {"conversationId": "c"})
    body = resume(studio, run, {"decision": "approve", "remember": True}).get_json()
    assert body["status"] == "completed"
    again = studio.execute(call, {"input": "hi", "conversationId": "c"}).get_json()
    assert again["status"] == "completed"
    elsewhere = studio.execute(call, {"input": "hi", "conversationId": "d"}).get_json()
    assert elsewhere["status"] == "paused"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "decision"),
        ({"decision": "maybe"}, "decision"),
        ({"decision": "approve", "comment": "x"}, "comment"),
        ({"decision": "edit"}, "arguments"),
        ({"decision": "edit", "text": "x"}, "text"),
        ({"decision": "edit", "arguments": {"q": 1}}, "arguments.q"),
        ({"decision": "edit", "arguments": [1]}, "arguments"),
        ({"decision": "approve", "arguments": {"q": "x"}}, "arguments"),
        ({"decision": "reject", "remember": True}, "remember"),
        ({"decision": "approve", "remember": "yes"}, "remember"),
        ({"decision": "approve", "reason": "x" * 10_001}, "reason"),
        ({"decision": "approve", "pauseId": 5}, "pauseId"),
    ],
    ids=str,
)
def test_an_answer_that_does_not_fit_decides_nothing(
    studio: Studio, call: str, body: dict[str, t.Any], path: str
) -> None:
    run = paused(studio, call)
    assert_error(resume(studio, run, body), 400, "validation_failed", path=path)
    assert len(open_of(studio, run)) == 1


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"decision": "edit"}, "text"),
        ({"decision": "edit", "arguments": {}}, "arguments"),
        ({"decision": "approve", "text": "x"}, "text"),
        ({"decision": "approve", "remember": True}, "remember"),
    ],
    ids=str,
)
def test_an_answer_about_a_text_that_does_not_fit(
    studio: Studio, draft: str, body: dict[str, t.Any], path: str
) -> None:
    run = paused(studio, draft)
    assert_error(resume(studio, run, body), 400, "validation_failed", path=path)
    assert resume(studio, run, {"decision": "edit", "text": ""}).get_json()["output"] == {"text": ""}


def test_of_two_answers_the_second_is_told_of_the_first(studio: Studio, draft: str) -> None:
    """HITL-03."""
    run = paused(studio, draft)
    (asked,) = open_of(studio, run)
    assert resume(studio, run, {"decision": "approve"}).status_code == 200
    for body in ({"decision": "reject"}, {"decision": "reject", "pauseId": asked["id"]}):
        error = assert_error(resume(studio, run, body), 409, "already_answered")
        said = {detail["path"]: detail["message"] for detail in error["details"]}
        answered = studio.get(f"/api/decisions/{asked['id']}").get_json()
        assert said == {
            "decision": "approve",
            "answeredBy": answered["answeredBy"],
            "answeredAt": answered["answeredAt"],
        }
        assert answered["answeredBy"].startswith("key_")
    assert studio.get(f"/api/runs/{run}").get_json()["output"] == {"text": "Hello there."}


def test_two_questions_at_once_are_answered_by_name(studio: Studio) -> None:
    """HITL-01: a bare answer names neither; of two named ones each moves its own branch."""
    run = paused(studio, studio.deploy(asking.both()))
    one, two = sorted(open_of(studio, run), key=lambda decision: str(decision["blockId"]))
    error = assert_error(resume(studio, run, {"decision": "approve"}), 409, "several_pauses", path="pauseId")
    assert {detail["message"] for detail in error["details"]} == {one["id"], two["id"]}
    first = resume(studio, run, {"decision": "approve", "pauseId": two["id"]}).get_json()
    assert first["status"] == "paused"
    assert first["resume"]["pauseId"] == one["id"]
    blocks = {block["blockId"]: block for block in studio.get(f"/api/runs/{run}").get_json()["blocks"]}
    assert blocks["two_said"]["status"] == "executed"
    assert "one_said" not in blocks
    assert [decision["id"] for decision in open_of(studio, run)] == [one["id"]]
    last = resume(studio, run, {"decision": "edit", "text": "Another."}).get_json()
    assert last["status"] == "completed"
    assert last["output"]["one_said"] == {"text": "Another."}
    assert last["output"]["two_said"] == {"text": "Text of two."}


def test_what_is_not_there_and_what_is_not_yours(studio: Studio, draft: str) -> None:
    run, other = paused(studio, draft), paused(studio, draft)
    (foreign,) = open_of(studio, other)
    for pause in ("dec_unknown", foreign["id"], "call_1"):
        answer = resume(studio, run, {"decision": "approve", "pauseId": pause})
        assert_error(answer, 404, "not_found", says=pause)
    _, stranger = studio.store.keys.create("other", frozenset({"run", "read"}))
    messages = set()
    for each in (run, "run_unknown"):
        error = assert_error(resume(studio, each, {"decision": "approve"}, stranger), 404, "not_found")
        messages.add(error["message"].replace(each, "ID"))
    assert len(messages) == 1
    assert len(open_of(studio, run)) == 1


def test_a_run_that_asks_nothing_takes_no_answer(studio: Studio) -> None:
    run = studio.execute(studio.deploy(document("scripted/plain"))).get_json()["runId"]
    error = assert_error(resume(studio, run, {"decision": "approve"}), 409, "not_paused")
    assert error["details"] == [{"path": "status", "message": "completed"}]


def test_a_server_that_goes_takes_no_answer(studio: Studio, draft: str) -> None:
    run = paused(studio, draft)
    studio.app.extensions["studio"].runs.draining = True
    assert_error(resume(studio, run, {"decision": "approve"}), 503, "draining")
    studio.app.extensions["studio"].runs.draining = False
    assert len(open_of(studio, run)) == 1


def test_a_server_whose_store_is_closed_already_sends_the_answer_elsewhere(
    studio: Studio, draft: str
) -> None:
    run = paused(studio, draft)
    (asked,) = open_of(studio, run)
    studio.app.extensions["studio"].runs.drain(5)
    studio.store._writer.close()
    answer = send(studio, f"/api/decisions/{asked['id']}", {"decision": "approve"})
    assert_error(answer, 503, "draining")
    assert int(answer.headers["Retry-After"]) > 0


# -- a paused run, looked at -------------------------------------------------------------------------


def test_the_record_of_a_paused_run_has_what_there_is(studio: Studio, draft: str) -> None:
    run = paused(studio, draft, {"conversationId": "c"})
    (asked,) = open_of(studio, run)
    body = studio.get(f"/api/runs/{run}").get_json()
    block = {
        "url": f"/api/runs/{run}/resume",
        "pauseId": asked["id"],
        "threadId": body["threadId"],
        "pauseIds": [asked["id"]],
    }
    assert (body["status"], body["resume"], body["humanWaitMs"]) == ("paused", block, 0)
    assert body["pausedAt"] >= body["startedAt"]
    assert "endedAt" not in body
    states = {entry["blockId"]: entry["status"] for entry in body["blocks"]}
    assert states == {"start": "executed", "agent_1": "executed", "ask": "running"}
    listed = studio.get("/api/runs?status=paused").get_json()["items"]
    assert [(item["runId"], item["resume"]) for item in listed] == [(run, block)]
    assert studio.get("/api/runs?status=running").get_json() == {"items": []}


def test_nobody_else_enters_a_thread_that_waits(studio: Studio, call: str) -> None:
    """HITL-09: on execute and on run events, and never silently."""
    first = send(studio, f"/api/workflows/{call}/runs", {"message": "hi"})
    run, thread = first.headers["X-Run-Id"], values(first)[0]["thread_id"]
    (asked,) = open_of(studio, run)
    error = assert_error(
        send(studio, f"/api/workflows/{call}/runs", {"message": "Well?", "thread_id": thread}),
        409,
        "thread_paused",
        path="pause_id",
        says=f"POST /api/runs/{run}/resume",
    )
    assert {"path": "pause_id", "message": asked["id"]} in error["details"]
    shown = studio.get(f"/api/threads/{thread}").get_json()
    assert (shown["status"], shown["runId"], shown["pauseIds"]) == ("paused", run, [asked["id"]])

    named = paused(studio, call, {"conversationId": "c"})
    assert_error(
        studio.execute(call, {"input": "Well?", "conversationId": "c"}), 409, "thread_paused", says=named
    )
    assert resume(studio, named, {"decision": "approve"}).get_json()["status"] == "completed"
    assert studio.execute(call, {"input": "Well?", "conversationId": "c"}).get_json()["status"] == "paused"


def test_a_paused_run_can_be_stopped(studio: Studio, draft: str) -> None:
    run = paused(studio, draft)
    (asked,) = open_of(studio, run)
    answer = send(studio, f"/api/runs/{run}/cancel")
    assert (answer.status_code, answer.get_json()) == (202, {"outcome": "accepted", "status": "paused"})
    body = _until(studio, run, "cancelled")
    assert body["cause"] == "stop_requested"
    assert "resume" not in body
    assert_error(resume(studio, run, {"decision": "approve", "pauseId": asked["id"]}), 409, "not_paused")
    assert studio.get(f"/api/decisions/{asked['id']}").get_json()["status"] == "cancelled"


def test_a_thread_whose_run_is_paused_can_be_stopped(studio: Studio, draft: str) -> None:
    run = paused(studio, draft)
    thread = studio.get(f"/api/runs/{run}").get_json()["threadId"]
    answer = send(studio, f"/api/threads/{thread}/stop")
    assert (answer.status_code, answer.get_json()["outcome"]) == (202, "accepted")
    _until(studio, run, "cancelled")
    assert studio.get(f"/api/threads/{thread}").get_json()["status"] == "idle"


def test_one_who_waits_is_told_that_the_run_goes_on_elsewhere(studio: Studio) -> None:
    """Its server shuts down; the run is durable and does not end with it."""
    workflow = studio.deploy(document("scripted/silent", settings={"durable": True}))
    waiting = gevent.spawn(studio.execute, workflow)
    services = studio.app.extensions["studio"]
    with gevent.Timeout(10):
        while not services.runs.live():
            gevent.sleep(0.01)
    (run,) = services.runs.live()
    assert run.hand_over()
    answer = waiting.get(timeout=10)
    assert answer.status_code == 202
    assert answer.get_json()["eventsUrl"] == f"/api/runs/{run.id}/events"
    assert studio.get(f"/api/runs/{run.id}").get_json()["status"] == "running"
    send(studio, f"/api/runs/{run.id}/cancel")


# -- attaching ---------------------------------------------------------------------------------------


def _attach(studio: Studio, run: str, query: str = "", **headers: str) -> t.Any:
    sent = {"X-API-Key": studio.keys["read"], **headers}
    return studio.client.get(f"/api/runs/{run}/events?{query}", headers=sent)


@pytest.mark.parametrize(
    ("protocol", "last"), [("agent-events-v1", "[DONE]"), ("agent-text", "[DONE]"), ("runs", None)]
)
def test_attaching_to_a_paused_run_ends_at_the_pause(
    studio: Studio, call: str, protocol: str, last: str | None
) -> None:
    run = paused(studio, call)
    told = values(_attach(studio, run, f"protocol={protocol}"))
    if last is None:
        assert told[-1]["data"]["status"] == "paused"
        assert told[0]["type"] == "thread"
    else:
        assert told[-1] == last
        assert told[-2]["data"]["resume"]["url"] == f"/api/runs/{run}/resume"
    past = _attach(studio, run, f"protocol={protocol}&after={run}:1000")
    assert_error(past, 400, "validation_failed", path="after")


@pytest.mark.parametrize("protocol", ["agent-events-v1", "agent-text", "runs"])
def test_attaching_afterwards_passes_over_the_pause(studio: Studio, call: str, protocol: str) -> None:
    run = paused(studio, call)
    before = _attach(studio, run, f"protocol={protocol}").get_data()
    assert resume(studio, run, {"decision": "approve"}).get_json()["status"] == "completed"
    whole = _attach(studio, run, f"protocol={protocol}").get_data()
    assert b'"status":"paused"' in before
    assert b'"status":"paused"' not in whole
    end = b'data: {"event":"final"' if protocol != "runs" else b'data: {"type":"workflow_paused"'
    assert whole.startswith(before[: before.index(end)])
    if protocol == "agent-text":
        return
    for frame in sse.parse(whole):
        if frame.id is not None:
            rest = _attach(studio, run, f"protocol={protocol}", **{"Last-Event-ID": frame.id})
            if rest.status_code == 204:
                assert whole.endswith(f"id: {frame.id}\ndata: {frame.data}\n\n".encode())
            else:
                assert whole.endswith(rest.get_data())


def test_the_stored_log_tells_what_the_live_one_did(studio: Studio, call: str) -> None:
    """Another process has only the store."""
    run = paused(studio, call)
    assert resume(studio, run, {"decision": "approve"}).get_json()["status"] == "completed"
    query = "protocol=runs&events=full"
    kept = _attach(studio, run, query).get_data()
    runs = studio.app.extensions["studio"].runs
    runs._retained._drop(runs.ended(run))
    assert runs.ended(run) is None
    assert _attach(studio, run, query).get_data() == kept


def test_with_the_pause_as_its_cursor_a_stream_waits_and_reads_on(studio: Studio, call: str) -> None:
    """A client that has everything is neither sent away (204 ends an ``EventSource``) nor told the pause again."""
    run = paused(studio, call)
    told = [frame for frame in sse.parse(_attach(studio, run).get_data()) if frame.comment is None]
    reader = gevent.spawn(lambda: _attach(studio, run, **{"Last-Event-ID": str(told[-1].id)}).get_data())
    waits = studio.app.extensions["studio.held"]
    with gevent.Timeout(10):
        while run not in waits._readers:
            gevent.sleep(0.01)
    assert not reader.ready()
    assert resume(studio, run, {"decision": "approve"}).get_json()["status"] == "completed"
    got = [frame.json() for frame in sse.parse(reader.get(timeout=10)) if frame.comment is None]
    assert got[0] == {"blockId": "agent_1", "chunk": "It is settled."}
    assert got[-1] == "[DONE]"


def test_streams_that_wait_are_told_when_their_server_goes(studio: Studio, call: str) -> None:
    run = paused(studio, call)
    told = [frame for frame in sse.parse(_attach(studio, run).get_data()) if frame.comment is None]
    reader = gevent.spawn(lambda: _attach(studio, run, **{"Last-Event-ID": str(told[-1].id)}).get_data())
    waits = studio.app.extensions["studio.held"]
    with gevent.Timeout(10):
        while run not in waits._readers:
            gevent.sleep(0.01)
    waits.close()
    assert reader.get(timeout=10) == b'retry: 1000\ndata: {"event":"detached","retryMs":1000}\n\n'


def _until(studio: Studio, run: str, status: str) -> dict[str, t.Any]:
    with gevent.Timeout(10):
        while (body := studio.get(f"/api/runs/{run}").get_json())["status"] != status:
            gevent.sleep(0.01)
    return t.cast("dict[str, t.Any]", body)

"""``POST /api/runs/{id}/resume``: on each surface, every refusal before the first byte, and what pauses look like."""

from __future__ import annotations

import typing as t

import pytest

from app.web import resume as resuming
from tests.support.servers import NEGOTIATE
from tests.web import asking
from tests.web.asking import open_of, paused, resume, send, until, values
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
    until(studio, run, "paused")
    answer = resume(studio, run, {"decision": "reject", "reason": "Too short."})
    assert answer.status_code == 202
    assert answer.get_json() == {
        "runId": run,
        "statusUrl": f"/api/runs/{run}",
        "eventsUrl": f"/api/runs/{run}/events",
    }
    assert until(studio, run, "completed")["output"] == {"text": "Kept back."}


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

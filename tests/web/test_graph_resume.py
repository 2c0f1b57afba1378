"""``/chat/resume``: whose thread it is, which question is answered, how often, and how the turn goes on."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import gevent
import pytest

from app.web import resume as resuming
from tests.support import sse
from tests.support.servers import wait_until
from tests.web.asking import ARGUMENTS, both, call, draft, open_of, send
from tests.web.conftest import Studio, assert_error, document

STREAM = "text/event-stream"
HELLO = "Hello there."


def ask(studio: Studio, workflow: str, key: str | None = "run", accept: str = "", **more: t.Any) -> t.Any:
    """A turn of a workflow; the whole answer."""
    body = {"messages": [{"role": "user", "content": "Hi"}], "workflow": workflow, **more}
    return send(studio, "/chat", body, key, Accept=accept)


def pauses(studio: Studio, workflow: str, key: str | None = "run", **more: t.Any) -> dict[str, t.Any]:
    """The response of a turn that waits."""
    answer = ask(studio, workflow, key, **more)
    assert answer.status_code == 200, answer.get_data()
    body: dict[str, t.Any] = answer.get_json()
    assert body["status"] == "paused_for_review"
    return body


def resume(
    studio: Studio, thread: str, decision: str, key: str | None = "run", accept: str = "", **more: t.Any
) -> t.Any:
    """Answer what a thread asks; the whole answer."""
    body = {"thread_id": thread, "decision": decision, **more}
    return send(studio, "/chat/resume", body, key, Accept=accept)


def told(answer: t.Any) -> list[sse.Frame]:
    """The frames of a stream."""
    assert answer.status_code == 200, answer.get_data()
    assert answer.headers["Content-Type"].startswith(STREAM)
    return [frame for frame in sse.parse(answer.get_data()) if frame.comment is None]


def nodes(frames: list[sse.Frame], event: str) -> list[str]:
    return [frame.json()["node"] for frame in frames if frame.event == event]


def test_json_is_the_same_whoever_goes_on_with_the_turn(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process was quicker to take up what was answered."""
    taken = resuming.go_on

    def lose(*given: t.Any) -> None:
        assert taken(*given) is not None

    monkeypatch.setattr(resuming, "go_on", lose)
    thread = pauses(studio, studio.deploy(draft()))["thread_id"]
    body = resume(studio, thread, "approve", accept="application/json").get_json()
    assert (body["status"], body["thread_id"]) == ("complete", thread)
    frames = told(
        studio.client.get(
            f"/api/runs/{body['run_id']}/events?protocol=graph", headers={"X-API-Key": studio.keys["read"]}
        )
    )
    assert body == {name: frames[-1].json()[name] for name in body}


# -- going on ---------------------------------------------------------------------------------------


def test_a_text_is_released_changed_or_turned_down(studio: Studio) -> None:
    workflow = studio.deploy(draft())
    answers: tuple[tuple[str, dict[str, t.Any], str], ...] = (
        ("approve", {}, HELLO),
        ("edit", {"edited_text": "Goodbye."}, "Goodbye."),
        ("reject", {"reason": "Not now."}, "Kept back."),
    )
    for decision, more, text in answers:
        for accept in ("", STREAM):
            asked = pauses(studio, workflow)
            assert asked["content"] == ""
            assert asked["review"] == {
                "pause_id": asked["review"]["pause_id"],
                "node": "ask",
                "kind": "answer",
                "draft": HELLO,
                "reasons": ["It is the first one."],
                "prompt": "Fit to send?",
            }
            answer = resume(studio, asked["thread_id"], decision, accept=accept, **more)
            assert answer.headers["Vary"] == "Accept"
            body = told(answer)[-1].json() if accept else answer.get_json()
            assert body["status"] == "complete"
            assert text in body["content"]
            assert (body["run_id"], body["turn_index"]) == (asked["run_id"], 0)
            assert ("human_wait_ms" in body) is bool(accept)


def test_the_stream_goes_on_where_the_pause_was(studio: Studio) -> None:
    workflow = studio.deploy(draft())
    before = told(ask(studio, workflow, accept=STREAM))
    assert before[-1].event == "paused"
    assert nodes(before, "node_completed") == ["start", "agent_1"]
    assert nodes(before, "node_started") == ["start", "agent_1", "ask"]
    after = told(resume(studio, before[-1].json()["thread_id"], "approve", accept=STREAM))
    assert (after[0].event, after[0].data) == ("graph_topology", before[0].data)
    assert nodes(after, "node_started") == ["said"]
    assert nodes(after, "node_completed") == ["ask", "said", "not_said"]
    numbers = [int(str(frame.id).rpartition(":")[2]) for frame in [*before, *after] if frame.id]
    assert numbers == sorted(set(numbers))
    record = studio.get(f"/api/runs/{before[-1].json()['run_id']}").get_json()
    assert record["humanWaitMs"] == after[-1].json()["human_wait_ms"]


def test_the_body_in_json_is_the_last_frame_without_the_wait(studio: Studio) -> None:
    workflow = studio.deploy(draft())
    body = resume(studio, pauses(studio, workflow)["thread_id"], "approve")
    run = body.get_json()["run_id"]
    last = told(studio.get(f"/api/runs/{run}/events?protocol=graph"))[-1]
    waited = last.json()["human_wait_ms"]
    assert last.data.encode() == body.get_data()[:-1] + b',"human_wait_ms":%d}' % waited


@pytest.mark.parametrize("accept", ["", STREAM])
def test_a_turn_may_wait_more_than_once(studio: Studio, accept: str) -> None:
    twice = draft()
    twice["blocks"].append(
        {"id": "again", "type": "approval", "config": {"prompt": "Sure?", "draft": "Sure."}}
    )
    twice["edges"].append({"source": "said", "target": "again"})
    thread = pauses(studio, studio.deploy(twice))["thread_id"]
    second = resume(studio, thread, "approve", accept=accept)
    if accept:
        frames = told(second)
        assert frames[-1].event == "paused"
        assert frames[-1].json()["node"] == "again"
        last = told(resume(studio, thread, "approve", accept=accept))
        assert nodes(last, "node_completed") == ["again", "not_said"]
        assert last[-1].json()["human_wait_ms"] >= 0
    else:
        assert second.get_json()["review"]["node"] == "again"
        assert resume(studio, thread, "approve").get_json()["content"] == "Sure."


def test_a_call_runs_with_what_a_person_gave(studio: Studio) -> None:
    workflow = studio.deploy(call())
    asked = pauses(studio, workflow)
    review = asked["review"]
    assert (review["kind"], review["tool"], review["arguments"]) == ("tool", "secretive", ARGUMENTS)
    answer = resume(studio, asked["thread_id"], "edit", edited_arguments={"q": "another"})
    assert answer.get_json()["content"] == "It is settled."
    record = studio.get(f"/api/runs/{asked['run_id']}").get_json()
    (made,) = record["toolCalls"]["agent_1"]["list"]
    assert made["arguments"] == {"q": "another"}


def test_an_approval_is_remembered_for_the_thread(studio: Studio) -> None:
    workflow = studio.deploy(call())
    thread = pauses(studio, workflow)["thread_id"]
    assert resume(studio, thread, "approve", remember=True).get_json()["status"] == "complete"
    assert ask(studio, workflow, thread_id=thread).get_json()["status"] == "complete"


def test_by_the_id_of_its_run_a_turn_goes_on_in_the_form_it_began_in(studio: Studio) -> None:
    workflow = studio.deploy(draft())
    run = told(ask(studio, workflow, accept=STREAM))[-1].json()["run_id"]
    frames = told(send(studio, f"/api/runs/{run}/resume", {"decision": "approve"}))
    assert [frames[0].event, frames[-1].event] == ["graph_topology", "turn_completed"]
    run = pauses(studio, workflow)["run_id"]
    answer = send(studio, f"/api/runs/{run}/resume", {"decision": "approve"}, Accept=STREAM)
    assert answer.mimetype == "application/json"
    assert answer.get_json()["path"][-1]["node"] == "not_said"


def test_a_run_of_another_surface_goes_on_as_graph_events_where_it_is_answered_here(studio: Studio) -> None:
    workflow = studio.deploy(draft())
    body = studio.execute(workflow, {"input": "hi"}).get_json()
    frames = told(resume(studio, body["resume"]["threadId"], "approve", accept=STREAM))
    assert frames[-1].json()["run_id"] == body["runId"]
    assert frames[-1].json()["content"] == f'{{"text":"{HELLO}"}}'


# -- which question -----------------------------------------------------------------------------------


def test_a_turn_that_another_process_is_done_with_already_is_told_from_its_pause(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = studio.app.extensions["studio"].runs
    go_on = runs.go_on

    def elsewhere(run_id: str, **more: t.Any) -> None:
        go_on(run_id, **more).done.wait()

    asked = pauses(studio, studio.deploy(draft()))
    monkeypatch.setattr(runs, "go_on", elsewhere)
    frames = told(resume(studio, asked["thread_id"], "approve", accept=STREAM))
    assert [frame.event for frame in frames][:2] == ["graph_topology", "node_completed"]
    assert nodes(frames, "node_completed") == ["ask", "said", "not_said"]
    assert frames[-1].event == "turn_completed"


def test_several_open_questions_are_answered_by_name(studio: Studio) -> None:
    asked = pauses(studio, studio.deploy(both()))
    thread = asked["thread_id"]
    first, second = open_of(studio, asked["run_id"])
    assert asked["review"]["pause_id"] == first["id"]
    assert [other["pause_id"] for other in asked["others"]] == [second["id"]]
    error = assert_error(resume(studio, thread, "approve"), 409, "several_pauses", says="pause_id")
    assert [detail["message"] for detail in error["details"]] == [first["id"], second["id"]]
    rest = resume(studio, thread, "approve", pause_id=second["id"]).get_json()
    assert rest["status"] == "paused_for_review"
    assert rest["review"]["pause_id"] == first["id"]
    assert "others" not in rest
    assert resume(studio, thread, "approve", pause_id=first["id"]).get_json()["status"] == "complete"


def test_a_second_answer_is_told_of_the_first(studio: Studio) -> None:
    asked = pauses(studio, studio.deploy(draft()))
    thread, pause = asked["thread_id"], asked["review"]["pause_id"]
    assert resume(studio, thread, "approve").status_code == 200
    (decision,) = studio.get(f"/api/decisions?runId={asked['run_id']}").get_json()["items"]
    error = assert_error(resume(studio, thread, "reject", pause_id=pause), 409, "already_answered")
    assert decision["answeredBy"] in error["message"]
    assert decision["answeredAt"] in error["message"]
    assert_error(resume(studio, thread, "reject"), 409, "already_answered")


def test_the_question_of_an_earlier_turn_is_not_that_of_a_later_one(studio: Studio) -> None:
    workflow = studio.deploy(draft())
    first = pauses(studio, workflow)
    thread = first["thread_id"]
    resume(studio, thread, "approve")
    second = pauses(studio, workflow, thread_id=thread)
    assert second["turn_index"] == 1
    stale = resume(studio, thread, "approve", pause_id=first["review"]["pause_id"])
    assert_error(stale, 409, "already_answered")
    other = pauses(studio, workflow)
    wrong = resume(studio, thread, "approve", pause_id=other["review"]["pause_id"])
    assert_error(wrong, 404, "not_found", says="decision")
    assert [len(open_of(studio, turn["run_id"])) for turn in (second, other)] == [1, 1]
    assert resume(studio, thread, "approve").status_code == 200


def test_a_turn_that_waits_takes_no_message(studio: Studio) -> None:
    workflow = studio.deploy(draft())
    asked = pauses(studio, workflow)
    answer = ask(studio, workflow, thread_id=asked["thread_id"])
    error = assert_error(answer, 409, "thread_paused", says="/chat/resume")
    assert asked["review"]["pause_id"] in error["message"]


def test_a_thread_that_asks_nothing(studio: Studio) -> None:
    thread = ask(studio, studio.deploy(document("scripted/plain"))).get_json()["thread_id"]
    assert_error(resume(studio, thread, "approve"), 409, "not_paused")


@pytest.mark.parametrize(
    ("make", "decision", "more", "path"),
    [
        (draft, "edit", {}, "edited_text"),
        (draft, "approve", {"edited_text": "x"}, "edited_text"),
        (draft, "edit", {"edited_text": "x", "edited_arguments": {}}, "edited_arguments"),
        (draft, "approve", {"remember": True}, "remember"),
        (draft, "maybe", {}, "decision"),
        (draft, "approve", {"text": "x"}, "text"),
        (draft, "approve", {"pause_id": 3}, "pause_id"),
        (call, "edit", {"edited_text": "x"}, "edited_text"),
        (call, "edit", {"edited_arguments": {"q": 3}}, "edited_arguments.q"),
        (call, "reject", {"remember": True}, "remember"),
    ],
)
def test_an_answer_that_does_not_fit_decides_nothing(
    studio: Studio, make: Callable[[], t.Any], decision: str, more: dict[str, t.Any], path: str
) -> None:
    asked = pauses(studio, studio.deploy(make()))
    for accept in ("", STREAM):
        answer = resume(studio, asked["thread_id"], decision, accept=accept, **more)
        assert_error(answer, 400, "validation_failed", path=path)
    assert len(open_of(studio, asked["run_id"])) == 1


# -- whose ------------------------------------------------------------------------------------------


def test_a_thread_is_answered_for_by_its_key_and_by_admins(studio: Studio) -> None:
    workflow = studio.deploy(draft())
    _, other = studio.store.keys.create("other", frozenset({"run"}))
    thread = pauses(studio, workflow)["thread_id"]
    messages = set()
    for each in (thread, "thr_unknown"):
        error = assert_error(resume(studio, each, "approve", other), 404, "not_found")
        messages.add(error["message"].replace(each, "ID"))
    assert len(messages) == 1
    assert_error(resume(studio, thread, "approve", "read"), 403, "forbidden")
    assert_error(resume(studio, thread, "approve", None), 401, "unauthorized")
    assert resume(studio, thread, "approve", "admin").status_code == 200


def test_visitors_of_a_public_workflow_answer_what_they_were_asked(studio: Studio) -> None:
    public = studio.deploy({**draft(show=[{"name": "inside", "value": "'x'"}]), "settings": {"public": True}})
    asked = pauses(studio, public, None)
    assert "show" not in asked["review"]
    assert asked["review"]["draft"] == HELLO
    assert_error(resume(studio, "thr_unknown", "approve", None), 401, "unauthorized")
    keyed = pauses(studio, public)["thread_id"]
    assert_error(resume(studio, keyed, "approve", None), 401, "unauthorized")
    assert_error(resume(studio, asked["thread_id"], "approve"), 404, "not_found")
    assert HELLO in resume(studio, asked["thread_id"], "approve", None).get_json()["content"]
    (decision,) = studio.get(f"/api/decisions?runId={asked['run_id']}").get_json()["items"]
    assert decision["answeredBy"] == "visitor"


def test_visitors_approve_no_calls_whose_arguments_they_may_not_see(studio: Studio) -> None:
    asked = pauses(studio, studio.deploy(call(settings={"public": True})), None)
    assert asked["review"]["tool"] == "secretive"
    assert "arguments" not in asked["review"]
    for accept in ("", STREAM):
        answer = resume(studio, asked["thread_id"], "approve", None, accept=accept)
        assert_error(answer, 401, "unauthorized", says="tools")
    assert resume(studio, asked["thread_id"], "approve", "admin").get_json()["content"] == "It is settled."


def test_a_server_that_goes_hands_its_turns_over(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/silent", settings={"durable": True}))
    runs = studio.app.extensions["studio"].runs
    body = {"messages": [{"role": "user", "content": "Hi"}], "workflow": workflow}
    headers = {"X-API-Key": studio.keys["run"]}
    client = studio.app.test_client()
    waiting = gevent.spawn(client.post, "/chat", json=body, headers=headers)
    wait_until(lambda: len(runs) == 1, "the first one runs")
    answer = studio.client.post("/chat", json=body, headers={**headers, "Accept": STREAM}, buffered=False)
    stream, drained = b"", None
    for piece in answer.iter_encoded():
        stream += piece
        if drained is None and b'"node":"agent_1"' in stream:
            drained = gevent.spawn(runs.drain, 10)
    last = sse.parse(stream)[-1]
    assert (last.event, last.id, last.json()) == ("detached", None, {"retry_ms": 1000})
    assert b"retry: 1000\n" in stream
    assert drained is not None
    assert drained.get(timeout=20)
    found = waiting.get(timeout=20)
    assert found.status_code == 202
    told_of = found.get_json()
    run = told_of["run_id"]
    assert told_of == {
        "thread_id": told_of["thread_id"],
        "run_id": run,
        "status": "running",
        "status_url": f"/api/runs/{run}",
        "events_url": f"/api/runs/{run}/events?protocol=graph",
    }
    assert_error(ask(studio, workflow), 503, "draining")

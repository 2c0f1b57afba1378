"""Run events over HTTP: what is refused, whose a thread is, how it is continued, stopped and let go."""

from __future__ import annotations

import typing as t

import pytest
from flask import Response
from werkzeug.test import EnvironBuilder

from app.store.errors import StoreFailed
from app.web.direct import StreamMiddleware
from tests.support import sse
from tests.support.servers import wait_until
from tests.web.conftest import TOOL, Studio, assert_error, document

ECHO = "scripted/echo"


def runs(studio: Studio, workflow: str, body: t.Any, key: str | None = "run", **headers: str) -> t.Any:
    """POST for run events; the whole answer."""
    if key is not None:
        headers["X-API-Key"] = studio.keys.get(key, key)
    return studio.client.post(f"/api/workflows/{workflow}/runs", json=body, headers=headers)


def told(answer: t.Any) -> list[dict[str, t.Any]]:
    """The frames of a whole stream."""
    assert answer.status_code == 200, answer.get_data()
    frames = [frame.json() for frame in sse.parse(answer.get_data()) if frame.comment is None]
    assert frames[0]["type"] == "thread"
    assert frames[-1]["type"] == "done"
    return frames


def post(studio: Studio, path: str, key: str = "run", body: t.Any = None) -> t.Any:
    return studio.client.post(path, json=body, headers={"X-API-Key": studio.keys.get(key, key)})


def text(frames: list[dict[str, t.Any]]) -> str:
    """All that was said."""
    return "".join(
        frame["data"]["content"] for frame in frames if frame["type"] in ("chat_chunk", "agent_message")
    )


def test_a_stream_has_the_headers_of_every_stream_and_its_run(studio: Studio) -> None:
    answer = runs(studio, studio.deploy(document(ECHO)), {"message": "Hello"})
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache, no-transform"
    assert answer.headers["X-Accel-Buffering"] == "no"
    frames = told(answer)
    assert {frame["run_id"] for frame in frames} == {answer.headers["X-Run-Id"]}
    assert text(frames) == "Hello"
    assert any(frame["type"] == "chat_chunk" for frame in frames)
    record = studio.get(f"/api/runs/{answer.headers['X-Run-Id']}").get_json()
    assert record["threadId"] == frames[0]["thread_id"]
    assert record["status"] == frames[-1]["data"]["status"] == "completed"


@pytest.mark.parametrize(
    ("body", "path", "says"),
    [
        ({"events": "some"}, "events", "full | messages | minimal"),
        ({"message": "a", "input": "b"}, "input", "exclude"),
        ({"message": 1}, "message", "text"),
        ({"thread_id": 1}, "thread_id", "text"),
        ({"includeThinking": "yes"}, "includeThinking", "true or false"),
        ({"include_thinking": True}, "include_thinking", "includeThinking"),
        ({"stream": True}, "stream", "not known here"),
    ],
)
def test_a_wrong_body_is_a_400(studio: Studio, body: t.Any, path: str, says: str) -> None:
    answer = runs(studio, studio.deploy(document(ECHO)), body)
    assert_error(answer, 400, "validation_failed", path=path, says=says)


def test_an_input_of_any_form_is_taken(studio: Studio) -> None:
    workflow = studio.deploy(document(ECHO, prompt="{{ input.message }}{{ input.n }}"))
    for body, said in (({"input": {"n": 3}}, "3"), ({"input": "x"}, "x"), ({"message": "y"}, "y"), ({}, "")):
        assert text(told(runs(studio, workflow, body))) == said


@pytest.mark.parametrize(
    "accept", ["application/json", "application/json, text/html;q=0.5", "text/event-stream;q=0"]
)
def test_who_takes_no_stream_is_told_of_execute(studio: Studio, accept: str) -> None:
    answer = runs(studio, studio.deploy(document(ECHO)), {"message": "x"}, Accept=accept)
    assert_error(answer, 406, "not_acceptable", says="execute")


@pytest.mark.parametrize(
    "accept", ["", "*/*", "text/*", "text/event-stream", "application/json, */*;q=0.1", "what"]
)
def test_who_may_take_a_stream_gets_it(studio: Studio, accept: str) -> None:
    told(runs(studio, studio.deploy(document(ECHO)), {"message": "x"}, Accept=accept))


def test_tool_payloads_are_for_keys(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/tooling", tools=[TOOL], settings={"public": True}))
    frames = told(runs(studio, workflow, {"message": "x"}))
    (use,) = (frame for frame in frames if frame["type"] == "tool_use")
    (result,) = (frame for frame in frames if frame["type"] == "tool_result")
    assert use["tool_input"] == use["data"]["tool_input"] == {"q": "private question"}
    assert result["output"] == {"found": "private answer"}
    answer = runs(studio, workflow, {"message": "x"}, key=None)
    kinds = [frame["type"] for frame in told(answer)]
    assert kinds.count("tool_use") == kinds.count("tool_result") == 1
    assert b"private" not in answer.get_data()


def test_thinking_is_for_who_asks_with_a_key(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/thinker", settings={"public": True}))
    assert b"let me see" not in runs(studio, workflow, {"message": "x"}).get_data()
    assert b"let me see" in runs(studio, workflow, {"message": "x", "includeThinking": True}).get_data()
    answer = runs(studio, workflow, {"message": "x", "includeThinking": True}, key=None)
    assert_error(answer, 400, "validation_failed", path="includeThinking")


def test_a_failure_of_a_block_is_told_and_the_thread_goes_on(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/broken", retries=0))
    frames = told(runs(studio, workflow, {"message": "x", "events": "minimal"}))
    assert [frame["type"] for frame in frames][-2:] == ["workflow_error", "done"]
    assert frames[-2]["data"]["node_id"] == "agent_1"
    assert frames[-1]["data"]["cause"] == "provider_overloaded"
    told(runs(studio, workflow, {"message": "x", "thread_id": frames[0]["thread_id"]}))


# -- threads ---------------------------------------------------------------------------------------


def test_a_thread_is_continued_by_its_id(studio: Studio) -> None:
    workflow = studio.deploy(document(ECHO))
    first = told(runs(studio, workflow, {"message": "one"}))
    thread = first[0]["data"]["thread_id"]
    second = told(runs(studio, workflow, {"message": "two", "thread_id": thread}))
    assert second[0]["thread_id"] == thread
    shown = studio.get(f"/api/threads/{thread}").get_json()
    assert shown["status"] == "idle"
    assert shown["runId"] == second[0]["run_id"]
    assert shown["runStatus"] == "completed"
    assert shown["workflowId"] == workflow
    assert "pinnedNode" not in shown
    items = studio.get(f"/api/runs?threadId={thread}").get_json()["items"]
    assert [item["runId"] for item in items] == [second[0]["run_id"], first[0]["run_id"]]


def test_whose_a_thread_is_not_looks_as_if_there_were_none(studio: Studio) -> None:
    workflow, other = studio.deploy(document(ECHO)), studio.deploy(document(ECHO))
    _, stranger = studio.store.keys.create("stranger", frozenset({"run"}))
    thread = told(runs(studio, workflow, {"message": "x"}))[0]["thread_id"]
    messages = set()
    for answer, name in (
        (runs(studio, workflow, {"message": "x", "thread_id": thread}, key=stranger), thread),
        (runs(studio, other, {"message": "x", "thread_id": thread}), thread),
        (runs(studio, workflow, {"message": "x", "thread_id": "thr_none"}), "thr_none"),
        (studio.get(f"/api/threads/{thread}", key=stranger), thread),
        (studio.get("/api/threads/thr_none", key="run"), "thr_none"),
        (post(studio, f"/api/threads/{thread}/stop", stranger), thread),
        (post(studio, f"/api/threads/{thread}/release", stranger), thread),
        (post(studio, "/api/threads/thr_none/stop"), "thr_none"),
    ):
        messages.add(assert_error(answer, 404, "not_found")["message"].replace(name, "ID"))
    assert len(messages) == 1
    for key in ("run", "read", "admin"):
        assert studio.get(f"/api/threads/{thread}", key=key).status_code == 200


def test_without_a_key_a_thread_can_be_neither_continued_nor_taken(studio: Studio) -> None:
    workflow = studio.deploy(document(ECHO, settings={"public": True}))
    thread = told(runs(studio, workflow, {"message": "x"}, key=None))[0]["thread_id"]
    for key in (None, "run"):
        answer = runs(studio, workflow, {"message": "x", "thread_id": thread}, key=key)
        assert_error(answer, 404, "not_found")


def test_a_busy_thread_names_its_run_can_be_stopped_and_goes_on(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/silent"))
    answer = runs(studio, workflow, {"message": "x"})
    run_id = answer.headers["X-Run-Id"]
    thread = studio.get(f"/api/runs/{run_id}").get_json()["threadId"]
    error = assert_error(
        runs(studio, workflow, {"thread_id": thread}), 409, "thread_busy", path="run_id", says=run_id
    )
    assert error["details"] == [{"path": "run_id", "message": run_id}]
    assert studio.get(f"/api/threads/{thread}").get_json()["status"] == "running"
    stopped = post(studio, f"/api/threads/{thread}/stop")
    assert (stopped.status_code, stopped.get_json()) == (202, {"outcome": "accepted", "status": "running"})
    frames = told(answer)
    assert [frame["type"] for frame in frames][-3:] == ["workflow_stopped", "flow_state", "done"]
    assert frames[-1]["data"]["cause"] == "stop_requested"
    wait_until(lambda: studio.get(f"/api/threads/{thread}").get_json()["status"] == "idle", "the end")
    again = post(studio, f"/api/threads/{thread}/stop")
    assert again.get_json() == {"outcome": "already_finished", "status": "cancelled"}
    following = runs(studio, workflow, {"thread_id": thread})
    assert following.status_code == 200
    post(studio, f"/api/threads/{thread}/stop")
    assert told(following)[0]["thread_id"] == thread


def test_stop_and_release_take_no_body(studio: Studio) -> None:
    for call in ("stop", "release"):
        answer = post(studio, f"/api/threads/thr_x/{call}", body={"why": 1})
        assert_error(answer, 400, "validation_failed", path="why")


def kept() -> dict[str, t.Any]:
    """Two agents, the second of which keeps the thread."""
    found = document(ECHO, prompt="first {{ input.message }}")
    found["blocks"].append(
        {
            "id": "kept",
            "type": "agent",
            "name": "Keeper",
            "config": {"model": ECHO, "prompt": "kept {{ input.message }}", "capture": True},
        }
    )
    found["edges"].append({"source": "agent_1", "target": "kept"})
    return found


def test_an_agent_keeps_the_thread_until_it_is_let_go(studio: Studio) -> None:
    workflow = studio.deploy(kept())
    frames = told(runs(studio, workflow, {"message": "a"}))
    thread = frames[0]["thread_id"]
    assert text(frames) == "first akept a"
    flow = {"pinned_node": "kept", "pinned_agent": "Keeper"}
    assert [frame["data"] for frame in frames if frame["type"] == "flow_state"] == [flow]
    assert studio.get(f"/api/threads/{thread}").get_json()["pinnedNode"] == "kept"
    frames = told(runs(studio, workflow, {"message": "b", "thread_id": thread}))
    assert text(frames) == "kept b"
    started = [frame["data"]["node_id"] for frame in frames if frame["type"] == "workflow_node_start"]
    assert started == ["kept"]
    released = post(studio, f"/api/threads/{thread}/release")
    assert released.status_code == 200
    assert "pinnedNode" not in released.get_json()
    assert text(told(runs(studio, workflow, {"message": "c", "thread_id": thread}))) == "first ckept c"


def test_the_name_of_a_conversation_is_a_thread_of_execute_too(studio: Studio) -> None:
    workflow = studio.deploy(kept())
    ids = set()
    for said in ("first akept a", "kept b"):
        answer = studio.execute(workflow, {"input": said[-1], "conversationId": "mine"}).get_json()
        assert answer["output"]["content"] == f"kept {said[-1]}"
        record = studio.get(f"/api/runs/{answer['runId']}").get_json()
        ids.add(record["threadId"])
        executed = [block["blockId"] for block in record["blocks"] if block["status"] == "executed"]
        assert ("agent_1" in executed) is (said == "first akept a")
    (thread,) = ids
    shown = studio.get(f"/api/threads/{thread}").get_json()
    assert (shown["conversationId"], shown["pinnedNode"]) == ("mine", "kept")
    frames = told(runs(studio, workflow, {"message": "c", "thread_id": thread}))
    assert text(frames) == "kept c"


def test_a_refused_request_enters_no_thread(studio: Studio) -> None:
    workflow = studio.deploy(document(ECHO))
    thread = told(runs(studio, workflow, {"message": "x"}))[0]["thread_id"]
    before = studio.get(f"/api/threads/{thread}").get_json()
    for body, headers in (({"events": "no"}, {}), ({}, {"Accept": "application/json"})):
        answer = runs(studio, workflow, {"thread_id": thread, **body}, **headers)
        assert answer.status_code in (400, 406)
    assert studio.get(f"/api/threads/{thread}").get_json() == before


def thrown_away(studio: Studio, path: str, body: t.Any, hook: bool = False) -> None:
    """Ask as a server does whose client leaves before the first byte is taken; ``hook``: the answer is replaced."""
    headers = {"X-API-Key": studio.keys["run"]}
    builder = EnvironBuilder(path, method="POST", json=body, headers=headers)
    statuses: list[str] = []
    answer = StreamMiddleware(studio.app)(builder.get_environ(), lambda status, *_: statuses.append(status))
    if not hook:
        assert statuses == ["200 OK"]
        answer.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("surface", ["runs", "execute"])
def test_an_answer_that_is_thrown_away_leaves_its_thread(studio: Studio, surface: str) -> None:
    workflow = studio.deploy(document(ECHO))
    first = studio.execute(workflow, {"input": "x", "conversationId": "mine"}).get_json()["runId"]
    thread = studio.get(f"/api/runs/{first}").get_json()["threadId"]
    before = studio.get(f"/api/threads/{thread}").get_json()
    body = {"thread_id": thread} if surface == "runs" else {"stream": True, "conversationId": "mine"}
    thrown_away(studio, f"/api/workflows/{workflow}/{surface}", body)
    assert studio.get(f"/api/threads/{thread}").get_json() == before
    assert before["status"] == "idle"
    told(runs(studio, workflow, {"message": "x", "thread_id": thread}))


def test_a_run_that_cannot_start_leaves_its_thread(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = studio.deploy(document(ECHO))
    thread = told(runs(studio, workflow, {"message": "x"}))[0]["thread_id"]

    def fail(*_: t.Any, **__: t.Any) -> t.NoReturn:
        raise StoreFailed("no")

    with monkeypatch.context() as broken:
        broken.setattr(studio.store.runs, "started", fail)
        with pytest.raises(StoreFailed):
            runs(studio, workflow, {"thread_id": thread})
    assert studio.get(f"/api/threads/{thread}").get_json()["status"] == "idle"


def test_an_answer_that_a_hook_replaces_leaves_its_thread(studio: Studio) -> None:
    replaces: list[Response] = []
    studio.app.after_request(lambda answer: replaces[0] if replaces else answer)
    workflow = studio.deploy(document(ECHO))
    thread = told(runs(studio, workflow, {"message": "x"}))[0]["thread_id"]
    replaces.append(Response("no", 500))
    thrown_away(studio, f"/api/workflows/{workflow}/runs", {"thread_id": thread}, hook=True)
    replaces.clear()
    assert studio.get(f"/api/threads/{thread}").get_json()["status"] == "idle"

"""Memory over HTTP: what the model is told of a thread, what is kept of it, who may read and delete that."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import gevent
import pytest

from app.agents.memory import NO_TEXT, UNANSWERED
from tests.support.servers import wait_until
from tests.support.vendor import Vendor, vendor
from tests.web.conftest import Studio, assert_error, document
from tests.web.test_run_events import post, runs, told

MODEL = "openai-compatible/field"
CONVERSATION = {"type": "conversation"}

Say = tuple[str, str]


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Vendor]:
    """A vendor that shows what it was asked."""
    with vendor() as made:
        monkeypatch.setenv("STUDIO_OPENAI_COMPATIBLE_API_BASE", made.base)
        yield made


def asked(call: t.Any) -> list[Say]:
    """The messages of a request but for the system prompt."""
    return [(m["role"], m["content"]) for m in call.body["messages"] if m["role"] != "system"]


def talk(upstream: Vendor, start: Callable[[], t.Any], *answers: str) -> tuple[t.Any, list[list[Say]]]:
    """Run something whose model calls are answered one after the other: its answer, and what each was asked."""
    running = gevent.spawn(start)
    seen = []
    for answer in answers:
        call = upstream.next_call()
        seen.append(asked(call))
        if answer:
            call.text(answer)
        call.finish()
    return running.get(timeout=20), seen


def ask(
    studio: Studio, upstream: Vendor, workflow: str, message: str, *answers: str, **body: t.Any
) -> list[list[Say]]:
    """One message of the conversation ``mine``; what its model calls were asked."""
    sent = {"input": message, "conversationId": "mine", **body}
    answer, seen = talk(upstream, lambda: studio.execute(workflow, sent), *answers)
    assert answer.get_json()["success"], answer.get_data()
    return seen


def kept(studio: Studio, thread: str, key: str = "read", **query: t.Any) -> list[dict[str, t.Any]]:
    answer = studio.client.get(
        f"/api/threads/{thread}/memory", query_string=query, headers={"X-API-Key": studio.keys.get(key, key)}
    )
    assert answer.status_code == 200, answer.get_data()
    return t.cast("list[dict[str, t.Any]]", answer.get_json()["items"])


def the_thread(studio: Studio) -> str:
    (thread,) = {item["threadId"] for item in studio.get("/api/runs").get_json()["items"]}
    return t.cast(str, thread)


def two(first: dict[str, t.Any], second: dict[str, t.Any]) -> dict[str, t.Any]:
    """Two agents, one after the other."""
    found = document(MODEL, **first)
    config = {"model": MODEL, "prompt": "{{ input.message }}", **second}
    found["blocks"].append({"id": "agent_2", "type": "agent", "config": config})
    found["edges"].append({"source": "agent_1", "target": "agent_2"})
    return found


def test_a_named_conversation_is_remembered(studio: Studio, upstream: Vendor) -> None:
    workflow = studio.deploy(document(MODEL, memory=CONVERSATION, system="You are short."))
    assert ask(studio, upstream, workflow, "one", "1") == [[("user", "one")]]
    assert ask(studio, upstream, workflow, "two", "2") == [
        [("user", "one"), ("assistant", "1"), ("user", "two")]
    ]
    assert ask(studio, upstream, workflow, "three", "3") == [
        [("user", "one"), ("assistant", "1"), ("user", "two"), ("assistant", "2"), ("user", "three")]
    ]
    assert ask(studio, upstream, workflow, "other", "4", conversationId="another") == [[("user", "other")]]


def test_a_thread_of_run_events_is_remembered(studio: Studio, upstream: Vendor) -> None:
    workflow = studio.deploy(document(MODEL, memory="conversation"))
    frames, seen = talk(upstream, lambda: told(runs(studio, workflow, {"message": "one"})), "1")
    thread = frames[0]["thread_id"]
    sent = {"message": "two", "thread_id": thread}
    _, seen = talk(upstream, lambda: told(runs(studio, workflow, sent)), "2")
    assert seen == [[("user", "one"), ("assistant", "1"), ("user", "two")]]
    assert [(item["message"], item["answer"]) for item in kept(studio, thread)] == [
        ("two", "2"),
        ("one", "1"),
    ]


@pytest.mark.parametrize("memory", [None, "none", {"type": "none"}])
def test_without_memory_nothing_is_remembered(studio: Studio, upstream: Vendor, memory: t.Any) -> None:
    workflow = studio.deploy(document(MODEL, memory=memory))
    ask(studio, upstream, workflow, "one", "1")
    assert ask(studio, upstream, workflow, "two", "2") == [[("user", "two")]]
    assert kept(studio, the_thread(studio)) == []


def test_a_window_of_messages_is_the_newest_whole_exchanges(studio: Studio, upstream: Vendor) -> None:
    workflow = studio.deploy(document(MODEL, memory={"type": "sliding_window", "limit": 5}))
    for number in range(4):
        (seen,) = ask(studio, upstream, workflow, f"q{number}", f"a{number}")
    assert seen == [
        ("user", "q1"), ("assistant", "a1"), ("user", "q2"), ("assistant", "a2"), ("user", "q3"),
    ]  # fmt: skip


def test_a_window_of_tokens_never_cuts_a_message(studio: Studio, upstream: Vendor) -> None:
    workflow = studio.deploy(document(MODEL, memory={"type": "sliding_window_tokens", "limit": 60}))
    ask(studio, upstream, workflow, "q0", "word " * 20)
    ask(studio, upstream, workflow, "q1", "word " * 20)
    (seen,) = ask(studio, upstream, workflow, "q2", "word " * 200)
    assert seen == [
        ("user", "q0"), ("assistant", "word " * 20), ("user", "q1"), ("assistant", "word " * 20), ("user", "q2"),
    ]  # fmt: skip
    assert ask(studio, upstream, workflow, "q3", "3") == [[("user", "q3")]]


def test_each_agent_has_a_memory_of_its_own(studio: Studio, upstream: Vendor) -> None:
    workflow = studio.deploy(two({"memory": CONVERSATION}, {"memory": CONVERSATION}))
    ask(studio, upstream, workflow, "one", "1a", "1b")
    first, second = ask(studio, upstream, workflow, "two", "2a", "2b")
    assert first == [("user", "one"), ("assistant", "1a"), ("user", "two")]
    assert second == [("user", "one"), ("assistant", "1b"), ("user", "two")]
    assert {item["key"] for item in kept(studio, the_thread(studio))} == {"agent_1", "agent_2"}


def test_agents_with_one_key_share_a_memory(studio: Studio, upstream: Vendor) -> None:
    shared = {"memory": {"type": "conversation", "key": "team"}}
    workflow = studio.deploy(two(shared, shared))
    _, second = ask(studio, upstream, workflow, "one", "1a", "1b")
    assert second == [("user", "one"), ("assistant", "1a"), ("user", "one")]
    (third, _) = ask(studio, upstream, workflow, "two", "2a", "2b")
    assert third[:4] == [("user", "one"), ("assistant", "1a"), ("user", "one"), ("assistant", "1b")]
    items = kept(studio, the_thread(studio), limit=2)
    assert [(item["key"], item["blockId"]) for item in items] == [("team", "agent_2"), ("team", "agent_1")]


def test_a_key_may_name_the_memory_of_another_agent(studio: Studio, upstream: Vendor) -> None:
    reader = {"memory": {"type": "sliding_window", "limit": 2, "key": "agent_1"}}
    workflow = studio.deploy(two({"memory": CONVERSATION}, reader))
    _, second = ask(studio, upstream, workflow, "one", "1a", "1b")
    assert second == [("user", "one"), ("assistant", "1a"), ("user", "one")]


def test_a_key_is_a_template_over_the_input(studio: Studio, upstream: Vendor) -> None:
    memory = {"type": "conversation", "key": "user {{ input.user }}"}
    workflow = studio.deploy(document(MODEL, memory=memory))
    for user in ("ann", "bob"):
        ask(studio, upstream, workflow, "", "1", input={"message": f"I am {user}", "user": user})
    (seen,) = ask(studio, upstream, workflow, "", "2", input={"message": "Who?", "user": "ann"})
    assert seen == [("user", "I am ann"), ("assistant", "1"), ("user", "Who?")]
    answer = studio.execute(workflow, {"input": {"user": "x" * 300}, "conversationId": "mine"})
    assert answer.get_json()["error"]["code"] == "memory_key_invalid"


def looping() -> dict[str, t.Any]:
    """An agent that a loop runs three times."""
    found = document(MODEL, memory=CONVERSATION, prompt="{{ input.message }} {{ loop.iteration }}")
    found["blocks"].append({"id": "loop_1", "type": "loop", "config": {"kind": "for", "times": 3}})
    found["edges"] = [
        {"source": "start", "target": "loop_1"},
        {"source": "loop_1", "target": "agent_1", "source_handle": "loop"},
        {"source": "agent_1", "target": "loop_1"},
    ]
    return found


@pytest.mark.parametrize("body", [{}, {"conversationId": None}], ids=["thread", "no thread"])
def test_an_agent_in_a_loop_hears_what_it_said_before(
    studio: Studio, upstream: Vendor, body: dict[str, t.Any]
) -> None:
    sent = {"input": "say", "conversationId": "mine", **body}
    sent = {name: value for name, value in sent.items() if value is not None}
    workflow = studio.deploy(looping())
    _, seen = talk(upstream, lambda: studio.execute(workflow, sent), "a", "b", "c")
    assert seen[2] == [
        ("user", "say 1"), ("assistant", "a"), ("user", "say 2"), ("assistant", "b"), ("user", "say 3"),
    ]  # fmt: skip
    _, (again, *_) = talk(upstream, lambda: studio.execute(workflow, sent), "d", "e", "f")
    assert len(again) == (7 if "conversationId" in sent else 1)


def test_agents_of_branches_have_memories_of_their_own(studio: Studio, upstream: Vendor) -> None:
    found = document(MODEL, memory=CONVERSATION, prompt="{{ input.message }} {{ loop.item }}")
    parallel = {"items": ["x", "y"], "max_concurrency": 1}
    found["blocks"].append({"id": "par", "type": "parallel", "config": parallel})
    found["edges"] = [
        {"source": "start", "target": "par"},
        {"source": "par", "target": "agent_1", "source_handle": "loop"},
    ]
    workflow = studio.deploy(found)
    ask(studio, upstream, workflow, "one", "1", "2")
    first, second = ask(studio, upstream, workflow, "two", "3", "4")
    assert first == [("user", "one x"), ("assistant", "1"), ("user", "two x")]
    assert second == [("user", "one y"), ("assistant", "2"), ("user", "two y")]
    assert {item["key"] for item in kept(studio, the_thread(studio))} == {"agent_1[0]", "agent_1[1]"}


def test_a_workflow_inside_has_its_own_names(studio: Studio, upstream: Vendor) -> None:
    inner = studio.deploy(document(MODEL, memory={"type": "conversation", "key": "team"}))
    found = document(MODEL, memory={"type": "conversation", "key": "team"})
    given = {"message": "{{ input.message }} inside"}
    found["blocks"].append({"id": "wf", "type": "workflow", "config": {"workflow": inner, "input": given}})
    found["edges"].append({"source": "agent_1", "target": "wf"})
    workflow = studio.deploy(found)
    ask(studio, upstream, workflow, "one", "1", "2")
    first, second = ask(studio, upstream, workflow, "two", "3", "4")
    assert first == [("user", "one"), ("assistant", "1"), ("user", "two")]
    assert second == [("user", "one inside"), ("assistant", "2"), ("user", "two inside")]
    assert {item["key"] for item in kept(studio, the_thread(studio))} == {"team", "wf/team"}


def test_an_agent_that_keeps_the_thread_remembers_it(studio: Studio, upstream: Vendor) -> None:
    workflow = studio.deploy(two({}, {"memory": CONVERSATION, "capture": True}))
    ask(studio, upstream, workflow, "one", "1a", "1b")
    assert ask(studio, upstream, workflow, "two", "2") == [
        [("user", "one"), ("assistant", "1b"), ("user", "two")]
    ]


def test_nobody_comes_back_to_a_run_without_a_key(studio: Studio, upstream: Vendor) -> None:
    workflow = studio.deploy(document(MODEL, memory=CONVERSATION, settings={"public": True}))
    body = {"input": "one", "conversationId": "mine"}
    for _ in range(2):
        _, seen = talk(upstream, lambda: studio.execute(workflow, body, key=None), "1")
        assert seen == [[("user", "one")]]
    frames, _ = talk(upstream, lambda: told(runs(studio, workflow, {"message": "x"}, key=None)), "1")
    assert kept(studio, frames[0]["thread_id"]) == []


def test_a_failed_answer_is_not_remembered_and_an_empty_one_is_told_as_such(
    studio: Studio, upstream: Vendor
) -> None:
    workflow = studio.deploy(document(MODEL, memory=CONVERSATION, retries=0))
    running = gevent.spawn(studio.execute, workflow, {"input": "one", "conversationId": "mine"})
    upstream.next_call().answer(500)
    assert running.get(timeout=20).get_json()["success"] is False
    assert ask(studio, upstream, workflow, "two", "") == [[("user", "two")]]
    assert ask(studio, upstream, workflow, "three", "3") == [
        [("user", "two"), ("assistant", NO_TEXT), ("user", "three")]
    ]


def test_what_a_structured_agent_wrote_is_remembered_unless_it_is_refused(
    studio: Studio, upstream: Vendor
) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    workflow = studio.deploy(document(MODEL, memory=CONVERSATION, response_format=schema))
    ask(studio, upstream, workflow, "one", '{"city":"Rome"}')
    sent = {"input": "two", "conversationId": "mine"}
    answer, _ = talk(upstream, lambda: studio.execute(workflow, sent), "Paris, I think.")
    assert answer.get_json()["error"]["code"] == "structured_output_invalid"
    assert ask(studio, upstream, workflow, "three", '{"city":"Oslo"}') == [
        [("user", "one"), ("assistant", '{"city":"Rome"}'), ("user", "three")]
    ]


def test_a_stopped_message_is_remembered_as_not_answered(studio: Studio, upstream: Vendor) -> None:
    workflow = studio.deploy(document(MODEL, memory=CONVERSATION))
    running = gevent.spawn(lambda: told(runs(studio, workflow, {"message": "long story"})))
    call = upstream.next_call()
    call.text("Once upon a ti")
    thread = the_thread(studio)
    post(studio, f"/api/threads/{thread}/stop")
    assert running.get(timeout=20)[-1]["data"]["cause"] == "stop_requested"
    wait_until(lambda: studio.get(f"/api/threads/{thread}").get_json()["status"] == "idle", "the end")
    sent = {"message": "shorter", "thread_id": thread}
    _, seen = talk(upstream, lambda: told(runs(studio, workflow, sent)), "ok")
    assert seen == [[("user", "long story"), ("assistant", UNANSWERED), ("user", "shorter")]]
    first = kept(studio, thread)[-1]
    assert first["message"] == "long story"
    assert "answer" not in first


def test_runs_of_one_conversation_may_overlap(studio: Studio, upstream: Vendor) -> None:
    workflow = studio.deploy(document(MODEL, memory=CONVERSATION))
    running, calls = [], []
    for message in ("one", "two"):
        body = {"input": message, "conversationId": "mine"}
        running.append(gevent.spawn(studio.execute, workflow, body))
        calls.append(upstream.next_call())
    for call, answer in zip(reversed(calls), ("2", "1"), strict=True):
        call.text(answer)
        call.finish()
        gevent.wait(running, timeout=20, count=1)
    gevent.joinall(running, timeout=20)
    (seen,) = ask(studio, upstream, workflow, "three", "3")
    assert sorted([(seen[0], seen[1]), (seen[2], seen[3])]) == [
        (("user", "one"), ("assistant", "1")),
        (("user", "two"), ("assistant", "2")),
    ]


def test_a_store_that_cannot_be_read_is_no_empty_memory(
    studio: Studio, upstream: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.store.errors import StoreFailed

    def broken(*args: t.Any) -> t.Any:
        raise StoreFailed("The disk is gone.")

    workflow = studio.deploy(document(MODEL, memory=CONVERSATION))
    with monkeypatch.context() as patch:
        patch.setattr(studio.store.memories._backend, "rows", broken_rows(studio, broken))
        answer = studio.execute(workflow, {"input": "one", "conversationId": "mine"})
    error = answer.get_json()["error"]
    assert (error["code"], error["blockId"]) == ("memory_unavailable", "agent_1")
    assert "disk" not in answer.get_data(as_text=True)


def broken_rows(studio: Studio, broken: Callable[..., t.Any]) -> Callable[..., t.Any]:
    """The backend's reads, of which those of memories fail."""
    real = studio.store.memories._backend.rows

    def rows(statement: t.Any, values: t.Any) -> t.Any:
        return (broken if "memories" in statement.sql else real)(statement, values)

    return rows


def test_what_is_remembered_is_read_page_by_page_and_deleted(studio: Studio, upstream: Vendor) -> None:
    workflow = studio.deploy(two({"memory": CONVERSATION}, {"memory": CONVERSATION}))
    for number in range(2):
        ask(studio, upstream, workflow, f"q{number}", f"a{number}", f"b{number}")
    thread = the_thread(studio)
    path = f"/api/threads/{thread}/memory"
    first = studio.get(f"{path}?limit=3", key="run").get_json()
    assert [item["answer"] for item in first["items"]] == ["b1", "a1", "b0"]
    rest = studio.get(f"{path}?limit=3&cursor={first['nextCursor']}").get_json()
    assert [item["answer"] for item in rest["items"]] == ["a0"]
    assert "nextCursor" not in rest
    assert [item["answer"] for item in kept(studio, thread, key="read")[:1]] == ["b1"]
    only = studio.get(f"{path}?key=agent_1").get_json()["items"]
    assert [item["answer"] for item in only] == ["a1", "a0"]
    assert set(only[0]) == {"key", "message", "answer", "blockId", "runId", "createdAt"}
    key = {"X-API-Key": studio.keys["run"]}
    assert studio.client.delete(f"{path}?key=agent_2", headers=key).get_json() == {"deleted": 2}
    first_seen, second_seen = ask(studio, upstream, workflow, "q2", "a2", "b2")
    assert (len(first_seen), len(second_seen)) == (5, 1)
    assert studio.client.delete(path, headers=key).get_json() == {"deleted": 4}
    assert kept(studio, thread) == []


def test_who_may_not_is_told_that_there_is_no_thread(studio: Studio, upstream: Vendor) -> None:
    workflow = studio.deploy(document(MODEL, memory=CONVERSATION))
    ask(studio, upstream, workflow, "one", "1")
    path = f"/api/threads/{the_thread(studio)}/memory"
    _, stranger = studio.store.keys.create("stranger", frozenset({"run"}))
    assert_error(studio.get(path, key=stranger), 404, "not_found")
    assert_error(studio.client.delete(path, headers={"X-API-Key": stranger}), 404, "not_found")
    assert_error(studio.client.delete(path, headers={"X-API-Key": studio.keys["read"]}), 403, "forbidden")
    assert studio.get(path, key="admin").status_code == 200
    assert_error(studio.get("/api/threads/thr_none/memory"), 404, "not_found")


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("cursor=x", "cursor"),
        ("key=", "key"),
        ("what=1", "what"),
    ],
)
def test_a_wrong_query_is_a_400(studio: Studio, upstream: Vendor, query: str, path: str) -> None:
    workflow = studio.deploy(document(MODEL, memory=CONVERSATION))
    ask(studio, upstream, workflow, "one", "1")
    answer = studio.get(f"/api/threads/{the_thread(studio)}/memory?{query}")
    assert_error(answer, 400, "validation_failed", path=path)

"""AFTERMATH: after a stop or a cut, what is stored is whole, and the conversation goes on.

The documented rule (``docs/memory.md``): a conversation remembers final text only. A message that was stopped stays,
and says that it was not answered; what its run had called or half said is in the run's record alone. So the synthetic
result of AFTERMATH-01 has no place to be: no call goes upstream again, and none without its result.
"""

from __future__ import annotations

import json
import os
import signal
import typing as t

import gevent
import pytest

from app.agents.memory import NO_TEXT, UNANSWERED
from tests.field.rig import ALL, Server, Watched, held, until
from tests.field.test_reconnect import attach
from tests.field.test_replay import block
from tests.field.wires import Chat, Messages, Speaker
from tests.support.graphs import graph
from tests.support.servers import NEGOTIATE
from tests.support.vendor import Call, Vendor

MEMORY = {"type": "conversation"}


def said_to(call: Call) -> str:
    """All of a request, as text."""
    return json.dumps(call.body, ensure_ascii=False)


def say_next(served: Server, vendor: Vendor, speaker: Speaker, workflow: str, name: str) -> Call:
    """Write ``hello`` in conversation ``name`` and let the model answer it; the model's call."""
    asked = {"input": "hello", "conversationId": name}
    answer = gevent.spawn(served.call, "POST", f"/api/workflows/{workflow}/execute", body=asked)
    call = vendor.next_call()
    speaker.text(call, "Good day.")
    speaker.finish(call)
    status, body = answer.get(timeout=20)
    assert (status, body["success"]) == (200, True)
    assert body["output"]["content"] == "Good day."
    return call


def test_aftermath_01_a_stop_during_a_tool_call_leaves_the_conversation_usable(
    served: Server, vendor: Vendor, desk: Vendor, speaker: Speaker
) -> None:
    """The next message is answered; the request is valid and holds no call."""
    workflow = served.agent(speaker.model, tools=held(desk, "work"), memory=MEMORY)
    watched = served.watch(workflow, input="first things", conversationId="a1")
    call = vendor.next_call()
    speaker.text(call, "Let me look. ")
    speaker.tool(call, 0, "t1", "work", "{}")
    speaker.finish(call, "tool_calls")
    at_work = desk.next_call()
    served.stop(watched.run_id)
    assert at_work.left.wait(20)
    assert watched.end()["code"] == "cancelled"
    (entry,) = served.ended(watched.run_id)["toolCalls"]["agent_1"]["list"]
    assert entry["status"] == "cancelled"
    following = say_next(served, vendor, type(speaker)(), workflow, "a1")
    assert speaker.said(following.body) == [UNANSWERED]
    assert speaker.results(following.body) == []
    request = said_to(following)
    assert "t1" not in request
    assert "Let me look" not in request
    assert request.index("first things") < request.index(UNANSWERED) < request.index('"hello"')


PIECES = [f"piece-{number:02d} " for number in range(50)]


@pytest.mark.parametrize("how", ["stop", "connection cut"])
def test_aftermath_03_a_partial_answer_is_kept_as_such_and_never_sent_as_whole(
    served: Server, vendor: Vendor, speaker: Speaker, how: str
) -> None:
    """It is in the record, marked; upstream it is not."""
    workflow = served.agent(speaker.model, memory=MEMORY)
    conversation = f"a3 {how}"
    watched = served.watch(workflow, input="a long story", conversationId=conversation)
    call = vendor.next_call()
    for piece in PIECES:
        speaker.text(call, piece)
    watched.until(lambda v: str(v.get("chunk", "")).endswith(PIECES[-1]))
    if how == "stop":
        served.stop(watched.run_id)
        watched.end()
    else:
        watched.stream.close()
    assert call.left.wait(20)
    record = served.ended(watched.run_id)
    cause = "stop_requested" if how == "stop" else "client_disconnected"
    assert (record["status"], record["cause"]) == ("cancelled", cause)
    assert record["partialText"] == {"agent_1": "".join(PIECES)}
    assert "output" not in record
    following = say_next(served, vendor, type(speaker)(), workflow, conversation)
    assert speaker.said(following.body) == [UNANSWERED]
    assert "piece-" not in said_to(following)
    (again,) = [item for item in _memory(served, record["threadId"]) if item["runId"] == watched.run_id]
    assert again["message"] == "a long story"
    assert "answer" not in again


def test_aftermath_03_a_stop_before_any_model_was_asked_keeps_the_message(
    served: Server, vendor: Vendor, desk: Vendor
) -> None:
    """The agent still fetches the file it is to be shown."""
    files = [{"url": f"{desk.base}/plan.txt"}]
    workflow = served.agent("openai-compatible/field", memory=MEMORY, files=files)
    watched = served.watch(workflow, input="first things", conversationId="early")
    fetched = desk.next_call()
    served.stop(watched.run_id)
    assert fetched.left.wait(20)
    assert watched.end()["code"] == "cancelled"
    (item,) = _memory(served, served.ended(watched.run_id)["threadId"])
    assert item["message"] == "first things"
    assert "answer" not in item
    assert vendor.calls.empty()


def test_aftermath_05_a_second_run_has_a_stream_of_its_own(served: Server, vendor: Vendor) -> None:
    """While the first one's is half read; the first can be read by its id."""
    workflow = served.agent("openai-compatible/field", settings={"on_disconnect": "continue"}, memory=MEMORY)
    body = {**ALL, "input": "one", "conversationId": "a5"}
    first = served.studio.execute(workflow, body, NEGOTIATE)
    first_id = first.headers["X-Run-Id"]
    call = vendor.next_call()
    call.text("half ")
    second = served.watch(workflow, input="two", conversationId="a5")
    other = vendor.next_call()
    other.text("second")
    other.finish()
    assert second.end()["data"]["runId"] == second.run_id != first_id
    assert second.text == "second"
    call.text("done")
    call.finish()
    record = served.ended(first_id)
    first.close()
    assert record["runId"] == first_id
    assert record["output"]["content"] == "half done"


def test_aftermath_06_an_answer_in_many_deltas_is_one_message(
    served: Server, vendor: Vendor, speaker: Speaker
) -> None:
    """One is stored, one is told to the model of the next turn."""
    workflow = served.agent(speaker.model, memory=MEMORY)
    watched = served.watch(workflow, input="count", conversationId="a6")
    call = vendor.next_call()
    for number in range(30):
        speaker.text(call, f"{number} ")
    speaker.finish(call)
    watched.end()
    whole = "".join(f"{number} " for number in range(30))
    (item,) = _memory(served, served.record(watched.run_id)["threadId"])
    assert (item["message"], item["answer"]) == ("count", whole)
    following = say_next(served, vendor, type(speaker)(), workflow, "a6")
    (told,) = speaker.said(following.body)
    assert told.strip() == whole.strip()


# -- durable runs --------------------------------------------------------------------------------

DURABLE = {"durable": True}


def test_aftermath_01_a_stop_during_a_tool_call_of_a_durable_run(
    served: Server, vendor: Vendor, desk: Vendor
) -> None:
    speaker = Chat()
    workflow = served.agent(speaker.model, tools=held(desk, "work"), memory=MEMORY, settings=DURABLE)
    watched = served.watch(workflow, input="first things", conversationId="durable 1")
    speaker_calls(vendor, speaker)
    at_work = desk.next_call()
    served.stop(watched.run_id)
    assert at_work.left.wait(20)
    assert watched.end()["code"] == "cancelled"
    (entry,) = served.ended(watched.run_id)["toolCalls"]["agent_1"]["list"]
    assert entry["status"] == "cancelled"
    nothing_is_left(served, vendor, workflow, "durable 1")


def test_aftermath_01_a_stop_while_a_call_waits_for_a_person(
    served: Server, vendor: Vendor, desk: Vendor
) -> None:
    """It is not made, nobody can allow it any more, and the thread is free."""
    tools = [{**tool, "approval": "always"} for tool in held(desk, "work")]
    workflow = served.agent(Chat().model, tools=tools, memory=MEMORY)
    watched = served.watch(workflow, input="first things", conversationId="durable 2")
    speaker_calls(vendor, Chat())
    resume = watched.end()["data"]["resume"]
    until(lambda: served.record(watched.run_id)["status"] == "paused", "it is paused")
    served.stop(watched.run_id)
    until(lambda: served.record(watched.run_id)["status"] == "cancelled", "it has ended")
    record = served.ended(watched.run_id)
    assert record["cause"] == "stop_requested"
    (entry,) = record["toolCalls"]["agent_1"]["list"]
    assert entry["status"] == "cancelled"
    answer = {"decision": "approve", "pauseId": resume["pauseId"]}
    status, body = served.call("POST", resume["url"], body=answer)
    assert (status, body["error"]["code"]) == (409, "not_paused")
    nothing_is_left(served, vendor, workflow, "durable 2")
    assert desk.calls.empty()


def test_aftermath_01_two_agents_that_wait_for_a_person_remember_a_stop(
    served: Server, vendor: Vendor, desk: Vendor
) -> None:
    """Each of them, though neither goes on."""
    tools = [{**tool, "approval": "always"} for tool in held(desk, "work")]
    config = {"model": Chat().model, "tools": tools, "memory": MEMORY}
    document = graph([("a", "agent", config), ("b", "agent", config)], "start > a", "start > b")
    watched = served.watch(served.deploy(document), input="first things", conversationId="durable 4")
    speaker_calls(vendor, Chat())
    speaker_calls(vendor, Chat())
    watched.end()
    until(lambda: served.record(watched.run_id)["status"] == "paused", "it is paused")
    served.stop(watched.run_id)
    until(lambda: served.record(watched.run_id)["status"] == "cancelled", "it has ended")
    items = _memory(served, served.ended(watched.run_id)["threadId"])
    assert sorted((item["blockId"], item["message"], "answer" in item) for item in items) == [
        ("a", "first things", False),
        ("b", "first things", False),
    ]


@pytest.mark.parametrize("then", ["stopped", "finished"])
def test_aftermath_03_what_a_process_that_was_killed_had_half_said(
    served: Server, vendor: Vendor, then: str
) -> None:
    """It was taken back, so it is kept nowhere; what the next process said counts. The message is remembered once."""
    workflow = served.agent(
        Chat().model, memory=MEMORY, settings={**DURABLE, "on_disconnect": "continue"}, retries=0
    )
    conversation = f"durable 3 {then}"
    watched = served.watch(workflow, input="a long story", conversationId=conversation)
    vendor.next_call().text("Once upon")
    watched.until(lambda v: v.get("chunk") == "Once upon")
    os.kill(served.worker, signal.SIGKILL)
    call = vendor.next_call()
    call.text("A long time ago")
    if then == "finished":
        call.finish()
    else:
        seen = Watched(attach(served, watched.run_id))
        seen.until(lambda v: v.get("chunk") == "A long time ago")
        served.stop(watched.run_id)
        assert call.left.wait(20)
        assert seen.end()["code"] == "cancelled"
    record = served.ended(watched.run_id)
    said = {} if then == "finished" else {"agent_1": "A long time ago"}
    assert record["partialText"] == said
    (item,) = _memory(served, record["threadId"])
    assert item["message"] == "a long story"
    assert item.get("answer") == ("A long time ago" if then == "finished" else None)
    following = say_next(served, vendor, Chat(), workflow, conversation)
    assert Chat().said(following.body) == ["A long time ago" if then == "finished" else UNANSWERED]
    assert "Once upon" not in said_to(following)


def speaker_calls(vendor: Vendor, speaker: Chat) -> None:
    """Let the model say a word and call ``work``."""
    call = vendor.next_call()
    speaker.text(call, "Let me look. ")
    speaker.tool(call, 0, "t1", "work", "{}")
    speaker.finish(call, "tool_calls")


def nothing_is_left(served: Server, vendor: Vendor, workflow: str, conversation: str) -> None:
    """The next message is answered; the model is told of no call, and that the first message was not answered."""
    following = say_next(served, vendor, Chat(), workflow, conversation)
    assert Chat().said(following.body) == [UNANSWERED]
    assert Chat().results(following.body) == []
    assert "t1" not in said_to(following)


# -- the sequel of REPLAY-02 ---------------------------------------------------------------------


def strict(body: t.Any, issued: set[str]) -> None:
    """What a vendor that signs its thinking refuses: other signatures, empty messages, calls left open."""
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    open_calls: set[str] = set()
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        assert blocks
        answered = {part["tool_use_id"] for part in blocks if part["type"] == "tool_result"}
        assert answered == open_calls
        open_calls = {part["id"] for part in blocks if part["type"] == "tool_use"}
        assert all(part["signature"] in issued for part in blocks if part["type"] == "thinking")
        assert all(part["text"].strip() for part in blocks if part["type"] == "text")
        assert [part["type"] for part in blocks] != ["thinking"]
    assert not open_calls


def think(speaker: Messages, call: Call, signature: str) -> None:
    block(
        speaker,
        call,
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Let me look."},
        {"type": "signature_delta", "signature": signature},
    )


def test_replay_02_a_second_message_is_accepted_by_a_vendor_that_checks_signatures(
    served: Server, vendor: Vendor, desk: Vendor
) -> None:
    """Thinking and a tool in the first turn; the signature reaches neither the second turn nor a viewer."""
    speaker = Messages()
    workflow = served.agent(speaker.model, tools=held(desk, "look"), memory=MEMORY)
    watched = served.watch(workflow, input="first", conversationId="r2")
    call = vendor.next_call()
    think(speaker, call, "sigAB")
    start = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    block(speaker, call, 1, start, {"type": "input_json_delta", "partial_json": "{}"})
    speaker.finish(call, "tool_calls")
    desk.next_call().answer(200, b'"found"')
    call = vendor.next_call()
    strict(call.body, {"sigAB"})
    think(speaker, call, "sigCD")
    block(speaker, call, 1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "It is there."})
    speaker.finish(call)
    watched.end()
    assert "sig" not in json.dumps([watched.values, served.record(watched.run_id)])
    following = say_next(served, vendor, Messages(), workflow, "r2")
    strict(following.body, set())
    assert speaker.said(following.body) == ["It is there."]


def test_replay_02_a_turn_of_thinking_alone_is_no_empty_message(served: Server, vendor: Vendor) -> None:
    """The model thought and said nothing; the next request has no empty and no thinking message."""
    speaker = Messages()
    workflow = served.agent(speaker.model, memory=MEMORY)
    watched = served.watch(workflow, input="first", conversationId="r2 alone")
    call = vendor.next_call()
    think(speaker, call, "sigEF")
    speaker.finish(call)
    assert watched.end()["event"] == "final"
    following = say_next(served, vendor, Messages(), workflow, "r2 alone")
    strict(following.body, set())
    assert speaker.said(following.body) == [NO_TEXT]


def _memory(served: Server, thread: str) -> list[dict[str, t.Any]]:
    status, body = served.call("GET", f"/api/threads/{thread}/memory")
    assert status == 200
    return t.cast("list[dict[str, t.Any]]", body["items"])

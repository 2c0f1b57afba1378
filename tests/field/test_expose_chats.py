"""EXPOSE, at the chats: who may use one sees what he is answered, on no way more."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

import pytest

from tests.field.chats import deployed
from tests.field.rig import SECRET, Server, Watched
from tests.support import sse
from tests.support.servers import NEGOTIATE
from tests.support.vendor import Vendor
from tests.support.visitors import Browser

MODEL = "openai-compatible/field"
#: Each of these stands somewhere inside, and nowhere in what was answered.
INSIDE = (
    "MARK-system",
    "MARK-prompt",
    "MARK-query",
    "MARK-argument",
    "MARK-result",
    "MARK-document",
    "MARK-name",
    "MARK-variable",
    "MARK-description",
    "MARK-set",
    MODEL,
    "field-model",
    SECRET,
    "docs-field",
)
TOOL = {
    "name": "lookup",
    "description": "MARK-description",
    "parameters": {"type": "object"},
    "result": {"found": "MARK-result"},
}
WORKFLOW: dict[str, t.Any] = {
    "name": "MARK-name of the workflow",
    "blocks": [
        {"id": "start", "type": "start", "name": "MARK-name of the start"},
        {
            "id": "find",
            "type": "retrieve",
            "name": "MARK-name of the search",
            "config": {"collection": "docs-field", "query": "MARK-query dogs"},
        },
        {
            "id": "code",
            "type": "set",
            "name": "MARK-name of the code",
            "config": {"values": {"kept": "MARK-set {{ blocks.find }}"}},
        },
        {
            "id": "agent_1",
            "type": "agent",
            "name": "MARK-name of the agent",
            "config": {
                "model": MODEL,
                "system": "MARK-system",
                "prompt": "MARK-prompt {{ blocks.code.kept }} {{ input.message }}",
                "tools": [TOOL],
            },
        },
    ],
    "edges": [
        {"source": "start", "target": "find"},
        {"source": "find", "target": "code"},
        {"source": "code", "target": "agent_1"},
    ],
    "variables": {"greeting": "MARK-variable"},
    "settings": {"on_disconnect": "continue"},
}


@pytest.fixture(scope="module")
def slug(served: Server) -> Iterator[str]:
    """The workflow as a public chat, all toggles off."""
    body = {"collection": "docs-field", "source": "dogs", "text": "MARK-document: dogs bark."}
    status, answer = served.call("POST", "/api/documents", body=body)
    assert status == 201, answer
    yield deployed(served, served.deploy(WORKFLOW))
    served.call("DELETE", f"/api/documents/{answer['id']}")


def answer(vendor: Vendor) -> None:
    """The model calls the tool once, and then answers."""
    call = vendor.next_call()
    call.text("Let me MARK-argument see. ")
    function = {"name": "lookup", "arguments": json.dumps({"q": "MARK-argument"})}
    call.send({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
    call.finish("tool_calls")
    call = vendor.next_call()
    assert "MARK-document" in str(call.body), "the case holds what it says"
    assert "MARK-result" in str(call.body)
    call.text("Dogs bark.")
    call.finish()


@pytest.mark.parametrize("headers", [{}, {"Accept": "application/json"}], ids=["text", "json"])
def test_expose_01_all_toggles_off(
    served: Server, vendor: Vendor, slug: str, headers: dict[str, str]
) -> None:
    """The raw bytes of what the page loads and of one run, on both forms that hold nothing provisional."""
    visitor = Browser(served.studio.port, slug)
    _, config = visitor.call("GET")
    raw = json.dumps(config)
    connection = visitor.sent({"input": "hi", "conversationId": "c"}, headers)
    answer(vendor)
    with visitor.got(connection) as stream:
        run_id = stream.headers["X-Run-Id"]
        raw += str(stream.headers) + stream.body().decode()
    assert "Dogs bark." in raw
    for path in (f"/runs/{run_id}", "/conversations/c"):
        raw += json.dumps(visitor.call("GET", path)[1])
    for inside in (*INSIDE, "lookup"):
        assert inside not in raw.replace('"name":"lookup"', ""), inside


def test_expose_07_hidden_tools_on_every_way_back(served: Server, vendor: Vendor, slug: str) -> None:
    """Live, on a replay and in the history there is neither argument nor result; what is told of the call at the end is
    its name. That something goes on is told in silence (``tests/web/test_chat_status.py``).
    """
    visitor = Browser(served.studio.port, slug)
    connection = visitor.sent({"input": "hi", "conversationId": "d"}, NEGOTIATE)
    answer(vendor)
    watched = Watched(visitor.got(connection))
    watched.end()
    assert watched.text == "Dogs bark."
    assert not watched.of("tool")
    assert not watched.of("thinking")
    raw = json.dumps(watched.values)
    with visitor.events(watched.run_id) as replay:
        again = replay.body().decode()
    assert json.loads(again.split("data: ")[-2].split("\n\n")[0])["event"] == "final"
    raw += again
    with sse.get(
        served.studio.port,
        f"/api/chat/{slug}/runs/{watched.run_id}/events?protocol=agent-text",
        visitor.headers(),
    ) as text:
        raw += text.body().decode()
    raw += json.dumps(visitor.call("GET", "/conversations/d")[1])
    # Text of a turn that did not stand was shown live, and retracted: it is the model's, not the tool's.
    raw = raw.replace("Let me MARK-argument see. ", "")
    for inside in INSIDE:
        assert inside not in raw, inside

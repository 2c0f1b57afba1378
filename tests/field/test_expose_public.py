"""EXPOSE, at the API: callers without a key of a public workflow, and those who have one and may not see all."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Mapping

import gevent
import pytest

from app.streams.public_texts import TEXTS
from tests.field.rig import SECRET, Server, until
from tests.field.wires import Speaker
from tests.support import sse
from tests.support.servers import NEGOTIATE
from tests.support.vendor import Vendor

ECHO = "Incorrect API key provided: %s; see https://x/v1?key=%s"
TOOL = {
    "name": "lookup",
    "description": "MARK-description",
    "parameters": {"type": "object"},
    "result": {"found": "MARK-result"},
}
#: Stands somewhere inside.
INSIDE = ("MARK-", "openai-compatible", "field-model", SECRET)
SURFACES: dict[str, tuple[str, dict[str, t.Any], dict[str, str]]] = {
    "waiting": ("/api/workflows/{}/execute", {"input": "hi"}, {}),
    "text": ("/api/workflows/{}/execute", {"input": "hi", "stream": True}, {}),
    "live": ("/api/workflows/{}/execute", {"input": "hi", "stream": True}, NEGOTIATE),
    "runs": ("/api/workflows/{}/runs", {"message": "hi"}, {}),
    "chat": ("/chat", {"messages": [{"role": "user", "content": "hi"}]}, {}),
    "graph": ("/chat", {"messages": [{"role": "user", "content": "hi"}]}, {"Accept": "text/event-stream"}),
}


def public(served: Server, model: str, **config: t.Any) -> str:
    """A public workflow of one agent, with names and prompts that are nobody's business."""
    settings = {"system": "MARK-system", "prompt": "MARK-prompt {{ input.message }}", "retries": 0, **config}
    return served.deploy(
        {
            "name": "MARK-name",
            "blocks": [
                {"id": "start", "type": "start", "name": "MARK-start"},
                {
                    "id": "agent_1",
                    "type": "agent",
                    "name": "MARK-agent",
                    "config": {"model": model, **settings},
                },
            ],
            "edges": [{"source": "start", "target": "agent_1"}],
            "settings": {"public": True},
        }
    )


def asked(served: Server, surface: str, workflow: str) -> gevent.Greenlet:
    """Ask without a key; what comes back, headers and all."""
    path, body, headers = SURFACES[surface]
    sent = {**body, "workflow": workflow} if path == "/chat" else body

    def ask() -> str:
        raw = json.dumps(sent).encode()
        head: Mapping[str, str] = {"Content-Type": "application/json", **headers}
        _, got, data = sse.request(served.studio.port, "POST", path.format(workflow), raw, head)
        return f"{got}\n{data.decode()}"

    return gevent.spawn(ask)


def test_expose_05_a_viewer_sees_a_code_and_a_fixed_text(
    served: Server, vendor: Vendor, speaker: Speaker
) -> None:
    """The operator's key expired, and the vendor repeats it: whatever its protocol."""
    check_told_nothing(served, vendor, speaker.model, "live")


@pytest.mark.parametrize("surface", sorted(SURFACES.keys() - {"live"}))
def test_expose_05_on_every_surface(served: Server, vendor: Vendor, surface: str) -> None:
    check_told_nothing(served, vendor, "openai-compatible/field", surface)


def check_told_nothing(served: Server, vendor: Vendor, model: str, surface: str) -> None:
    task = asked(served, surface, public(served, model))
    call = vendor.next_call()
    assert SECRET in str(call.headers)
    call.answer(401, json.dumps({"error": {"message": ECHO % (SECRET, SECRET)}}).encode())
    told = task.get(timeout=60)
    assert TEXTS["provider_auth"] in told
    for word in (*INSIDE, "Incorrect", model.partition("/")[2]):
        assert word not in told, word
    # Whoever has a key learns what the vendor said, without the key.
    run_id = next(line for line in told.splitlines() if line.lower().startswith("x-run-id:")).split(": ")[1]
    error = served.record(run_id)["error"]
    assert error["detail"].startswith("Incorrect API key provided")
    assert SECRET not in str(error)
    assert SECRET not in served.studio.log.read_text(errors="replace")


@pytest.mark.parametrize("surface", SURFACES)
def test_expose_07_without_a_key_no_arguments_and_no_results(
    served: Server, vendor: Vendor, surface: str
) -> None:
    task = asked(served, surface, public(served, "openai-compatible/field", tools=[TOOL]))
    call = vendor.next_call()
    assert "MARK-system" in str(call.body)
    function = {"name": "lookup", "arguments": json.dumps({"q": "MARK-argument"})}
    call.send({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
    call.finish("tool_calls")
    call = vendor.next_call()
    assert "MARK-result" in str(call.body), "the case holds what it says"
    call.text("Dogs bark.")
    call.finish()
    told = task.get(timeout=60)
    assert "Dogs bark." in told
    for word in INSIDE:
        assert word not in told, word


def test_expose_07_hidden_on_the_wire_and_on_every_replay(served: Server, vendor: Vendor) -> None:
    """With a key that did not ask for tools: no frame of a call live, on a reconnect or later; the builder sees all."""
    workflow = public(served, "openai-compatible/field", tools=[TOOL])
    watched = served.watch(workflow, includeToolCalls=False, includeThinking=False)
    call = vendor.next_call()
    function = {"name": "lookup", "arguments": json.dumps({"q": "MARK-argument"})}
    call.send({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
    call.finish("tool_calls")
    call = vendor.next_call()
    call.text("Dogs bark.")
    call.finish()
    watched.end()
    assert not watched.of("tool")
    key = {"X-API-Key": served.studio.key}

    def again(query: str, **headers: str) -> str:
        path = f"/api/runs/{watched.run_id}/events?{query}"
        with sse.get(served.studio.port, path, {**key, **headers}) as stream:
            return stream.body().decode()

    until(lambda: served.record(watched.run_id)["status"] == "completed", "it is recorded")
    for query in ("protocol=agent-events-v1", f"protocol=agent-events-v1&after={watched.run_id}:2"):
        live, _, final = again(query).partition('"event":"final"')
        assert "lookup" not in live
        assert "MARK-" not in live
        assert "MARK-result" in final  # a key may know, once it is over
    built = again("protocol=builder")
    assert '"type":"stream:tool"' in built
    assert "MARK-argument" in built
    assert '"type":"stream:tool"' not in again("protocol=builder&replay=durable")

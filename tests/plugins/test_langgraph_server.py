"""The example graph behind a real server, on every surface; and a server that is killed while people are asked."""

from __future__ import annotations

import json
import os
import signal
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("langgraph", reason="needs the extra langgraph, which make test installs")

from tests.support import sse
from tests.support.servers import NEGOTIATE, Studio, studio, wait_until

ID = "langgraph:assistant"
KNOWN, SUM, UNKNOWN = "How many holidays do I have?", "What is 12 * 7?", "Where is the canteen?"
QUOTE = '"every employee has thirty days of holiday a year" [1]'
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    folder = tmp_path_factory.mktemp("graphs")
    environ = {
        "PYTHONPATH": "examples",
        "STUDIO_LANGGRAPH_APPS": (
            "assistant=langgraph_assistant.graph:app,sleeper=tests.support.graphs_of_langgraph:sleeper"
        ),
        "STUDIO_CHAT_WORKFLOW": ID,
        "LANGGRAPH_ASSISTANT_DB": str(folder / "checkpoints.db"),
    }
    with studio(folder / "data", environ) as running:
        yield running


def post(
    server: Studio, path: str, body: t.Any, headers: t.Mapping[str, str] | None = None
) -> sse.EventStream:
    return sse.post(server.port, path, body, {"X-API-Key": server.key, **(headers or {})})


def get(server: Studio, path: str) -> t.Any:
    status, _, body = sse.request(server.port, "GET", path, headers={"X-API-Key": server.key})
    assert status == 200, body
    return json.loads(body)


def chat(server: Studio, question: str, **more: t.Any) -> dict[str, t.Any]:
    """One turn as JSON."""
    body = {"messages": [{"role": "user", "content": question}], **more}
    with post(server, "/chat", body, {"Accept": "application/json"}) as answer:
        found: dict[str, t.Any] = json.loads(answer.body())
        assert answer.status == 200, found
    return found


def told(stream: sse.EventStream) -> list[tuple[str | None, dict[str, t.Any]]]:
    with stream:
        assert stream.status == 200, stream.body()
        return [(frame.event, frame.json()) for frame in stream.events()]


def test_the_answer_as_json(server: Studio) -> None:
    with server.execute(ID, {"input": KNOWN}) as answer:
        body = json.loads(answer.body())
    assert (body["status"], body["output"]["content"]) == ("completed", QUOTE)
    ((model, used),) = body["usage"]["byModel"].items()
    assert model.endswith("/quoting-1")
    assert used["tokens"]["total"] == used["tokens"]["input"] + used["tokens"]["output"] > 10
    record = get(server, f"/api/runs/{body['runId']}")
    assert (record["status"], record["output"]["content"]) == ("completed", QUOTE)


def test_agent_events(server: Studio) -> None:
    flags = {"stream": True, "includeThinking": True, "includeToolCalls": True}
    with server.execute(ID, {"input": SUM, **flags}, NEGOTIATE) as stream:
        run_id = stream.headers["X-Run-Id"]
        frames = [frame.json() for frame in stream.events()]
    assert frames[-1] == "[DONE]"
    kinds = [frame.get("event", "chunk") for frame in frames[:-1]]
    first = kinds.index("chunk")
    assert (
        kinds.index("thinking")
        < first
        < kinds.index("chunk_reset")
        < kinds.index("tool")
        < kinds.index("final")
    )
    tools = [frame for frame in frames[:-1] if frame.get("event") == "tool"]
    assert [(frame["phase"], frame["id"], frame["name"]) for frame in tools] == [
        ("start", "call_sum", "calculator"),
        ("end", "call_sum", "calculator"),
    ]
    said = "84. That is what the calculator says."
    assert (
        "".join(frame["chunk"] for frame in frames[kinds.index("chunk_reset") :] if "chunk" in frame) == said
    )
    assert frames[-2]["data"]["output"]["content"] == said
    # Attaching later tells the same.
    path = f"/api/runs/{run_id}/events?protocol=agent-events-v1&includeThinking=true&includeToolCalls=true"
    with sse.get(server.port, path, {"X-API-Key": server.key}) as again:
        assert [frame.json() for frame in again.events()] == frames


def test_agent_text(server: Studio) -> None:
    with server.execute(ID, {"input": KNOWN, "stream": True}) as stream:
        frames = [frame.json() for frame in stream.events()]
    assert frames[0] == {"blockId": "answer", "chunk": QUOTE}
    assert (frames[1]["event"], frames[2]) == ("final", "[DONE]")


@pytest.mark.parametrize("level", ["full", "messages", "minimal"])
def test_run_events(server: Studio, level: str) -> None:
    frames = [
        body for _, body in told(post(server, f"/api/workflows/{ID}/runs", {"message": SUM, "events": level}))
    ]
    kinds = [frame["type"] for frame in frames]
    assert (kinds[0], kinds[-1]) == ("thread", "done")
    messages = [frame for frame in frames if frame["type"] == "agent_message"]
    assert messages[-1]["data"]["content"] == "84. That is what the calculator says."
    nodes = [frame["data"]["node_id"] for frame in frames if frame["type"] == "workflow_node_end"]
    results = [frame["output"] for frame in frames if frame["type"] == "tool_result"]
    assert (nodes, results) == (
        ([], []) if level == "minimal" else (["check", "retrieve", "answer", "tools", "answer"], ["84"])
    )


def test_the_topology_and_a_turn_node_by_node(server: Studio) -> None:
    graph = get(server, f"/graph/topology?workflow={ID}")
    assert [node["id"] for node in graph["nodes"]] == [
        "check", "refuse", "retrieve", "answer", "draft", "review", "tools",
    ]  # fmt: skip
    assert graph["flags"]["entry"] == "check"
    assert {"source": "answer", "target": "tools", "conditional": True, "label": "tools"} in graph["edges"]
    events = told(post(server, "/chat", {"messages": [{"role": "user", "content": KNOWN}]}, STREAM))
    assert events[0] == ("graph_topology", graph)
    assert [(kind, body["node"]) for kind, body in events if kind == "node_started"] == [
        ("node_started", "check"),
        ("node_started", "retrieve"),
        ("node_started", "answer"),
    ]
    kind, response = events[-1]
    assert (kind, response["content"], response["status"]) == ("turn_completed", QUOTE, "complete")
    ends = [(body["node"], body["status"]) for kind, body in events if kind == "node_completed"]
    assert sorted(node for node, status in ends if status == "skipped") == [
        "draft",
        "refuse",
        "review",
        "tools",
    ]


def test_a_conversation_is_one_thread_of_the_checkpointer(server: Studio) -> None:
    first = chat(server, KNOWN)
    second = chat(server, SUM, thread_id=first["thread_id"])
    assert (second["thread_id"], second["turn_index"]) == (first["thread_id"], 1)
    assert second["content"] == "84. That is what the calculator says."


def test_a_review_is_answered_on_the_surface_that_asked(server: Studio) -> None:
    paused = chat(server, UNKNOWN)
    assert paused["status"] == "paused_for_review"
    review = paused["review"]
    assert (review["node"], review["draft"]) == ("review", "I do not know that; ask the front desk.")
    assert review["reasons"] == ["The handbook says nothing about it."]
    said = {"thread_id": paused["thread_id"], "decision": "edit", "edited_text": "In the yard."}
    events = told(post(server, "/chat/resume", said, STREAM))
    assert [kind for kind, _ in events] == [
        "graph_topology",
        "node_completed",
        *_skipped(events),
        "turn_completed",
    ]
    assert events[-1][1]["content"] == "In the yard."
    assert events[-1][1]["human_wait_ms"] >= 0


def _skipped(events: list[tuple[str | None, dict[str, t.Any]]]) -> list[str]:
    return [
        "node_completed"
        for kind, body in events
        if body.get("status") == "skipped" and kind == "node_completed"
    ]


def test_a_client_that_leaves_ends_the_run(server: Studio) -> None:
    stream = server.execute("langgraph:sleeper", {"input": "?", "stream": True}, NEGOTIATE)
    run_id = stream.headers["X-Run-Id"]
    wait_until(lambda: get(server, f"/api/runs/{run_id}")["status"] == "running", "it runs")
    stream.close()
    wait_until(lambda: get(server, f"/api/runs/{run_id}")["status"] == "cancelled", "it was cancelled")
    assert get(server, f"/api/runs/{run_id}")["cause"] == "client_disconnected"


def test_a_run_is_stopped_from_outside(server: Studio) -> None:
    with server.execute("langgraph:sleeper", {"input": "?", "stream": True}, NEGOTIATE) as stream:
        run_id = stream.headers["X-Run-Id"]
        with post(server, f"/api/runs/{run_id}/cancel", {}) as stopped:
            assert stopped.status == 202
        frames = [frame.json() for frame in stream.events()]
    assert frames[-2:] == [{"event": "error", "error": "The run was stopped.", "code": "cancelled"}, "[DONE]"]


def test_it_is_listed(server: Studio) -> None:
    ids = ["langgraph:assistant", "langgraph:sleeper"]
    (item,) = [item for item in get(server, "/api/plugins")["items"] if item["name"] == "langgraph"]
    assert item["contributes"] == {"workflow_runners": ids}
    assert "error" not in item
    said = server.cli("run", ID, "--input", KNOWN, "--json")
    assert json.loads(said)["output"]["content"] == QUOTE


def test_a_version_of_it_is_unknown(server: Studio) -> None:
    with server.execute(ID, {"input": "?", "version": 1}) as answer:
        assert answer.status == 404
        assert "has no versions" in json.loads(answer.body())["error"]["message"]


def test_a_review_outlives_a_server_that_was_killed(server: Studio) -> None:
    """Last in this file: it ends the server that all share."""
    paused = chat(server, UNKNOWN)
    assert server.process is not None
    os.killpg(server.process.pid, signal.SIGKILL)
    server.process.wait(60)
    server.start()
    said = {"thread_id": paused["thread_id"], "decision": "approve"}
    with post(server, "/chat/resume", said, {"Accept": "application/json"}) as answer:
        response = json.loads(answer.body())
    assert (response["status"], response["content"]) == (
        "complete",
        "I do not know that; ask the front desk.",
    )
    assert response["run_id"] == paused["run_id"]


def test_a_wrong_name_keeps_the_server_from_starting(tmp_path: Path) -> None:
    environ = {"PYTHONPATH": "examples", "STUDIO_LANGGRAPH_APPS": "assistant=langgraph_assistant.graph:apps"}
    with studio(tmp_path / "data", environ, start=False) as broken:
        done = broken.run_cli("plugins")
        assert done.returncode != 0
        assert 'langgraph_assistant.graph has no attribute "apps"' in done.stderr
        assert "STUDIO_LANGGRAPH_APPS='assistant=langgraph_assistant.graph:apps'" in done.stderr
        with pytest.raises(AssertionError, match="Studio ended with"):
            broken.start()
        log = broken.log.read_text()
    assert log.count('langgraph_assistant.graph has no attribute "apps"') == 1
    assert "Traceback" not in log

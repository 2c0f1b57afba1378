"""HITL: people decide, on a real server of two workers: once, in any window, after a restart, wherever it goes on."""

from __future__ import annotations

import json
import os
import signal
import typing as t
from collections import Counter
from collections.abc import Iterator, Mapping

import gevent
import pytest
import yaml
from gevent import pywsgi

from tests.field.rig import until
from tests.support import sse
from tests.support.servers import NEGOTIATE, Studio, studio

SCRIPTS: dict[str, list[list[dict[str, t.Any]]]] = {
    "payer": [
        [
            {"text": "Let me see. "},
            {"tool_call": {"name": "look_up", "arguments": {"of": "bill"}, "id": "call_0"}},
        ],
        [
            {"text": "I will pay. "},
            {"tool_call": {"name": "pay", "arguments": {"sum": 5, "to": "Ada"}, "id": "call_1"}},
        ],
        [{"text": "Paid.", "chunk": "words"}],
    ],
    "part-1": [[{"text": "Part one.", "chunk": "words"}]],
    "part-2": [[{"text": "Part two.", "chunk": "words"}]],
    "half": [[{"text": "Half "}, {"text": "of it "}, {"stall": True}]],
}


class Desk:
    """Counts how often each tool was really called, with what."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, t.Any]] = []
        self._server = pywsgi.WSGIServer(("127.0.0.1", 0), self._answer, log=None)
        self._server.start()
        self.base = f"http://127.0.0.1:{self._server.server_port}"

    def _answer(self, environ: t.Any, start_response: t.Any) -> list[bytes]:
        body = json.loads(environ["wsgi.input"].read() or b"null")
        self.calls.append((environ["PATH_INFO"].strip("/"), body))
        start_response("200 OK", [("Content-Type", "application/json")])
        return [b'{"done":true}']

    def close(self) -> None:
        self._server.stop()

    def of(self, run_id: str) -> list[tuple[str, t.Any]]:
        """The calls of one run; each says which it is for."""
        return [(name, body["args"]) for name, body in self.calls if body["run"] == run_id]


def tool(desk: Desk, name: str, **more: t.Any) -> dict[str, t.Any]:
    url = f"{desk.base}/{name}"
    body = '{"run": "{{ vars.run }}", "args": {{ args | tojson }}}'
    return {
        "name": name,
        "description": f"Does {name}.",
        "parameters": {"type": "object"},
        "http": {"method": "POST", "url": url, "body": body},
        **more,
    }


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    folder = tmp_path_factory.mktemp("hitl")
    (folder / "scripts").mkdir()
    for name, turns in SCRIPTS.items():
        text = yaml.safe_dump({"turns": [{"steps": steps} for steps in turns]})
        (folder / "scripts" / f"{name}.yaml").write_text(text)
    environ = {
        "STUDIO_SCRIPTS_DIR": str(folder / "scripts"),
        "STUDIO_HTTP_ALLOW": "127.0.0.0/8",
        "STUDIO_WORKERS": "2",
        "STUDIO_GRACEFUL_S": "10",
    }
    with studio(folder / "data", environ) as made:
        assert made.key
        yield made


def payer(desk: Desk, name: str) -> dict[str, t.Any]:
    """An agent that looks something up and then pays, if it may. ``name`` tells its calls from others'."""
    agent = {
        "model": "scripted/payer",
        "prompt": "{{ input.message }}",
        "tools": [tool(desk, "look_up"), tool(desk, "pay", approval="always")],
    }
    return {
        "name": name,
        "blocks": [
            {"id": "start", "type": "start"},
            {"id": "agent_1", "type": "agent", "config": agent},
        ],
        "edges": [{"source": "start", "target": "agent_1"}],
        "variables": {"run": name},
    }


def ask(server: Studio, method: str, path: str, body: Mapping[str, t.Any] | None = None) -> tuple[int, t.Any]:
    """One exchange in JSON: status and body."""
    sent = None if body is None else json.dumps(body).encode()
    headers = {"X-API-Key": server.key, "Content-Type": "application/json"}
    status, _, answer = sse.request(server.port, method, path, sent, headers)
    return status, json.loads(answer) if answer else None


def resume(server: Studio, run: str, body: Mapping[str, t.Any]) -> sse.EventStream:
    return sse.post(server.port, f"/api/runs/{run}/resume", body, {"X-API-Key": server.key})


def told(stream: sse.EventStream) -> list[tuple[str | None, t.Any]]:
    """(id, data) of each frame, to the end."""
    assert stream.status == 200, stream.body()
    with stream:
        return [(frame.id, frame.json()) for frame in stream.events()]


def values(stream: sse.EventStream) -> list[t.Any]:
    return [value for _, value in told(stream)]


def started(server: Studio, workflow: str, **body: t.Any) -> tuple[str, list[tuple[str | None, t.Any]]]:
    """A streamed run until its stream ends: its id, and what was told."""
    stream = server.execute(
        workflow, {"stream": True, "input": "hi", "includeToolCalls": True, **body}, NEGOTIATE
    )
    return t.cast(str, stream.headers["X-Run-Id"]), told(stream)


def record(server: Studio, run: str) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", ask(server, "GET", f"/api/runs/{run}")[1])


def ended(server: Studio, run: str) -> dict[str, t.Any]:
    """The record once the run has ended."""
    until(lambda: "endedAt" in record(server, run), "the end of the run")
    return record(server, run)


def attach(server: Studio, run: str, last: str | None = None, query: str = "") -> sse.EventStream:
    headers = {"X-API-Key": server.key} | ({} if last is None else {"Last-Event-ID": last})
    return sse.get(server.port, f"/api/runs/{run}/events?includeToolCalls=true{query}", headers)


def test_hitl_03_two_tabs_and_a_double_click_are_one_continuation(server: Studio, desk: Desk) -> None:
    """Fifty answers at once, by both ways to answer: one is taken, 49 are told who was first, one thing is paid."""
    run, first = started(server, server.deploy(payer(desk, "tabs")))
    pause = first[-2][1]["data"]["resume"]["pauseId"]

    def answer(number: int) -> tuple[int, t.Any]:
        body = {"decision": "approve"} if number % 3 else {"decision": "edit", "arguments": {"sum": number}}
        if number % 2:
            with resume(server, run, {"pauseId": pause, **body}) as stream:
                data = stream.body()
                return stream.status, json.loads(data) if stream.status != 200 else sse.parse(data)
        return ask(server, "POST", f"/api/decisions/{pause}", body)

    jobs = [gevent.spawn(answer, number) for number in range(50)]
    gevent.joinall(jobs, timeout=30)
    answers = [job.value for job in jobs]
    assert Counter(status for status, _ in answers) == {200: 1, 409: 49}
    decision = ask(server, "GET", f"/api/decisions/{pause}")[1]
    for status, body in answers:
        if status == 409:
            assert body["error"]["code"] == "already_answered"
            said = {detail["path"]: detail["message"] for detail in body["error"]["details"]}
            assert (said["answeredBy"], said["answeredAt"]) == (
                decision["answeredBy"],
                decision["answeredAt"],
            )
    assert ended(server, run)["status"] == "completed"
    assert [name for name, _ in desk.of("tabs")] == ["look_up", "pay"]
    given = decision["answer"].get("arguments", {"sum": 5, "to": "Ada"})
    assert desk.of("tabs")[1][1] == given
    whole = values(attach(server, run))
    assert [value for value in whole if isinstance(value, dict) and value.get("event") == "error"] == []


def test_hitl_05_what_was_shown_stays_and_the_rest_is_live(server: Studio) -> None:
    document = {
        "name": "Two parts",
        "blocks": [
            {"id": "start", "type": "start"},
            {"id": "one", "type": "agent", "config": {"model": "scripted/part-1", "prompt": "1"}},
            {"id": "ask", "type": "approval", "config": {"prompt": "Go on?"}},
            {"id": "two", "type": "agent", "config": {"model": "scripted/part-2", "prompt": "2"}},
        ],
        "edges": [
            {"source": "start", "target": "one"},
            {"source": "one", "target": "ask"},
            {"source": "ask", "target": "two", "source_handle": "approved"},
        ],
    }
    workflow = server.deploy(document)
    wanted = ["one.content", "two.content"]
    run, first = started(server, workflow, selectedOutputs=wanted)
    chunks = [(v["blockId"], v["chunk"]) for _, v in first if "chunk" in v]
    assert "".join(text for _, text in chunks) == "Part one."
    rest = values(resume(server, run, {"decision": "approve"}))
    chunks = [(v["blockId"], v["chunk"]) for v in rest if "chunk" in v]
    assert {block for block, _ in chunks} == {"two"}
    assert len(chunks) > 1
    assert "".join(text for _, text in chunks) == "Part two."
    assert rest[-2]["data"]["output"] == {}  # all of it is with the client

    waiting = ask(server, "POST", f"/api/workflows/{workflow}/execute", {"selectedOutputs": wanted})[1]
    assert waiting["output"] == {"one": {"content": "Part one."}}
    _, body = ask(server, "POST", f"/api/runs/{waiting['runId']}/resume", {"decision": "approve"})
    assert body["output"] == {"one": {"content": "Part one."}, "two": {"content": "Part two."}}
    for each in (run, waiting["runId"]):
        blocks = {b["blockId"]: b.get("output", {}).get("content") for b in record(server, each)["blocks"]}
        assert (blocks["one"], blocks["two"]) == ("Part one.", "Part two.")


def test_hitl_09_a_message_to_a_thread_that_waits_starts_nothing(server: Studio, desk: Desk) -> None:
    workflow = server.deploy(payer(desk, "waits"))
    path = f"/api/workflows/{workflow}/runs"
    first = sse.post(server.port, path, {"message": "hi"}, {"X-API-Key": server.key})
    run = first.headers["X-Run-Id"]
    frames = values(first)
    pause = next(v["data"]["pause_id"] for v in frames if v["type"] == "workflow_paused")
    for _ in range(4):  # on either worker
        status, body = ask(server, "POST", path, {"message": "Well?", "thread_id": frames[0]["thread_id"]})
        assert (status, body["error"]["code"]) == (409, "thread_paused")
        assert {"path": "pause_id", "message": pause} in body["error"]["details"]
    runs = ask(server, "GET", f"/api/runs?workflowId={workflow}")[1]["items"]
    assert [(item["runId"], item["status"]) for item in runs] == [(run, "paused")]
    assert [name for name, _ in desk.of("waits")] == ["look_up"]


def test_a_run_that_still_moves_is_answered_on_any_worker(server: Studio) -> None:
    """One branch waits for a person, the other for its model: the answer is taken while the run goes on, by whichever
    worker it came to, and its answerer follows the run from there.
    """
    document = {
        "name": "Moves",
        "blocks": [
            *_half()["blocks"],
            {"id": "ask", "type": "approval", "config": {"prompt": "Well?", "draft": "A draft."}},
            {"id": "said", "type": "set", "config": {"values": {"text": "{{ blocks.ask.content }}"}}},
        ],
        "edges": [
            *_half()["edges"],
            {"source": "start", "target": "ask"},
            {"source": "ask", "target": "said", "source_handle": "approved"},
        ],
        "settings": {"on_disconnect": "continue"},
    }
    workflow = server.deploy(document)
    for _ in range(4):  # about half of the answers come to the other worker
        path = f"/api/workflows/{workflow}/runs"
        with sse.post(server.port, path, {"message": "hi"}, {"X-API-Key": server.key}) as stream:
            run = t.cast(str, stream.headers["X-Run-Id"])
            frames = (frame.json() for frame in stream.events())
            asked = next(value for value in frames if value["type"] == "decision_requested")
            with resume(server, run, {"decision": "edit", "text": "Better."}) as answer:
                rest = (frame.json() for frame in answer.events())
                first = next(rest)
                assert (first["type"], first["data"]["pause_id"]) == (
                    "decision_settled",
                    asked["data"]["pause_id"],
                )
                assert first["seq"] > asked["seq"]
                assert next(v for v in rest if v.get("data", {}).get("node_id") == "said")
            settled = next(value for value in frames if value["type"] == "decision_settled")
            assert settled == first
        assert ask(server, "POST", f"/api/runs/{run}/resume", {"decision": "approve"})[0] == 409
        assert ask(server, "POST", f"/api/runs/{run}/cancel")[0] == 202
        blocks = {b["blockId"]: b.get("output") for b in ended(server, run)["blocks"]}
        assert blocks["said"] == {"text": "Better."}


def approved_later(server: Studio, desk: Desk, name: str, run: str, pause: str) -> None:
    """A run that was paused before all workers went is approved: with the arguments that were shown, and what ran
    before does not run again.
    """
    _, shown = until(
        lambda: (found := ask(server, "GET", f"/api/decisions/{pause}"))[0] == 200 and found, "the decision"
    )
    assert (shown["status"], shown["review"]["arguments"]) == ("open", {"sum": 5, "to": "Ada"})
    rest = told(resume(server, run, {"pauseId": pause, "decision": "approve"}))
    assert "".join(value["chunk"] for _, value in rest if "chunk" in value) == "Paid."
    assert rest[-2][1]["data"]["status"] == "completed"
    assert desk.of(name) == [("look_up", {"of": "bill"}), ("pay", {"sum": 5, "to": "Ada"})]
    body = record(server, run)
    assert body["usage"]["humanWaitMs"] == body["humanWaitMs"] > 0
    assert body["activeMs"] <= body["usage"]["durationMs"] - body["humanWaitMs"]


def test_hitl_07_a_server_that_stops_loses_neither_what_waits_nor_what_runs(
    server: Studio, desk: Desk
) -> None:
    """Stopped while one run is paused and another is in the middle of its answer; the next server goes on with both."""
    paused, first = started(server, server.deploy(payer(desk, "restarted")))
    pause = first[-2][1]["data"]["resume"]["pauseId"]
    stream = server.execute(server.deploy({**_half(), "name": "Handed over"}), {"stream": True}, NEGOTIATE)
    frames = stream.events()
    seen = [next(frames), next(frames)]
    assert [frame.json()["chunk"] for frame in seen] == ["Half ", "of it "]
    assert server.stop() == 0
    assert [frame.json() for frame in frames] == [{"event": "detached", "retryMs": 1000}]
    run = t.cast(str, stream.headers["X-Run-Id"])
    stream.close()
    server.start()
    approved_later(server, desk, "restarted", paused, pause)
    with attach(server, run, seen[-1].id) as again:
        more = again.events()
        assert next(more).json() == {"blockId": "agent_1", "event": "chunk_reset", "reason": "resumed"}
        assert next(more).json() == {"blockId": "agent_1", "chunk": "Half "}
        assert ask(server, "POST", f"/api/runs/{run}/cancel")[0] == 202
        assert [frame.json() for frame in more][-1] == "[DONE]"
    assert record(server, run)["status"] == "cancelled"


def test_hitl_07_workers_that_are_killed_lose_nothing_that_was_stored(server: Studio, desk: Desk) -> None:
    """Kill -9 while one run is paused and another is in the middle of its answer: whatever its cursor, a reader of
    that one ends up with what stands.
    """
    paused, first = started(server, server.deploy(payer(desk, "killed")))
    pause = first[-2][1]["data"]["resume"]["pauseId"]
    stream = server.execute(server.deploy({**_half(), "name": "Crashes"}), {"stream": True}, NEGOTIATE)
    frames = stream.events()
    seen = [next(frames), next(frames)]
    run = t.cast(str, stream.headers["X-Run-Id"])
    before = server.workers()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    stream.close()
    until(lambda: len(after := server.workers()) == 2 and not set(after) & set(before), "new workers")
    approved_later(server, desk, "killed", paused, pause)
    for cursor in (None, seen[0].id, seen[1].id):
        with attach(server, run, cursor) as again:
            text, gaps = "", []
            for frame in again.events():
                value = frame.json()
                if value.get("event") in ("gap", "chunk_reset"):
                    text = ""
                    gaps += [value["reason"]] if value["event"] == "gap" else []
                text += value.get("chunk", "")
                if gaps and text == "Half of it ":
                    break
            assert gaps == ["worker_lost"]
    assert ask(server, "POST", f"/api/runs/{run}/cancel")[0] == 202
    assert ended(server, run)["status"] == "cancelled"


def _half() -> dict[str, t.Any]:
    return {
        "blocks": [
            {"id": "start", "type": "start"},
            {"id": "agent_1", "type": "agent", "config": {"model": "scripted/half", "prompt": "hi"}},
        ],
        "edges": [{"source": "start", "target": "agent_1"}],
        "settings": {"durable": True, "on_disconnect": "continue"},
    }

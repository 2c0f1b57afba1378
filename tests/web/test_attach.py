"""Attaching over HTTP: what is asked, who may ask, and what an ended run still tells."""

from __future__ import annotations

import typing as t

import pytest

from app.clock import SystemClock, time_of
from app.engine.retained import Retained
from tests.support import sse
from tests.web.conftest import TOOL, Studio, assert_error, document


@pytest.fixture
def tooling(studio: Studio) -> str:
    """The id of a run that has thought of nothing and called a tool."""
    workflow = studio.deploy(document("scripted/tooling", tools=[TOOL]))
    return t.cast(str, studio.execute(workflow).get_json()["runId"])


def attach(studio: Studio, run: str, query: str = "", key: str | None = "read", **headers: str) -> t.Any:
    sent = {} if key is None else {"X-API-Key": studio.keys.get(key, key)}
    return studio.client.get(f"/api/runs/{run}/events?{query}", headers={**sent, **headers})


def told(answer: t.Any) -> list[t.Any]:
    assert answer.status_code == 200, answer.get_data()
    return [frame.json() for frame in sse.parse(answer.get_data()) if frame.comment is None]


def forget(studio: Studio) -> None:
    """As after a restart: no log is kept."""
    studio.app.extensions["studio"].runs._retained = Retained(0, 0)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("protocol=smoke", "protocol"),
        ("protocol=", "protocol"),
        ("includeThinking=1", "includeThinking"),
        ("includeToolCalls=TRUE", "includeToolCalls"),
        ("events=full", "events"),
        ("protocol=runs&events=most", "events"),
        ("protocol=runs&includeToolCalls=true", "includeToolCalls"),
        ("protocol=agent-text&includeThinking=true", "includeThinking"),
        ("protocol=agent-text&after={run}:1", "after"),
        ("after=1", "after"),
        ("after=run_other:1", "after"),
        ("after={run}:1&after={run}:2", "after"),
        ("after={run}:9999", "after"),
        ("selectedOutputs=x", "selectedOutputs"),
    ],
)
def test_what_is_wrong_is_a_400_with_its_path(studio: Studio, tooling: str, query: str, path: str) -> None:
    answer = attach(studio, tooling, query.format(run=tooling))
    assert_error(answer, 400, "validation_failed", path=path)


def test_an_event_that_never_was_is_no_end(studio: Studio, tooling: str) -> None:
    """Whoever has a wrong id must not take it for all there is."""
    last = str([f.id for f in sse.parse(attach(studio, tooling).get_data())][-1])
    run, _, number = last.partition(":")
    for kept in (True, False):
        if not kept:
            forget(studio)
        assert attach(studio, tooling, **{"Last-Event-ID": last}).status_code == 204
        answer = attach(studio, tooling, **{"Last-Event-ID": f"{run}:{int(number) + 1}"})
        assert_error(answer, 400, "validation_failed", path="Last-Event-ID", says=number)


def test_everything_wrong_is_said_at_once(studio: Studio, tooling: str) -> None:
    error = assert_error(
        attach(studio, tooling, "protocol=x&includeThinking=y&z=1"), 400, "validation_failed"
    )
    assert {d["path"] for d in error["details"]} == {"protocol", "includeThinking", "z"}


@pytest.mark.parametrize("kept", [True, False])
def test_the_attachers_rights_decide(studio: Studio, tooling: str, kept: bool) -> None:
    """A key that reads everything, the key that started it; for others it does not exist."""
    if not kept:
        forget(studio)
    _, other = studio.store.keys.create("other", frozenset({"run"}))
    for key in ("read", "admin", "run"):
        assert told(attach(studio, tooling, key=key))[-1] == "[DONE]"
    texts = set()
    for run in (tooling, "run_unknown"):
        error = assert_error(attach(studio, run, key=other), 404, "not_found")
        texts.add(error["message"].replace(run, "ID"))
    assert len(texts) == 1
    assert_error(attach(studio, tooling, key=None), 401, "unauthorized")


def test_what_is_shown_is_the_attachers_own_choice(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/thinker"))
    run = studio.execute(workflow, {"stream": True}).headers["X-Run-Id"]
    events = [frame.get("event") for frame in told(attach(studio, run))[:-1]]
    assert events == [None, "final"]
    shown = told(attach(studio, run, "includeThinking=true"))
    assert "".join(f["data"] for f in shown[:-1] if f.get("event") == "thinking") == "Hm, let me see."


def test_tools_are_shown_when_asked_for(studio: Studio, tooling: str) -> None:
    events = [f.get("event") for f in told(attach(studio, tooling, "includeToolCalls=true"))[:-1]]
    assert events.count("tool") == 2
    assert "tool" not in [f.get("event") for f in told(attach(studio, tooling))[:-1]]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("level", ["full", "messages", "minimal"])
def test_a_run_is_followed_on_another_surface_than_it_began_on(
    studio: Studio, tooling: str, kept: bool, level: str
) -> None:
    """It is in no thread, which is an empty name there."""
    if not kept:
        forget(studio)
    frames = told(attach(studio, tooling, f"protocol=runs&events={level}"))
    assert frames[0]["type"] == "thread"
    assert {frame["thread_id"] for frame in frames} == {""}
    assert [f["data"]["content"] for f in frames if f["type"] == "agent_message"] == ["It is settled."]
    assert frames[-1]["type"] == "done"
    assert frames[-1]["data"]["status"] == "completed"
    assert ("gap" in {frame["type"] for frame in frames}) is not kept
    if kept and level != "minimal":
        (used,) = [f["tool_input"] for f in frames if f["type"] == "tool_use"]
        assert used == {"q": "private question"}


def test_selections_of_the_starter_hold_for_those_who_attach(studio: Studio, tooling: str) -> None:
    workflow = studio.deploy(document("scripted/plain"))
    body = {"stream": True, "selectedOutputs": ["agent_1.model"]}
    headers = {"X-Studio-Stream-Protocol": "agent-events-v1"}
    begun = studio.execute(workflow, body, headers=headers)
    assert attach(studio, begun.headers["X-Run-Id"]).get_data() == begun.get_data()


def test_the_headers_are_those_of_every_stream(studio: Studio, tooling: str) -> None:
    answer = attach(studio, tooling)
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache, no-transform"
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert answer.headers["X-Run-Id"] == tooling
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    answer.get_data()


def test_the_header_is_newer_than_the_parameter(studio: Studio, tooling: str) -> None:
    """An EventSource repeats its address, with ``after`` as it was at first."""
    ids = [f.id for f in sse.parse(attach(studio, tooling).get_data())]
    last = str(ids[-1])
    answer = attach(studio, tooling, f"after={ids[0]}", **{"Last-Event-ID": last})
    assert (answer.status_code, answer.get_data()) == (204, b"")
    assert "Content-Type" not in answer.headers


def test_old_clients_get_settled_text_and_no_ids(studio: Studio, tooling: str) -> None:
    for kept in (True, False):
        if not kept:
            forget(studio)
        frames = sse.parse(attach(studio, tooling, "protocol=agent-text").get_data())
        assert {frame.id for frame in frames} == {None}
        values = [frame.json() for frame in frames]
        assert values[0] == {"blockId": "agent_1", "chunk": "It is settled."}
        assert [v["event"] for v in values[1:-1]] == ["final"]


def test_a_failed_block_that_was_caught_is_told_from_the_record(studio: Studio) -> None:
    """``success`` is false with its reason, as it was live."""
    failing = document("scripted/broken", retries=0)
    failing["blocks"].append({"id": "sorry", "type": "set", "config": {"values": {"text": "Sorry."}}})
    failing["edges"].append({"source": "agent_1", "source_handle": "error", "target": "sorry"})
    begun = studio.execute(studio.deploy(failing), {"stream": True})
    live = [f.json() for f in sse.parse(begun.get_data()) if f.comment is None]
    assert live[-2]["data"]["success"] is False
    forget(studio)
    late = told(attach(studio, begun.headers["X-Run-Id"], "protocol=agent-text"))
    assert late[-2:] == live[-2:]


def test_a_head_request_reads_nothing(studio: Studio, tooling: str) -> None:
    answer = studio.client.head(f"/api/runs/{tooling}/events", headers={"X-API-Key": studio.keys["read"]})
    assert (answer.status_code, answer.get_data()) == (200, b"")


def test_ids_tell_their_time() -> None:
    clock = SystemClock()
    before = clock.now_ms()
    assert before <= time_of(clock.new_id("run")) <= clock.now_ms()
    for other in ("", "run_1", "nobody", "run_" + "é" * 26):
        assert time_of(other) == 0

"""Personal data and stored secrets on every surface: they are in no answer, no row and no line of the log."""

from __future__ import annotations

import json
import sqlite3
import typing as t
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.redaction.samples import SAMPLES
from tests.support.graphs import graph
from tests.support.servers import NEGOTIATE
from tests.web.conftest import Studio

SECRET = "sk-test-ABCDEF123456"
#: What must not be seen, and what would be found of it if it were cut apart by nothing but frames.
DATA = [*(samples[0] for samples in SAMPLES.values()), SECRET]
ALL = " / ".join(DATA)
#: Tables that hold workflows as they were written, and secrets sealed.
DOCUMENTS = {"workflows", "workflow_versions", "versions"}
TOOL = {
    "name": "look",
    "description": "Looks.",
    "parameters": {"type": "object"},
    "result": {ALL: [ALL, {"a": ALL}]},
}
LEVELS = ("full", "messages", "minimal")


def pieces(text: str, **more: t.Any) -> dict[str, t.Any]:
    """Said in pieces that cut every value somewhere."""
    return {"text": text, "chunk": 3, **more}


SCRIPTS: dict[str, t.Any] = {
    "calls": {
        "turns": [
            {
                "steps": [
                    {"thinking": f"Think: {ALL}", "chunk": 5},
                    pieces(f"Look: {ALL}"),
                    {"tool_call": {"name": "look", "arguments": {"who": ALL, ALL: 1}}},
                    {"tool_call": {"name": f"no {DATA[0]}", "arguments": {}}},
                ]
            },
            {"steps": [{"thinking": f"More: {ALL}", "chunk": 4}, pieces(f"It is {ALL}, {{{{message}}}}.")]},
        ]
    },
    "fails": {
        "turns": [
            {"steps": [pieces(f"Half {ALL}"), {"error": {"code": "provider_overloaded", "message": ALL}}]}
        ]
    },
    "votes": {"turns": [{"steps": [pieces("yes")]}]},
    "silent": {"turns": [{"steps": [pieces(f"So {ALL}"), {"stall": True}]}]},
    "routes": {"turns": [{"steps": [{"text": f'{{"route": "on", "reason": "since {ALL}"}}'}]}]},
}


@pytest.fixture
def rigged(studio: Studio, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Studio:
    for name, says in SCRIPTS.items():
        (tmp_path / "scripts" / f"pii-{name}.yaml").write_text(yaml.safe_dump(says))
    studio.store.secrets.set("TOKEN", SECRET)
    caplog.set_level("DEBUG")
    return studio


def flow(redact: t.Any, first: str = "calls") -> dict[str, t.Any]:
    """An agent with memory, what follows it, agents together, and what fails."""
    people = [{"model": "scripted/pii-calls", "tools": [TOOL], "name": f"P{n}"} for n in range(2)]
    made = graph(
        [
            (
                "agent_1",
                "agent",
                {"model": f"scripted/pii-{first}", "tools": [TOOL], "memory": "conversation", "retries": 0},
            ),
            ("again", "loop", {"kind": "for", "times": 2}),
            ("inner", "agent", {"model": "scripted/pii-calls", "tools": [TOOL]}),
            ("talk", "debate", {"participants": people, "rounds": 1}),
            ("row", "sequential", {"agents": people}),
            ("vote", "vote", {"voters": [{"model": "scripted/pii-votes"}], "options": ["yes", DATA[0]]}),
            (
                "way",
                "router",
                {
                    "mode": "model",
                    "model": "scripted/pii-routes",
                    "routes": [{"name": "on", "description": "x"}],
                },
            ),
            (
                "kept",
                "set",
                {
                    "values": {
                        "asked": "{{ input.message }}",
                        "said": "{{ blocks.agent_1.content }}",
                        ALL: ALL,
                    }
                },
            ),
            ("caught", "set", {"values": {"why": "{{ blocks.agent_1 }} {{ input }}"}}),
        ],
        "start > agent_1",
        "agent_1 -error> caught",
        "agent_1 > again",
        "again -loop> inner",
        "inner > again",
        "again -exit> talk",
        "talk > row",
        "row > vote",
        "vote > way",
        "way -route:on> kept",
    )
    return {**made, "settings": {"timeout_s": 30, **({} if redact is None else {"redact": redact})}}


def asked(studio: Studio, workflow: str) -> list[str]:
    """What every surface says of runs of it, and then of those runs to each kind of reader."""
    found: list[str] = []
    runs: dict[str, None] = {}
    shown = {"includeThinking": True, "includeToolCalls": True}
    given = {"input": {"message": f"I am {ALL}", ALL: [ALL]}, "conversationId": f"of {DATA[0]}"}
    for body, headers in (
        ({}, {}),
        ({"selectedOutputs": ["agent_1", "talk", "kept.said"]}, {}),
        ({"stream": True}, {}),
        ({"stream": True, **shown}, NEGOTIATE),
        (
            {"stream": True, "selectedOutputs": ["agent_1.content", "row", "inner.content"], **shown},
            NEGOTIATE,
        ),
    ):
        answer = studio.execute(workflow, {**given, **body}, headers=headers)
        assert answer.status_code == 200, answer.get_data()
        found.append(f"{answer.headers}\n{answer.get_data(as_text=True)}")
        runs[answer.headers["X-Run-Id"]] = None
    for level in LEVELS:
        answer = post(
            studio,
            f"/api/workflows/{workflow}/runs",
            {"input": given["input"], "events": level, "includeThinking": True},
        )
        found.append(f"{answer.headers}\n{answer.get_data(as_text=True)}")
        runs[answer.headers["X-Run-Id"]] = None
    for accept in ("text/event-stream", "application/json"):
        body = {"messages": [{"role": "user", "content": f"I am {ALL}"}], "workflow": workflow}
        answer = post(studio, "/chat", body, {"Accept": accept})
        found.append(f"{answer.headers}\n{answer.get_data(as_text=True)}")
        runs[answer.headers["X-Run-Id"]] = None
    answer = post(studio, f"/api/workflows/{workflow}/draft/run", {"input": given["input"]}, key="admin")
    found.append(answer.get_data(as_text=True))
    runs[answer.headers["X-Run-Id"]] = None
    for run_id in runs:
        found += read(studio, run_id)
    found += [studio.get(path, "admin").get_data(as_text=True) for path in ("/api/runs", "/api/threads")]
    return found


def post(studio: Studio, path: str, body: t.Any, headers: t.Any = (), key: str = "run") -> t.Any:
    sent = {"X-API-Key": studio.keys[key], **dict(headers)}
    answer = studio.client.post(path, json=body, headers=sent)
    assert answer.status_code == 200, (path, answer.get_data())
    return answer


def read(studio: Studio, run_id: str) -> list[str]:
    """What is told afterwards of a run."""
    record = studio.get(f"/api/runs/{run_id}", "admin")
    found = [record.get_data(as_text=True)]
    thread = record.get_json().get("threadId")
    if thread:
        found += [
            studio.get(f"/api/threads/{thread}{more}", "admin").get_data(as_text=True)
            for more in ("", "/memory")
        ]
    for query in (
        "protocol=agent-events-v1&includeThinking=true&includeToolCalls=true",
        "protocol=agent-text",
        "protocol=builder",
        "protocol=graph",
        *(f"protocol=runs&events={level}&includeThinking=true" for level in LEVELS),
    ):
        answer = studio.get(f"/api/runs/{run_id}/events?{query}", "admin")
        assert answer.status_code in (200, 204), (query, answer.get_data())
        found.append(answer.get_data(as_text=True))
    return found


def stored(studio: Studio) -> str:
    """Every row of every table, but for the workflows as they were written."""
    path = studio.app.extensions["studio"].settings.data_dir / "studio.db"
    with closing(sqlite3.connect(path)) as connection:
        names = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        rows = [
            f"{name}: {row!r}"
            for name in names
            if name not in DOCUMENTS
            for row in connection.execute(f'select * from "{name}"')
        ]
    return "\n".join(rows)


def seen(texts: Sequence[str], data: Sequence[str] = DATA) -> list[str]:
    """What of the data is in any of the texts, also cut over frames."""
    whole = "\n".join([*texts, *(joined(text) for text in texts)]).replace("\\/", "/")
    return [value for value in data if value in whole]


def joined(text: str) -> str:
    """What a reader of a stream gets who puts the pieces together, whatever stands between them."""
    said: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("data: {"):
            _collect(json.loads(line.removeprefix("data: ")), said)
    return "\n".join("".join(pieces) for pieces in said.values())


def _collect(frame: t.Any, said: dict[str, list[str]]) -> None:
    for name, value in frame.items() if isinstance(frame, dict) else ():
        if name in ("chunk", "data", "content", "text") and isinstance(value, str):
            said.setdefault(name, []).append(value)
        else:
            _collect(value, said)


def test_pieces_are_put_together() -> None:
    frames = 'data: {"blockId":"a","chunk":"4111 11"}\n\ndata: {"blockId":"a","chunk":"11 1111 1111"}\n'
    assert seen([frames], ["4111 1111 1111 1111"])


@pytest.mark.parametrize("first", ["calls", "fails"])
@pytest.mark.parametrize("mode", ["live", "strict"])
def test_nothing_of_it_is_told_or_kept(
    rigged: Studio, caplog: pytest.LogCaptureFixture, mode: str, first: str
) -> None:
    found = asked(rigged, rigged.deploy(flow({"mode": mode}, first)))
    assert seen(found) == []
    assert seen([stored(rigged)]) == []
    assert seen([caplog.text]) == []
    assert sum("[email]" in each for each in found) > 20


def test_the_same_search_finds_what_is_not_redacted(rigged: Studio) -> None:
    """Else it would find nothing wherever it looked. Secrets are masked all the same."""
    found = asked(rigged, rigged.deploy(flow(None)))
    assert set(DATA) - set(seen(found)) == {SECRET}
    assert SECRET not in stored(rigged)
    assert "***" in found[0]


def test_a_stop_tells_nothing(rigged: Studio, caplog: pytest.LogCaptureFixture) -> None:
    for mode in ("live", "strict"):
        workflow = rigged.deploy(flow({"mode": mode}, "silent"))
        answer = post(rigged, f"/api/workflows/{workflow}/runs", {"message": ALL, "includeThinking": True})
        run_id = answer.headers["X-Run-Id"]
        post_stop = rigged.client.post(
            f"/api/runs/{run_id}/cancel", json={}, headers={"X-API-Key": rigged.keys["run"]}
        )
        assert post_stop.status_code == 202
        told = answer.get_data(as_text=True)
        assert "workflow_stopped" in told
        assert seen([told, *read(rigged, run_id), stored(rigged), caplog.text]) == []


def test_a_conversation_goes_on_under_its_name(rigged: Studio) -> None:
    """Also where the name itself is masked; and others stay others."""
    workflow = rigged.deploy(flow({"mode": "live"}))
    threads = []
    for name in ("jane@example.com", "jane@example.com", "joe@example.com"):
        answer = rigged.execute(workflow, {"input": "hi", "conversationId": name})
        assert answer.status_code == 200
        threads.append(rigged.get(f"/api/runs/{answer.headers['X-Run-Id']}", "admin").get_json()["threadId"])
    assert threads[0] == threads[1] != threads[2]

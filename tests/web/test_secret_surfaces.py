"""A secret ballot on every surface: nothing of a voter is in any answer, any row or any line of the log."""

from __future__ import annotations

import json
import sqlite3
import typing as t
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.support.graphs import graph, script
from tests.support.servers import NEGOTIATE
from tests.web.conftest import Studio

MARK = "mark-of-voter"
TOOL = {"name": f"{MARK}-tool", "description": MARK, "parameters": {"type": "object"}, "result": MARK}
CALLS = {
    "turns": [
        {
            "steps": [
                {"thinking": f"{MARK} thinks"},
                {"text": f"{MARK} looks"},
                {"tool_call": {"name": f"{MARK}-tool", "arguments": {"who": MARK}, "id": f"{MARK}-call"}},
            ]
        },
        {"steps": [{"text": "yes"}, {"usage": {"input": 70, "output": 1}}]},
    ]
}
FAILS = {
    "turns": [{"steps": [{"thinking": MARK}, {"error": {"code": "provider_overloaded", "message": MARK}}]}]
}
SCRIPTS: dict[str, t.Any] = {
    f"{MARK}-calls": CALLS,
    f"{MARK}-fails": FAILS,
    f"{MARK}-plain": f"{MARK} says\nno",
    f"{MARK}-chats": f"{MARK} is not sure",
    f"{MARK}-silent": {"turns": [{"steps": [{"thinking": MARK}, {"text": MARK}, {"stall": True}]}]},
}
#: Tables that hold the workflow as it was written, voters and all.
DOCUMENTS = {"workflows", "workflow_versions", "versions"}
PATHS = ("content", "winner", "votes", "has_majority", "abstained", "tied", "quorum_met", "tokens", "cost")
LEVELS = ("full", "messages", "minimal")


def voter(script_name: str, number: int, **more: t.Any) -> dict[str, t.Any]:
    return {
        "model": f"scripted/{MARK}-{script_name}",
        "name": f"{MARK} {number}",
        "system": f"{MARK} system",
        "prompt": f"{MARK} {{{{ question }}}}",
        "tools": [TOOL],
        "retries": 0,
        **more,
    }


#: How a vote may go, by name.
VOTES: dict[str, dict[str, t.Any]] = {
    "held": {
        "voters": [
            voter("calls", 1),
            voter("fails", 2, fallbacks=[f"scripted/{MARK}-plain"]),
            voter("chats", 3),
            voter("fails", 4, retries=1, fallbacks=[f"scripted/{MARK}-calls"]),
        ]
    },
    "without its quorum": {"voters": [voter("chats", 1), voter("calls", 2)], "quorum": 2},
    "failed": {"voters": [voter("calls", 1), voter("fails", 2)]},
    "tried again": {"voters": [voter("calls", 1), voter("fails", 2)], "retries": 1},
    "out of time": {"voters": [voter("calls", 1), voter("silent", 2)], "timeout_s": 0.1},
    "at fault": {"voters": [voter("calls", 1), voter("plain", 2, prompt="{{ question.x.y }}")]},
}


@pytest.fixture
def marked(studio: Studio, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Studio:
    for name, says in SCRIPTS.items():
        (tmp_path / "scripts" / f"{name}.yaml").write_text(yaml.safe_dump(script(says)))
    caplog.set_level("DEBUG")
    return studio


def deploy(studio: Studio, secret: bool, **vote: t.Any) -> str:
    """The vote, and what follows it whichever way it goes."""
    config = {"options": ["yes", "no"], "secret": secret, **vote}
    flow = graph(
        [
            ("ballot", "vote", config),
            ("caught", "set", {"values": {"why": "{{ blocks.ballot }}"}}),
            ("told", "agent", {"model": "scripted/echo", "prompt": "{{ blocks.ballot }}"}),
        ],
        "start > ballot",
        "ballot -error> caught",
        "ballot > told",
    )
    return studio.deploy({**flow, "settings": {"timeout_s": 20}})


def answers(studio: Studio, workflow: str) -> list[str]:
    """What every surface says of runs of it, and then of those runs to each kind of reader."""
    found: list[str] = []
    runs: dict[str, None] = {}
    shown = {"includeThinking": True, "includeToolCalls": True}
    paths = [f"ballot.{path}" for path in PATHS]
    for body, headers in (
        ({}, {}),
        ({"selectedOutputs": paths}, {}),
        ({"selectedOutputs": ["ballot", "told"]}, {}),
        ({"stream": True}, {}),
        ({"stream": True, "selectedOutputs": paths}, {}),
        ({"stream": True, **shown}, NEGOTIATE),
        ({"stream": True, "selectedOutputs": ["ballot", *paths], **shown}, NEGOTIATE),
    ):
        answer = studio.execute(workflow, {"input": "Which?", **body}, headers=headers)
        assert answer.status_code == 200, answer.get_data()
        found.append(f"{answer.headers}\n{answer.get_data(as_text=True)}")
        runs[answer.headers["X-Run-Id"]] = None
    for level in LEVELS:
        answer = studio.client.post(
            f"/api/workflows/{workflow}/runs",
            json={"message": "Which?", "events": level, "includeThinking": True},
            headers={"X-API-Key": studio.keys["run"]},
        )
        assert answer.status_code == 200, answer.get_data()
        found.append(f"{answer.headers}\n{answer.get_data(as_text=True)}")
        runs[answer.headers["X-Run-Id"]] = None
    for run_id in runs:
        for key in ("run", "read", "admin"):
            found += read(studio, run_id, key)
    found.append(studio.get("/api/runs", "admin").get_data(as_text=True))
    return found


def read(studio: Studio, run_id: str, key: str) -> list[str]:
    """What is told afterwards of a run."""
    record = studio.get(f"/api/runs/{run_id}", key)
    found = [record.get_data(as_text=True)]
    thread = record.get_json().get("threadId")
    if thread:
        found += [
            studio.get(f"/api/threads/{thread}", key).get_data(as_text=True),
            studio.get(f"/api/threads/{thread}/memory", key).get_data(as_text=True),
        ]
    for query in (
        "protocol=agent-events-v1&includeThinking=true&includeToolCalls=true",
        "protocol=agent-text",
        *(f"protocol=runs&events={level}&includeThinking=true" for level in LEVELS),
    ):
        answer = studio.get(f"/api/runs/{run_id}/events?{query}", key)
        assert answer.status_code in (200, 204), (query, answer.get_data())
        found.append(answer.get_data(as_text=True))
    return found


def stored(studio: Studio) -> str:
    """Every row of every table, but for the workflows as they were written."""
    path = studio.app.extensions["studio"].settings.data_dir / "studio.db"
    with closing(sqlite3.connect(path)) as connection:
        names = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        assert {"runs", "run_blocks"} & set(names), names
        rows = [
            f"{name}: {row!r}"
            for name in names
            if name not in DOCUMENTS
            for row in connection.execute(f'select * from "{name}"')
        ]
    return "\n".join(rows)


@pytest.mark.parametrize("how", VOTES)
def test_nothing_of_a_voter_is_told(marked: Studio, caplog: pytest.LogCaptureFixture, how: str) -> None:
    workflow = deploy(marked, True, **VOTES[how])
    found = answers(marked, workflow)
    assert MARK not in "\n".join(found)
    assert MARK not in stored(marked)
    assert MARK not in caplog.text
    if how == "held":
        assert '"votes":{"yes":2,"no":1}' in found[1]


def test_the_same_search_finds_the_voters_of_an_open_vote(
    marked: Studio, caplog: pytest.LogCaptureFixture
) -> None:
    """Else it would find nothing wherever it looked."""
    found = answers(marked, deploy(marked, False, **VOTES["held"]))
    assert all(MARK in each for each in found if "vote_cast" in each)
    assert MARK in found[0]
    assert MARK in found[-1], "by model, in the list of runs"
    assert MARK in stored(marked)
    assert MARK in caplog.text


def test_a_stop_in_the_middle_tells_nothing(marked: Studio, caplog: pytest.LogCaptureFixture) -> None:
    workflow = deploy(marked, True, voters=[voter("calls", 1), voter("silent", 2)])
    answer = marked.client.post(
        f"/api/workflows/{workflow}/runs",
        json={"message": "Which?", "includeThinking": True},
        headers={"X-API-Key": marked.keys["run"]},
    )
    run_id = answer.headers["X-Run-Id"]
    while_held = "\n".join(
        marked.get(f"/api/runs/{run_id}", "admin").get_data(as_text=True) for _ in range(3)
    )
    marked.client.post(f"/api/runs/{run_id}/cancel", json={}, headers={"X-API-Key": marked.keys["run"]})
    told = answer.get_data(as_text=True)
    assert "workflow_stopped" in told
    assert "vote_cast" not in told
    found = [while_held, told, *read(marked, run_id, "admin")]
    assert MARK not in "\n".join(found)
    assert MARK not in stored(marked)
    assert MARK not in caplog.text
    record = json.loads(found[2])
    assert record["partialText"] == {}
    assert record["toolCalls"].get("ballot") is None
    assert "modelFailures" not in record

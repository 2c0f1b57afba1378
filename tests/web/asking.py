"""Workflows that ask people, and what to answer them with, for the tests of the web surfaces."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

import gevent

from tests.support import sse
from tests.web.conftest import TOOL, Studio, document

ARGUMENTS = {"q": "private question"}


def call(**agent: t.Any) -> dict[str, t.Any]:
    """An agent whose one call needs approval (script ``tooling``)."""
    return document("scripted/tooling", tools=[{**TOOL, "approval": "always"}], **agent)


def draft(deadline_s: float | None = None, **more: t.Any) -> dict[str, t.Any]:
    """An agent whose text a person releases."""
    config: dict[str, t.Any] = {"prompt": "Fit to send?", "reasons": ["It is the first one."], **more}
    if deadline_s is not None:
        config["deadline_s"] = deadline_s
    return {
        "name": "Draft",
        "blocks": [
            {"id": "start", "type": "start"},
            {"id": "agent_1", "type": "agent", "config": {"model": "scripted/plain", "prompt": "Hi"}},
            {"id": "ask", "type": "approval", "name": "Ask", "config": config},
            {
                "id": "said",
                "type": "set",
                "config": {"values": {"text": "{{ blocks.ask.content }}"}},
            },
            {"id": "not_said", "type": "set", "config": {"values": {"text": "Kept back."}}},
        ],
        "edges": [
            {"source": "start", "target": "agent_1"},
            {"source": "agent_1", "target": "ask"},
            {"source": "ask", "target": "said", "source_handle": "approved"},
            {"source": "ask", "target": "not_said", "source_handle": "rejected"},
        ],
    }


def both() -> dict[str, t.Any]:
    """Two branches that ask at the same time."""
    made = document("scripted/plain")
    made["blocks"] = [{"id": "start", "type": "start"}]
    made["edges"] = []
    for name in ("one", "two"):
        made["blocks"] += [
            {
                "id": name,
                "type": "approval",
                "config": {"prompt": f"May {name} go on?", "draft": f"Text of {name}."},
            },
            {
                "id": f"{name}_said",
                "type": "set",
                "config": {"values": {"text": f"{{{{ blocks.{name}.content }}}}"}},
            },
        ]
        made["edges"] += [
            {"source": "start", "target": name},
            {"source": name, "target": f"{name}_said", "source_handle": "approved"},
        ]
    return made


def send(studio: Studio, path: str, body: t.Any = None, key: str | None = "run", **headers: str) -> t.Any:
    """POST with a key of that scope; the whole answer."""
    sent = {} if key is None else {"X-API-Key": studio.keys.get(key, key)}
    return studio.client.post(path, json={} if body is None else body, headers={**sent, **headers})


def resume(studio: Studio, run: str, body: Mapping[str, t.Any], key: str | None = "run") -> t.Any:
    """Answer what a run asks."""
    return send(studio, f"/api/runs/{run}/resume", body, key)


def frames(answer: t.Any) -> list[sse.Frame]:
    """The frames of a stream, comments left out."""
    assert answer.status_code == 200, answer.get_data()
    return [frame for frame in sse.parse(answer.get_data()) if frame.comment is None]


def values(answer: t.Any) -> list[t.Any]:
    """Their data."""
    return [frame.json() for frame in frames(answer)]


def paused(
    studio: Studio, workflow: str, body: Mapping[str, t.Any] | None = None, key: str | None = "run"
) -> str:
    """Run a workflow, waiting, until it asks; the run's id."""
    answer = studio.execute(workflow, {"input": "hi", **(body or {})}, key=key).get_json()
    assert answer["status"] == "paused", answer
    return t.cast(str, answer["runId"])


def open_of(studio: Studio, run: str) -> list[dict[str, t.Any]]:
    """The open decisions of a run, oldest first."""
    found = studio.get(f"/api/decisions?runId={run}&status=open").get_json()["items"]
    return t.cast("list[dict[str, t.Any]]", found[::-1])


def until(studio: Studio, run: str, status: str) -> dict[str, t.Any]:
    """The record of a run once it has this status."""
    with gevent.Timeout(10):
        while (body := studio.get(f"/api/runs/{run}").get_json())["status"] != status:
            gevent.sleep(0.01)
    return t.cast("dict[str, t.Any]", body)

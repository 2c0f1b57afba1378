"""A recording's workflow on a real server, and what came of one run of it."""

from __future__ import annotations

import json
import typing as t

from app import config
from app.store import Store
from tests.recordings.cases import played, workflow
from tests.support import sse
from tests.support.servers import NEGOTIATE, Studio
from tests.support.sse import Frame


class Rig:
    """A running server and its store, written beside it as the CLI does."""

    def __init__(self, server: Studio) -> None:
        self.server = server
        self.store = Store(config.load(server.env()))
        self.store.open()

    def put(self, name: str) -> str:
        """The recording's workflow, deployed; returns its id."""
        workflow_id = "rec-" + name.replace("/", "-").replace(".", "-")
        self.store.workflows.save(workflow([name], played(name).model), "recorded", workflow_id=workflow_id)
        self.store.workflows.deploy(workflow_id)
        return workflow_id

    def record(self, run_id: str) -> dict[str, t.Any]:
        """The stored run."""
        status, _, body = sse.request(
            self.server.port, "GET", f"/api/runs/{run_id}", headers={"X-API-Key": self.server.key}
        )
        assert status == 200
        return t.cast(dict[str, t.Any], json.loads(body))


class Seen:
    """The frames of one run, taken apart."""

    def __init__(self, run_id: str, frames: list[Frame]) -> None:
        self.run_id = run_id
        values = [frame.json() for frame in frames]
        assert values[-1] == "[DONE]"
        self.end = values[-2]
        boundary = next(
            (n for n, value in enumerate(values) if _is_boundary(value)),
            len(values),
        )
        turn = values[:boundary]
        self.text = "".join(v["chunk"] for v in turn if "chunk" in v)
        self.thinking = "".join(v["data"] for v in turn if v.get("event") == "thinking")
        self.starts = [v["name"] for v in turn if v.get("phase") == "start"]
        self.others = [v for v in turn if "chunk" not in v and v["event"] not in ("thinking", "tool")]
        self.ends = [v for v in values[:-1] if v.get("phase") == "end"]
        self.ids = [v["id"] for v in values[:-1] if v.get("phase") == "start"]


def _is_boundary(value: t.Any) -> bool:
    if not isinstance(value, dict) or "chunk" in value:
        return False
    return value["event"] in ("chunk_reset", "final", "error") or value.get("phase") == "end"


def run(server: Studio, workflow_id: str) -> Seen:
    """One run that shows everything."""
    body = {"input": "Hi", "stream": True, "includeThinking": True, "includeToolCalls": True}
    with server.execute(workflow_id, body, NEGOTIATE) as stream:
        assert stream.status == 200
        return Seen(stream.headers["X-Run-Id"], list(stream.events()))

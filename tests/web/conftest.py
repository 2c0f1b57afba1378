"""An application of one's own for every test: its store in a temporary folder, its models scripted."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from flask import Flask, Response, g, request
from flask.testing import FlaskClient

from app import config, create_app
from app.store import Store
from app.web import passwords
from tests.support import databases, sse

SCRIPTS = {
    "plain": [{"text": "Hello there.", "chunk": "words"}, {"usage": {"input": 3, "output": 2}}],
    "thinker": [{"thinking": "Hm, let me see."}, {"text": "Done."}],
    "silent": [{"stall": True}],
    "caller": [{"text": "Once more."}, {"tool_call": {"name": "nonesuch", "arguments": {}}}],
    "broken": [{"text": "Half "}, {"error": {"code": "provider_overloaded", "message": "Too busy."}}],
}
TOOLING = {
    "turns": [
        {
            "steps": [
                {"text": "Let me look. "},
                {"tool_call": {"name": "secretive", "arguments": {"q": "private question"}, "id": "call_1"}},
            ]
        },
        {"steps": [{"text": "It is settled."}]},
    ]
}
TOOL = {
    "name": "secretive",
    "description": "Looks something up.",
    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    "result": {"found": "private answer"},
}
QUICK_HASH = "scrypt:1024:8:1"


def document(model: str, *, settings: Mapping[str, t.Any] | None = None, **agent: t.Any) -> dict[str, t.Any]:
    """A start block and one agent."""
    return {
        "name": "One agent",
        "blocks": [
            {"id": "start", "type": "start"},
            {
                "id": "agent_1",
                "type": "agent",
                "name": "Agent 1",
                "config": {"model": model, "prompt": "{{ input.message }}", **agent},
            },
        ],
        "edges": [{"source": "start", "target": "agent_1"}],
        "settings": dict(settings or {}),
    }


@dataclass
class Studio:
    """The application under test, with keys of each scope."""

    app: Flask
    client: FlaskClient
    store: Store
    keys: dict[str, str]

    def deploy(self, document: Mapping[str, t.Any], workflow_id: str | None = None) -> str:
        """Store a document and make it live, unchecked: what is stored may be out of date."""
        saved = self.store.workflows.save(dict(document), document["name"], workflow_id)
        self.store.workflows.deploy(saved)
        return saved

    def execute(
        self,
        workflow: str,
        body: t.Any = None,
        key: str | None = "run",
        headers: Mapping[str, str] | None = None,
    ) -> t.Any:
        """POST an execute request; the whole answer."""
        sent = dict(headers or {})
        if key is not None:
            sent["X-API-Key"] = self.keys.get(key, key)
        return self.client.post(
            f"/api/workflows/{workflow}/execute", json={} if body is None else body, headers=sent
        )

    def stream(self, workflow: str, body: Mapping[str, t.Any], **more: t.Any) -> list[t.Any]:
        """A streamed run to its end: the data of every frame, comments left out."""
        answer = self.execute(workflow, {"stream": True, **body}, **more)
        assert answer.status_code == 200, answer.get_data()
        return [frame.json() for frame in sse.parse(answer.get_data()) if frame.comment is None]

    def get(self, path: str, key: str | None = "read") -> t.Any:
        """GET with a key of that scope."""
        return self.client.get(path, headers={} if key is None else {"X-API-Key": self.keys.get(key, key)})


#: What an ``admin`` key does without changing anything that is kept.
NO_CHANGES = frozenset({"/api/workflows/<workflow_id>/draft/run"})


def _recorded(response: Response) -> Response:
    """Every change leaves a row in the audit log, or says that it was none; held to in every test of a route."""
    row = g.get("credential")
    changes = row is not None and row.scope == "admin" and request.method not in ("GET", "HEAD", "OPTIONS")
    if changes and response.status_code < 400 and row.rule not in NO_CHANGES:
        assert g.get("recorded"), f"{row.method} {row.rule} leaves no row in the audit log"
    return response


@pytest.fixture
def slow_hashes() -> None:
    """Passwords are hashed as they are outside tests: for those that look at the hash."""


@pytest.fixture(autouse=True)
def _quick_hashes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Passwords are hashed in some milliseconds, and not in a tenth of a second; see ``slow_hashes``."""
    if "slow_hashes" in request.fixturenames:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_METHOD", QUICK_HASH)
        _, rest = passwords._NOBODY.split("$", 1)
        patch.setattr(passwords, "_NOBODY", f"{QUICK_HASH}${rest}")
        yield


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    """See :class:`Studio`."""
    with opened(tmp_path) as made:
        yield made


@contextmanager
def opened(tmp_path: Path, more: Mapping[str, str] | None = None) -> Iterator[Studio]:
    """A :class:`Studio` in a folder; ``more`` are further settings."""
    scripts = tmp_path / "scripts"
    scripts.mkdir(exist_ok=True)
    for name, steps in SCRIPTS.items():
        (scripts / f"{name}.yaml").write_text(yaml.safe_dump({"turns": [{"steps": steps}]}))
    (scripts / "tooling.yaml").write_text(yaml.safe_dump(TOOLING))
    settings = config.load(
        {
            "STUDIO_DATA_DIR": str(tmp_path / "data"),
            "STUDIO_SCRIPTS_DIR": str(scripts),
            "STUDIO_MAX_STREAMS": "4",
            "STUDIO_MAX_STREAMS_PER_ADDRESS": "3",
            "STUDIO_TRUSTED_PROXIES": "0",
            "STUDIO_MAIL": "console",
            **(more or {}),
        }
    )
    databases.ready(settings)
    app = create_app(settings)
    app.after_request(_recorded)
    services = app.extensions["studio"]
    keys = {
        scope: services.store.keys.create(scope, frozenset({scope}))[1] for scope in ("run", "read", "admin")
    }
    try:
        yield Studio(app, app.test_client(), services.store, keys)
    finally:
        services.runs.drain(5)
        services.runs.close()
        services.threads.close()
        services.store.close()


def assert_error(
    answer: t.Any, status: int, code: str, *, path: str | None = None, says: str = ""
) -> dict[str, t.Any]:
    """The answer is the one error shape, with this status and code; its ``error`` member."""
    assert answer.status_code == status, answer.get_data()
    assert answer.mimetype == "application/json"
    body = answer.get_json()
    assert set(body) == {"error"}
    error = body["error"]
    assert set(error) <= {"code", "message", "details", "requestId"}
    assert error["code"] == code
    assert error["requestId"] == answer.headers["X-Request-Id"]
    assert error["message"]
    if path is not None:
        assert path in [detail["path"] for detail in error["details"]]
        assert all(detail["message"] for detail in error["details"])
    assert says in answer.get_data(as_text=True)
    return t.cast("dict[str, t.Any]", error)

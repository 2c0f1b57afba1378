"""Health, capabilities, plugins, schemas of events."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from jsonschema import Draft202012Validator

import app
from app.engine.recompiled import compiled
from app.streams.schemas import SURFACES
from tests.support import sse
from tests.support.servers import wait_until
from tests.support.shared import ROOT
from tests.web.conftest import TOOL, Studio, assert_error, document


def test_health_is_open(studio: Studio) -> None:
    answer = studio.client.get("/api/health")
    assert answer.get_json() == {"status": "ok", "version": app.__version__, "draining": False}
    assert studio.client.head("/api/health").status_code == 200


def test_capabilities_are_the_registrys_rows(studio: Studio) -> None:
    rows = studio.client.get("/api/capabilities").get_json()["items"]
    families = {row["family"] for row in rows}
    assert {"anthropic", "openai-compatible", "scripted", "local"} <= families
    for row in rows:
        assert row["thinking"] in ("none", "hidden", "summary", "full", "as_sent")
        assert row["tools"] in ("none", "serial", "parallel")
        assert None not in row.values()
        assert "configured" not in row


def test_capabilities_can_be_narrowed(studio: Studio) -> None:
    get = studio.client.get
    scripted = get("/api/capabilities?family=scripted").get_json()["items"]
    assert {row["family"] for row in scripted} == {"scripted"}
    one = get("/api/capabilities?family=openai-compatible&model=any-name").get_json()["items"]
    assert [row["id"] for row in one] == ["openai-compatible/any-name"]
    assert get("/api/capabilities?family=scripted&model=nonesuch").get_json()["items"] == []
    assert_error(
        get("/api/capabilities?family=nonesuch"), 400, "validation_failed", path="family", says="scripted"
    )
    for query in ("model=", "family=openai&model="):
        assert_error(get(f"/api/capabilities?{query}"), 400, "validation_failed", path="model")
    assert get("/api/capabilities?model=openai/").get_json()["items"] == []
    assert_error(get("/api/capabilities?fam=x"), 400, "validation_failed", path="fam")


class _Models(BaseHTTPRequestHandler):
    """A server of models with two of them, which it tells when it may."""

    may_answer = threading.Event()

    def do_GET(self) -> None:
        self.may_answer.wait()
        body = json.dumps({"data": [{"id": "qwen3"}, {"id": "tuned"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


def test_a_servers_own_models_show_up_once_it_has_answered(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Models) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        monkeypatch.setenv("STUDIO_VLLM_API_BASE", f"http://127.0.0.1:{server.server_port}")

        def listed() -> list[str]:
            rows = studio.client.get("/api/capabilities?family=vllm").get_json()["items"]
            return [row["model"] for row in rows]

        assert listed() == ["*"], "the first caller does not wait for the server"
        _Models.may_answer.set()
        wait_until(lambda: listed() == ["qwen3", "tuned"], "the list is there")
        whole = studio.client.get("/api/capabilities").get_json()
        assert "vllm/tuned" in [row["id"] for row in whole["items"]]
        assert "vllm/tuned" in studio.client.get("/capabilities?family=vllm").get_data(as_text=True)
        warnings = compiled(document("vllm/qwen4"), studio.app.extensions["studio"].plugins).warnings
        assert [warning.path for warning in warnings] == ["blocks[1].config.model"]
        server.shutdown()
        thread.join(30)


def test_plugins_are_listed_with_what_they_contribute(studio: Studio) -> None:
    items = studio.get("/api/plugins").get_json()["items"]
    studio_row = next(item for item in items if item["name"] == "studio")
    assert "agent" in studio_row["contributes"]["block_types"]
    assert "error" not in studio_row


@pytest.mark.parametrize("surface", SURFACES)
def test_the_schema_of_a_surface_is_the_one_on_its_page(studio: Studio, surface: str) -> None:
    served = studio.client.get(f"/api/schemas/{surface}").get_json()
    assert served == json.loads((ROOT / "docs" / "events" / f"{surface}.json").read_text())


@pytest.mark.parametrize("surface", ["agent-events-v1", "agent-text"])
def test_real_streams_fit_the_served_schema(studio: Studio, surface: str) -> None:
    workflow = studio.deploy(document("scripted/tooling", tools=[TOOL]))
    negotiated = surface == "agent-events-v1"
    flags = {"includeThinking": negotiated, "includeToolCalls": negotiated}
    headers = {"X-Studio-Stream-Protocol": surface} if negotiated else {}
    validator = Draft202012Validator(studio.client.get(f"/api/schemas/{surface}").get_json())
    for name in (workflow, studio.deploy(document("scripted/broken"))):
        frames = studio.stream(name, flags, headers=headers)
        assert frames[-1] == "[DONE]"
        for frame in frames:
            validator.validate(frame)


def test_real_run_events_fit_the_served_schema(studio: Studio) -> None:
    validator = Draft202012Validator(studio.client.get("/api/schemas/runs").get_json())
    for name in (
        studio.deploy(document("scripted/tooling", tools=[TOOL])),
        studio.deploy(document("scripted/broken")),
    ):
        answer = studio.client.post(
            f"/api/workflows/{name}/runs", json={"message": "x"}, headers={"X-API-Key": studio.keys["run"]}
        )
        for frame in sse.parse(answer.get_data()):
            validator.validate(frame.json())


def test_an_unknown_surface_is_told_which_there_are(studio: Studio) -> None:
    error = assert_error(studio.client.get("/api/schemas/nonesuch"), 404, "not_found")
    assert all(name in error["message"] for name in ("'nonesuch'", *SURFACES))

"""Every kind of bad input gets its documented 4xx body, with path and cure, before the first byte."""

from __future__ import annotations

import io
import json
import typing as t

import gevent
import gevent.socket
import pytest

from app.web.http import MOST_PARTS
from tests.web.conftest import Studio, assert_error, document

LINE = "X-Studio-Stream-Protocol: agent-events-v1"
NEGOTIATE = {"X-Studio-Stream-Protocol": "agent-events-v1"}


@pytest.fixture
def workflow(studio: Studio) -> str:
    return studio.deploy(document("scripted/plain"))


def raw(studio: Studio, workflow: str, data: bytes, content_type: str | None = "application/json") -> t.Any:
    return studio.client.post(
        f"/api/workflows/{workflow}/execute",
        data=data,
        content_type=content_type,
        headers={"X-API-Key": studio.keys["run"]},
    )


@pytest.mark.parametrize(
    "data", [b"{", b"{'a': 1}", b"\xff\xfe{}", b'{"input": "\xff"}', b"nonsense", b'{"a":1}x']
)
def test_what_is_not_json_in_utf_8(studio: Studio, workflow: str, data: bytes) -> None:
    assert_error(raw(studio, workflow, data), 400, "invalid_json")


def test_nesting_without_end(studio: Studio, workflow: str) -> None:
    assert_error(raw(studio, workflow, b'{"input":' + b"[" * 200_000), 400, "invalid_json")


@pytest.mark.parametrize("data", [b"[]", b'"hi"', b"1", b"null", b"true"])
def test_json_that_is_no_object(studio: Studio, workflow: str, data: bytes) -> None:
    assert_error(raw(studio, workflow, data), 400, "validation_failed", path="", says="JSON object")


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/json; charset=latin-1",
    ],
)
def test_a_body_of_another_type(studio: Studio, workflow: str, content_type: str | None) -> None:
    answer = raw(studio, workflow, b"{}", content_type)
    assert_error(answer, 415, "unsupported_media_type", says="application/json")


def test_a_compressed_body_is_not_guessed_at(studio: Studio, workflow: str) -> None:
    answer = studio.client.post(
        f"/api/workflows/{workflow}/execute",
        data=b"{}",
        headers={
            "X-API-Key": studio.keys["run"],
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
        },
    )
    assert_error(answer, 415, "unsupported_media_type", says="Content-Encoding")


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=UTF-8", "application/x+json"]
)
def test_types_that_are_json(studio: Studio, workflow: str, content_type: str) -> None:
    assert raw(studio, workflow, b"{}", content_type).status_code == 200


def test_no_body_is_an_empty_object(studio: Studio, workflow: str) -> None:
    assert raw(studio, workflow, b"", None).status_code == 200


def test_a_body_over_ten_mebibytes(studio: Studio, workflow: str) -> None:
    big = b'{"input": "' + b"x" * (11 * 1024 * 1024) + b'"}'
    assert_error(raw(studio, workflow, big), 413, "payload_too_large", says="10 MiB")


@pytest.mark.parametrize(
    "inside",
    ["[" * 200 + "]" * 200, "{}", '{"a": 1}', '{"\\\\": "\\""}'],
    ids=["deep", "objects", "members", "with escapes"],
)
def test_a_body_of_a_great_many_parts(studio: Studio, workflow: str, inside: str) -> None:
    parts = inside.count("[") + inside.count("{") + inside.count(":")
    many = ",".join([inside] * (MOST_PARTS // parts + 1))
    refused = raw(studio, workflow, f'{{"input": [{many}]}}'.encode())
    assert_error(refused, 413, "payload_too_large", says="300000 lists, objects and their members")


@pytest.mark.parametrize("text", ["[{:", '\\"[{:', "\\\\[{:", '\\\\\\"[{:'])
def test_what_is_inside_of_a_text_is_no_part(studio: Studio, workflow: str, text: str) -> None:
    body = f'{{"input": "{text * MOST_PARTS}"}}'
    assert json.loads(body)
    assert raw(studio, workflow, body.encode()).status_code == 200


def test_a_chunked_body_over_ten_mebibytes(studio: Studio, workflow: str) -> None:
    big = io.BytesIO(b'{"input": "' + b"x" * (11 * 1024 * 1024) + b'"}')
    answer = studio.client.post(
        f"/api/workflows/{workflow}/execute",
        input_stream=big,
        content_type="application/json",
        headers={"X-API-Key": studio.keys["run"], "Transfer-Encoding": "chunked"},
        environ_overrides={"wsgi.input_terminated": True},
    )
    assert_error(answer, 413, "payload_too_large")
    assert big.read() == b""  # taken in, so that a client that only writes first lives to read the answer


@pytest.mark.parametrize(
    ("key", "status", "code"), [("run", 400, "validation_failed"), ("dead", 401, "unauthorized")]
)
def test_a_body_that_does_not_come_is_not_waited_for_for_ever(
    studio: Studio, workflow: str, monkeypatch: pytest.MonkeyPatch, key: str, status: int, code: str
) -> None:
    """Neither by a call that reads it nor by an error page that takes it in."""
    monkeypatch.setattr("app.web.http.BODY_S", 0.05)
    server, client = gevent.socket.socketpair()
    with gevent.Timeout(10), server, client, server.makefile("rb") as body:
        client.sendall(b'{"input": "h')
        answer = studio.client.post(
            f"/api/workflows/{workflow}/execute",
            content_type="application/json",
            headers={"X-API-Key": studio.keys.get(key, key)},
            environ_overrides={"CONTENT_LENGTH": "100", "wsgi.input": body, "gunicorn.socket": server},
        )
    assert_error(answer, status, code)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"inputs": "x"}, "inputs"),
        ({"stream": "yes"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"includeThinking": "true"}, "includeThinking"),
        ({"includeToolCalls": 0}, "includeToolCalls"),
        ({"selectedOutputs": "agent_1"}, "selectedOutputs"),
        ({"selectedOutputs": [1]}, "selectedOutputs[0]"),
        ({"selectedOutputs": ["agent_1"] * 101}, "selectedOutputs"),
        ({"conversationId": "x" * 256}, "conversationId"),
        ({"timeoutSeconds": 0}, "timeoutSeconds"),
        ({"timeoutSeconds": 604801}, "timeoutSeconds"),
        ({"timeoutSeconds": 1.5}, "timeoutSeconds"),
        ({"version": 0}, "version"),
        ({"version": "live"}, "version"),
        ({"stream": True, "async": True}, "async"),
    ],
    ids=str,
)
def test_a_body_that_breaks_its_schema(studio: Studio, workflow: str, body: t.Any, path: str) -> None:
    for key in ("stream", "input"):
        answer = studio.execute(workflow, {key: True if key == "stream" else "x", **body})
        assert_error(answer, 400, "validation_failed", path=path)


def test_every_problem_is_reported_at_once(studio: Studio, workflow: str) -> None:
    answer = studio.execute(workflow, {"nope": 1, "stream": "x", "timeoutSeconds": -1})
    error = assert_error(answer, 400, "validation_failed")
    assert {detail["path"] for detail in error["details"]} == {"nope", "stream", "timeoutSeconds"}


def test_async_excludes_stream_and_needs_a_key(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/plain", settings={"public": True}))
    both = studio.execute(workflow, {"async": True, "stream": True})
    assert_error(both, 400, "validation_failed", path="async")
    assert_error(studio.execute(workflow, {"async": True}, key=None), 400, "validation_failed", path="async")
    assert studio.execute(workflow, {"async": False}, key=None).status_code == 200


def test_an_unknown_workflow(studio: Studio) -> None:
    assert_error(studio.execute("wf_nope"), 404, "not_found", says="wf_nope")


def test_a_workflow_that_is_not_deployed(studio: Studio) -> None:
    draft = studio.store.workflows.save(document("scripted/plain"), "draft")
    assert_error(studio.execute(draft), 409, "not_deployed", says="studio workflow deploy")


@pytest.mark.parametrize("version", [2, 2**40])
def test_an_unknown_version(studio: Studio, workflow: str, version: int) -> None:
    assert_error(studio.execute(workflow, {"version": version}), 404, "not_found")


@pytest.mark.parametrize("model", ["nonesuch/model", "scripted/nonesuch", "nothing"])
def test_a_stored_model_that_does_not_exist_any_more(studio: Studio, model: str) -> None:
    stale = studio.deploy(document(model))
    for body in ({}, {"stream": True}):
        error = assert_error(studio.execute(stale, body), 400, "validation_failed", says=model.split("/")[0])
        assert error["details"][0]["path"] == "blocks[1].config.model"


@pytest.mark.parametrize("stream", [True, False])
def test_a_selector_that_matches_nothing(studio: Studio, workflow: str, stream: bool) -> None:
    answer = studio.execute(
        workflow, {"stream": stream, "selectedOutputs": ["agent_1.content", "agnt.content"]}
    )
    assert_error(answer, 400, "validation_failed", path="selectedOutputs[1]", says="agent_1")


@pytest.mark.parametrize("flag", ["includeThinking", "includeToolCalls"])
@pytest.mark.parametrize(
    ("stream", "headers"),
    [(True, {}), (False, {}), (False, NEGOTIATE)],
    ids=["no header", "neither", "no stream"],
)
def test_a_flag_that_could_not_be_honoured(
    studio: Studio, workflow: str, flag: str, stream: bool, headers: dict[str, str]
) -> None:
    answer = studio.execute(workflow, {"stream": stream, flag: True}, headers=headers)
    error = assert_error(answer, 400, "validation_failed", path=flag, says=LINE)
    assert flag in error["message"]


def test_both_flags_are_named(studio: Studio, workflow: str) -> None:
    answer = studio.execute(workflow, {"stream": True, "includeThinking": True, "includeToolCalls": True})
    error = assert_error(answer, 400, "validation_failed")
    assert [detail["path"] for detail in error["details"]] == ["includeThinking", "includeToolCalls"]


@pytest.mark.parametrize("name", ["X-Studio-Stream-Protocol", "X-Sim-Stream-Protocol"])
@pytest.mark.parametrize("value", ["agent-events-v2", "v0, agent-events-v9", "AGENT"])
def test_a_header_with_only_unknown_versions(studio: Studio, workflow: str, name: str, value: str) -> None:
    answer = studio.execute(workflow, {"stream": True}, headers={name: value})
    assert_error(answer, 400, "validation_failed", path=name, says="agent-events-v1")
    assert studio.execute(workflow, {"stream": False}, headers={name: value}).status_code == 200


def test_a_missing_vendor_key(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("STUDIO_ANTHROPIC_API_KEY", raising=False)
    workflow = studio.deploy(document("anthropic/claude-sonnet-4-5", settings={"public": True}))
    for body in ({}, {"stream": True}):
        error = assert_error(
            studio.execute(workflow, body), 400, "provider_not_configured", says="ANTHROPIC_API_KEY"
        )
        assert error["details"][0]["path"] == "blocks[1].config.model"
        hidden = assert_error(studio.execute(workflow, body, key=None), 503, "provider_not_configured")
        assert "ANTHROPIC" not in str(hidden)
        assert "claude" not in str(hidden)


def test_checks_come_in_their_order(studio: Studio) -> None:
    """Credential, then the body, then the workflow: each hides what comes after it."""
    assert_error(studio.execute("wf_nope", {"nope": 1}, key="sk-studio-dead"), 401, "unauthorized")
    assert_error(studio.execute("wf_nope", {"nope": 1}), 400, "validation_failed")
    assert_error(studio.execute("wf_nope", {"selectedOutputs": ["x"]}), 404, "not_found")


@pytest.mark.parametrize("path", ["/", "/api", "/api/nope", "/api/runs/", "/api//health", "/api/health/"])
def test_an_address_that_does_not_exist(studio: Studio, path: str) -> None:
    assert_error(studio.client.get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/api/workflows/x/execute", "POST"),
        ("PUT", "/api/runs/x", "GET"),
        ("POST", "/api/health", "GET"),
    ],
)
def test_a_method_that_is_not_there(studio: Studio, method: str, path: str, allowed: str) -> None:
    answer = studio.client.open(path, method=method)
    assert_error(answer, 405, "method_not_allowed", says=allowed)
    assert allowed in answer.headers["Allow"]


def test_a_fault_of_ours_is_told_without_its_content(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the secret inside")

    monkeypatch.setattr(studio.app.extensions["studio"].store.runs, "get", fail)
    answer = studio.get("/api/runs/run_x")
    assert_error(answer, 500, "internal")
    assert "secret" not in answer.get_data(as_text=True)


@pytest.mark.parametrize(("sent", "kept"), [("abc-1.2_3", True), ("bad id\x7f", False), ("x" * 65, False)])
def test_the_callers_request_id_is_kept_when_it_is_plain(studio: Studio, sent: str, kept: bool) -> None:
    answer = studio.client.get("/api/health", headers={"X-Request-Id": sent})
    assert (answer.headers["X-Request-Id"] == sent) is kept


def test_a_full_server_refuses_before_the_first_byte(studio: Studio) -> None:
    services = studio.app.extensions["studio"]
    workflow = studio.deploy(document("scripted/silent"))
    for _ in range(4):
        studio.client.post(
            f"/api/workflows/{workflow}/execute",
            json={"stream": True},
            headers={"X-API-Key": studio.keys["run"], "X-Forwarded-For": "203.0.113.9"},
        )
    open_runs = len(services.runs)
    answer = studio.execute(workflow, {"stream": True})
    # Three from one address: the limit per address counts the socket's, whatever X-Forwarded-For says.
    assert open_runs == 3
    assert_error(answer, 429, "rate_limited")
    assert int(answer.headers["Retry-After"]) > 0


def test_an_address_of_ipv6_has_the_open_runs_of_its_network(studio: Studio) -> None:
    """Whoever has one has 2**64 of them."""
    workflow = studio.deploy(document("scripted/silent"))

    def status(address: str) -> int:
        answer = studio.client.post(
            f"/api/workflows/{workflow}/execute",
            json={"stream": True},
            headers={"X-API-Key": studio.keys["run"]},
            environ_base={"REMOTE_ADDR": address},
        )
        return int(answer.status_code)

    assert [status(f"2001:db8:1:2::{n}") for n in range(1, 5)] == [200, 200, 200, 429]
    assert status("2001:db8:1:3::1") == 200


def test_a_draining_server_refuses_new_runs_and_says_so(studio: Studio, workflow: str) -> None:
    studio.app.extensions["studio"].runs.drain(1)
    answer = studio.execute(workflow, {"stream": True})
    assert_error(answer, 503, "draining")
    assert int(answer.headers["Retry-After"]) > 0
    assert studio.client.get("/api/health").get_json()["draining"] is True

"""Secrets over HTTP: stored and never given back; used in headers and found nowhere else."""

from __future__ import annotations

import base64
import itertools
import json
import logging
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app import config, create_app
from tests.net.server import Script
from tests.support import databases, sse
from tests.support.vendor import Vendor, vendor
from tests.web.conftest import Studio, assert_error

VALUE = "s3cret-of-the-crm"
PATH = "/api/secrets/CRM_KEY"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[tuple[Studio, Vendor]]:
    """An application that may reach loopback, and a vendor whose answers a test writes."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    turns = [
        {"steps": [{"tool_call": {"name": "crm", "arguments": {}}}]},
        {"steps": [{"text": "It is settled."}]},
    ]
    (scripts / "tooling.yaml").write_text(yaml.safe_dump({"turns": turns}))
    with vendor() as listening:
        environ = {
            "STUDIO_DATA_DIR": str(tmp_path / "data"),
            "STUDIO_SCRIPTS_DIR": str(scripts),
            "STUDIO_HTTP_ALLOW": "127.0.0.0/8",
        }
        read = config.load(environ)
        databases.ready(read)
        app = create_app(read)
        services = app.extensions["studio"]
        keys = {name: services.store.keys.create(name, {name})[1] for name in ("run", "read", "admin")}
        try:
            yield Studio(app, app.test_client(), services.store, keys), listening
        finally:
            services.runs.drain(5)
            services.runs.close()
            services.threads.close()
            services.store.close()


def call(studio: Studio, method: str, path: str = PATH, body: t.Any = None, key: str = "admin") -> t.Any:
    headers = {"X-API-Key": studio.keys[key]}
    return studio.client.open(path, method=method, json=body, headers=headers)


def document(url: str, headers: dict[str, str] | None = None, **settings: t.Any) -> dict[str, t.Any]:
    """An http block, an agent whose tool asks the same, and all that came back as the answer."""
    asked = {"url": url, "headers": headers or {"Authorization": "Bearer {{ secrets.CRM_KEY }}"}}
    tool = {"name": "crm", "description": "Asks the CRM.", "http": asked}
    blocks = [
        ("start", "start", {}),
        ("ask", "http", {**asked, "fail_on": [], "on_error": "continue"}),
        (
            "agent",
            "agent",
            {"model": "scripted/tooling", "prompt": "{{ blocks.ask.text }}", "tools": [tool]},
        ),
        ("end", "response", {"body": {"all": "{{ blocks }}"}}),
    ]
    placed = [{"id": name, "type": kind, "config": of} for name, kind, of in blocks]
    edges = [{"source": one[0], "target": other[0]} for one, other in itertools.pairwise(blocks)]
    return {"name": "crm", "blocks": placed, "edges": edges, "settings": settings}


# -- the API ---------------------------------------------------------------------------------------


def test_a_value_goes_in_and_never_comes_out(studio: Studio) -> None:
    put = call(studio, "PUT", body={"value": VALUE})
    assert put.status_code == 201
    again = call(studio, "PUT", body={"value": f"{VALUE}-2"})
    assert again.status_code == 200
    listed = call(studio, "GET", "/api/secrets")
    assert [(item["name"], set(item)) for item in listed.get_json()["items"]] == [
        ("CRM_KEY", {"name", "createdAt", "updatedAt"})
    ]
    assert put.get_json()["createdAt"] == listed.get_json()["items"][0]["createdAt"]
    for answer in (put, again, listed):
        assert VALUE not in answer.get_data(as_text=True)
    assert studio.store.secrets.values()["CRM_KEY"] == f"{VALUE}-2"
    gone = call(studio, "DELETE")
    assert (gone.status_code, gone.get_data()) == (204, b"")
    assert_error(call(studio, "DELETE"), 404, "not_found")
    assert call(studio, "GET", "/api/secrets").get_json() == {"items": []}


@pytest.mark.parametrize(
    ("path", "body", "where", "says"),
    [
        (PATH, {}, "value", "missing"),
        (PATH, {"value": VALUE, "note": "x"}, "note", "unknown key"),
        (PATH, {"value": 1234567890}, "value", "must be a text"),
        (PATH, {"value": "1234x"}, "value", "6 to 65536"),
        (PATH, {"value": "x" * 65_537}, "value", "6 to 65536"),
        (PATH, {"value": f"{VALUE}\n"}, "value", "white space"),
        (PATH, {"value": f"{VALUE}\0{VALUE}"}, "value", "leave them out"),
        ("/api/secrets/1KEY", {"value": VALUE}, "name", "letters, digits and _"),
        ("/api/secrets/A-KEY", {"value": VALUE}, "name", "letters, digits and _"),
        (f"/api/secrets/{'K' * 65}", {"value": VALUE}, "name", "letters, digits and _"),
    ],
)
def test_what_cannot_be_stored_is_told_without_the_value(
    studio: Studio, path: str, body: dict[str, t.Any], where: str, says: str
) -> None:
    answer = studio.client.put(
        path,
        data=json.dumps(body),
        content_type="application/json",
        headers={"X-API-Key": studio.keys["admin"]},
    )
    assert_error(answer, 400, "validation_failed", path=where, says=says)
    assert not any(part in answer.get_data(as_text=True) for part in (VALUE, "1234567890", "1234x"))
    assert studio.store.secrets.list() == []


def test_a_lost_key_is_a_503_that_says_what_to_do(studio: Studio, tmp_path: Path) -> None:
    studio.store.secrets.set("OTHER", VALUE)
    (tmp_path / "data" / "secrets.key").unlink()
    studio.store.secrets._sealer._keys = None  # as after a restart
    assert_error(call(studio, "PUT", body={"value": VALUE}), 503, "secrets_locked", says="STUDIO_SECRETS_KEY")
    assert call(studio, "GET", "/api/secrets").status_code == 200
    assert call(studio, "DELETE", "/api/secrets/OTHER").status_code == 204


# -- before a run ----------------------------------------------------------------------------------


def test_a_secret_that_is_not_stored_is_told_before_the_first_byte(made: tuple[Studio, Vendor]) -> None:
    studio, _ = made
    workflow = studio.deploy(document("https://crm.invalid/"))
    for body in ({}, {"stream": True}):
        error = assert_error(
            studio.execute(workflow, body), 400, "secret_unknown", says="studio secret set CRM_KEY"
        )
        assert [detail["path"] for detail in error["details"]] == [
            "blocks[1].config.headers.Authorization",
            "blocks[2].config.tools[0].http.headers.Authorization",
        ]
    answer = call(studio, "POST", f"/api/workflows/{workflow}/runs", {"message": "hi"}, key="run")
    assert_error(answer, 400, "secret_unknown")


def test_a_caller_without_a_key_learns_nothing_of_it(made: tuple[Studio, Vendor]) -> None:
    studio, _ = made
    workflow = studio.deploy(document("https://crm.invalid/", public=True))
    answer = studio.execute(workflow, key=None)
    assert_error(answer, 503, "secret_unknown")
    assert "CRM_KEY" not in answer.get_data(as_text=True)


def test_a_workflow_inside_another_needs_its_secrets_too(made: tuple[Studio, Vendor]) -> None:
    studio, _ = made
    studio.deploy(document("https://crm.invalid/"), "inner")
    outer = {
        "name": "outer",
        "blocks": [
            {"id": "start", "type": "start"},
            {"id": "child", "type": "workflow", "config": {"workflow": "inner"}},
        ],
        "edges": [{"source": "start", "target": "child"}],
    }
    path = "blocks[1].config.workflow/blocks[1].config.headers.Authorization"
    assert_error(studio.execute(studio.deploy(outer)), 400, "secret_unknown", path=path)


def test_a_lost_key_is_told_before_the_first_byte(made: tuple[Studio, Vendor], tmp_path: Path) -> None:
    studio, _ = made
    studio.store.secrets.set("CRM_KEY", VALUE)
    (tmp_path / "data" / "secrets.key").unlink()
    studio.store.secrets._sealer._keys = None
    workflow = studio.deploy(document("https://crm.invalid/", public=True))
    assert_error(studio.execute(workflow), 503, "secrets_locked", says="STUDIO_SECRETS_KEY")
    answer = studio.execute(workflow, key=None)
    assert_error(answer, 503, "secrets_locked")
    assert "STUDIO_SECRETS_KEY" not in answer.get_data(as_text=True)


# -- in a run --------------------------------------------------------------------------------------

LATIN = st.characters(min_codepoint=32, max_codepoint=255, exclude_categories=("Cc",))
#: With a character that none of our own words has, so that a secret stands in no answer by chance.
SECRETS = st.builds(
    "{}\xb6{}".format, st.text(LATIN, min_size=4, max_size=15), st.text(LATIN, min_size=3, max_size=15)
).filter(lambda value: value == value.strip() and len(set(value)) > 5)
HEADERS = {
    "Authorization": "Bearer {{ secrets.CRM_KEY }}",
    "X-Basic": "Basic {{ ('user:' ~ secrets.CRM_KEY)|b64encode }}",
    "X-Turned": "{{ secrets.CRM_KEY|reverse }}",
}


def echo(kind: str) -> t.Callable[[bytes, t.Any], None]:
    """A server that says back what it was sent."""

    def answer(request: bytes, sock: t.Any) -> None:
        lines = request.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
        sent = dict(line.decode("latin-1").split(": ", 1) for line in lines)
        token = sent["Authorization"].removeprefix("Bearer ")
        raw = token.encode("latin-1")
        head, body = b"", json.dumps({"sent": sent, token: [token]}).encode()
        status = b"200 OK"
        if kind == "text":
            body = "\n".join([*sent.values(), base64.b64encode(raw).decode()]).encode()
        elif kind == "latin text":
            head, body = b"Content-Type: text/plain; charset=iso-8859-1\r\n", raw
        elif kind == "headers":
            head, body = (
                b"X-Echo: " + raw + b"\r\nSet-Cookie: k=" + sent["X-Turned"].encode("latin-1") + b"\r\n",
                b"{}",
            )
        elif kind == "failure":
            status = b"500 Oops"
        elif kind == "redirect":
            status, head = b"302 Found", b"Location: http://%b.invalid/\r\n" % raw.hex()[:62].encode()
        elif kind == "compressed":
            head = b"Content-Encoding: " + raw + b"\r\n"
        sock.sendall(b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n" % (status, head, len(body)) + body)

    return answer


def texts(value: t.Any) -> Iterator[str]:
    """Every text in a JSON value, keys included."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


def everything(studio: Studio, workflow: str) -> Iterator[str]:
    """All that any surface tells of runs of a workflow."""
    waited = studio.execute(workflow, {"input": "hi"})
    assert waited.status_code == 200
    yield waited.get_data(as_text=True)
    yield from texts(waited.get_json())
    negotiated = {"X-Studio-Stream-Protocol": "agent-events-v1"}
    body = {"stream": True, "includeToolCalls": True, "includeThinking": True}
    streams = [studio.execute(workflow, body, headers=negotiated), studio.execute(workflow, {"stream": True})]
    for level in ("full", "messages", "minimal"):
        body = {"message": "hi", "events": level}
        streams.append(call(studio, "POST", f"/api/workflows/{workflow}/runs", body, key="admin"))
    for stream in streams:
        assert stream.status_code == 200
        yield stream.get_data(as_text=True)
        yield from texts([f.json() for f in sse.parse(stream.get_data()) if f.comment is None])
    for item in studio.get("/api/runs", key="admin").get_json()["items"]:
        record = studio.get(f"/api/runs/{item['runId']}", key="admin")
        yield record.get_data(as_text=True)
        yield from texts(record.get_json())


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


@pytest.mark.parametrize(
    "kind", ["json", "text", "latin text", "headers", "failure", "redirect", "compressed"]
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secret=SECRETS)
@example(secret="00012\xa034")
def test_no_surface_holds_a_secret_that_a_server_says_back(
    made: tuple[Studio, Vendor], kind: str, secret: str
) -> None:
    studio, _ = made
    studio.store.secrets.set("CRM_KEY", secret)
    log, root = _Kept(), logging.getLogger()
    root.addHandler(log)
    try:
        with Script(echo(kind)) as server:
            told = list(everything(studio, studio.deploy(document(server.url(), HEADERS), "crm")))
    finally:
        root.removeHandler(log)
    turned = secret[::-1].strip()
    hidden = [
        secret,
        turned,
        secret.encode("latin-1").hex()[:62],
        base64.b64encode(f"user:{secret}".encode()).decode(),
    ]
    for text in (*told, *log.lines):
        assert not any(value in text for value in hidden), text
    assert len(server.requests) == 12  # the block and the tool, in each of six runs


def test_a_secret_is_in_the_request_and_not_in_the_models_prompt(made: tuple[Studio, Vendor]) -> None:
    studio, listening = made
    studio.store.secrets.set("CRM_KEY", VALUE)
    doc = document("http://placeholder", HEADERS)
    doc["blocks"][2]["config"]["model"] = "openai-compatible/m"
    with pytest.MonkeyPatch.context() as patch, Script(echo("json")) as server:
        patch.setenv("OPENAI_COMPATIBLE_API_BASE", listening.base)
        patch.setenv("STUDIO_OPENAI_COMPATIBLE_API_BASE", listening.base)
        patch.setenv("STUDIO_OPENAI_COMPATIBLE_API_KEY", "none")
        for block in (doc["blocks"][1]["config"], doc["blocks"][2]["config"]["tools"][0]["http"]):
            block["url"] = server.url()
        workflow = studio.deploy(doc)
        import gevent

        waiting = gevent.spawn(studio.execute, workflow, {"input": "hi"})
        first = listening.next_call()
        first.send({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "crm", "arguments": "{}"}}]})
        first.finish("tool_calls")
        second = listening.next_call()
        second.text("Done.")
        second.finish()
        assert waiting.get(timeout=20).get_json()["success"] is True
    assert VALUE.encode() in server.requests[0]
    assert VALUE.encode() in server.requests[1]
    for asked in (first, second):
        said = json.dumps(asked.body)
        assert VALUE not in said
        assert "Bearer ***" in said


def test_what_a_model_or_a_caller_writes_is_never_a_template(made: tuple[Studio, Vendor]) -> None:
    studio, _ = made
    studio.store.secrets.set("CRM_KEY", VALUE)
    asked = {
        "url": "{{ vars.crm }}/?q={{ args.q|urlencode }}",
        "method": "POST",
        "headers": {"Authorization": "Bearer {{ secrets.CRM_KEY }}", "X-Q": "{{ args.q }}"},
        "body": {"q": "{{ args.q }}", "of": "{{ input.message }}"},
    }
    with Script(echo("json")) as server:
        doc = document(server.url())
        doc["variables"] = {"crm": server.url("").rstrip("/")}
        schema = {"type": "object", "properties": {"q": {"type": "string"}}}
        tool = {"name": "crm", "description": "d", "parameters": schema, "http": asked}
        config = {"tool": tool, "arguments": {"q": "{{ input.message }}"}}
        doc["blocks"][1:3] = [{"id": "ask", "type": "tool", "config": config}]
        doc["edges"] = [{"source": "start", "target": "ask"}, {"source": "ask", "target": "end"}]
        answer = studio.execute(studio.deploy(doc), {"input": "{{ secrets.CRM_KEY }}"})
    assert answer.get_json()["success"] is True
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.count(VALUE.encode()) == 1
    assert b"X-Q: {{ secrets.CRM_KEY }}\r\n" in head
    assert json.loads(body) == dict.fromkeys(("q", "of"), "{{ secrets.CRM_KEY }}")


def test_a_secret_that_is_gone_meanwhile_fails_the_block_and_the_tool(
    made: tuple[Studio, Vendor], monkeypatch: pytest.MonkeyPatch
) -> None:
    studio, _ = made
    monkeypatch.setattr("app.web.execute.check_ready", lambda *args, **kwargs: None)
    body = studio.execute(studio.deploy(document("http://127.0.0.1:1/"))).get_json()
    blocks = body["output"]["all"]
    assert blocks["ask"]["code"] == "secret_unknown"
    [tool] = blocks["agent"]["toolCalls"]["list"]
    assert tool["status"] == "error"
    assert "studio secret set CRM_KEY" in tool["result"]["error"]

"""What only a real server shows: sockets, bodies that are still being sent, callers who leave."""

from __future__ import annotations

import json
import socket
import typing as t
from collections.abc import Iterator
from http import HTTPStatus

import pytest
import yaml

from tests.support import servers, sse
from tests.support.servers import NEGOTIATE, Studio, wait_until
from tests.web.conftest import document

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    scripts = tmp_path_factory.mktemp("scripts")
    (scripts / "instant.yaml").write_text(yaml.safe_dump({"turns": [{"steps": [{"text": "At once."}]}]}))
    environ = {"STUDIO_SCRIPTS_DIR": str(scripts)}
    with servers.studio(tmp_path_factory.mktemp("web") / "data", environ) as studio:
        studio.key  # noqa: B018 - made once, before anything is timed
        yield studio


def exchange(studio: Studio, request: bytes) -> tuple[bytes, bytes]:
    """Send raw bytes without looking up, then read the answer: head and body."""
    with socket.create_connection(("127.0.0.1", studio.port), timeout=30) as sock:
        sock.sendall(request)
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


def head(studio: Studio, *lines: str, key: str | None = None) -> bytes:
    fixed = ["POST /api/workflows/tour/execute HTTP/1.1", "Host: studio", f"X-API-Key: {key or studio.key}"]
    return "\r\n".join([*fixed, *lines, "Connection: close", "", ""]).encode()


def test_without_trusted_proxies_nothing_that_one_would_say_is_believed(served: Studio) -> None:
    """Not from this host either, which gunicorn trusts by default."""
    said = {"X-Forwarded-Proto": "https", "X-Forwarded-SSL": "on", "X-Forwarded-Protocol": "ssl"}
    status, headers, _ = sse.request(served.port, "GET", "/login", headers={**said, "SCRIPT_NAME": "/login"})
    assert status == 200
    [cookie] = headers.get_all("Set-Cookie") or []
    assert cookie.startswith("studio_")
    assert "Secure" not in cookie


def test_a_client_that_sends_eleven_megabytes_first_reads_its_413(served: Studio) -> None:
    size = 11 * MIB
    lines = ("Content-Type: application/json", f"Content-Length: {size}")
    answered, body = exchange(served, head(served, *lines) + b"x" * size)
    assert answered.startswith(b"HTTP/1.1 413 ")
    assert json.loads(body)["error"]["code"] == "payload_too_large"


def test_the_same_in_chunks_of_unknown_length(served: Studio) -> None:
    chunk = b"%x\r\n%b\r\n" % (MIB, b"x" * MIB)
    lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    answered, body = exchange(served, head(served, *lines) + chunk * 11 + b"0\r\n\r\n")
    assert answered.startswith(b"HTTP/1.1 413 ")
    assert json.loads(body)["error"]["code"] == "payload_too_large"


def test_a_large_body_with_a_dead_key_reads_its_401(served: Studio) -> None:
    size = 8 * MIB
    lines = ("Content-Type: application/json", f"Content-Length: {size}")
    answered, body = exchange(served, head(served, *lines, key="sk-studio-dead") + b"x" * size)
    assert answered.startswith(b"HTTP/1.1 401 ")
    assert b'WWW-Authenticate: ApiKey realm="studio", header="X-API-Key"' in answered
    assert json.loads(body)["error"]["code"] == "unauthorized"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"NONSENSE\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: x\r\nBad header\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 9000 + b"\r\n\r\n", 431),
        (b"POST /api/health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: zip\r\n\r\n", 501),
    ],
    ids=["no request", "version", "long address", "no header", "long header", "coding"],
)
def test_what_is_no_http_gets_the_one_error_shape(served: Studio, request_: bytes, status: int) -> None:
    answered, body = exchange(served, request_)
    # gunicorn's C parser, where it is installed, does not tell a coding it does not know from a bad header.
    wanted = (status, 400) if status == 501 else (status,)
    assert answered.startswith(
        tuple(b"HTTP/1.1 %d %b\r\n" % (code, HTTPStatus(code).phrase.encode()) for code in wanted)
    )
    assert b"Content-Type: application/json" in answered
    error = json.loads(body)["error"]
    assert error["code"] == "validation_failed"
    assert error["message"]
    assert f"X-Request-Id: {error['requestId']}".encode() in answered


def test_chunks_that_are_none_are_a_400(served: Studio) -> None:
    lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    answered, body = exchange(served, head(served, *lines) + b"zz\r\n{}\r\n0\r\n\r\n")
    assert answered.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]["code"] == "validation_failed"


def test_a_body_that_broke_off_is_a_400_and_no_run(served: Studio) -> None:
    """What has come so far may well be JSON; it is not what its sender wanted to say."""
    workflow = served.deploy(document("scripted/instant"))
    fixed = head(served, "Content-Type: application/json", "Content-Length: 50")
    request = fixed.replace(b"/tour/", f"/{workflow}/".encode()) + b"{}"
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as sock:
        sock.sendall(request)
        sock.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "validation_failed"
    assert runs(served, workflow) == []


def test_a_chunked_body_of_ordinary_size_is_read(served: Studio) -> None:
    body = b'{"input": "hi", "selectedOutputs": []}'
    lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    answered, answer = exchange(served, head(served, *lines) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    assert answered.startswith(b"HTTP/1.1 200 ")
    assert json.loads(answer)["success"] is True


def test_a_stream_carries_our_headers_to_browsers_and_clients(served: Studio) -> None:
    with served.execute(
        "tour", {"stream": True, "input": "hi"}, {**NEGOTIATE, "Origin": "https://x"}
    ) as stream:
        assert stream.status == 200
        assert stream.headers["X-Studio-Stream-Protocol"] == "agent-events-v1"
        assert stream.headers["Access-Control-Allow-Origin"] == "*"
        assert "X-Run-Id" in stream.headers["Access-Control-Expose-Headers"]
        run = stream.headers["X-Run-Id"]
        frames = list(stream.events())
    assert frames[-1].json() == "[DONE]"
    assert record(served, run)["status"] == "completed"


def record(studio: Studio, run: str) -> dict[str, t.Any]:
    status, _, body = sse.request(studio.port, "GET", f"/api/runs/{run}", headers={"X-API-Key": studio.key})
    assert status == 200, body
    return t.cast("dict[str, t.Any]", json.loads(body))


def runs(studio: Studio, workflow: str) -> list[str]:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(studio.data / "studio.db")) as link:
        return [row[0] for row in link.execute("select id from runs where workflow_id = ?", (workflow,))]


@pytest.mark.parametrize("stream", [True, False])
def test_a_caller_who_leaves_cancels_the_run(served: Studio, stream: bool) -> None:
    workflow = served.deploy(document("scripted/silent"))
    body = json.dumps({"stream": stream}).encode()
    request = (
        f"POST /api/workflows/{workflow}/execute HTTP/1.1\r\nHost: x\r\nX-API-Key: {served.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as sock:
        sock.sendall(request)
        (run,) = wait_until(lambda: runs(served, workflow), "the run began")
        assert record(served, run)["status"] == "running"
    ended = wait_until(lambda: (row := record(served, run))["status"] != "running" and row, "the run ended")
    assert (ended["status"], ended["cause"]) == ("cancelled", "client_disconnected")
    assert "Traceback" not in served.log.read_text()


def test_a_caller_who_leaves_where_the_workflow_says_so_changes_nothing(served: Studio) -> None:
    workflow = served.deploy(document("scripted/echo", settings={"on_disconnect": "continue"}))
    said = " ".join(["word"] * 20)
    stream = served.execute(workflow, {"stream": True, "input": said}, NEGOTIATE)
    run = stream.headers["X-Run-Id"]
    stream.close()
    ended = wait_until(lambda: (row := record(served, run))["status"] != "running" and row, "the run ended")
    assert ended["status"] == "completed"
    assert ended["output"]["content"] == said


def test_a_waiting_caller_is_answered_when_the_server_stops(tmp_path: t.Any) -> None:
    with servers.studio(tmp_path / "data") as studio:
        workflow = studio.deploy(document("scripted/silent"))
        body = b"{}"
        request = (
            f"POST /api/workflows/{workflow}/execute HTTP/1.1\r\nHost: x\r\nX-API-Key: {studio.key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        ).encode() + body
        with socket.create_connection(("127.0.0.1", studio.port), timeout=30) as sock:
            sock.sendall(request)
            wait_until(lambda: runs(studio, workflow), "the run began")
            assert studio.stop() == 0
            answer = b""
            while piece := sock.recv(65536):
                answer += piece
        ended = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert ended["status"] == "cancelled"
        assert ended["error"]["code"] == "cancelled"
        assert "shutting down" in ended["error"]["message"]


def test_every_short_run_is_whole(served: Studio) -> None:
    """A run that ends within a millisecond loses nothing (field case TERMINAL-12)."""
    workflow = served.deploy(document("scripted/instant"))
    for _ in range(100):
        with served.execute(workflow, {"stream": True, "input": "x"}, NEGOTIATE) as stream:
            frames = [frame.json() for frame in stream.events()]
        assert frames[0]["chunk"] == "At once."
        assert frames[1]["event"] == "final"
        assert frames[2:] == ["[DONE]"]

"""Both back ends over a real server: bytes, headers, silence."""

from __future__ import annotations

import re
import typing as t

import pytest

from tests.transport.server import Client, Server, serving, unchunked

WRITERS = ("direct", "generator")


@pytest.fixture(scope="module", params=WRITERS)
def server(request: pytest.FixtureRequest) -> t.Iterator[Server]:
    with serving(request.param, STUDIO_KEEPALIVE_S="0.4") as running:
        yield running


@pytest.fixture(scope="module")
def both() -> t.Iterator[tuple[Server, Server]]:
    with serving("direct") as direct, serving("generator") as generator:
        yield direct, generator


def body(client: Client) -> bytes:
    client.read_head()
    client.until(b"0\r\n\r\n")
    return unchunked(client.data)


@pytest.mark.parametrize("tokens", [0, 1, 400])
def test_equal_bytes(both: tuple[Server, Server], tokens: int) -> None:
    plan = {"tokens": tokens, "size": 200}
    direct, generator = (body(server.client(plan)) for server in both)
    assert direct == generator
    assert direct.count(b'"chunk":') == tokens
    assert direct.endswith(b'data: "[DONE]"\n\n')


def test_equal_headers_but_for_the_connection(both: tuple[Server, Server]) -> None:
    heads = []
    for server in both:
        lines = server.client({}).read_head().split(b"\r\n")
        heads.append({line for line in lines if not line.startswith((b"Date:", b"Connection:"))})
    assert heads[0] == heads[1]
    assert {b"Cache-Control: no-cache, no-transform", b"X-Accel-Buffering: no", b"X-Run-Id: run_1"} <= heads[
        0
    ]
    assert b"Content-Type: text/event-stream; charset=utf-8" in heads[0]


def test_headers_arrive_before_the_first_event(server: Server) -> None:
    client = server.client({"tokens": 1, "gap_s": 3600})
    assert client.read_head().startswith(b"HTTP/1.1 200 OK")
    client.leave()


def test_each_token_arrives_by_itself(server: Server) -> None:
    client = server.client({"tokens": 1, "silent_s": "forever"})
    client.read_head()
    assert client.until(b"\n\n").count(b"data:") == 1
    client.leave()


def test_keepalive_while_nothing_is_said(server: Server) -> None:
    client = server.client({"tokens": 1, "silent_s": 2.5})
    client.read_head()
    client.until(b"0\r\n\r\n")
    frames = unchunked(client.data).split(b"\n\n")
    (token,) = [at for at, frame in enumerate(frames) if frame.startswith(b"id: run_1:2")]
    comments = [at for at, frame in enumerate(frames) if frame == b": keepalive" and at > token]
    assert len(comments) >= 2
    assert comments[0] == token + 1  # between frames, and the stream goes on behind it
    assert frames[-2].endswith(b'"[DONE]"')


def test_body_ends_with_the_connection_in_direct(both: tuple[Server, Server]) -> None:
    client = both[0].client({"tokens": 2})
    client.read_head()
    assert unchunked(client.rest()).endswith(b'data: "[DONE]"\n\n')


def test_pipelined_bytes_are_no_departure(server: Server) -> None:
    client = server.client({"tokens": 30, "gap_s": 0.01}, pipelined=b"GET /stats HTTP/1.1\r\n" + b"x" * 5000)
    client.read_head()
    client.until(b'"[DONE]"\n\n\r\n0\r\n\r\n')
    assert client.data.count(b'"chunk":') == 30
    client.leave()


def test_http_1_0_gets_the_same_body_unchunked(both: tuple[Server, Server]) -> None:
    plan = {"tokens": 3}
    old = both[0].client(plan, version="1.0")
    assert b"Transfer-Encoding" not in old.read_head()
    assert old.rest() == body(both[1].client(plan))


def test_a_connection_serves_again_after_a_stream(both: tuple[Server, Server]) -> None:
    """The iterator's connection stays with the server, framed so that it can be used again."""
    client = both[1].client({"tokens": 1})
    body(client)
    client.data = b""
    client.sock.sendall(b"GET /stats HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert client.rest().startswith(b"HTTP/1.1 200 OK")


def test_a_projection_that_raises_cuts_the_stream(server: Server) -> None:
    client = server.client({"tokens": 1, "fail_at": 2})
    client.read_head()
    received = client.rest()
    assert b'data: "first"' in received
    assert not received.endswith(b"0\r\n\r\n")  # a cut, not an end
    server.until(lambda stats: stats["streams"] == 0)


@pytest.mark.parametrize("writer", WRITERS)
def test_access_line(writer: str) -> None:
    with serving(writer, TEST_ACCESS_LOG="/dev/stderr") as server:
        client = server.client({"tokens": 2})
        length = len(body(client))
        client.leave()
        server.until(lambda stats: stats["streams"] == 0)
        assert server.stop() == 0
    line = re.search(
        r'^127\.0\.0\.1 - - \[.+\] "POST /stream HTTP/1\.1" 200 (\d+) ', server.log, re.MULTILINE
    )
    assert line is not None, server.log
    assert int(line[1]) == length

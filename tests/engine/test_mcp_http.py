"""MCP servers over streamable HTTP: headers, the guard of addresses, redirects, lost sessions."""

from __future__ import annotations

import gzip
import json
import os
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gevent.pywsgi import WSGIServer

from app import events as ev
from app.engine.services import Services
from tests.engine.flows import document, ended
from tests.support.engine import services
from tests.support.mcp_servers import http_server, settings
from tests.support.servers import wait_until

LOOPBACK = {"STUDIO_HTTP_ALLOW": "127.0.0.0/8"}
ANY = {"type": "object", "properties": {}}


def result(made: Services, server: t.Any, tool: str = "echo", **arguments: t.Any) -> t.Any:
    """What a tool answers; what the model would be told when it fails."""
    config = {"tool": {"mcp": server, "tools": [tool]}, "arguments": arguments}
    _, recorder = ended(made, document([("call", "tool", config)], "start > call"))
    (settled,) = recorder.of(ev.ToolFinished)
    return settled.result


class Spoken:
    """A server of the handshake era with sessions, by hand; it notes the requests it gets."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, t.Any], dict[str, str]]] = []
        self.session = "first"
        self.status = ""
        self.location = ""
        self.garbled = ""
        self.compresses = False

    def __call__(self, environ: dict[str, t.Any], start: Callable[..., t.Any]) -> list[bytes]:
        """Answer one request."""
        length = int(environ.get("CONTENT_LENGTH") or 0)
        text = environ["wsgi.input"].read(length)
        message = json.loads(text) if text else {}
        method = message.get("method", environ["REQUEST_METHOD"])
        headers = {k[5:].lower().replace("_", "-"): v for k, v in environ.items() if k.startswith("HTTP_")}
        self.requests.append((method, message, headers))
        if self.location:
            start("307 Temporary Redirect", [("Location", self.location), ("Content-Length", "0")])
            return []
        if self.status:
            start(self.status, [("Content-Length", "0")])
            return []
        answer = self._answer(method, message, headers.get("mcp-session-id"))
        if answer is None:
            known = method in ("initialize", "notifications/initialized")
            start("202 Accepted" if known else "404 Not Found", [("Content-Length", "0")])
            return []
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode()
        if self.garbled and method in ("tools/call", self.garbled):
            body = b'{"result": "' + headers["authorization"].encode()
        more = [("Mcp-Session-Id", self.session)] if method == "initialize" else []
        if self.compresses and method == "tools/call":
            body = gzip.compress(body)
            more = [("Content-Encoding", "gzip")]
        start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *more])
        return [body]

    def _answer(self, method: str, message: t.Any, session: str | None) -> dict[str, t.Any] | None:
        if method == "initialize":
            info = {"name": "spoken", "version": "1"}
            return {
                "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            }
        if session != self.session:
            return None
        if method == "tools/list":
            return {"result": {"tools": [{"name": "echo", "inputSchema": ANY}]}}
        if method == "tools/call":
            return {"result": {"content": [{"type": "text", "text": f"in session {session}"}]}}
        return None

    def of(self, method: str) -> list[dict[str, str]]:
        """Headers of the requests with this method."""
        return [headers for name, _, headers in self.requests if name == method]


@contextmanager
def served(app: Spoken) -> Iterator[str]:
    """The server on loopback; its address."""
    server = WSGIServer(("127.0.0.1", 0), app, log=None, error_log=None)
    server.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.stop(1)


@pytest.fixture(scope="module")
def spoken() -> Spoken:
    return Spoken()


@pytest.fixture(scope="module")
def address(spoken: Spoken) -> Iterator[str]:
    with served(spoken) as url:
        yield url


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, address: str) -> Iterator[Services]:
    """One named server by hand; documents may not reach private addresses."""
    folder = tmp_path_factory.mktemp("mcp")
    os.environ["MCP_TEST_TOKEN"] = "abc-def-123"
    servers = {
        "spoken": {"type": "http", "url": address, "headers": {"Authorization": "Bearer ${MCP_TEST_TOKEN}"}}
    }
    with services(folder, settings(folder, servers)) as opened:
        yield opened
    del os.environ["MCP_TEST_TOKEN"]


@pytest.fixture(autouse=True)
def _as_before(spoken: Spoken) -> None:
    spoken.requests.clear()
    spoken.status = spoken.location = ""


def test_a_named_server_may_be_anywhere_and_gets_its_headers(made: Services, spoken: Spoken) -> None:
    assert result(made, "spoken") == "in session first"
    (headers,) = spoken.of("tools/call")
    assert headers["authorization"] == "Bearer abc-def-123"
    assert headers["mcp-session-id"] == "first"


def test_a_session_that_the_server_has_forgotten_is_begun_again(made: Services, spoken: Spoken) -> None:
    result(made, "spoken")
    spoken.session = "second"
    assert result(made, "spoken") == "in session second"
    assert len(spoken.of("tools/call")) == 3  # one in each session, and the one that was turned away


def test_a_status_is_told(made: Services, spoken: Spoken) -> None:
    result(made, "spoken")
    spoken.status = "401 Unauthorized"
    told = "The MCP server spoken answers with HTTP status 401; check its url and headers."
    assert result(made, "spoken") == {"error": told}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "[::ffff:127.0.0.1]"])
def test_a_server_of_a_document_may_not_be_private(
    made: Services, spoken: Spoken, address: str, host: str
) -> None:
    server = {"url": address.replace("127.0.0.1", host), "name": "inner"}
    told = result(made, server)["error"]
    assert told.startswith("The MCP server inner is not on the public internet;")
    assert "STUDIO_HTTP_ALLOW" in told
    assert spoken.of("server/discover") == spoken.of("initialize") == []


def test_the_operator_may_allow_private_networks(tmp_path: Path, spoken: Spoken, address: str) -> None:
    with services(tmp_path, LOOPBACK) as made:
        server = {"url": address, "headers": {"X-Who": "{{ input.message }}"}}
        assert result(made, server) == f"in session {spoken.session}"
        assert spoken.of("tools/call")[0]["x-who"] == "hi"


def test_redirects_are_not_followed_elsewhere(tmp_path: Path) -> None:
    """Not even to what may be reached: headers are for the server they were written for."""
    here, there = Spoken(), Spoken()
    with served(here) as first, served(there) as second, services(tmp_path, LOOPBACK) as made:
        here.location = second
        told = result(made, {"url": first, "name": "moved", "headers": {"X-Key": "k"}})["error"]
    assert told.startswith("The MCP server moved ")
    assert here.requests
    assert there.requests == []


@pytest.mark.parametrize("value", ["two\r\nlines", "nul\0"])
def test_a_header_that_cannot_be_sent_is_named(made: Services, value: str) -> None:
    server = {"url": "http://192.0.2.1/mcp", "name": "odd", "headers": {"X-Who": value}}
    told = "The MCP server odd cannot be asked: the header 'X-Who' has characters that are not allowed there."
    assert result(made, server) == {"error": told}


def test_headers_are_sent_as_those_of_http_tools(tmp_path: Path) -> None:
    """Those of the connection are not a document's to set; names are so in any case."""
    here = Spoken()
    given = {
        "Host": "other",
        "Content-Length": "3",
        "Transfer-Encoding": "chunked",
        "user-agent": "mine",
        "X-Who": "J\xfcrg",
    }
    with served(here) as url, services(tmp_path, LOOPBACK) as made:
        assert result(made, {"url": url, "name": "here", "headers": given}) == "in session first"
    (sent,) = here.of("tools/call")
    assert sent["host"] == url.split("/")[2]
    assert (sent["user-agent"], sent["x-who"]) == ("mine", "J\xfcrg")
    assert "transfer-encoding" not in sent


def test_an_answer_that_is_no_json_is_not_quoted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What a server says back may be cut in the middle of a secret."""
    here = Spoken()
    here.garbled = "tools/call"
    with served(here) as url, services(tmp_path, LOOPBACK) as made, caplog.at_level("INFO", "studio.mcp"):
        made.store.secrets.set("KEY", "a-key-that-" + "goes-on-" * 20)
        server = {"url": url, "name": "here", "headers": {"Authorization": "Bearer {{ secrets.KEY }}"}}
        told = {"error": "The MCP server here gave an answer that cannot be used."}
        assert result(made, server) == told
        here.garbled = "initialize"
        assert (
            "code -32700"
            in result(made, {**server, "name": "again", "headers": {**server["headers"], "X": "2"}})["error"]
        )
        wait_until(
            lambda: "again: cannot be used: MCPError: Failed to parse" in caplog.messages, "the log says so"
        )
    assert not [line for line in caplog.messages if "goes-on" in line]


def test_what_is_compressed_is_not_read(tmp_path: Path) -> None:
    """A megabyte of it may be gigabytes."""
    here = Spoken()
    here.compresses = True
    with served(here) as url, services(tmp_path, LOOPBACK) as made:
        told = result(made, {"url": url, "name": "here"})["error"]
    assert told == (
        "The MCP server here compresses its answers although that was declined. Whether the call was run is unknown."
    )
    assert {headers["accept-encoding"] for _, _, headers in here.requests} == {"identity"}


def test_a_server_of_today_speaks_and_is_found_again_after_a_restart(tmp_path: Path) -> None:
    with services(tmp_path, {**LOOPBACK, "STUDIO_MCP_START_S": "60"}) as made:
        with http_server(tmp_path / "one") as url:
            server = {"url": url, "name": "web"}
            assert result(made, server, "add", a=1, b=2) == {"result": 3}
            assert len(result(made, server, "big", size=1_900_000)) == 1_900_000
            too_long = result(made, server, "big", size=9_000_000)["error"]
            assert result(made, server, "add", a=2, b=2) == {"result": 4}
        gone = result(made, server, "add", a=1, b=2)["error"]
    assert too_long
    assert gone.startswith("The MCP server web ")

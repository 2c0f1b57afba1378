"""Asking servers which models they have, over real sockets."""

from __future__ import annotations

import json
import typing as t

import pytest

from app.engine.scope import RunScope
from providers import model_lists, spec
from providers.auth import HeaderAuth
from tests.providers.calling import answers
from tests.providers.raw_server import Peer, raw_server

Ask = t.Callable[[spec.Connection, spec.Waits], list[str]]


def answer(body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def asked(ask: Ask, reply: t.Any, path: str = "/v1", status: str = "200 OK") -> tuple[list[str], bytes]:
    """What ``ask`` makes of one answer, and the request it sent."""
    seen: list[bytes] = []
    raw = reply if isinstance(reply, bytes) else json.dumps(reply).encode()

    def serve(peer: Peer) -> None:
        line = b""
        while not line.endswith(b"\r\n\r\n"):
            piece = peer.sock.recv(4096)
            if not piece:
                return
            line += piece
        seen.append(line)
        peer.send(answer(raw, status))

    with raw_server(serve) as address, RunScope() as scope:
        connection = spec.Connection(
            f"http://{address}{path}",
            HeaderAuth("Authorization", "Bearer "),
            {"api_key": "k"},
            {"X-Extra": "1"},
        )
        return ask(connection, scope), seen[0]


def test_openai() -> None:
    reply = {"data": [{"id": "b"}, {"id": "a", "object": "model"}, {"id": "b"}]}
    names, request = asked(model_lists.openai_models, reply)
    assert names == ["a", "b"]
    assert request.startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert b"Authorization: Bearer k\r\n" in request
    assert b"X-Extra: 1\r\n" in request


@pytest.mark.parametrize(
    ("ask", "reply", "names"),
    [
        (model_lists.openai_models, [{"id": "a"}, {"id": "c"}], ["a", "c"]),
        (model_lists.openai_models, {"models": [{"name": "m"}]}, ["m"]),
        (model_lists.openai_models, {"data": []}, []),
        (
            model_lists.chat_models,
            [{"id": "a", "type": "chat"}, {"id": "e", "type": "embedding"}, {"id": "n"}],
            ["a", "n"],
        ),
    ],
)
def test_variants(ask: Ask, reply: t.Any, names: list[str]) -> None:
    assert asked(ask, reply)[0] == names


@pytest.mark.parametrize("path", ["", "/v1", "/api"])
def test_ollama(path: str) -> None:
    names, request = asked(
        model_lists.ollama_models, {"models": [{"name": "qwen3:8b"}, {"model": "x:1"}]}, path
    )
    assert names == ["qwen3:8b", "x:1"]
    assert request.startswith(b"GET /api/tags HTTP/1.1\r\n")


def test_databricks() -> None:
    reply = {
        "endpoints": [{"name": "chat", "task": "llm/v1/chat"}, {"name": "e", "task": "llm/v1/embeddings"}]
    }
    names, request = asked(model_lists.databricks_endpoints, reply, "/serving-endpoints")
    assert names == ["chat"]
    assert request.startswith(b"GET /api/2.0/serving-endpoints HTTP/1.1\r\n")


def test_what_is_no_name_is_passed_over() -> None:
    odd = [{"id": 7}, {"id": ""}, {"name": None}, "text", None]
    assert asked(model_lists.openai_models, {"data": [*odd, {"id": "m"}]})[0] == ["m"]


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        ({"error": {"message": "no"}}, "401 Unauthorized", "provider_auth"),
        ({"error": {"message": "slow"}}, "429 Too Many", "provider_rate_limited"),
        (b"<html>", "200 OK", "provider_bad_stream"),
        ({"data": "all"}, "200 OK", "provider_bad_stream"),
        (b"7", "200 OK", "provider_bad_stream"),
    ],
)
def test_answers_that_are_no_list(reply: t.Any, status: str, code: str) -> None:
    with pytest.raises(spec.ProviderError) as failed:
        asked(model_lists.openai_models, reply, status=status)
    assert failed.value.code == code


def test_nobody_there() -> None:
    with raw_server(answers()) as address:
        pass
    connection = spec.Connection(f"http://{address}/v1", HeaderAuth("A"))
    with RunScope() as scope, pytest.raises(spec.ProviderError) as failed:
        model_lists.openai_models(connection, scope)
    assert failed.value.code == "provider_unavailable"


class Fetches:
    """A scheme that has to ask for a token first."""

    prepared = False

    def prepare(self, credentials: t.Mapping[str, str], connect_s: float, waits: spec.Waits) -> None:
        self.prepared = True

    def apply(self, request: spec.HttpRequest, credentials: t.Mapping[str, str]) -> None:
        assert self.prepared
        request.headers["X-Token"] = credentials["realm"]


def test_tokens_are_fetched_first() -> None:
    def ask(connection: spec.Connection, waits: spec.Waits) -> list[str]:
        own = spec.Connection(connection.base_url, Fetches(), options={"realm": "r"})
        return model_lists.openai_models(own, waits)

    names, request = asked(ask, {"data": [{"id": "a"}]})
    assert names == ["a"]
    assert b"X-Token: r\r\n" in request

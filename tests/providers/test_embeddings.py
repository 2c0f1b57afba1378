"""Embedding wires: what goes out byte for byte, what comes back, and every way it can fail."""

from __future__ import annotations

import base64
import json
import math
import typing as t
from array import array

import gevent
import gevent.event
import pytest

from app.engine.scope import Cancelled, RunScope
from providers import (
    bedrock_embeddings,
    cohere_embeddings,
    embedding,
    gemini_embeddings,
    ollama_embeddings,
    openai_embeddings,
    scripted_embeddings,
    spec,
    vertex_embeddings,
)
from providers.auth import BEARER, NoAuth
from tests.providers.raw_server import Peer, raw_server

Json = dict[str, t.Any]
OPENAI = openai_embeddings.WIRE
#: Two vectors as OpenAI sends them.
TWO: Json = {"data": [{"index": 0, "embedding": [1.0, 0.5]}, {"index": 1, "embedding": [0.0, -2.0]}]}
ASKED = ("first", "second")


def asked(
    *texts: str, model: str = "m", purpose: t.Any = "document", **dialect: t.Any
) -> spec.EmbeddingRequest:
    """A request for these texts."""
    return spec.EmbeddingRequest(model, texts or ASKED, purpose, dialect)


def connection(address: str, path: str = "/v1", **changes: t.Any) -> spec.Connection:
    """A connection to ``address`` with short limits."""
    given: dict[str, t.Any] = {"connect_s": 5.0, "idle_s": 5.0, **changes}
    return spec.Connection(f"http://{address}{path}", given.pop("auth", NoAuth()), **given)


def reply(value: t.Any, status: str = "200 OK", headers: str = "") -> bytes:
    """A whole answer with a JSON body."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def embed(
    wire: t.Any, request: spec.EmbeddingRequest, *replies: bytes, **changes: t.Any
) -> tuple[spec.Embedded, str, Json, bytes]:
    """One call answered by ``replies[0]``; what came, the request's first line, its body, and all of it."""
    got: list[bytes] = []

    def handle(peer: Peer) -> None:
        got.append(peer.request())
        for each in replies:
            peer.send(each)

    with raw_server(handle) as address, RunScope() as scope:
        found = wire.embed(request, connection(address, **changes), scope)
    head, _, body = got[0].partition(b"\r\n\r\n")
    return found, head.split(b"\r\n")[0].decode(), json.loads(body), got[0]


def fails(
    *replies: bytes, wire: t.Any = OPENAI, request: spec.EmbeddingRequest | None = None, **changes: t.Any
) -> spec.ProviderError:
    """The error of a call."""
    with pytest.raises(spec.ProviderError) as caught:
        embed(wire, request or asked(), *replies, **changes)
    return caught.value


def floats(found: spec.Embedded) -> list[list[float]]:
    """The vectors as lists."""
    return [list(vector) for vector in found.vectors]


def dot(first: list[float], second: list[float]) -> float:
    """How alike two vectors of unit length are."""
    return sum(a * b for a, b in zip(first, second, strict=True))


class TestOpenAI:
    def test_what_is_asked_and_answered(self) -> None:
        answer = {**TWO, "usage": {"prompt_tokens": 7, "total_tokens": 7}}
        found, line, body, raw = embed(
            OPENAI, asked(), reply(answer), auth=BEARER, credentials={"api_key": "k"}
        )
        assert line == "POST /v1/embeddings HTTP/1.1"
        assert body == {"model": "m", "input": ["first", "second"]}
        assert b"\r\nAuthorization: Bearer k\r\n" in raw
        assert floats(found) == [[1.0, 0.5], [0.0, -2.0]]
        assert found.usage == spec.Usage(input=7, total=7)

    def test_base64_is_read_whether_it_was_asked_for_or_not(self) -> None:
        packed = base64.b64encode(array("f", [0.25, -3.0]).tobytes()).decode()
        answer = reply({"data": [{"index": 0, "embedding": packed}]})
        found, _, body, _ = embed(OPENAI, asked("one", base64=True), answer)
        assert body["encoding_format"] == "base64"
        assert floats(found) == [[0.25, -3.0]]
        found, _, body, _ = embed(OPENAI, asked("one"), answer)
        assert "encoding_format" not in body
        assert floats(found) == [[0.25, -3.0]]

    def test_vectors_out_of_order_are_put_in_order(self) -> None:
        found, *_ = embed(OPENAI, asked(), reply({"data": TWO["data"][::-1]}))
        assert floats(found) == [[1.0, 0.5], [0.0, -2.0]]
        assert found.usage is None

    def test_vectors_without_an_index_stand_as_they_come(self) -> None:
        bare = [{"embedding": [2.0]}, {"embedding": [1.0]}]
        found, *_ = embed(OPENAI, asked(), reply({"data": bare, "usage": {"total_tokens": 3}}))
        assert floats(found) == [[2.0], [1.0]]
        assert found.usage == spec.Usage(input=3, total=3)

    @pytest.mark.parametrize(("purpose", "word"), [("document", "passage"), ("query", "query")])
    def test_purpose_as_a_member_and_as_words(self, purpose: t.Any, word: str) -> None:
        request = asked(
            "x", purpose=purpose, purpose_field="input_type", purposes={"document": "passage"},
            prefixes={"query": "q: ", "document": "d: "}, body={"truncate": "END"},
        )  # fmt: skip
        _, _, body, _ = embed(OPENAI, request, reply({"data": [{"embedding": [1]}]}))
        assert body == {"model": "m", "input": [f"{purpose[0]}: x"], "input_type": word, "truncate": "END"}

    def test_half_a_character_is_sent_as_something(self) -> None:
        _, _, body, _ = embed(OPENAI, asked("a\ud800b"), reply({"data": [{"embedding": [1]}]}))
        assert len(body["input"][0]) == 3


class TestOthers:
    def test_gemini(self) -> None:
        request = asked(
            model="gemini-embedding-001", purpose="query", task_types={"query": "RETRIEVAL_QUERY"}
        )
        answer = {
            "embeddings": [{"values": [1, 2]}, {"values": [3, 4]}],
            "usageMetadata": {"promptTokenCount": 5},
        }
        found, line, body, _ = embed(gemini_embeddings.WIRE, request, reply(answer), path="/v1beta")
        assert line == "POST /v1beta/models/gemini-embedding-001:batchEmbedContents HTTP/1.1"
        assert body["requests"][1] == {
            "model": "models/gemini-embedding-001",
            "content": {"parts": [{"text": "second"}]},
            "taskType": "RETRIEVAL_QUERY",
        }
        assert floats(found) == [[1.0, 2.0], [3.0, 4.0]]
        assert found.usage == spec.Usage(input=5, total=5)

    def test_gemini_with_words_in_place_of_a_task(self) -> None:
        request = asked("x", model="gemini-embedding-2", prefixes={"document": "title: none | text: "})
        _, _, body, _ = embed(gemini_embeddings.WIRE, request, reply({"embeddings": [{"values": [1]}]}))
        assert body == {
            "requests": [
                {
                    "model": "models/gemini-embedding-2",
                    "content": {"parts": [{"text": "title: none | text: x"}]},
                }
            ]
        }

    def test_vertex(self) -> None:
        answer = {
            "predictions": [
                {"embeddings": {"values": [1], "statistics": {"token_count": 2}}},
                {"embeddings": {"values": [2], "statistics": {"token_count": 3}}},
            ]
        }
        found, line, body, _ = embed(
            vertex_embeddings.WIRE,
            asked(model="text-embedding-005", task_types={"document": "RETRIEVAL_DOCUMENT"}),
            reply(answer),
            options={"project": "p", "location": "europe-west1"},
        )
        path = "/v1/projects/p/locations/europe-west1/publishers/google/models/text-embedding-005:predict"
        assert line == f"POST {path} HTTP/1.1"
        assert body["instances"][0] == {"content": "first", "task_type": "RETRIEVAL_DOCUMENT"}
        assert (floats(found), found.usage) == ([[1.0], [2.0]], spec.Usage(input=5, total=5))

    def test_cohere(self) -> None:
        answer = {"embeddings": {"float": [[1], [2]]}, "meta": {"billed_units": {"input_tokens": 4}}}
        found, line, body, _ = embed(cohere_embeddings.WIRE, asked(), reply(answer), path="/v2")
        assert line == "POST /v2/embed HTTP/1.1"
        assert body == {
            "model": "m",
            "texts": ["first", "second"],
            "input_type": "search_document",
            "embedding_types": ["float"],
        }
        assert (floats(found), found.usage) == ([[1.0], [2.0]], spec.Usage(input=4, total=4))

    @pytest.mark.parametrize("path", ["", "/v1", "/api"])
    def test_ollama(self, path: str) -> None:
        answer = {"model": "m", "embeddings": [[1], [2]], "prompt_eval_count": 9}
        found, line, body, _ = embed(ollama_embeddings.WIRE, asked(), reply(answer), path=path)
        assert line == "POST /api/embed HTTP/1.1"
        assert body == {"model": "m", "input": ["first", "second"]}
        assert (floats(found), found.usage) == ([[1.0], [2.0]], spec.Usage(input=9, total=9))

    def test_titan_on_bedrock(self) -> None:
        request = asked("one", model="amazon.titan-embed-text-v2:0", style="titan")
        answer = {"embedding": [1, 2], "inputTextTokenCount": 3}
        found, line, body, _ = embed(bedrock_embeddings.WIRE, request, reply(answer), path="")
        assert line == "POST /model/amazon.titan-embed-text-v2%3A0/invoke HTTP/1.1"
        assert body == {"inputText": "one"}
        assert (floats(found), found.usage) == ([[1.0, 2.0]], spec.Usage(input=3, total=3))

    @pytest.mark.parametrize("embeddings", [{"float": [[1], [2]]}, [[1], [2]]])
    def test_cohere_on_bedrock(self, embeddings: t.Any) -> None:
        request = asked(model="cohere.embed-v4:0", purpose="query", style="cohere")
        answer = reply({"embeddings": embeddings}, headers="X-Amzn-Bedrock-Input-Token-Count: 6\r\n")
        found, _, body, _ = embed(bedrock_embeddings.WIRE, request, answer, path="")
        assert (body["texts"], body["input_type"]) == (["first", "second"], "search_query")
        assert (floats(found), found.usage) == ([[1.0], [2.0]], spec.Usage(input=6, total=6))

    def test_a_model_of_bedrock_that_nobody_knows_is_not_asked(self) -> None:
        error = fails(wire=bedrock_embeddings.WIRE)
        assert error.code == "provider_bad_request"
        assert "Titan" in error.message

    def test_aws_names_its_failure_in_a_header(self) -> None:
        answer = reply(
            {"message": "slow down"}, "400 Bad Request", "x-amzn-errortype: ThrottlingException:x\r\n"
        )
        error = fails(answer, wire=bedrock_embeddings.WIRE, request=asked("a", style="titan"))
        assert (error.code, error.detail) == ("provider_rate_limited", "slow down")


class TestFailures:
    @pytest.mark.parametrize(
        ("status", "body", "code"),
        [
            ("401 Unauthorized", {"error": {"message": "no", "code": "invalid_api_key"}}, "provider_auth"),
            ("404 Not Found", {"error": {"message": "no such model"}}, "provider_bad_request"),
            ("429 Too Many Requests", {"error": {"message": "slow"}}, "provider_rate_limited"),
            ("503 Service Unavailable", b"<html>busy</html>", "provider_overloaded"),
            ("500 Internal Server Error", b"", "provider_unavailable"),
            (
                "400 Bad Request",
                {
                    "error": {
                        "message": "maximum context length is 8192 tokens",
                        "type": "invalid_request_error",
                    }
                },
                "context_length_exceeded",
            ),
            (
                "200 OK",
                {"error": {"message": "overloaded", "type": "overloaded_error"}},
                "provider_overloaded",
            ),
        ],
    )
    def test_reports(self, status: str, body: t.Any, code: str) -> None:
        error = fails(reply(body, status))
        assert error.code == code
        assert "slow" not in error.message
        assert "conversation" not in error.message

    def test_how_long_to_wait_is_heard(self) -> None:
        error = fails(reply({"error": {}}, "429 Too Many Requests", "Retry-After: 7\r\n"))
        assert error.retry_after == 7.0

    def test_a_redirect_is_not_followed(self) -> None:
        answer = reply({}, "307 Temporary Redirect", "Location: http://elsewhere.example/v1\r\n")
        error = fails(answer, auth=BEARER, credentials={"api_key": "k"})
        assert (error.code, error.detail) == ("provider_unavailable", "http://elsewhere.example/v1")

    @pytest.mark.parametrize(
        "body",
        [
            b"no json",
            b"[]",
            {"data": None},
            {"data": []},
            {"data": TWO["data"][:1]},
            {"data": [{"embedding": [1.0, 2.0]}, {"embedding": [1.0]}]},
            {"data": [{"embedding": []}, {"embedding": []}]},
            {"data": [{"embedding": None}, {"embedding": None}]},
            {"data": [{"embedding": ["1"]}, {"embedding": [1]}]},
            {"data": [{"embedding": "%%%"}, {"embedding": "%%%"}]},
            {"data": [{"embedding": "AAAA"}, {"embedding": "AAAA"}]},
            {"data": [{"embedding": [1e300]}, {"embedding": [1]}]},
            {"choices": [{"message": {"content": "hello"}}]},
            b'{"data": [{"embedding": [NaN]}, {"embedding": [1]}]}',
        ],
    )
    def test_an_answer_without_good_vectors_is_none(self, body: t.Any) -> None:
        assert fails(reply(body)).code == "provider_bad_stream"

    @pytest.mark.parametrize("value", [math.inf, math.nan])
    def test_numbers_that_are_none_inside_base64(self, value: float) -> None:
        packed = base64.b64encode(array("f", [1.0, value]).tobytes()).decode()
        error = fails(reply({"data": [{"embedding": packed}]}), request=asked("one"))
        assert error.code == "provider_bad_stream"

    def test_a_torn_answer(self) -> None:
        error = fails(reply(TWO)[:-5])
        assert error.code == "provider_bad_stream"

    def test_an_answer_without_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(embedding, "MAX_ANSWER", 100)
        endless = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b" " * 200
        assert fails(endless).code == "provider_bad_stream"

    def test_silence(self) -> None:
        def handle(peer: Peer) -> None:
            peer.request()
            peer.gone()

        with raw_server(handle) as address, RunScope() as scope, pytest.raises(spec.ProviderError) as caught:
            OPENAI.embed(asked(), connection(address, idle_s=0.05), scope)
        assert caught.value.code == "provider_idle"

    def test_nobody_there(self) -> None:
        with raw_server(lambda peer: None) as address:
            pass
        with RunScope() as scope, pytest.raises(spec.ProviderError) as caught:
            OPENAI.embed(asked(), connection(address), scope)
        assert caught.value.code == "provider_unavailable"


class TestConnections:
    def test_one_is_kept_for_the_next_call(self) -> None:
        peers: list[Peer] = []

        def handle(peer: Peer) -> None:
            peers.append(peer)
            while peer.request():
                peer.send(reply(TWO))

        with raw_server(handle) as address, RunScope() as scope:
            for _ in range(3):
                OPENAI.embed(asked(), connection(address), scope)
        assert len(peers) == 1

    def test_one_that_was_closed_meanwhile_is_not_held_against_the_call(self) -> None:
        served: list[int] = []

        def handle(peer: Peer) -> None:
            peer.request()
            peer.send(reply(TWO))
            served.append(1)
            if peer.request():  # the second call comes on the kept connection, which breaks
                peer.reset()

        with raw_server(handle) as address, RunScope() as scope:
            OPENAI.embed(asked(), connection(address), scope)
            found = OPENAI.embed(asked(), connection(address), scope)
        assert len(found.vectors) == 2
        assert len(served) == 2

    @pytest.mark.leak_check
    def test_cancel_closes_the_upstream(self) -> None:
        asked_for, gone = gevent.event.Event(), gevent.event.Event()

        def handle(peer: Peer) -> None:
            peer.request()
            peer.send(reply(TWO)[:-1])  # all but the last byte
            asked_for.set()
            try:
                peer.gone()
            finally:  # the answer may lie unread: closing is a reset then
                gone.set()

        with raw_server(handle) as address:
            with RunScope() as scope:
                call = gevent.spawn(OPENAI.embed, asked(), connection(address), scope)
                assert asked_for.wait(10)
                scope.cancel("stop_requested")
                call.join(10)
            assert isinstance(call.exception, Cancelled)
            assert gone.wait(10)


class TestScripted:
    def vectors(self, *texts: str) -> list[list[float]]:
        """The vectors of these texts."""
        nowhere = spec.Connection("", NoAuth())
        with RunScope() as scope:
            return floats(scripted_embeddings.WIRE.embed(asked(*texts), nowhere, scope))

    def test_texts_that_share_words_are_nearer(self) -> None:
        question, near, far = self.vectors(
            "How do I return a damaged parcel?",
            "Returns: a parcel that arrived damaged can be returned within 30 days.",
            "Our offices are closed on public holidays.",
        )
        assert dot(question, near) > 0.3 > abs(dot(question, far))

    def test_the_same_text_gives_the_same_vector_of_unit_length(self) -> None:
        first, again = self.vectors("Rivers and lakes", "Rivers and lakes")
        assert first == again
        assert math.isclose(math.hypot(*first), 1.0, rel_tol=1e-6)

    def test_no_words_give_zeros(self) -> None:
        assert self.vectors("... of the") == [[0.0] * scripted_embeddings.DIMENSIONS]

    def test_a_stop_is_heard(self) -> None:
        with RunScope() as scope:
            scope.cancel("stop_requested")
            with pytest.raises(Cancelled):
                scripted_embeddings.WIRE.embed(asked("x"), spec.Connection("", NoAuth()), scope)

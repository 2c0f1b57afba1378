"""A vendor that summarises no reasoning for an organisation is asked once more without, and not again."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable
from dataclasses import replace

import pytest
from gevent.event import Event

from app.engine.scope import RunScope
from providers import spec, summary_refusal
from providers.auth import NoAuth
from providers.openai_responses import ResponsesWire
from providers.summary_refusal import KEPT, KEPT_S, Refusals, SummaryRefused
from tests.providers.calling import CHUNKED, HEAD, piece
from tests.providers.driving import RESPONSES, request, sse
from tests.providers.raw_server import Peer, raw_server

REFUSAL = {
    "error": {
        "message": "Your organization must be verified to generate reasoning summaries.",
        "type": "invalid_request_error",
        "param": "reasoning.summary",
        "code": "unsupported_value",
    }
}
DELTA = {"type": "response.output_text.delta", "delta": "ok"}
ANSWER = sse(DELTA, {"type": "response.completed", "response": {"status": "completed"}})
ASKING = request(show_thinking=True, thinking="low", dialect={"thinking": "summary"})
WITH, WITHOUT = {"effort": "low", "summary": "auto"}, {"effort": "low"}


def document(status: int, value: t.Any) -> bytes:
    """A JSON answer."""
    data = json.dumps(value).encode()
    head = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(data)) + data


def stream(body: bytes) -> bytes:
    """An event stream."""
    return CHUNKED + piece(body) + b"0\r\n\r\n"


class Vendor:
    """Answers each request by ``answer(asks for a summary)`` and keeps what was asked."""

    def __init__(self, answer: Callable[[bool], bytes]) -> None:
        self.answer = answer
        self.asked: list[t.Any] = []

    def __call__(self, peer: Peer) -> None:
        """One connection."""
        while got := peer.request():
            reasoning = json.loads(got.partition(b"\r\n\r\n")[2]).get("reasoning")
            self.asked.append(reasoning)
            peer.send(self.answer("summary" in (reasoning or {})))


def strict(asks: bool) -> bytes:
    """A vendor that refuses."""
    return document(400, REFUSAL) if asks else stream(ANSWER)


@pytest.fixture
def wire() -> ResponsesWire:
    return replace(RESPONSES, refusals=Refusals())


def connection(address: str, key: str = "k") -> spec.Connection:
    """To the vendor, as the owner of a key."""
    return spec.Connection(f"http://{address}/v1", NoAuth(), credentials={"api_key": key}, idle_s=5.0)


def say(wire: ResponsesWire, to: spec.Connection, asked: spec.ModelRequest = ASKING) -> str:
    """The text of one whole call."""
    with RunScope() as scope:
        events = [event for read in wire.stream(asked, to, scope) for event in read]
    assert isinstance(events[-1], spec.ModelFinished)
    return "".join(event.text for event in events if isinstance(event, spec.TextDelta))


def test_asked_once_more_without_and_remembered(wire: ResponsesWire) -> None:
    vendor = Vendor(strict)
    with raw_server(vendor) as address:
        assert say(wire, connection(address)) == "ok"
        assert vendor.asked == [WITH, WITHOUT]
        assert say(wire, connection(address)) == "ok"
        assert vendor.asked[2:] == [WITHOUT]


def test_another_key_or_model_is_asked_anew(wire: ResponsesWire) -> None:
    vendor = Vendor(strict)
    with raw_server(vendor) as address:
        say(wire, connection(address))
        say(wire, connection(address, "other"))
        say(wire, connection(address), replace(ASKING, model="n"))
    assert vendor.asked == [WITH, WITHOUT] * 3


def test_a_vendor_that_takes_it_is_asked_as_before(wire: ResponsesWire) -> None:
    vendor = Vendor(lambda asks: stream(ANSWER))
    with raw_server(vendor) as address:
        say(wire, connection(address))
        say(wire, connection(address))
        say(wire, connection(address), replace(ASKING, show_thinking=False))
    assert vendor.asked == [WITH, WITH, WITHOUT]


def test_a_refusal_inside_the_stream(wire: ResponsesWire) -> None:
    refused = sse({"type": "error", "error": REFUSAL["error"]})
    vendor = Vendor(lambda asks: stream(refused) if asks else stream(ANSWER))
    with raw_server(vendor) as address:
        assert say(wire, connection(address)) == "ok"
    assert vendor.asked == [WITH, WITHOUT]


def test_nothing_is_repeated_after_text(wire: ResponsesWire) -> None:
    refused = sse(DELTA) + sse({"type": "error", "error": REFUSAL["error"]})
    vendor = Vendor(lambda asks: stream(refused))
    with raw_server(vendor) as address, pytest.raises(spec.ProviderError) as failed:
        say(wire, connection(address))
    assert failed.value.code == "provider_bad_request"
    assert vendor.asked == [WITH]


def test_another_failure_is_raised_as_it_is(wire: ResponsesWire) -> None:
    other = {"error": {"message": "bad effort", "param": "reasoning.effort", "code": "unsupported_value"}}
    vendor = Vendor(lambda asks: document(400, other))
    with raw_server(vendor) as address, pytest.raises(spec.ProviderError) as failed:
        say(wire, connection(address))
    assert failed.value.code == "provider_bad_request"
    assert vendor.asked == [WITH]


def test_closing_ends_the_call(wire: ResponsesWire) -> None:
    ended = Event()

    def endless(peer: Peer) -> None:
        peer.request()
        peer.send(HEAD + b"\r\n" + sse(DELTA))
        peer.gone()
        ended.set()

    with raw_server(endless) as address:
        with RunScope() as scope:
            calls = t.cast(t.Any, wire.stream(ASKING, connection(address), scope))
            assert next(calls) == [spec.TextDelta("ok")]
            calls.close()
        assert ended.wait(10)


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        ({"message": "m", "param": "reasoning.summary"}, True),
        ({"message": "m", "param": "reasoning.generate_summary"}, True),
        ({"message": "Unsupported parameter: 'reasoning.summary' is not supported."}, True),
        ({"message": "Unsupported parameter: 'reasoning.summary'.", "param": None}, True),
        ({"message": "m", "param": "reasoning.effort"}, False),
        ({"message": "reasoning summary", "param": "input"}, False),
        ({"message": "no"}, False),
    ],
)
def test_how_a_refusal_is_told(error: t.Any, refused: bool) -> None:
    for value in (error, {"error": error}):
        found = summary_refusal.http_error(400, {}, json.dumps(value).encode())
        assert isinstance(found, SummaryRefused) == refused
        assert (found.code, found.status) == ("provider_bad_request", 400)
    assert not isinstance(summary_refusal.http_error(400, {}, b"<html>reasoning.summary"), SummaryRefused)
    assert not isinstance(summary_refusal.http_error(429, {}, json.dumps(error).encode()), SummaryRefused)


class TestRefusals:
    def test_not_for_ever(self) -> None:
        now = [0.0]
        refusals = Refusals(lambda: now[0])
        asked = (connection("h"), "m")
        assert asked not in refusals
        refusals.add(*asked)
        assert asked in refusals
        now[0] = KEPT_S
        assert asked not in refusals

    def test_bounded(self) -> None:
        refusals = Refusals()
        for number in range(KEPT + 1):
            refusals.add(connection("h", str(number)), "m")
        assert (connection("h", "0"), "m") not in refusals
        assert (connection("h", str(KEPT)), "m") in refusals
        refusals.clear()
        assert (connection("h", str(KEPT)), "m") not in refusals

    def test_holds_no_credential(self) -> None:
        refusals = Refusals()
        refusals.add(connection("h", "sk-very-secret"), "m")
        assert "secret" not in repr(vars(refusals))

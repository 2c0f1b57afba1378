"""The socket client: framings, ends of every kind, limits, cancellation."""

from __future__ import annotations

import gevent
import gevent.event
import pytest

from app.engine.scope import Cancelled, RunScope
from providers import http, spec
from providers.auth import HeaderAuth, NoAuth
from tests.providers.calling import (
    ANSWER,
    CHUNKED,
    HEAD,
    WHOLE,
    answers,
    connection,
    failure,
    piece,
    stream,
    text,
)
from tests.providers.driving import OPENAI, chunk, request, sse
from tests.providers.raw_server import Peer, raw_server


class TestFramings:
    @pytest.mark.parametrize(
        "reply",
        [
            WHOLE,
            HEAD + b"Content-Length: %d\r\n\r\n" % len(ANSWER) + ANSWER,
            HEAD + b"\r\n" + ANSWER,
            b"HTTP/1.0 200 OK\r\n\r\n" + ANSWER,
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + WHOLE,
            CHUNKED
            + b"".join(piece(ANSWER[at : at + 1]) for at in range(len(ANSWER)))
            + b"0\r\nT: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + ANSWER,
        ],
    )
    def test_whole_and_byte_by_byte(self, reply: bytes) -> None:
        with raw_server(answers(reply)) as address:
            assert text(address) == "ok"

        def slowly(peer: Peer) -> None:
            peer.request()
            for at in range(len(reply)):
                peer.send(reply[at : at + 1])

        with raw_server(slowly) as address:
            assert text(address) == "ok"

    def test_what_is_sent(self) -> None:
        got: list[bytes] = []

        def handle(peer: Peer) -> None:
            got.append(peer.request())
            peer.send(WHOLE)

        with raw_server(handle) as address:
            text(address, auth=HeaderAuth("Authorization", "Bearer "), credentials={"api_key": "k"})
        head, _, body = got[0].partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        assert lines[0] == b"POST /v1/chat/completions HTTP/1.1"
        assert b"Host: " + address.encode() in lines
        assert b"Authorization: Bearer k" in lines
        assert b"Accept-Encoding: identity" in lines
        assert b"Content-Length: %d" % len(body) in lines

    def test_a_request_larger_than_the_socket_takes_at_once(self) -> None:
        got: list[int] = []

        def handle(peer: Peer) -> None:
            gevent.sleep(0.02)
            got.append(len(peer.request()))
            peer.send(WHOLE)

        with raw_server(handle) as address, RunScope() as scope:
            large = request(messages=[spec.UserMessage("x" * 12_000_000)])
            assert list(OPENAI.stream(large, connection(address), scope))
        assert got[0] > 12_000_000

    def test_each_read_is_one_list(self) -> None:
        two = sse(chunk({"content": "a"}), chunk({"content": "b"}))
        with (
            raw_server(answers(CHUNKED + piece(two) + piece(ANSWER) + b"0\r\n\r\n")) as address,
            RunScope() as scope,
        ):
            reads = list(stream(scope, connection(address)))
        assert [type(event) for event in reads[0]][:2] == [spec.TextDelta, spec.TextDelta]


class TestEnds:
    def test_reset_before_the_finish(self) -> None:
        read = gevent.event.Event()

        def handle(peer: Peer) -> None:
            peer.request()
            peer.send(CHUNKED + piece(sse(chunk({"content": "par"}))))
            read.wait(30)
            peer.reset()

        with raw_server(handle) as address, RunScope() as scope:
            events = stream(scope, connection(address))
            assert next(events) == [spec.TextDelta("par")]
            read.set()
            with pytest.raises(spec.ProviderError) as caught:
                next(events)
        assert caught.value.code == "provider_bad_stream"
        assert "reset" not in caught.value.message

    @pytest.mark.parametrize(
        "reply",
        [
            CHUNKED + piece(sse(chunk({"content": "par"}))),
            CHUNKED + piece(sse(chunk({"content": "par"}))) + b"ff\r\nda",
            HEAD + b"Content-Length: 5000\r\n\r\n" + sse(chunk({"content": "par"})),
            CHUNKED + piece(sse(chunk({"content": "par"}))) + b"what\r\n",
        ],
    )
    def test_short_of_its_framing_before_the_finish(self, reply: bytes) -> None:
        with raw_server(answers(reply)) as address:
            got, error = failure(address)
        assert (got, error.code) == ("par", "provider_bad_stream")

    @pytest.mark.parametrize("tail", [b"", b"ff\r\nda", b"what\r\n"])
    def test_any_end_after_the_finish_is_clean(self, tail: bytes) -> None:
        finished = sse(chunk({"content": "ok"}), chunk({}, "stop"))
        with raw_server(answers(CHUNKED + piece(finished) + tail)) as address:
            assert text(address) == "ok"

    def test_reset_after_the_finish(self) -> None:
        def handle(peer: Peer) -> None:
            peer.request()
            peer.send(CHUNKED + piece(sse(chunk({"content": "ok"}), chunk({}, "stop"))))
            gevent.sleep(0.02)
            peer.reset()

        with raw_server(handle) as address:
            assert text(address) == "ok"

    def test_silence_after_the_finish(self) -> None:
        def handle(peer: Peer) -> None:
            peer.request()
            peer.send(CHUNKED + piece(sse(chunk({"content": "ok"}), chunk({}, "stop"))))
            peer.gone()

        with raw_server(handle) as address:
            assert text(address, idle_s=0.5) == "ok"

    def test_closed_without_an_answer(self) -> None:
        with raw_server(lambda peer: None) as address:
            assert failure(address)[1].code == "provider_unavailable"

    def test_no_http_at_all(self) -> None:
        with raw_server(answers(b"SSH-2.0-OpenSSH\r\n\r\n")) as address:
            assert failure(address)[1].code == "provider_bad_stream"

    def test_events_before_an_error_of_the_same_read(self) -> None:
        body = sse(chunk({"content": "par"}), {"error": {"code": 429, "message": "x"}})
        with raw_server(answers(CHUNKED + piece(body) + b"0\r\n\r\n")) as address:
            got, error = failure(address)
        assert (got, error.code) == ("par", "provider_rate_limited")


class TestAnswersThatAreNoStream:
    @pytest.mark.parametrize(
        ("head", "body", "code"),
        [
            ("401 Unauthorized", b'{"error":{"message":"no"}}', "provider_auth"),
            ("500 Oops", b"<html>oops</html>", "provider_unavailable"),
            ("200 OK\r\nContent-Type: application/json", b'{"error":{"code":429}}', "provider_rate_limited"),
            ("200 OK\r\nContent-Type: application/json", b'{"choices":[]}', "provider_bad_stream"),
            ("200 OK\r\nContent-Type: text/html", b"<html>hello</html>", "provider_bad_stream"),
            ("302 Found\r\nLocation: http://elsewhere/", b"", "provider_unavailable"),
            ("204 No Content", b"", "provider_bad_stream"),
        ],
    )
    def test_code(self, head: str, body: bytes, code: str) -> None:
        reply = f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        with raw_server(answers(reply)) as address:
            got, error = failure(address)
        assert (got, error.code) == ("", code)
        assert "oops" not in error.message
        assert "elsewhere" not in error.message

    def test_retry_after(self) -> None:
        reply = b"HTTP/1.1 429 Too Many\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n"
        with raw_server(answers(reply)) as address:
            assert failure(address)[1].retry_after == 3.0

    def test_an_error_report_that_breaks_off(self) -> None:
        with raw_server(answers(b"HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\nbusy")) as address:
            error = failure(address)[1]
        assert (error.code, error.detail) == ("provider_overloaded", "busy")


class TestLimits:
    def test_a_finished_answer_waits_for_no_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who keeps the connection open after the finish holds up nobody, whatever the idle limit is."""
        monkeypatch.setattr(http, "FINISHED_S", 0.05)

        def handle(peer: Peer) -> None:
            peer.request()
            peer.send(CHUNKED + piece(sse(chunk({"content": "ok"}, "stop"))))
            peer.gone()

        with raw_server(handle) as address:
            assert text(address, idle_s=600) == "ok"

    def test_idle_between_pieces(self) -> None:
        closed = gevent.event.Event()

        def handle(peer: Peer) -> None:
            peer.request()
            peer.send(CHUNKED + piece(sse(chunk({"content": "par"}))))
            peer.gone()
            closed.set()

        with raw_server(handle) as address:
            got, error = failure(address, idle_s=0.5)
            assert closed.wait(30)
        assert (got, error.code) == ("par", "provider_idle")

    def test_pings_are_no_progress(self) -> None:
        def handle(peer: Peer) -> None:
            peer.request()
            peer.send(CHUNKED)
            for _ in range(200):
                peer.send(piece(b": ping\n\n"))
                gevent.sleep(0.02)

        with raw_server(handle) as address:
            assert failure(address, idle_s=0.2)[1].code == "provider_idle"

    def test_pieces_are_progress(self) -> None:
        def handle(peer: Peer) -> None:
            peer.request()
            peer.send(CHUNKED)
            for _ in range(6):
                gevent.sleep(0.2)
                peer.send(piece(sse(chunk({"content": "x"}))))
            peer.send(piece(ANSWER) + b"0\r\n\r\n")

        with raw_server(handle) as address:
            assert text(address, idle_s=1) == "x" * 6 + "ok"

    def test_nobody_listens(self) -> None:
        with raw_server(answers()) as address:
            pass
        error = failure(address)[1]
        assert error.code == "provider_unavailable"
        assert address not in error.message

    def test_connecting_takes_too_long(self) -> None:
        def handle(peer: Peer) -> None:
            peer.gone()

        with raw_server(handle) as address, RunScope() as scope:  # TCP is there, TLS never comes
            to = spec.Connection(f"https://{address}/v1", NoAuth(), connect_s=0.1)
            with pytest.raises(spec.ProviderError) as caught:
                list(stream(scope, to))
        assert caught.value.code == "provider_unavailable"

    @pytest.mark.parametrize(
        "base", ["ftp://x/v1", "nonsense", "http://", "http://h:99999/v1", "http://a..b/v1"]
    )
    def test_addresses_that_are_none(self, base: str) -> None:
        with RunScope() as scope, pytest.raises(spec.ProviderError) as caught:
            list(stream(scope, spec.Connection(base, NoAuth())))
        assert caught.value.code == "provider_unavailable"

    def test_a_key_no_header_may_carry(self) -> None:
        to = spec.Connection("http://127.0.0.1:9/v1", HeaderAuth("x-api-key"), {"api_key": "a\r\nX-Evil: 1"})
        with RunScope() as scope, pytest.raises(spec.ProviderError) as caught:
            list(stream(scope, to))
        assert caught.value.code == "provider_auth"
        assert "Evil" not in caught.value.message + caught.value.detail

    def test_the_gate_stops_reading(self) -> None:
        def handle(peer: Peer) -> None:
            peer.request()
            peer.send(CHUNKED + piece(sse(chunk({"content": "a"}))))
            gevent.sleep(0.05)
            peer.send(piece(ANSWER) + b"0\r\n\r\n")

        with raw_server(handle) as address, RunScope() as scope:
            events = stream(scope, connection(address, idle_s=0.3))
            assert next(events) == [spec.TextDelta("a")]
            scope.flow.shut()
            opener = gevent.spawn_later(0.5, scope.flow.open)
            assert next(events)[0] == spec.TextDelta("ok")
            assert opener.ready()


@pytest.mark.leak_check
class TestLeaving:
    def test_closing_the_generator_closes_the_socket(self) -> None:
        closed = gevent.event.Event()

        def handle(peer: Peer) -> None:
            peer.request()
            peer.send(CHUNKED + piece(sse(chunk({"content": "a"}))))
            peer.gone()
            closed.set()

        with raw_server(handle) as address, RunScope() as scope:
            events = stream(scope, connection(address))
            next(events)
            events.close()
            assert closed.wait(30)

    @pytest.mark.parametrize("sent", [b"", HEAD, CHUNKED, CHUNKED + b"5\r\nda"])
    def test_cancel_at_any_stage(self, sent: bytes) -> None:
        asked, closed = gevent.event.Event(), gevent.event.Event()

        def handle(peer: Peer) -> None:
            peer.request()
            peer.send(sent)
            asked.set()
            peer.gone()
            closed.set()

        with raw_server(handle) as address, RunScope() as scope:

            def cancel() -> None:
                asked.wait(30)
                gevent.sleep(0.02)
                scope.cancel("stop_requested")

            canceller = gevent.spawn(cancel)
            with pytest.raises(Cancelled):
                list(stream(scope, connection(address)))
            assert closed.wait(30)
            canceller.join()


def test_an_answer_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("providers.http.MAX_ANSWER", 10_000)

    def handle(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED)
        for _ in range(1_000):
            peer.send(piece(sse(chunk({"content": "more"}))))

    with raw_server(handle) as address:
        said, error = failure(address)
    assert error.code == "provider_bad_stream"
    assert len(said) < 10_000

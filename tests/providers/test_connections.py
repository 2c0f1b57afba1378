"""Upstream connections: what is kept and used again, and TLS."""

from __future__ import annotations

import ssl
import typing as t
from collections.abc import Callable
from pathlib import Path

import gevent
import gevent.event
import pytest

from app.engine.scope import RunScope
from providers import http_connection, spec
from providers.auth import NoAuth
from providers.http_connection import POOL
from tests.providers.calling import (
    ANSWER,
    CHUNKED,
    HEAD,
    WHOLE,
    answers,
    connection,
    piece,
    stream,
    text,
)
from tests.providers.driving import chunk, sse
from tests.providers.raw_server import Peer, raw_server
from tests.support.servers import wait_until


def _held() -> bool:
    """Whether the pool holds any connection."""
    return any(POOL._idle.values())


class TestPool:
    def count(self, *replies: bytes) -> tuple[Callable[[Peer], None], list[int]]:
        """A peer that answers so, and how many requests each connection served."""
        served: list[int] = []

        def handle(peer: Peer) -> None:
            served.append(0)
            mine = len(served) - 1
            for reply in replies:
                if not peer.request():
                    return
                served[mine] += 1
                peer.send(reply)
            peer.gone()

        return handle, served

    def test_a_clean_end_is_used_again(self) -> None:
        handle, served = self.count(WHOLE, WHOLE, WHOLE)
        with raw_server(handle) as address:
            for _ in range(3):
                assert text(address) == "ok"
        assert served == [3]

    def test_the_end_of_the_body_may_come_after_the_sentinel(self) -> None:
        def handle(peer: Peer) -> None:
            for _ in range(2):
                peer.request()
                peer.send(CHUNKED + piece(ANSWER))
                gevent.sleep(0.02)
                peer.send(b"0\r\n\r\n")
            served.append(2)

        served: list[int] = []
        with raw_server(handle) as address:
            assert text(address) == "ok"
            gevent.sleep(0.05)
            assert text(address) == "ok"
            gevent.sleep(0.05)
        assert served == [2]

    @pytest.mark.parametrize(
        "reply",
        [
            CHUNKED + piece(ANSWER),
            WHOLE + b"extra",
            HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + piece(ANSWER) + b"0\r\n\r\n",
            CHUNKED + piece(sse(chunk({"content": "x"}), {"error": "no"})) + b"0\r\n\r\n",
        ],
    )
    def test_any_other_end_is_not(self, reply: bytes) -> None:
        handle, served = self.count(reply, WHOLE)
        with raw_server(handle) as address, RunScope() as scope:
            for _ in range(2):
                try:
                    list(stream(scope, connection(address)))
                except spec.ProviderError:
                    pass
        assert served == [1, 1]

    def test_one_that_the_peer_closed_is_not_used(self) -> None:
        served: list[int] = []

        def and_close(peer: Peer) -> None:
            peer.request()
            served.append(1)
            peer.send(WHOLE)

        with raw_server(and_close) as address:
            assert text(address) == "ok"
            gevent.sleep(0.05)
            assert text(address) == "ok"
        assert served == [1, 1]

    def test_one_that_the_peer_closes_on_the_request_is_replaced(self) -> None:
        served: list[int] = []

        def handle(peer: Peer) -> None:
            served.append(1)
            peer.request()
            peer.send(WHOLE)
            if len(served) == 1:
                peer.request()
                peer.reset()

        with raw_server(handle) as address:
            assert text(address) == "ok"
            assert text(address) == "ok"
        assert served == [1, 1]

    def test_the_sweep_closes_what_the_peer_closed_and_what_grew_old(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http_connection, "SWEEP_SECONDS", 0.02)
        closed = gevent.event.Event()

        def handle(peer: Peer) -> None:
            peer.request()
            peer.send(WHOLE)
            peer.gone()
            closed.set()

        with raw_server(answers(WHOLE)) as address:
            text(address)
            wait_until(lambda: not _held(), "the pool let go of what the peer closed")
        with raw_server(handle) as address:
            text(address)
            assert _held()
            monkeypatch.setattr(http_connection, "IDLE_SECONDS", 0.0)
            assert closed.wait(30)
        assert not _held()

    def test_idle_ones_are_closed(self) -> None:
        handle, served = self.count(WHOLE)
        with raw_server(handle) as address:
            text(address)
            POOL.close()
            text(address)
        assert served == [1, 1]


#: A certificate for localhost and its key, made for these tests and good for nothing else.
PEM = Path(__file__).with_name("localhost.pem")


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client trusts the test's own certificate."""
    monkeypatch.setattr(http_connection.Tls, "context", ssl.create_default_context(cafile=str(PEM)))


class TestTls:
    def serve(self, *replies: bytes) -> t.Any:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(PEM)
        return raw_server(answers(*replies), ssl_context=context)

    def read(self, address: str, host: str = "localhost") -> str:
        port = address.rpartition(":")[2]
        to = spec.Connection(f"https://{host}:{port}/v1", NoAuth(), idle_s=5)
        with RunScope() as scope:
            events = [event for read in stream(scope, to) for event in read]
        return "".join(event.text for event in events if isinstance(event, spec.TextDelta))

    @pytest.mark.usefixtures("trusting")
    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
    def test_kept_and_used_again(self, host: str) -> None:
        with self.serve(WHOLE, WHOLE) as address:
            assert [self.read(address, host), self.read(address, host)] == ["ok", "ok"]

    @pytest.mark.usefixtures("trusting")
    def test_more_than_one_record_at_once(self) -> None:
        long = sse(chunk({"content": "x" * 300_000}), chunk({}, "stop"), "[DONE]")
        with self.serve(CHUNKED + piece(long) + b"0\r\n\r\n") as address:
            assert len(self.read(address)) == 300_000

    @pytest.mark.usefixtures("trusting")
    def test_cut(self) -> None:
        with self.serve(CHUNKED + piece(sse(chunk({"content": "par"})))) as address:
            with pytest.raises(spec.ProviderError) as caught:
                self.read(address)
        assert caught.value.code == "provider_bad_stream"

    def test_a_certificate_nobody_vouches_for(self) -> None:
        with self.serve(WHOLE) as address, pytest.raises(spec.ProviderError) as caught:
            self.read(address)
        assert caught.value.code == "provider_unavailable"
        assert "certificate" in caught.value.message

    def test_no_tls_there(self) -> None:
        with raw_server(lambda peer: peer.send(b"hello, this is no TLS\r\n")) as address:
            with pytest.raises(spec.ProviderError) as caught:
                self.read(address)
        assert caught.value.code == "provider_unavailable"

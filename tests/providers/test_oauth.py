"""Tokens: asked for over a real socket, kept, shared, refused."""

from __future__ import annotations

import base64
import typing as t

import gevent
import gevent.event
import pytest

from app.engine.scope import Cancelled, RunScope
from providers import http_fetch
from providers.auth import HeaderAuth
from providers.http_fetch import fetch_json
from providers.ibm_auth import IbmIamAuth
from providers.oauth import ChosenAuth, ClientCredentials, GivenToken, Token, TokenAuth
from providers.spec import HttpRequest, ProviderError
from tests.providers.raw_server import Peer, raw_server
from tests.providers.token_endpoint import endpoint, header, refusal

CLIENT = {"client_id": "me", "client_secret": "hush&hush"}


class TestClientCredentials:
    def test_in_the_form(self) -> None:
        with endpoint() as (served, url):
            auth = TokenAuth(ClientCredentials(url + "/{tenant}", scope="a b"))
            assert header(auth, {**CLIENT, "tenant": "t1"}) == "Bearer tok-1"
        assert served.forms == [{"grant_type": "client_credentials", "scope": "a b", **CLIENT}]
        assert b"POST /token/t1 HTTP/1.1" in served.heads[0]

    def test_in_the_header(self) -> None:
        with endpoint() as (served, url):
            header(TokenAuth(ClientCredentials(url, basic=True)), CLIENT)
        assert served.forms == [{"grant_type": "client_credentials"}]
        assert b"Basic " + base64.b64encode(b"me:hush&hush") in served.heads[0]

    def test_a_setting_that_the_address_needs(self) -> None:
        assert "tenant" in refusal(TokenAuth(ClientCredentials("http://x/{tenant}")), CLIENT).message


class TestKeeping:
    def test_one_fetch_for_many_calls(self) -> None:
        with endpoint() as (served, url):
            auth = TokenAuth(ClientCredentials(url))
            for _ in range(3):
                assert header(auth, CLIENT) == "Bearer tok-1"
            assert len(served.forms) == 1
            header(auth, {**CLIENT, "client_id": "you"})
            assert len(served.forms) == 2

    def test_a_token_about_to_expire_is_renewed(self) -> None:
        replies = [(200, {"access_token": name, "expires_in": 0}) for name in ("a", "b")]
        with endpoint(*replies) as (_, url):
            auth = TokenAuth(ClientCredentials(url))
            assert [header(auth, CLIENT), header(auth, CLIENT)] == ["Bearer a", "Bearer b"]

    @pytest.mark.parametrize(("lasts", "kept"), [(3600.0, 3300.0), (100.0, 80.0), (0.0, 0.0)])
    def test_the_margin(self, monkeypatch: pytest.MonkeyPatch, lasts: float, kept: float) -> None:
        class Source:
            fetched = 0

            def key(self, credentials: t.Any) -> tuple[str, ...]:
                return ("k",)

            def fetch(self, credentials: t.Any, connect_s: float, waits: t.Any) -> Token:
                self.fetched += 1
                return Token("x", lasts)

        now = [1000.0]
        monkeypatch.setattr("providers.oauth.time.monotonic", lambda: now[0])
        source = Source()
        auth = TokenAuth(source)
        header(auth, {})
        now[0] += kept - 0.01 if kept else 0
        header(auth, {})
        assert source.fetched == (1 if kept else 2)
        now[0] += 0.02
        header(auth, {})
        assert source.fetched == (2 if kept else 3)

    def test_who_comes_second_waits_and_shares(self) -> None:
        with endpoint() as (served, url), RunScope() as scope:
            served.hold = gevent.event.Event()
            auth = TokenAuth(ClientCredentials(url))
            got: list[str | None] = []
            for _ in range(3):
                scope.spawn(lambda: got.append(header(auth, CLIENT)))
            assert served.asked.wait(30)
            served.hold.set()
            scope.join()
        assert got == ["Bearer tok-1"] * 3
        assert len(served.forms) == 1

    def test_a_failure_is_shared_too_and_not_kept(self) -> None:
        with endpoint((400, {"error": "invalid_client"}), (200, {"access_token": "t"})) as (served, url):
            served.hold = gevent.event.Event()
            auth = TokenAuth(ClientCredentials(url))
            got: list[ProviderError] = []
            with RunScope() as scope:
                for _ in range(2):
                    scope.spawn(lambda: got.append(refusal(auth, CLIENT)))
                assert served.asked.wait(30)
                served.hold.set()
                scope.join()
            assert [error.code for error in got] == ["provider_auth"] * 2
            assert got[0] is not got[1]
            assert len(served.forms) == 1
            assert header(auth, CLIENT) == "Bearer t"

    def test_who_is_cancelled_leaves_the_fetch_to_the_next(self) -> None:
        with endpoint() as (served, url), RunScope() as outer:
            served.hold = gevent.event.Event()
            auth = TokenAuth(ClientCredentials(url))
            first = RunScope()
            ended: list[str] = []
            got: list[str | None] = []

            def leaving() -> None:
                with pytest.raises(Cancelled):
                    auth.prepare(CLIENT, 5.0, first)
                ended.append("left")

            outer.spawn(leaving)
            assert served.asked.wait(30)
            outer.spawn(lambda: got.append(header(auth, CLIENT)))
            gevent.sleep(0)
            first.cancel("user_stop")
            served.hold.set()
            outer.join()
            first.close()
        assert ended == ["left"]
        assert got == ["Bearer tok-1"]
        assert len(served.forms) == 2

    def test_without_asking_first(self) -> None:
        request = HttpRequest("POST", "http://v", {}, b"")
        with pytest.raises(ProviderError):
            TokenAuth(ClientCredentials("http://x")).apply(request, CLIENT)

    def test_a_token_is_in_no_text(self) -> None:
        assert "sekret" not in repr(Token("sekret", 1.0))


class TestRefusals:
    @pytest.mark.parametrize(
        ("reply", "code"),
        [
            ((400, {"error": "invalid_grant", "error_description": "bad"}), "provider_auth"),
            ((401, b"no"), "provider_auth"),
            ((404, b"<html>"), "provider_auth"),
            ((429, {"error": "slow down"}), "provider_rate_limited"),
            ((500, b""), "provider_unavailable"),
            ((503, b""), "provider_overloaded"),
            ((200, {"token": "sekret"}), "provider_auth"),
            ((200, b"sekret"), "provider_auth"),
            ((200, {"access_token": ""}), "provider_auth"),
        ],
    )
    def test_codes(self, reply: tuple[int, t.Any], code: str) -> None:
        with endpoint(reply) as (_, url):
            error = refusal(TokenAuth(ClientCredentials(url)), CLIENT)
        if reply[0] == 503:
            assert error.code in ("provider_unavailable", "provider_overloaded")
        else:
            assert error.code == code
        assert "hush" not in error.message + error.detail
        assert "sekret" not in error.message + error.detail

    def test_nobody_there(self) -> None:
        assert (
            refusal(TokenAuth(ClientCredentials("http://127.0.0.1:9/t")), CLIENT).code
            == "provider_unavailable"
        )


class TestFetch:
    def test_status_headers_and_body(self) -> None:
        got: list[bytes] = []

        def handle(peer: Peer) -> None:
            got.append(peer.request())
            peer.send(b"HTTP/1.1 404 X\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n")

        with raw_server(handle) as address, RunScope() as scope:
            answer = fetch_json("GET", f"http://{address}/m?x=1", {"X-B": "2"}, b"", 5.0, scope)
        assert (answer[0], answer[1]["x-a"], answer[2]) == (404, "1", b"ab")
        assert got[0].startswith(b"GET /m?x=1 HTTP/1.1\r\n")
        assert b"\r\nX-B: 2\r\n" in got[0]

    def test_limits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http_fetch, "MAX_BODY", 10)

        def many(peer: Peer) -> None:
            peer.request()
            peer.send(b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\n" + b"x" * 100)

        def never(peer: Peer) -> None:
            peer.request()
            peer.gone()

        def torn(peer: Peer) -> None:
            peer.request()
            peer.send(b"HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\nx")

        cases = (
            (many, "provider_bad_stream", 30.0),
            (never, "provider_unavailable", 0.05),
            (torn, "provider_bad_stream", 30.0),
        )
        for handle, code, limit in cases:
            monkeypatch.setattr(http_fetch, "ANSWER_S", limit)
            with raw_server(handle) as address, RunScope() as scope, pytest.raises(ProviderError) as caught:
                fetch_json("GET", f"http://{address}/", {}, b"", 5.0, scope)
            assert caught.value.code == code


class TestIbm:
    def test_an_api_key_is_exchanged(self) -> None:
        with endpoint() as (served, url):
            assert header(IbmIamAuth(), {"api_key": "k \n", "iam_url": url}) == "Bearer tok-1"
        assert served.forms == [{"grant_type": "urn:ibm:params:oauth:grant-type:apikey", "apikey": "k"}]


class TestChoice:
    AUTH = ChosenAuth(
        (("access_token",), GivenToken()),
        (("client_id", "client_secret"), TokenAuth(ClientCredentials("http://127.0.0.1:9/t"))),
        (("api_key",), HeaderAuth("x-key")),
    )

    def test_the_first_whose_credentials_are_there(self) -> None:
        assert header(self.AUTH, {"access_token": " t \n", "api_key": "k"}) == "Bearer t"
        assert header(self.AUTH, {"client_id": "x", "api_key": "k"}, "x-key") == "k"
        assert refusal(self.AUTH, CLIENT).code == "provider_unavailable"
        assert header(self.AUTH, {}) is None

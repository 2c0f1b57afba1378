"""Tokens: asked for over a real socket, kept, shared, refused."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs

import gevent
import gevent.event
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from app.engine.scope import Cancelled, RunScope
from providers import google_auth, http_fetch, oauth, token_command
from providers.auth import HeaderAuth
from providers.google_auth import GoogleCredentials
from providers.http_fetch import fetch_json
from providers.oauth import ChosenAuth, ClientCredentials, GivenToken, IbmIamAuth, Token, TokenAuth
from providers.spec import FetchingAuth, HttpRequest, ProviderError
from providers.token_command import TokenCommand
from tests.providers.raw_server import Peer, raw_server


class Endpoint:
    """A token endpoint. ``forms`` and ``heads`` are what it was sent; ``replies`` what it says, the last one again."""

    def __init__(self, *replies: tuple[int, t.Any]) -> None:
        self.replies = list(replies) or [(200, {"access_token": "tok-1", "expires_in": 3600})]
        self.heads: list[bytes] = []
        self.forms: list[dict[str, str]] = []
        self.hold: gevent.event.Event | None = None
        self.asked = gevent.event.Event()

    def __call__(self, peer: Peer) -> None:
        head, _, body = peer.request().partition(b"\r\n\r\n")
        self.heads.append(head)
        self.forms.append({name: values[0] for name, values in parse_qs(body.decode()).items()})
        self.asked.set()
        if self.hold is not None:
            self.hold.wait(5)
        status, answer = self.replies[min(len(self.forms), len(self.replies)) - 1]
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        peer.send(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(data), data))


@contextmanager
def endpoint(*replies: tuple[int, t.Any]) -> Iterator[tuple[Endpoint, str]]:
    served = Endpoint(*replies)
    with raw_server(served) as address:
        yield served, f"http://{address}/token"


def header(auth: FetchingAuth, credentials: dict[str, str], name: str = "Authorization") -> str | None:
    """What a scheme adds, after asking for its token."""
    with RunScope() as scope:
        auth.prepare(credentials, 5.0, scope)
    request = HttpRequest("POST", "http://v", {}, b"")
    auth.apply(request, credentials)
    return request.headers.get(name)


def refusal(auth: FetchingAuth, credentials: dict[str, str]) -> ProviderError:
    with RunScope() as scope, pytest.raises(ProviderError) as caught:
        auth.prepare(credentials, 5.0, scope)
    return caught.value


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
        monkeypatch.setattr(oauth.time, "monotonic", lambda: now[0])
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
            assert served.asked.wait(5)
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
                assert served.asked.wait(5)
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
            assert served.asked.wait(5)
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
        monkeypatch.setattr(http_fetch, "ANSWER_S", 0.05)

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
            (many, "provider_bad_stream"),
            (never, "provider_unavailable"),
            (torn, "provider_bad_stream"),
        )
        for handle, code in cases:
            with raw_server(handle) as address, RunScope() as scope, pytest.raises(ProviderError) as caught:
                fetch_json("GET", f"http://{address}/", {}, b"", 5.0, scope)
            assert caught.value.code == code


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def account(key: rsa.RSAPrivateKey, url: str, **more: str) -> str:
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    document = {
        "type": "service_account",
        "client_email": "robot@p.iam",
        "private_key": pem,
        "private_key_id": "k1",
        "token_uri": url,
        **more,
    }
    return json.dumps(document, indent=1)


class TestGoogle:
    def test_a_service_account_signs(self, key: rsa.RSAPrivateKey) -> None:
        with endpoint() as (served, url):
            given = {"credentials": account(key, url)}
            assert header(TokenAuth(GoogleCredentials()), given) == "Bearer tok-1"
        (form,) = served.forms
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        signed, _, signature = form["assertion"].rpartition(".")
        key.public_key().verify(_unpadded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        head, claims = (json.loads(_unpadded(part)) for part in signed.split("."))
        assert head == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
        assert (claims["iss"], claims["aud"], claims["scope"]) == ("robot@p.iam", url, google_auth.SCOPE)
        assert claims["exp"] - claims["iat"] == 3600
        assert abs(claims["iat"] - time.time()) < 60

    def test_from_a_file(self, key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
        with endpoint() as (_, url):
            (tmp_path / "key.json").write_text(account(key, url))
            given = {"credentials": str(tmp_path / "key.json")}
            assert header(TokenAuth(GoogleCredentials()), given) == "Bearer tok-1"

    def test_a_persons_login(self) -> None:
        with endpoint() as (served, url):
            names = ("client_id", "client_secret", "refresh_token")
            document = {
                "type": "authorized_user",
                "token_uri": url,
                "quota_project_id": "q",
                **{n: n for n in names},
            }
            given = {"credentials": json.dumps(document)}
            assert header(TokenAuth(GoogleCredentials()), given, "x-goog-user-project") == "q"
        assert served.forms == [{"grant_type": "refresh_token", **{n: n for n in names}}]

    def test_the_machines_own_account(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with endpoint() as (served, url):
            monkeypatch.setattr(google_auth, "METADATA_URL", url)
            assert header(TokenAuth(GoogleCredentials()), {"credentials": "metadata"}) == "Bearer tok-1"
        assert b"\r\nMetadata-Flavor: Google\r\n" in served.heads[0]

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ("/no/such/file.json", "no JSON document"),
            ("{broken", "no JSON document"),
            ("[]", "no JSON document"),
            ('{"type": "external_account"}', "token command"),
            ('{"type": "service_account", "private_key": "x"}', "client_email"),
            ('{"type": "service_account", "client_email": "x"}', "private_key"),
            (
                '{"type": "service_account", "client_email": "x", "private_key": "sekret"}',
                "no RSA private key",
            ),
        ],
    )
    def test_what_cannot_be_used(self, given: str, words: str) -> None:
        error = refusal(TokenAuth(GoogleCredentials()), {"credentials": given})
        assert error.code == "provider_auth"
        assert words in error.message
        assert "sekret" not in error.message + error.detail


def _unpadded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


class TestIbm:
    def test_an_api_key_is_exchanged(self) -> None:
        with endpoint() as (served, url):
            assert header(IbmIamAuth(), {"api_key": "k \n", "iam_url": url}) == "Bearer tok-1"
        assert served.forms == [{"grant_type": "urn:ibm:params:oauth:grant-type:apikey", "apikey": "k"}]


class TestCommand:
    @pytest.fixture
    def command(self, tmp_path: Path) -> t.Callable[[str], dict[str, str]]:
        def write(code: str) -> dict[str, str]:
            (tmp_path / "c.py").write_text(code)
            return {"token_command": f"{sys.executable} -S {tmp_path / 'c.py'}"}

        return write

    @pytest.mark.parametrize(
        ("printed", "token", "lasts"),
        [
            ("abc\n", "abc", 300.0),
            ('{"access_token": "abc", "expires_in": 60}', "abc", 60.0),
            ('{"accessToken": "abc", "expiresOn": "x"}', "abc", 300.0),
            ('{"token": "abc", "expires_in": "x"}', "abc", 300.0),
        ],
    )
    def test_what_it_prints(
        self, command: t.Callable[[str], dict[str, str]], printed: str, token: str, lasts: float
    ) -> None:
        with RunScope() as scope:
            got = TokenCommand().fetch(command(f"print({printed!r}, end='')"), 5.0, scope)
        assert (got.value, got.lasts_s) == (token, lasts)

    @pytest.mark.parametrize(
        "code",
        [
            "",
            "print('two words')",
            "print('{}')",
            "print('x' * 100_000)",
            "print('sekret'); raise SystemExit(3)",
        ],
    )
    def test_what_is_no_token(self, command: t.Callable[[str], dict[str, str]], code: str) -> None:
        error = refusal(TokenAuth(TokenCommand()), command(code))
        assert error.code == "provider_auth"
        assert "command" in error.message
        assert "sekret" not in error.message + error.detail

    @pytest.mark.parametrize("line", ["/no/such/command", '"unclosed', ""])
    def test_what_cannot_be_started(self, line: str) -> None:
        error = refusal(TokenAuth(TokenCommand()), {"token_command": line})
        assert "cannot be started" in error.message

    HANGS = (
        "import os, sys, time\n"
        "child = os.fork()\n"
        "if child: open(sys.argv[0] + '.pid', 'w').write(f'{os.getpid()} {child}')\n"
        "time.sleep(60)\n"
    )

    def test_one_that_hangs_is_ended_with_what_it_started(
        self, command: t.Callable[[str], dict[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(token_command, "COMMAND_S", 1.0)
        assert "within 1 s" in refusal(TokenAuth(TokenCommand()), command(self.HANGS)).message
        for pid in (tmp_path / "c.py.pid").read_text().split():
            _gone(int(pid))

    def test_one_that_is_waited_for_no_more(
        self, command: t.Callable[[str], dict[str, str]], tmp_path: Path
    ) -> None:
        with RunScope() as scope:
            given = command(self.HANGS)
            scope.spawn(lambda: TokenAuth(TokenCommand()).prepare(given, 5.0, scope))
            with gevent.Timeout(20):
                while not (tmp_path / "c.py.pid").exists() or not (tmp_path / "c.py.pid").read_text():
                    gevent.sleep(0.01)
            scope.cancel("user_stop")
            scope.join()
        for pid in (tmp_path / "c.py.pid").read_text().split():
            _gone(int(pid))


def _gone(pid: int) -> None:
    """Wait until a process is no more, or nobody's child any more that still has to be collected."""
    with gevent.Timeout(20):
        while True:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            state = Path(f"/proc/{pid}/stat")
            if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
                return
            gevent.sleep(0.01)


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

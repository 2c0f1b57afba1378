"""Chats behind single sign-on, against a real OpenID provider: who gets in, and all that is refused."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import logging
import typing as t
from collections.abc import Iterator
from urllib.parse import urlencode, urlsplit

import pytest

from app.store.chats import ChatRow
from app.web import oidc, sso_gate
from tests.support.oidc import Asked, Issuer, issuer, provider, query_of
from tests.support.servers import free_port
from tests.web.conftest import Studio
from tests.web.gates import Later, configure, make_chat, movable, tried, use_up


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with provider(tmp_path_factory.mktemp("oidc")) as base:
        yield base


@pytest.fixture
def known(behind: str) -> Iterator[Issuer]:
    with issuer(behind) as made:
        yield made


@pytest.fixture
def chat(studio: Studio, known: Issuer) -> ChatRow:
    configure(studio, oidc_issuer=known.base, oidc_client_id="studio", oidc_client_secret="oidc-secret")
    return make_chat(studio, "sso")


@pytest.fixture
def clock(studio: Studio) -> Later:
    return movable(studio)


@pytest.fixture
def browser(studio: Studio) -> t.Any:
    return studio.app.test_client()


def leave(browser: t.Any, slug: str = "help") -> str:
    answer = browser.get(f"/api/chat/{slug}/sso")
    assert answer.status_code == 303, answer.get_data()
    return str(answer.headers["Location"])


def back(browser: t.Any, url: str) -> t.Any:
    """Follow the provider's redirect."""
    parts = urlsplit(url)
    assert parts.path == sso_gate.CALLBACK
    return browser.get(f"{parts.path}?{parts.query}")


def sign_in(browser: t.Any, known: Issuer, subject: str = "ada") -> t.Any:
    return back(browser, known.sign_in(leave(browser), subject))


def token_request(known: Issuer) -> Asked:
    (asked,) = [asked for asked in known.asked if asked.path == "/oauth2/token"]
    return asked


def refused(answer: t.Any, status: int, says: str = "") -> None:
    """A page of our words that lets nobody in."""
    assert answer.status_code == status, answer.get_data()
    assert answer.mimetype == "text/html"
    assert says in answer.get_data(as_text=True)
    assert not [line for line in answer.headers.getlist("Set-Cookie") if line.startswith("studio_chat_")]
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"


def is_in(browser: t.Any, slug: str = "help") -> bool:
    return bool(browser.get(f"/api/chat/{slug}").status_code == 200)


# -- getting in ----------------------------------------------------------------------------------------


def test_who_signs_in_gets_in(browser: t.Any, chat: ChatRow, known: Issuer) -> None:
    asked = browser.get("/api/chat/help")
    assert (asked.status_code, asked.get_json()["error"]["code"]) == (401, "auth_required_sso")
    where = leave(browser)
    sent = query_of(where)
    assert sent["response_type"] == "code"
    assert sent["scope"] == "openid email"
    assert sent["redirect_uri"] == "http://localhost/api/chat/sso/callback"
    answer = back(browser, known.sign_in(where, "ada"))
    assert answer.status_code == 303
    assert answer.headers["Location"] == "../../../chat/help"
    assert is_in(browser)


def test_the_code_is_bound_to_whom_it_was_asked_for(browser: t.Any, chat: ChatRow, known: Issuer) -> None:
    """PKCE: the verifier fits the challenge; and the client proves itself in the header."""
    where = leave(browser)
    back(browser, known.sign_in(where, "ada"))
    asked = token_request(known)
    hashed = hashlib.sha256(asked.form["code_verifier"].encode()).digest()
    assert query_of(where)["code_challenge"] == base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()
    assert query_of(where)["code_challenge_method"] == "S256"
    assert asked.headers["Authorization"] == f"Basic {base64.b64encode(b'studio:oidc-secret').decode()}"
    assert "client_secret" not in asked.form
    assert asked.form["redirect_uri"] == query_of(where)["redirect_uri"]


def test_without_a_secret_it_is_a_public_client(
    studio: Studio, browser: t.Any, chat: ChatRow, known: Issuer
) -> None:
    """This provider takes none; what counts is how it was asked."""
    configure(studio, oidc_client_secret="")
    refused(sign_in(browser, known), 401, "did not confirm")
    asked = token_request(known)
    assert "Authorization" not in asked.headers
    assert asked.form["client_id"] == "studio"
    assert asked.form["code_verifier"]


def test_the_secret_goes_where_the_provider_takes_it(browser: t.Any, chat: ChatRow, known: Issuer) -> None:
    known.bend = lambda path, said: (
        {**said, "token_endpoint_auth_methods_supported": ["client_secret_post"]}
        if "openid" in path
        else said
    )
    assert sign_in(browser, known).status_code == 303
    assert token_request(known).form["client_secret"] == "oidc-secret"
    assert "Authorization" not in token_request(known).headers


def test_one_person_is_one_visitor(studio: Studio, chat: ChatRow, known: Issuer) -> None:
    subjects = []
    for who in ("ada", "bob", "ada"):
        one = studio.app.test_client()
        sign_in(one, known, who)
        cookie = one.get_cookie(f"studio_{chat.id}")
        with studio.app.test_request_context("/", headers={"Cookie": f"studio_{chat.id}={cookie.value}"}):
            found = sso_gate.visitors.sent(chat)
            assert found is not None
            subjects.append((found.subject, found.email))
    assert subjects[0] == subjects[2] != subjects[1]
    assert subjects[0][1] == "ada@example.org"


def test_what_the_provider_says_of_itself_is_asked_once(studio: Studio, chat: ChatRow, known: Issuer) -> None:
    for _ in range(3):
        assert sign_in(studio.app.test_client(), known).status_code == 303
    assert known.paths().count("/.well-known/openid-configuration") == 1
    assert known.paths().count("/jwks") == 1


# -- addresses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "status"), [("ada", 303), ("bob", 303), ("eve", 403), ("mallory", 403), ("nobody", 403)]
)
def test_where_addresses_are_named_a_verified_one_is_needed(
    studio: Studio, browser: t.Any, chat: ChatRow, known: Issuer, who: str, status: int
) -> None:
    allowed = ("ada@example.org", "@allowed.example")
    studio.store.chats.update(chat.id, None, {"allowed_emails": allowed})
    answer = sign_in(browser, known, who)
    assert answer.status_code == status
    assert is_in(browser) == (status == 303)
    if status == 403:
        refused(answer, 403, "not open to your address")


def test_else_anybody_whom_the_provider_knows_gets_in(studio: Studio, chat: ChatRow, known: Issuer) -> None:
    for who in ("eve", "nobody"):
        browser = studio.app.test_client()
        assert sign_in(browser, known, who).status_code == 303
        assert is_in(browser)


@pytest.mark.parametrize("subject", ["ada", "bob"])
def test_an_address_that_is_not_in_the_token_is_asked_for(
    studio: Studio, browser: t.Any, chat: ChatRow, known: Issuer, subject: str
) -> None:
    """And is the one of who signed in."""
    studio.store.chats.update(chat.id, None, {"allowed_emails": ("ada@example.org",)})
    key = _key()
    known.bend = _resigned(key, lambda claims: {k: v for k, v in claims.items() if k[:5] != "email"}, subject)
    answer = sign_in(browser, known, "ada")
    assert "/userinfo" in known.paths()
    assert answer.status_code == (303 if subject == "ada" else 401)


# -- what is refused -----------------------------------------------------------------------------------


def test_a_state_that_this_browser_did_not_leave_with(
    studio: Studio, browser: t.Any, chat: ChatRow, known: Issuer
) -> None:
    """Nobody is signed in by a link that somebody else made."""
    theirs = known.sign_in(leave(studio.app.test_client()), "eve")
    refused(back(browser, theirs), 401, "another browser")
    leave(browser)
    refused(back(browser, theirs), 401, "another browser")
    assert not is_in(browser)
    assert "/oauth2/token" not in known.paths()


@pytest.mark.parametrize("state", [None, "", "x", "chat_1.x", "../../evil", "a" * 10_000])
def test_what_is_no_state(browser: t.Any, chat: ChatRow, known: Issuer, state: str | None) -> None:
    leave(browser)
    query = {"code": "c"} if state is None else {"code": "c", "state": state}
    refused(browser.get(f"{sso_gate.CALLBACK}?{urlencode(query)}"), 401, "another browser")


def test_nobody_comes_back_twice(browser: t.Any, chat: ChatRow, known: Issuer) -> None:
    where = known.sign_in(leave(browser), "ada")
    assert back(browser, where).status_code == 303
    refused(back(browser, where), 401, "another browser")


def test_a_code_is_used_once(browser: t.Any, chat: ChatRow, known: Issuer) -> None:
    first = query_of(known.sign_in(leave(browser), "ada"))
    assert browser.get(f"{sso_gate.CALLBACK}?{urlencode(first)}").status_code == 303
    second = query_of(leave(browser))
    again = {"code": first["code"], "state": second["state"]}
    refused(browser.get(f"{sso_gate.CALLBACK}?{urlencode(again)}"), 401, "did not confirm")


def test_a_cookie_of_another_chat(studio: Studio, browser: t.Any, chat: ChatRow, known: Issuer) -> None:
    make_chat(studio, "sso", "other")
    where = known.sign_in(leave(browser, "other"), "ada")
    assert back(browser, where).headers["Location"] == "../../../chat/other"
    assert is_in(browser, "other")
    assert not is_in(browser)


def test_a_nonce_of_another_sign_in(browser: t.Any, chat: ChatRow, known: Issuer) -> None:
    where = leave(browser)
    bent = where.replace(query_of(where)["nonce"], "another")
    refused(back(browser, known.sign_in(bent, "ada")), 401, "did not confirm")
    assert not is_in(browser)


def test_no_nonce(browser: t.Any, chat: ChatRow, known: Issuer) -> None:
    where = leave(browser)
    bent = where.replace(f"&nonce={query_of(where)['nonce']}", "")
    refused(back(browser, known.sign_in(bent, "ada")), 401, "did not confirm")


def test_a_code_for_another_client(browser: t.Any, chat: ChatRow, known: Issuer) -> None:
    where = leave(browser).replace("client_id=studio", "client_id=other")
    refused(back(browser, known.sign_in(where, "ada")), 401, "did not confirm")


def test_a_token_that_is_over(browser: t.Any, chat: ChatRow, known: Issuer, clock: Later) -> None:
    clock.pass_(2 * 3600)
    refused(sign_in(browser, known), 401, "did not confirm")
    assert not is_in(browser)


def test_an_issuer_of_another_name(
    studio: Studio, browser: t.Any, chat: ChatRow, known: Issuer, behind: str
) -> None:
    """The provider calls itself as it is asked; another name than the configured one is nobody's."""
    known.bend = lambda path, said: {**said, "issuer": behind} if "openid" in path else said
    refused(browser.get("/api/chat/help/sso"), 502, "cannot be reached")


def test_the_issuer_beside_the_code_is_ours(browser: t.Any, chat: ChatRow, known: Issuer) -> None:
    where = known.sign_in(leave(browser), "ada")
    refused(back(browser, f"{where}&iss=https%3A%2F%2Fevil.example"), 401, "did not confirm")


def test_somebody_who_says_no(browser: t.Any, chat: ChatRow, known: Issuer) -> None:
    refused(back(browser, known.decline(leave(browser))), 401)
    query = {"state": query_of(leave(browser))["state"], "error": "<script>", "error_description": "<b>x</b>"}
    answer = browser.get(f"{sso_gate.CALLBACK}?{urlencode(query)}")
    refused(answer, 401)
    assert "script" not in answer.get_data(as_text=True)


# -- tokens that are not the provider's ----------------------------------------------------------------


@functools.cache
def _key() -> t.Any:
    from joserfc.jwk import RSAKey

    return RSAKey.generate_key(2048, parameters={"kid": "known"})


def _resigned(
    key: t.Any,
    change: t.Callable[[dict[str, t.Any]], dict[str, t.Any]],
    subject: str = "ada",
    **header: t.Any,
) -> t.Any:
    """A bend by which tokens are changed and signed with ``key``, which the provider then calls its own."""
    from joserfc import jwt

    def bend(path: str, said: t.Any) -> t.Any:
        if path == "/oauth2/token":
            payload = said["id_token"].split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
            claims.pop("at_hash", None)
            made = jwt.encode({"alg": "RS256", "kid": "known", **header}, change(claims), key)
            return {**said, "id_token": made}
        if path == "/jwks":
            return {"keys": [key.as_dict(private=False)]}
        return {**said, "sub": subject} if path == "/userinfo" else said

    return bend


def test_a_token_signed_anew_counts_when_the_key_is_the_providers(
    browser: t.Any, chat: ChatRow, known: Issuer
) -> None:
    """So that what the cases below change is what is refused."""
    known.bend = _resigned(_key(), dict)
    assert sign_in(browser, known).status_code == 303


CLAIMS: tuple[dict[str, t.Any], ...] = (
    {"iss": "https://evil.example"},
    {"iss": None},
    {"aud": "other"},
    {"aud": ["other"]},
    {"aud": None},
    {"aud": ["studio", "other"]},
    {"aud": ["studio", "other"], "azp": "other"},
    {"azp": "other"},
    {"exp": 1},
    {"exp": None},
    {"exp": "soon"},
    {"nbf": 9_999_999_999},
    {"iat": None},
    {"nonce": "other"},
    {"nonce": None},
    {"nonce": ["x"]},
    {"sub": None},
    {"sub": ""},
    {"sub": 7},
    {"at_hash": "wrong"},
)


def test_a_claim_that_is_not_right(
    studio: Studio, chat: ChatRow, known: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    for change in CLAIMS:
        known.bend = _resigned(_key(), lambda claims, change=change: _without_none({**claims, **change}))
        browser = studio.app.test_client()
        refused(sign_in(browser, known), 401, "did not confirm")
        assert not is_in(browser), change
    assert len([line for line in caplog.messages if "a sign-in failed" in line]) == len(CLAIMS)


def _without_none(claims: dict[str, t.Any]) -> dict[str, t.Any]:
    return {name: value for name, value in claims.items() if value is not None}


def _token(header: dict[str, t.Any], claims: dict[str, t.Any], sign: t.Callable[[bytes], bytes]) -> str:
    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    head = f"{part(json.dumps(header).encode())}.{part(json.dumps(claims).encode())}"
    return f"{head}.{part(sign(head.encode()))}"


@pytest.mark.parametrize(
    "how", ["none", "hs256-public-key", "another-key", "own-jwk", "cut", "no-token", "no-jwt"]
)
def test_a_signature_that_is_not_the_providers(
    browser: t.Any, chat: ChatRow, known: Issuer, how: str
) -> None:
    def bend(path: str, said: t.Any) -> t.Any:
        if "openid" in path:  # also where it says that it would do so
            return {**said, "id_token_signing_alg_values_supported": ["none", "HS256", "RS256"]}
        if path == "/jwks":
            keys.update(said["keys"][0])
        if path != "/oauth2/token":
            return said
        return {**said, "id_token": _forged(how, said["id_token"], keys)}

    keys: dict[str, t.Any] = {}
    known.bend = bend
    sign_in(browser, known)  # once to know the keys
    assert not is_in(browser)
    refused(sign_in(browser, known), 401, "did not confirm")
    assert not is_in(browser)


def _forged(how: str, real: str, keys: dict[str, t.Any]) -> t.Any:
    from joserfc import jwt
    from joserfc.jwk import RSAKey

    payload = real.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    header = {"alg": "RS256", "kid": keys.get("kid", "x"), "typ": "JWT"}
    if how == "none":
        return _token({**header, "alg": "none"}, claims, lambda _: b"")
    if how == "hs256-public-key":
        secret = json.dumps(keys).encode()
        return _token({**header, "alg": "HS256"}, claims, lambda text: hashlib.sha256(secret + text).digest())
    if how == "another-key":
        return jwt.encode(header, claims, RSAKey.generate_key(2048))
    if how == "own-jwk":
        own = RSAKey.generate_key(2048)
        return _token({**header, "jwk": own.as_dict(private=False)}, claims, lambda _: b"x" * 256)
    return {"cut": real[:-10], "no-token": None, "no-jwt": "x.y"}[how]


def test_a_key_that_was_changed_is_asked_for(
    studio: Studio, chat: ChatRow, known: Issuer, clock: Later
) -> None:
    key = _key()
    assert sign_in(studio.app.test_client(), known).status_code == 303
    known.bend = _resigned(key, dict)
    refused(sign_in(studio.app.test_client(), known), 401)  # the keys were asked for a moment ago
    clock.pass_(oidc.KEYS_S)
    assert sign_in(studio.app.test_client(), known).status_code == 303


# -- a provider that is not there ----------------------------------------------------------------------


def test_a_provider_that_is_down(studio: Studio, browser: t.Any, chat: ChatRow, caplog: t.Any) -> None:
    configure(studio, oidc_issuer=f"http://127.0.0.1:{free_port()}")
    refused(browser.get("/api/chat/help/sso"), 502, "cannot be reached")
    assert "the OpenID provider cannot be used" in caplog.text


def test_one_that_goes_down_meanwhile(studio: Studio, browser: t.Any, chat: ChatRow, known: Issuer) -> None:
    where = known.sign_in(leave(browser), "ada")
    known.bend = lambda path, said: (503, {"Content-Type": "text/plain"}, b"<b>secret detail</b>")
    answer = back(browser, where)
    refused(answer, 502, "cannot be reached")
    assert "secret detail" not in answer.get_data(as_text=True)


def test_one_that_is_silent(
    studio: Studio, browser: t.Any, chat: ChatRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    monkeypatch.setattr(oidc, "TIMEOUT_S", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        configure(studio, oidc_issuer=f"http://127.0.0.1:{silent.getsockname()[1]}")
        refused(browser.get("/api/chat/help/sso"), 502, "cannot be reached")


def test_one_that_cannot_be_asked_is_left_alone_for_a_moment(
    studio: Studio, browser: t.Any, chat: ChatRow, known: Issuer, clock: Later
) -> None:
    known.bend = lambda path, said: (500, {"Content-Type": "text/plain"}, b"no")
    for _ in range(3):
        refused(browser.get("/api/chat/help/sso"), 502)
    assert len(known.asked) == 1
    known.bend = lambda path, said: said
    clock.pass_(oidc.LEFT_ALONE_S)
    assert leave(browser)


@pytest.mark.parametrize(
    "said",
    [
        {"token_endpoint": "ftp://127.0.0.1/x"},
        {"authorization_endpoint": None},
        {"jwks_uri": ["x"]},
        {"userinfo_endpoint": "javascript:alert(1)"},
        {"issuer": None},
    ],
    ids=str,
)
def test_one_that_says_nothing_of_use(
    browser: t.Any, chat: ChatRow, known: Issuer, said: dict[str, t.Any]
) -> None:
    known.bend = lambda path, all_: {**all_, **said}
    refused(browser.get("/api/chat/help/sso"), 502)


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/oauth2/token", "/jwks"])
def test_no_redirect_is_followed(browser: t.Any, chat: ChatRow, known: Issuer, path: str) -> None:
    with_path = path

    def bend(path: str, said: t.Any) -> t.Any:
        return (307, {"Location": f"{known.base}/elsewhere"}, b"") if path == with_path else said

    known.bend = bend
    answer = browser.get("/api/chat/help/sso")
    if answer.status_code == 303:
        answer = back(browser, known.sign_in(answer.headers["Location"], "ada"))
    refused(answer, 502)
    assert "/elsewhere" not in known.paths()


def test_nobody_is_sent_anywhere_else(browser: t.Any, chat: ChatRow, known: Issuer) -> None:
    answer = browser.get("/api/chat/help/sso?next=https://evil.example")
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (400, "validation_failed")


# -- around it -----------------------------------------------------------------------------------------


def test_what_is_in_the_address_is_not_in_the_log(
    browser: t.Any, chat: ChatRow, known: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    where = known.sign_in(leave(browser), "ada")
    back(browser, where)
    known.bend = lambda path, said: {**said, "id_token": "x.y.z"} if path == "/oauth2/token" else said
    sign_in(browser, known)
    for secret in (query_of(where)["code"], query_of(where)["state"], "oidc-secret", "ada@example.org"):
        assert secret not in caplog.text


def test_returns_are_limited(studio: Studio, browser: t.Any, chat: ChatRow, known: Issuer) -> None:
    use_up(studio, f"sso:{chat.id}:127.0.0.1", sso_gate.RETURNS)
    refused(sign_in(browser, known), 429, "too many sign-ins")
    assert "/oauth2/token" not in known.paths()


def test_those_that_prove_somebody_are_not(
    studio: Studio, browser: t.Any, chat: ChatRow, known: Issuer
) -> None:
    counted = f"sso:{chat.id}:127.0.0.1"
    use_up(studio, counted, sso_gate.RETURNS, but=1)
    assert sign_in(browser, known).status_code == 303
    assert tried(studio, counted, sso_gate.RETURNS) == sso_gate.RETURNS - 1
    where = query_of(known.sign_in(leave(browser), "ada"))
    answer = browser.get(f"{sso_gate.CALLBACK}?code=nonesuch&state={where['state']}")
    refused(answer, 401)
    assert tried(studio, counted, sso_gate.RETURNS) == sso_gate.RETURNS


def test_a_chat_that_has_changed_meanwhile(
    studio: Studio, browser: t.Any, chat: ChatRow, known: Issuer
) -> None:
    for change in ({"active": False}, {"auth_type": "email", "active": True}):
        studio.store.chats.update(chat.id, None, {"auth_type": "sso", "active": True})
        where = known.sign_in(leave(browser), "ada")
        studio.store.chats.update(chat.id, None, change)
        refused(back(browser, where), 403, "not open any more")
    studio.store.chats.update(chat.id, None, {"auth_type": "sso"})
    where = known.sign_in(leave(browser), "ada")
    studio.store.chats.delete(chat.id)
    refused(back(browser, where), 403, "not open any more")


def test_other_chats_ask_nobody_to_sign_in(studio: Studio, browser: t.Any, chat: ChatRow) -> None:
    make_chat(studio, "public", "other")
    answer = browser.get("/api/chat/other/sso")
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (400, "not_supported")


def test_without_a_provider(studio: Studio, browser: t.Any, chat: ChatRow) -> None:
    configure(studio, oidc_issuer="")
    answer = browser.get("/api/chat/help/sso")
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (503, "gate_unavailable")


def test_the_cookie_of_who_is_away(studio: Studio, browser: t.Any, chat: ChatRow) -> None:
    answer = browser.get("/api/chat/help/sso")
    (line,) = [line for line in answer.headers.getlist("Set-Cookie") if line.startswith("studio_sso_")]
    assert {"HttpOnly", "SameSite=Lax", "Path=/", f"Max-Age={sso_gate.AWAY_S}"} <= set(line.split("; "))

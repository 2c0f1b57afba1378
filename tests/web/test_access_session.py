"""The owner's session: what it opens, what ends it, and who cannot make use of it."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from tests.web import owner
from tests.web.conftest import Studio, assert_error, document, opened

PROXIED = {"STUDIO_PUBLIC_URL": "https://studio.example.org", "STUDIO_TRUSTED_PROXIES": "1"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    with opened(tmp_path_factory.mktemp("shared")) as made:
        yield made


@pytest.fixture
def studio(shared: Studio) -> Studio:
    """The owner has a password."""
    return owner.anew(shared)


@pytest.fixture
def signed(studio: Studio) -> Studio:
    """The client is a browser in which the owner has signed in."""
    assert owner.sign_in(studio.client).status_code == 303
    return studio


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Studio]:
    """Behind a proxy that speaks TLS."""
    with opened(tmp_path, PROXIED) as made:
        owner.set_password(made)
        yield made


def _bare(studio: Studio) -> t.Any:
    """A client that sends the cookies of a header and no others."""
    return studio.app.test_client(use_cookies=False)


def told(studio: Studio) -> dict[str, t.Any]:
    answer = studio.client.get("/api/session")
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    return t.cast("dict[str, t.Any]", answer.get_json())


# -- what it is ----------------------------------------------------------------------------------------


def test_it_says_who_is_signed_in(studio: Studio) -> None:
    assert told(studio) == {"signedIn": False}
    owner.sign_in(studio.client)
    said = told(studio)
    assert said["signedIn"] is True
    assert (said["subject"], said["scopes"]) == ("owner", ["admin", "read", "run"])
    assert said["expiresAt"].endswith("Z")
    assert said["csrfToken"]


def test_programs_sign_in_and_out_by_json(studio: Studio) -> None:
    begun = studio.client.post("/api/session", json={"password": owner.GOOD})
    assert begun.status_code == 200
    assert begun.get_json()["signedIn"] is True
    token = {"X-CSRF-Token": begun.get_json()["csrfToken"]}
    assert studio.client.get("/api/audit").status_code == 200
    assert_error(studio.client.delete("/api/session"), 403, "csrf_required", says="X-CSRF-Token")
    ended = studio.client.delete("/api/session", headers=token)
    assert (ended.status_code, ended.get_data()) == (204, b"")
    assert told(studio) == {"signedIn": False}
    assert_error(studio.client.get("/api/audit"), 401, "unauthorized")


@pytest.mark.parametrize("body", [{}, {"password": 7}, {"password": "x", "user": "y"}])
def test_a_sign_in_that_is_none_is_a_400(studio: Studio, body: dict[str, t.Any]) -> None:
    assert_error(studio.client.post("/api/session", json=body), 400, "validation_failed")


def test_the_cookie_is_for_this_host_and_no_script(studio: Studio, proxied: Studio) -> None:
    [plain] = [c for c in owner.sign_in(studio.client).headers.getlist("Set-Cookie") if "_session" in c]
    assert plain.startswith("studio_session=")
    wanted = {"HttpOnly", "Path=/", "SameSite=Lax", "Max-Age=43200"}
    assert wanted <= set(plain.split("; "))
    assert "Domain" not in plain
    assert "Secure" not in plain
    client = _bare(proxied)
    page = client.get("/login")
    cookie = page.headers["Set-Cookie"].split(";")[0]
    assert cookie.startswith("__Host-studio_form=")
    token = page.get_data(as_text=True).split('name="csrf_token" value="')[1].split('"')[0]
    answer = client.post(
        "/login", data={"csrf_token": token, "password": owner.GOOD}, headers={"Cookie": cookie}
    )
    assert answer.status_code == 303
    for each in answer.headers.getlist("Set-Cookie"):
        assert each.startswith("__Host-studio_")
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(each.split("; "))


def test_a_cookie_without_the_prefix_is_none_over_tls(proxied: Studio) -> None:
    made = owner.session(proxied)
    client = _bare(proxied)
    assert client.get("/api/runs", headers=made.headers()).status_code == 401
    good = {"Cookie": f"__Host-studio_session={made.cookie}"}
    assert client.get("/api/runs", headers=good).status_code == 200


def test_what_it_is_told_no_cache_keeps_and_no_other_site_embeds(signed: Studio) -> None:
    answer = signed.client.get("/api/runs")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Cookie" in answer.headers["Vary"]
    by_key = signed.get("/api/runs", key="read")
    assert "Cross-Origin-Resource-Policy" not in by_key.headers


# -- what it opens -------------------------------------------------------------------------------------


def test_a_change_needs_the_token_and_a_key_goes_before_the_cookie(signed: Studio) -> None:
    path, body = "/api/secrets/CRM_KEY", {"value": "long-enough-value"}
    assert_error(signed.client.put(path, json=body), 403, "csrf_required", says="X-CSRF-Token")
    wrong = {"X-CSRF-Token": owner.session(signed).token}
    assert_error(signed.client.put(path, json=body, headers=wrong), 403, "csrf_required")
    right = {"X-CSRF-Token": told(signed)["csrfToken"]}
    assert signed.client.put(path, json=body, headers=right).status_code == 201
    by_key = {"X-API-Key": signed.keys["read"]}
    assert_error(signed.client.put(path, json=body, headers={**right, **by_key}), 403, "forbidden")
    assert_error(
        signed.client.get("/api/runs", headers={"X-API-Key": "sk-studio-nobody"}), 401, "unauthorized"
    )


def test_on_public_routes_a_cookie_without_the_token_is_nobody(signed: Studio) -> None:
    private = signed.deploy(document("scripted/plain"))
    public = signed.deploy(document("scripted/plain", settings={"public": True}))
    token = {"X-CSRF-Token": told(signed)["csrfToken"]}
    assert_error(signed.execute(private, key=None), 401, "unauthorized")
    by_owner = signed.execute(private, {"input": "hi"}, key=None, headers=token).get_json()
    row = signed.store.runs.get(by_owner["runId"])
    assert row is not None
    assert row["key_id"] == "owner"
    by_nobody = signed.execute(public, {"input": "hi"}, key=None).get_json()
    row = signed.store.runs.get(by_nobody["runId"])
    assert row is not None
    assert row["key_id"] is None


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "http://localhost"}, 200),
        ({"Sec-Fetch-Site": "same-site"}, 401),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"}, 401),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}, 401),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}, 200),  # somebody followed a link
        ({"Origin": "https://evil.example"}, 401),
        ({"Origin": "null"}, 401),
        ({"Origin": "http://localhost:81"}, 401),
        ({"Origin": "http://[broken"}, 401),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, 200),  # the browser knows better than the name
    ],
)
def test_where_a_request_was_made_decides_over_the_cookie(
    signed: Studio, sent: dict[str, str], status: int
) -> None:
    assert signed.client.get("/api/runs", headers=sent).status_code == status
    token = {"X-CSRF-Token": told(signed)["csrfToken"]}
    changed = signed.client.put(
        "/api/secrets/KEY", json={"value": "long-enough-value"}, headers={**sent, **token}
    )
    is_ours = status == 200 and sent.get("Sec-Fetch-Site") != "cross-site"
    assert changed.status_code in ((200, 201) if is_ours else (403,))


def test_the_address_that_browsers_see_is_ours_too(proxied: Studio) -> None:
    made = owner.session(proxied)
    client = _bare(proxied)
    sent = {"Cookie": f"__Host-studio_session={made.cookie}", "X-CSRF-Token": made.token}
    for origin, status in (("https://studio.example.org", 201), ("https://other.example.org", 403)):
        answer = client.put(
            "/api/secrets/KEY", json={"value": "long-enough-value"}, headers={**sent, "Origin": origin}
        )
        assert answer.status_code == status


def test_no_other_origin_may_send_the_cookie_or_the_token(signed: Studio) -> None:
    origin = {"Origin": "https://evil.example"}
    asked = signed.client.options(
        "/api/secrets/KEY",
        headers={
            **origin,
            "Access-Control-Request-Method": "PUT",
            "Access-Control-Request-Headers": "x-csrf-token",
        },
    )
    assert "x-csrf-token" not in asked.headers["Access-Control-Allow-Headers"].lower()
    for answer in (asked, signed.client.get("/api/session", headers=origin)):
        assert answer.headers["Access-Control-Allow-Origin"] == "*", (
            "a browser hands over nothing with a cookie"
        )
        assert "Access-Control-Allow-Credentials" not in answer.headers
    assert signed.client.get("/api/session", headers=origin).get_json() == {"signedIn": False}
    for path in ("/login", "/account", "/static/sign_in.css"):
        assert "Access-Control-Allow-Origin" not in signed.client.get(path, headers=origin).headers


# -- what ends it --------------------------------------------------------------------------------------


def test_all_sessions_end_with_a_change_of_the_password_but_that_which_changed_it(signed: Studio) -> None:
    elsewhere = owner.session(signed).headers()
    client = _bare(signed)
    assert client.get("/api/runs", headers=elsewhere).status_code == 200
    token = {"X-CSRF-Token": told(signed)["csrfToken"]}
    body = {"current": owner.GOOD, "new": "another good password"}
    changed = signed.client.put("/api/owner/password", json=body, headers=token)
    assert changed.status_code == 200
    assert changed.get_json()["csrfToken"] != token["X-CSRF-Token"]
    assert_error(client.get("/api/runs", headers=elsewhere), 401, "unauthorized", says="/login")
    assert signed.client.get("/api/runs").status_code == 200
    assert owner.sign_in(signed.app.test_client(), owner.GOOD).status_code == 401
    assert owner.sign_in(signed.app.test_client(), "another good password").status_code == 303


def test_a_key_changes_the_password_with_the_old_one_alone(signed: Studio) -> None:
    def put(current: str, new: str) -> t.Any:
        body = {"current": current, "new": new}
        return signed.client.put(
            "/api/owner/password", json=body, headers={"X-API-Key": signed.keys["admin"]}
        )

    assert_error(put("not the password", "another good password"), 403, "wrong_password")
    assert_error(put(owner.GOOD, "short"), 400, "validation_failed", path="new")
    assert told(signed)["signedIn"] is True
    assert put(owner.GOOD, "another good password").status_code == 204
    assert told(signed)["signedIn"] is False


def test_signing_out_ends_every_copy_of_the_cookie(signed: Studio) -> None:
    copied = signed.client.get_cookie("studio_session")
    assert copied is not None
    other = owner.session(signed).headers()
    page = signed.client.get("/account").get_data(as_text=True)
    token = page.split('name="csrf_token" value="')[1].split('"')[0]
    gone = signed.client.post("/logout", data={"csrf_token": token})
    assert (gone.status_code, gone.headers["Location"]) == (303, "login")
    assert "Max-Age=0" in "".join(gone.headers.getlist("Set-Cookie"))
    client = _bare(signed)
    kept = {"Cookie": f"studio_session={copied.value}"}
    assert_error(client.get("/api/runs", headers=kept), 401, "unauthorized")
    assert client.get("/api/runs", headers=other).status_code == 200, "other sessions go on"


def test_a_session_ends_with_its_time_whichever_way_it_is_told(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _bare(studio).get("/api/runs", headers=owner.session(studio, age_s=2).headers()).status_code == 200
    over = owner.session(studio, age_s=0)
    assert_error(_bare(studio).get("/api/runs", headers=over.headers()), 401, "unauthorized")
    from itsdangerous import TimestampSigner

    made = TimestampSigner.get_timestamp
    monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda self: made(self) - 43_201)
    old = owner.session(studio, age_s=99_999)  # signed under a longer setting
    monkeypatch.undo()
    assert_error(_bare(studio).get("/api/runs", headers=old.headers()), 401, "unauthorized")


@pytest.mark.parametrize(
    "text",
    ["", "x", "a.b.c", "WyJ4IiwxLDE5OTk5OTk5OTld.aw2TmA.AAAA", "a" * 5000, "é"],
    ids=["empty", "letter", "parts", "signed by nobody", "long", "no ascii"],
)
def test_a_cookie_that_is_none_is_a_401(studio: Studio, text: str) -> None:
    sent = {"Cookie": f"studio_session={text}"}
    assert_error(_bare(studio).get("/api/runs", headers=sent), 401, "unauthorized")


def test_what_was_signed_for_something_else_is_no_session(studio: Studio) -> None:
    from app.web import csrf, signing

    with studio.app.app_context():
        others = [csrf.token("x"), signing.sign("visitor", ["x", 1, 1999999999])]
    for text in others:
        sent = {"Cookie": f"studio_session={text}"}
        assert_error(_bare(studio).get("/api/runs", headers=sent), 401, "unauthorized")


# -- what it costs -------------------------------------------------------------------------------------


def test_a_session_costs_no_query_but_the_catalogs(signed: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    signed.client.get("/api/runs/unknown")
    asked: list[str] = []
    backend = signed.store._backend
    real = type(backend).rows

    def rows(self: t.Any, statement: t.Any, values: t.Any) -> t.Any:
        asked.append(statement.sql)
        return real(self, statement, values)

    monkeypatch.setattr(type(backend), "rows", rows)
    signed.client.get("/api/runs/unknown")
    generation = signed.store._catalog._read.sql
    assert asked.count(generation) == 1
    assert not [sql for sql in asked if "owner_account" in sql]


def test_a_server_without_its_keys_says_so_and_no_more(signed: Studio) -> None:
    from app.store.sealing import SecretsLocked

    def locked(purpose: str) -> t.NoReturn:
        raise SecretsLocked("The key is not in /somewhere/secrets.key")

    app: Flask = signed.app
    app.extensions.pop("studio.signing")
    signed.store.secrets.derived = locked  # type: ignore[method-assign]
    for path in ("/login", "/account", "/api/session"):
        answer = signed.client.get(path)
        assert answer.status_code == 503
        assert "/somewhere" not in answer.get_data(as_text=True)
    assert signed.get("/api/runs", key="read").status_code == 200, "keys go on"

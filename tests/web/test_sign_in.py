"""How the owner gets in: links, forms, guesses, and where a form may lead."""

from __future__ import annotations

import logging
import re
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.security import check_password_hash

from app.store.audit import AuditFilter
from app.web import guesses, passwords
from app.web.sign_in import _next, _onward
from tests.web import owner
from tests.web.conftest import Studio, assert_error, opened
from tests.web.gates import tried

NEW = "another good password"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    with opened(tmp_path_factory.mktemp("shared")) as made:
        yield made


@pytest.fixture
def studio(shared: Studio) -> Studio:
    """The owner has a password."""
    return owner.anew(shared)


@pytest.fixture
def new_studio(tmp_path: Path) -> Iterator[Studio]:
    """One of which nobody is the owner yet."""
    with opened(tmp_path) as made:
        yield made


def send(studio: Studio, path: str, **fields: str) -> t.Any:
    """Fill in the form at ``path`` and send it."""
    return studio.client.post(path, data={"csrf_token": owner.form(studio.client, path), **fields})


def link(studio: Studio) -> str:
    return f"/setup/{studio.store.owner.new_link()[0]}"


def signed_in(studio: Studio) -> bool:
    return bool(studio.client.get("/api/session").get_json()["signedIn"])


@pytest.mark.parametrize(
    ("sent", "status", "code", "says"),
    [
        ("password=" + "x" * 65536, 413, "payload_too_large", "over 64 KiB"),
        ("a=&" * 50, 400, "validation_failed", "more than 50 fields"),
    ],
    ids=["long", "many fields"],
)
@pytest.mark.parametrize("path", ["/login", "/setup/{}"])
def test_what_strangers_send_as_a_form_is_bounded(
    studio: Studio, path: str, sent: str, status: int, code: str, says: str
) -> None:
    path = path.replace("/setup/{}", link(studio))
    owner.form(studio.client, path)  # a browser that was shown none has its form not even read
    answer = studio.client.post(path, data=sent, content_type="application/x-www-form-urlencoded")
    assert_error(answer, status, code, says=says)


def test_so_is_what_they_send_as_json(studio: Studio) -> None:
    answer = studio.client.post("/api/session", json={"password": "x" * 65536})
    assert_error(answer, 413, "payload_too_large", says="over 64 KiB")


# -- the link ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("slow_hashes")
def test_a_link_sets_the_password_signs_in_and_works_once(studio: Studio) -> None:
    path = link(studio)
    assert "This link works once" in studio.client.get(path).get_data(as_text=True)
    assert studio.client.get(path).status_code == 200, "to look at it uses nothing up"
    answer = send(studio, path, new=owner.GOOD, again=owner.GOOD)
    assert (answer.status_code, answer.headers["Location"]) == (303, "../account")
    assert signed_in(studio)
    row = studio.store.owner.get()
    assert row is not None
    assert str(row.password).startswith("scrypt:32768:8:1$")
    assert check_password_hash(str(row.password), owner.GOOD)
    for gone in (studio.client.get(path), studio.client.post(path, data={"new": NEW, "again": NEW})):
        assert gone.status_code == 404
        assert "does not work any more" in gone.get_data(as_text=True)
    assert owner.sign_in(studio.app.test_client()).status_code == 303


def test_an_unknown_link_looks_like_one_that_is_over(new_studio: Studio) -> None:
    before = new_studio.client.get("/setup/nonesuch")
    old = link(new_studio)
    link(new_studio)
    after = new_studio.client.get(old)
    assert before.status_code == after.status_code == 404
    assert before.get_data() == after.get_data()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"new": "short", "again": "short"}, "at least 12 characters"),
        ({"new": "", "again": ""}, "at least 12 characters"),
        ({"new": "a" * 30, "again": "a" * 30}, "different characters"),
        ({"new": "x" * 1025, "again": "x" * 1025}, "at most 1024"),
        ({"new": owner.GOOD, "again": NEW}, "not the same"),
        ({}, "at least 12 characters"),
        ({"new": owner.GOOD}, "not the same"),
    ],
)
def test_a_password_that_cannot_be_set_leaves_the_link(
    studio: Studio, fields: dict[str, str], says: str
) -> None:
    path = link(studio)
    answer = send(studio, path, **fields)
    assert answer.status_code == 400
    page = answer.get_data(as_text=True)
    assert says in page
    assert 'role="alert"' in page
    assert not signed_in(studio)
    assert send(studio, path, new=owner.GOOD, again=owner.GOOD).status_code == 303


def test_a_lost_password_is_replaced_by_a_link_and_sessions_end(studio: Studio) -> None:
    owner.sign_in(studio.client)
    path = link(studio)
    assert signed_in(studio), "a link alone ends nothing"
    other = studio.app.test_client()
    token = owner.form(other, path)
    other.post(path, data={"csrf_token": token, "new": NEW, "again": NEW})
    assert not signed_in(studio)
    assert owner.sign_in(studio.client).status_code == 401
    assert owner.sign_in(studio.client, NEW).status_code == 303


# -- forms ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["/login", "setup"])
def test_a_form_without_its_token_or_cookie_changes_nothing(studio: Studio, page: str) -> None:
    path = link(studio) if page == "setup" else page
    fields = {"password": owner.GOOD, "new": NEW, "again": NEW}
    theirs = owner.form(studio.app.test_client(), path)  # the token of somebody else's form
    bare = studio.app.test_client(use_cookies=False)
    ours = owner.form(studio.client, path)
    for client, token in ((studio.client, ""), (studio.client, "x"), (studio.client, theirs), (bare, ours)):
        answer = client.post(path, data={**fields, "csrf_token": token})
        assert answer.status_code == 403
        assert "nothing was changed" in answer.get_data(as_text=True)
        assert "_session" not in "".join(answer.headers.getlist("Set-Cookie"))
    assert owner.sign_in(studio.client).status_code == 303, "the password is as it was"


@pytest.mark.parametrize(
    "sent",
    [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
)
def test_a_form_that_another_site_sends_signs_nobody_in(studio: Studio, sent: dict[str, str]) -> None:
    fields = {"csrf_token": owner.form(studio.client, "/login"), "password": owner.GOOD}
    answer = studio.client.post("/login", data=fields, headers=sent)
    assert answer.status_code == 403
    assert "STUDIO_PUBLIC_URL" in answer.get_data(as_text=True)
    by_json = studio.client.post("/api/session", json={"password": owner.GOOD}, headers=sent)
    assert_error(by_json, 403, "csrf_required")
    assert not signed_in(studio)
    assert tried(studio, "owner-account", guesses.ALL) == 0, "other sites use up no tries"


def test_a_form_stays_good_while_another_is_opened(studio: Studio) -> None:
    first = owner.form(studio.client, "/login")
    owner.form(studio.client, "/login")
    answer = studio.client.post("/login", data={"csrf_token": first, "password": owner.GOOD})
    assert answer.status_code == 303


def test_the_account_page_changes_the_password(studio: Studio) -> None:
    owner.sign_in(studio.client)

    def change(**fields: str) -> t.Any:
        return send(studio, "/account", **fields)

    assert "That is not the password" in change(current="x", new=NEW, again=NEW).get_data(as_text=True)
    assert "not the same" in change(current=owner.GOOD, new=NEW, again="y").get_data(as_text=True)
    assert "at least 12" in change(current=owner.GOOD, new="y", again="y").get_data(as_text=True)
    done = change(current=owner.GOOD, new=NEW, again=NEW)
    assert (done.status_code, done.headers["Location"]) == (303, "account?changed=1")
    assert "The password was changed" in studio.client.get("/account?changed=1").get_data(as_text=True)
    assert owner.sign_in(studio.app.test_client(), NEW).status_code == 303


def test_without_the_token_the_account_page_changes_nothing(studio: Studio) -> None:
    owner.sign_in(studio.client)
    for path in ("/account", "/logout"):
        answer = studio.client.post(path, data={"current": owner.GOOD, "new": NEW, "again": NEW})
        assert answer.status_code == 403
        assert answer.mimetype == "text/html"
    assert signed_in(studio)
    assert owner.sign_in(studio.app.test_client()).status_code == 303


@pytest.mark.parametrize("path", ["/login", "setup", "/setup/nonesuch", "/account"])
def test_pages_keep_to_themselves(studio: Studio, path: str) -> None:
    owner.sign_in(studio.client)
    client = studio.app.test_client() if path == "/login" else studio.client
    answer = client.get(link(studio) if path == "setup" else path)
    headers = answer.headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self';")
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    page = answer.get_data(as_text=True)
    assert not re.search(r"<script|<style|\son\w+=|\sstyle=|javascript:|https?:", page)
    assert "<html lang=" in page


# -- where a form leads --------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["/account", "/capabilities?q=opus&sort=-price", "/a/b/", "/"])
def test_a_page_of_ours_is_gone_on_to(studio: Studio, way: str) -> None:
    page = studio.client.get("/login", query_string={"next": way}).get_data(as_text=True)
    assert 'name="next"' in page
    answer = owner.sign_in(studio.client, next=way)
    assert answer.headers["Location"] == f".{way}"
    again = studio.client.get("/login", query_string={"next": way})
    assert again.headers["Location"] == f".{way}", "who is signed in goes on at once"


@pytest.mark.parametrize(
    "way",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "evil.example",
        "javascript:alert(1)",
        "/x\r\nSet-Cookie: a=b",
        "/\t/evil.example",
        " /account",
        "/" + "a" * 2000,
        "",
    ],
)
def test_no_other_place_is(studio: Studio, way: str) -> None:
    assert _next(way) is None
    assert owner.sign_in(studio.client, next=way).headers["Location"] == "account"


def test_whatever_is_asked_for_stays_on_this_server() -> None:
    from urllib.parse import urljoin, urlsplit

    for way in ("/account", "/..//evil.example/x", "/@evil.example", "/:80/", "/a//evil.example", None):
        for base in ("https://studio.example.org/login", "https://example.org/studio/login"):
            gone = urlsplit(urljoin(base, _onward(_next(way))))
            assert (gone.scheme, gone.netloc) == ("https", urlsplit(base).netloc)


def test_a_page_for_the_owner_leads_to_the_form_and_back(studio: Studio) -> None:
    sent = studio.client.get("/account?changed=1")
    assert (sent.status_code, sent.headers["Location"]) == (303, "login?next=%2Faccount%3Fchanged%3D1")
    assert studio.client.get("/account").headers["Location"] == "login"
    assert studio.client.post("/account").headers["Location"] == "login"


# -- guesses -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("slow_hashes")
def test_no_password_and_a_wrong_one_are_one_answer_after_one_hash(
    new_studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio = new_studio
    compared: list[str] = []
    real = passwords.check_password_hash

    def compare(stored: str, given: str) -> bool:
        compared.append(stored)
        return real(stored, given)

    monkeypatch.setattr(passwords, "check_password_hash", compare)
    answers = []
    for set_up in (lambda: None, studio.store.owner.new_link, lambda: owner.set_password(studio)):
        set_up()
        answers.append(studio.client.post("/api/session", json={"password": "not the password"}))
    assert len(compared) == 3
    assert compared[0] == compared[1]
    assert compared[0].startswith("scrypt:32768:8:1$"), "as slow as a real one"
    messages = {assert_error(answer, 401, "wrong_password")["message"] for answer in answers}
    assert len(messages) == 1
    assert answers[0].headers["WWW-Authenticate"].startswith("ApiKey")


def test_nobody_in_is_nobody_with_the_hash_that_stands_for_none(studio: Studio) -> None:
    with studio.app.app_context():
        for given in ("", "anything", "studioNoOneHere1"):
            assert passwords.matches(None, given) is False
        stored = passwords.make_hash("ﬀ a good password")
        assert passwords.matches(stored, "ff a good password") is True, "one text, however it is typed"
        assert passwords.matches(stored, "ﬀ a good password ") is False
        assert passwords.matches(passwords.make_hash("x" * 1024), "x" * 1025) is False


def guess(client: t.Any, **more: t.Any) -> t.Any:
    return client.post("/api/session", json={"password": "not the password"}, **more)


def test_an_address_may_guess_ten_times_and_the_right_one_is_no_guess(studio: Studio) -> None:
    client = studio.app.test_client()
    for _ in range(9):
        assert guess(client).status_code == 401
    assert client.post("/api/session", json={"password": owner.GOOD}).status_code == 200
    stranger = studio.app.test_client()
    assert guess(stranger).status_code == 401
    refused = guess(stranger)
    assert_error(refused, 429, "rate_limited", says="tries")
    assert 0 < int(refused.headers["Retry-After"]) <= guesses.EACH_S
    right = stranger.post("/api/session", json={"password": owner.GOOD})
    assert_error(right, 429, "rate_limited"), "the right one is not told from others"
    page = owner.sign_in(studio.app.test_client())
    assert page.status_code == 429
    assert "Retry-After" in page.headers
    assert "tries" in page.get_data(as_text=True)


def test_made_up_addresses_are_no_others(studio: Studio) -> None:
    statuses = [
        guess(
            studio.app.test_client(), headers={"X-Forwarded-For": f"10.0.0.{n}", "X-Real-IP": f"10.1.0.{n}"}
        )
        for n in range(guesses.EACH + 3)
    ]
    assert [each.status_code for each in statuses] == [401] * guesses.EACH + [429] * 3


def test_many_addresses_get_no_further_and_the_owner_is_not_locked_out(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guesses, "ALL", 30)
    assert owner.sign_in(studio.client).status_code == 303  # the owner's own browser
    tried = [
        guess(
            studio.app.test_client(), environ_overrides={"REMOTE_ADDR": f"10.0.{n // 5}.{n % 5}"}
        ).status_code
        for n in range(200)
    ]
    assert tried.count(401) == 30
    assert tried[30:] == [429] * 170
    assert signed_in(studio), "a session goes on"
    token = studio.client.get("/api/session").get_json()["csrfToken"]
    body = {"current": owner.GOOD, "new": NEW}
    changed = studio.client.put("/api/owner/password", json=body, headers={"X-CSRF-Token": token})
    assert changed.status_code == 200, "and so does what the owner may do in it"
    stranger = studio.app.test_client()
    elsewhere = {"REMOTE_ADDR": "192.0.2.1"}
    right = stranger.post("/api/session", json={"password": NEW}, environ_overrides=elsewhere)
    assert right.status_code == 429, "a browser that is not known waits"
    studio.client.delete_cookie("studio_session")
    assert owner.sign_in(studio.client, NEW).status_code == 303, "one that is known does not"
    path = link(studio)
    token = owner.form(stranger, path)
    set_up = stranger.post(
        path, data={"csrf_token": token, "new": NEW, "again": NEW}, environ_overrides=elsewhere
    )
    assert set_up.status_code == 303, "nor does a link"


def test_a_known_browser_may_guess_no_more_than_others(studio: Studio) -> None:
    owner.sign_in(studio.client)
    studio.client.delete_cookie("studio_session")
    tried = [guess(studio.client).status_code for _ in range(guesses.EACH + 1)]
    assert tried == [401] * guesses.EACH + [429]
    assert guess(studio.app.test_client()).status_code == 401, "its tries are its own"


def test_the_old_password_cannot_be_guessed_in_a_session(studio: Studio) -> None:
    owner.sign_in(studio.client)
    token = {"X-CSRF-Token": studio.client.get("/api/session").get_json()["csrfToken"]}
    body = {"current": "not the password", "new": NEW}
    tried = [
        studio.client.put("/api/owner/password", json=body, headers=token).status_code
        for _ in range(guesses.EACH + 1)
    ]
    assert tried == [403] * guesses.EACH + [429]


def test_workers_count_together(tmp_path: Path) -> None:
    with opened(tmp_path) as one:
        owner.set_password(one)
        from app import create_app

        services = one.app.extensions["studio"]
        two = create_app(services.settings)
        try:
            tried = [guess((one.app, two)[n % 2].test_client()).status_code for n in range(guesses.EACH + 4)]
            assert tried == [401] * guesses.EACH + [429] * 4
            made = owner.session(one)
            other = two.test_client(use_cookies=False)
            assert other.get("/api/runs", headers=made.headers()).status_code == 200
            owner.set_password(one, NEW)
            assert other.get("/api/runs", headers=made.headers()).status_code == 401, "at once"
        finally:
            theirs = two.extensions["studio"]
            theirs.runs.close()
            theirs.threads.close()
            theirs.store.close()


def test_a_try_that_is_not_judged_is_given_back(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_MOST_WAITING", 0)
    assert_error(guess(studio.client), 503, "at_capacity")
    assert tried(studio, "owner-account", guesses.ALL) == 0


# -- what is kept of it --------------------------------------------------------------------------------


def test_no_password_or_token_is_kept_or_logged(new_studio: Studio, caplog: pytest.LogCaptureFixture) -> None:
    studio = new_studio
    caplog.set_level(logging.DEBUG)
    path = link(studio)
    send(studio, path, new=owner.GOOD, again=owner.GOOD)
    guess(studio.client)
    assert owner.sign_in(studio.app.test_client()).status_code == 303
    send(studio, "/account", current=owner.GOOD, new=NEW, again=NEW)
    rows, _ = studio.store.audit.page(AuditFilter(), None, 50)
    assert [(row.actor, row.action) for row in reversed(rows)] == [
        ("owner", "owner.password"),
        ("anonymous", "owner.sign_in_failed"),
        ("owner", "owner.sign_in"),
        ("owner", "owner.password"),
    ]
    told = f"{rows} {caplog.text}"
    for secret in (owner.GOOD, NEW, "not the password", path.rpartition("/")[2]):
        assert secret not in told
    folder = studio.app.extensions["studio"].settings.data_dir
    for file in folder.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            for secret in (owner.GOOD, NEW, path.rpartition("/")[2]):
                assert secret.encode() not in data, file

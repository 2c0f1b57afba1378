"""Who gets in where: every row of the credential table by everybody who may knock, in one application.

What is expected is read from the table, so a route that is added is in here at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest

from app.web.auth import CREDENTIALS, Credential
from app.web.http import is_api
from tests.support.approvals import fit_to_send
from tests.web import owner
from tests.web.conftest import Studio, assert_error, opened
from tests.web.table import call, named, without

_SAFE = ("GET",)
#: Pages that show whoever is signed in something else.
_SEE_SESSIONS = {("GET", "/login")}

#: Everybody who may knock, and what that is worth: a scope, a session that proves its requests or does not, or nothing.
CALLERS: Mapping[str, str] = {
    "no key": "nothing",
    "an unknown key": "nothing",
    "an empty key": "nothing",
    "a key in no alphabet": "nothing",
    "a key that is too long": "nothing",
    "a key that asks the database": "nothing",
    "a revoked key": "nothing",
    "an expired key": "nothing",
    "a key with run": "run",
    "a key with read": "read",
    "a key with admin": "admin",
    "another owner's key with run": "run",
    "the owner": "session",
    "the owner without the token": "unproven",
    "the owner with another session's token": "wrong",
    "the owner, asked from elsewhere": "foreign",
    "a session whose time is over": "ended",
    "a session from before the password was changed": "ended",
    "a session that was signed out": "ended",
    "a cookie somebody made up": "ended",
    "a visitor of a chat": "nothing",
}


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """One for all; its client keeps no cookies."""
    with opened(tmp_path_factory.mktemp("matrix")) as made:
        made.client = made.app.test_client(use_cookies=False)
        owner.set_password(made)
        owner.set_password(made)
        yield made


@pytest.fixture(scope="module")
def keys(studio: Studio) -> dict[str, str]:
    """The keys of the callers that have one."""
    create = studio.store.keys.create
    revoked, revoked_text = create("revoked", frozenset({"admin"}))
    studio.store.keys.revoke(revoked.id)
    now = studio.app.extensions["studio"].clock.now_ms()
    return {
        "an unknown key": "sk-studio-nobody",
        "an empty key": "",
        "a key in no alphabet": "é" * 3,
        "a key that is too long": "k" * 5000,
        "a key that asks the database": "' OR 1=1 --",
        "a revoked key": revoked_text,
        "an expired key": create("expired", frozenset({"admin"}), expires_at=now - 1)[1],
        "a key with run": studio.keys["run"],
        "a key with read": studio.keys["read"],
        "a key with admin": studio.keys["admin"],
        "another owner's key with run": create("other", frozenset({"run"}))[1],
    }


def headers(studio: Studio, keys: Mapping[str, str], caller: str) -> dict[str, str]:
    """What a caller sends; sessions are made anew, for some routes end them."""
    if caller in keys:
        return {"X-API-Key": keys[caller]}
    if caller == "no key":
        return {}
    if caller == "a visitor of a chat":
        return {"X-Studio-Visitor": "eyJ.x.y", "Cookie": "studio_chat_1=eyJ.x.y"}
    if caller == "a cookie somebody made up":
        return {"Cookie": "studio_session=WyJ4IiwyLDE5OTk5OTk5OTld.aaaaaa.x", "X-CSRF-Token": "x"}
    if caller == "a session whose time is over":
        return owner.session(studio, age_s=-1).headers()
    if caller == "a session from before the password was changed":
        return owner.session(studio, version=1).headers()
    made = owner.session(studio)
    if caller == "a session that was signed out":
        studio.client.delete("/api/session", headers=made.headers())
    if caller == "the owner with another session's token":
        return {**made.headers(), "X-CSRF-Token": owner.session(studio).token}
    if caller == "the owner, asked from elsewhere":
        return {**made.headers(), "Origin": "https://evil.example", "Sec-Fetch-Site": "same-site"}
    return made.headers(proves=caller != "the owner without the token")


def expected(row: Credential, worth: str) -> tuple[int, str] | None:
    """The status and code of a refusal; None: the caller gets past the table."""
    safe = row.method in _SAFE
    if worth == "session" or (worth in ("unproven", "wrong") and safe):
        return None
    if worth == "foreign":
        worth = "nothing" if safe else "unproven"
    if worth == "ended" and row.kind == "owner":
        worth = "nothing"
    if row.kind == "owner" and worth not in ("unproven", "wrong"):
        return (401, "unauthorized")
    if worth in ("nothing", "ended"):
        return (401, "unauthorized")
    if worth in ("unproven", "wrong"):
        return (403, "csrf_required")
    reaches_own = row.own == "also" and worth == "run"
    return None if worth in (row.scope, "admin") or reaches_own else (403, "forbidden")


@pytest.mark.parametrize("row", [r for r in CREDENTIALS if r.kind in ("key", "public", "owner")], ids=named)
def test_everybody_at_every_guarded_route(studio: Studio, keys: dict[str, str], row: Credential) -> None:
    for caller, worth in CALLERS.items():
        sent = headers(studio, keys, caller)
        if row.kind == "public" and worth == "unproven" and row.method not in _SAFE:
            worth = "nothing"  # who brings a cookie and no token is nobody there
        answer = call(studio, row, sent)
        wanted = expected(row, worth)
        told = f"{caller}: {answer.status} {answer.get_data(as_text=True)[:200]}"
        assert "X-Run-Id" not in answer.headers, told
        if wanted is None:
            assert answer.status_code not in (401, 403), told
            assert answer.status_code < 500, told
        elif is_api(row.rule) or row.rule == "/metrics":
            assert (answer.status_code, answer.get_json()["error"]["code"]) == wanted, told
            if wanted[0] == 401:
                challenge = 'ApiKey realm="studio", header="X-API-Key"'
                assert answer.headers["WWW-Authenticate"] == challenge, told
        else:  # pages say it to people
            assert answer.status_code == (303 if wanted[0] == 401 else 403), told
            assert answer.headers.get("Location", "login").startswith("login"), told


@pytest.mark.parametrize("row", [r for r in CREDENTIALS if r.kind in ("open", "chat")], ids=named)
def test_open_routes_look_at_no_credential(studio: Studio, keys: dict[str, str], row: Credential) -> None:
    first = call(studio, row, {}).status_code
    assert first < 500
    for caller, worth in CALLERS.items():
        status = call(studio, row, headers(studio, keys, caller)).status_code
        if worth == "session" and (row.method, row.rule) in _SEE_SESSIONS:
            assert status == 303
        elif (row.method, row.rule) == ("POST", "/api/session") and worth == "foreign":
            assert status == 403
        elif (row.method, row.rule) not in _SEE_SESSIONS or worth not in ("unproven", "wrong"):
            assert status == first, caller


@pytest.mark.parametrize("row", CREDENTIALS, ids=named)
def test_other_methods_reveal_nothing(studio: Studio, row: Credential) -> None:
    there = {each.method for each in CREDENTIALS if each.rule == row.rule}
    for sent in ({}, {"X-API-Key": "sk-studio-nobody"}):
        head = call(studio, row, sent, method="HEAD")
        assert head.get_data() == b""
        as_get = call(studio, row, sent, method="GET").status_code
        assert head.status_code == as_get, "as GET, with nothing in it"
        asked = call(studio, row, sent, method="OPTIONS")
        if is_api(row.rule):
            assert (asked.status_code, asked.get_data()) == (204, b"")
        else:
            assert set(asked.allow or ()) == there | {"OPTIONS"} | ({"HEAD"} if "GET" in there else set())


@pytest.fixture(scope="module")
def paused(studio: Studio) -> dict[str, str]:
    """What belongs to the key with ``run``: a run that asks, its thread, its question."""
    workflow = studio.deploy(fit_to_send())
    answer = studio.client.post(
        f"/api/workflows/{workflow}/execute",
        json={"input": "hello", "conversationId": "mine"},
        headers={"X-API-Key": studio.keys["run"]},
    ).get_json()
    run = studio.store.runs.get(answer["runId"])
    assert run is not None
    file = studio.client.post(
        "/api/files?name=mine.txt",
        data=b"mine",
        headers={"X-API-Key": studio.keys["run"], "Content-Type": "text/plain"},
    ).get_json()
    return {
        "file_id": file["id"],
        "run_id": answer["runId"],
        "decision_id": answer["resume"]["pauseId"],
        "thread_id": run["thread_id"],
    }


_OWNED = [
    row for row in CREDENTIALS if row.own != "all" and re.search(r"<(run|thread|decision|file)_id>", row.rule)
]


@pytest.mark.parametrize("row", [row for row in _OWNED if row.kind == "key"], ids=named)
def test_what_is_not_yours_is_as_if_it_was_not_there(
    studio: Studio, keys: dict[str, str], paused: dict[str, str], row: Credential
) -> None:
    sent = {"X-API-Key": keys["another owner's key with run"]}
    for method in (row.method, "HEAD"):
        told = []
        for ids in (paused, {name: f"{made[:-4]}0000" for name, made in paused.items()}):
            answer = call(studio, row, sent, method, **ids)
            kept = [each for each in answer.headers if each[0] not in ("X-Request-Id", "RateLimit")]
            told.append((answer.status_code, without(answer.get_json(silent=True), ids), kept))
        assert told[0] == told[1]
        has_get = any(each.rule == row.rule and each.method == "GET" for each in CREDENTIALS)
        assert told[0][0] == (404 if method == row.method or has_get else 405)
    record = studio.get(f"/api/runs/{paused['run_id']}", key="run").get_json()
    assert record["status"] == "paused", "nobody has changed it"


def test_it_is_theirs_and_the_admins(studio: Studio, paused: dict[str, str]) -> None:
    for row in _OWNED:
        if row.method == "GET" and row.kind == "key" and not row.rule.endswith(("<ref>", "/events")):
            for key in ("run", "admin"):
                sent = {"X-API-Key": studio.keys[key]}
                assert call(studio, row, sent, "HEAD", **paused).status_code == 200, named(row)


def test_nothing_was_started(studio: Studio, keys: dict[str, str], paused: dict[str, str]) -> None:
    """Whoever may not start a run has left none."""
    workflow = studio.deploy(fit_to_send(), "guarded")
    for path in (f"/api/workflows/{workflow}/execute", f"/api/workflows/{workflow}/runs", "/chat"):
        for caller, worth in CALLERS.items():
            if worth not in ("run", "admin", "session"):
                body = {"message": "hello", **({"workflow_id": workflow} if path == "/chat" else {})}
                answer = studio.client.post(path, json=body, headers=headers(studio, keys, caller))
                assert answer.status_code in (401, 403), f"{caller} at {path}"
    listed = studio.get("/api/runs", key="admin").get_json()["items"]
    assert [each["runId"] for each in listed] == [paused["run_id"]]


def test_the_owners_runs_are_theirs(studio: Studio, keys: dict[str, str]) -> None:
    workflow = studio.deploy(fit_to_send(), "of-the-owner")
    sent = owner.session(studio).headers()
    answer = studio.client.post(f"/api/workflows/{workflow}/execute", json={"input": "hi"}, headers=sent)
    run = answer.get_json()["runId"]
    row = studio.store.runs.get(run)
    assert row is not None
    assert row["key_id"] == "owner"
    assert studio.client.get(f"/api/runs/{run}", headers=owner.session(studio).headers()).status_code == 200
    other = {"X-API-Key": keys["another owner's key with run"]}
    assert_error(studio.client.get(f"/api/runs/{run}", headers=other), 404, "not_found")

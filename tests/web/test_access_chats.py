"""Who gets into which chat: every route of visitors, by each gate and everybody who may knock, in one application."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from app.store.chats import ChatRow
from app.web import visitors
from app.web.auth import CREDENTIALS, Credential
from app.web.http import is_api
from app.web.visitors import HEADER, Pass, Visitor
from tests.web import owner
from tests.web.conftest import Studio, document, opened
from tests.web.table import call, named, without

MODES = ("public", "password", "email", "sso")
#: Everybody who may knock at a gate, and whether it lets them in.
KNOCKS: Mapping[str, bool] = {
    "nobody": False,
    "a token somebody made up": False,
    "a visitor who has shown nothing": False,
    "a visitor who was let in": True,
    "a visitor who was let in by a cookie": True,
    "a visitor who was let into another chat": False,
    "one who was let in before the gate was changed": False,
    "one who was let in by another gate": False,
    "one whose time is over": False,
    "a key with admin": False,
    "the owner": False,
}
ROWS = [row for row in CREDENTIALS if row.kind == "chat"]


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """One for all; its client keeps no cookies."""
    with opened(tmp_path_factory.mktemp("chats")) as made:
        made.client = made.app.test_client(use_cookies=False)
        owner.set_password(made)
        yield made


@pytest.fixture(scope="module")
def chats(studio: Studio) -> dict[str, ChatRow]:
    """One with each gate, and one more, by their slugs."""
    workflow = studio.deploy(document("scripted/plain"))
    made = {}
    for slug in (*MODES, "other"):
        mode = "public" if slug == "other" else slug
        gate = {"password": "a hash", "allowed_emails": ("ada@example.org",)}
        row = {"workflow_id": workflow, "slug": slug, "title": slug, "auth_type": mode, **gate}
        chat = studio.store.chats.create(row)
        changed = studio.store.chats.update(chat.id, None, {"password": "another hash"})
        assert changed is not None
        made[slug] = changed
    return made


def token(studio: Studio, visitor: Visitor) -> str:
    with studio.app.app_context():
        return visitors._token(visitor)


def shown(studio: Studio, chat: ChatRow, **other: t.Any) -> Visitor:
    """A visitor whom the gate of ``chat`` has let in; ``other``: what is different about that."""
    now = studio.app.extensions["studio"].clock.now_ms() // 1000
    made = Pass(chat.auth_type, chat.password_version, now, "ada@example.org")
    return Visitor(chat.id, "ab" * 12, replace(made, **other))


def headers(studio: Studio, chats: Mapping[str, ChatRow], chat: ChatRow, knock: str) -> dict[str, str]:
    if knock == "nobody":
        return {}
    if knock == "a key with admin":
        return {"X-API-Key": studio.keys["admin"]}
    if knock == "the owner":
        return owner.session(studio).headers()
    if knock == "a token somebody made up":
        return {HEADER: f"{token(studio, shown(studio, chat))[:-3]}AAA"}
    who = {
        "a visitor who has shown nothing": Visitor(chat.id, "ab" * 12),
        "a visitor who was let into another chat": shown(studio, chats["other"], mode=chat.auth_type),
        "one who was let in before the gate was changed": shown(studio, chat, version=1),
        "one who was let in by another gate": shown(studio, chat, mode="public"),
        "one whose time is over": shown(studio, chat, since=1),
    }.get(knock, shown(studio, chat))
    if knock.endswith("by a cookie"):
        return {"Cookie": f"studio_{chat.id}={token(studio, who)}"}
    return {HEADER: token(studio, who)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("row", ROWS, ids=named)
def test_everybody_at_every_gate(
    studio: Studio, chats: dict[str, ChatRow], row: Credential, mode: str
) -> None:
    before = studio.get("/api/runs", key="admin").get_json()
    for knock, gets_in in KNOCKS.items():
        answer = call(studio, row, headers(studio, chats, chats[mode], knock), slug=mode)
        told = f"{knock}: {answer.status} {answer.get_data(as_text=True)[:200]}"
        assert "X-Run-Id" not in answer.headers, told
        if gets_in or mode == "public":
            assert answer.status_code not in (401, 403), told
            assert answer.status_code < 500, told
        else:
            assert answer.status_code == 401, told
            assert answer.get_json()["error"]["code"] == f"auth_required_{mode}", told
    assert studio.get("/api/runs", key="admin").get_json() == before, "nobody has started a run"


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_whoever_is_not_let_in_learns_of_no_run(
    studio: Studio, chats: dict[str, ChatRow], row: Credential
) -> None:
    """Nor whether a chat that asks for nothing has it; and a slug nobody has is a 404 to all."""
    for knock in KNOCKS:
        sent = headers(studio, chats, chats["public"], knock)
        assert call(studio, row, sent, slug="nonesuch").status_code == 404
    for mode in ("password", "email", "sso"):
        as_get = call(studio, row, {}, "GET", slug=mode).status_code
        head = call(studio, row, {}, "HEAD", slug=mode)
        assert (head.status_code, head.get_data()) == (as_get, b"")
        assert call(studio, row, {}, "OPTIONS", slug=mode).status_code == 204


def test_a_visitor_is_nobody_outside_of_the_chat(studio: Studio, chats: dict[str, ChatRow]) -> None:
    for mode in MODES:
        for knock in ("a visitor who was let in", "a visitor who was let in by a cookie"):
            sent = headers(studio, chats, chats[mode], knock)
            for row in CREDENTIALS:
                if row.kind in ("key", "public", "owner"):
                    status = call(studio, row, sent).status_code
                    assert status == (401 if is_api(row.rule) or row.rule == "/metrics" else 303), named(row)


def test_what_another_visitor_has_is_as_if_it_was_not_there(
    studio: Studio, chats: dict[str, ChatRow]
) -> None:
    chat = chats["public"]
    mine, theirs = (Visitor(chat.id, each * 12) for each in ("ab", "cd"))
    sent = {HEADER: token(studio, mine)}
    begun = studio.client.post(
        "/api/chat/public", json={"input": "hi", "conversationId": "mine"}, headers=sent
    )
    begun.get_data()
    run = begun.headers["X-Run-Id"]
    of_a_key = studio.execute(studio.deploy(document("scripted/plain")), {"input": "hi"}).get_json()["runId"]
    for row in ROWS:
        if "<run_id>" not in row.rule and "conversation" not in row.rule:
            continue
        told = []
        for ids in (
            {"run_id": run, "conversation": "mine"},
            {"run_id": of_a_key, "conversation": "never"},
            {"run_id": f"{run[:-4]}0000", "conversation": "never"},
        ):
            answer = call(studio, row, {HEADER: token(studio, theirs)}, slug="public", **ids)
            told.append((answer.status_code, without(answer.get_json(), ids)))
        assert told[0] == told[1] == told[2], named(row)
    own = call(studio, ROWS[2], sent, slug="public", run_id=run)
    assert (named(ROWS[2]), own.status_code) == ("GET /api/chat/<slug>/runs/<run_id>", 200)

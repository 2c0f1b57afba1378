"""Requests that are refused, with marks in all of them, and pages that everybody may open.

Law of this room: as of :mod:`tests.leaks.play`. What somebody has sent (class ``b``) may be in the answer to that and
nowhere else; what was meant as a secret (class ``s``) not even there.
"""

from __future__ import annotations

import typing as t
from urllib.parse import quote

from tests.leaks.marks import made

if t.TYPE_CHECKING:
    from tests.leaks.play import Player

#: What everybody may open, with what is in it.
OPEN = (
    ("open", "/api/health"),
    ("open", "/api/openapi.json"),
    ("open", "/api/docs"),
    ("open", "/"),
    ("open", "/login"),
    ("open", "/api/session"),
    ("open", "/api/schemas/agent-events-v1"),
    ("open", "/static/chat.js"),
    ("models", "/api/capabilities?family=scripted"),
)


def refused(player: Player) -> None:
    """One request that is refused."""
    body = made("b", player.world.serial, 99, player.chance.choice(["", '<"&>', "é "]))
    secret = made("s", player.world.serial, 98)
    key = player.chance.choice(["run", "admin", None])
    method, path, sent, who = player.chance.choice(_requests(player, body, secret))
    where = "open" if who == "nobody" else "refused"
    kept = key if who == "sender" else who if who != "nobody" else None
    player.ask("sender" if who != "nobody" else "nobody", where, method, path, sent, key=kept)


def _requests(player: Player, body: str, secret: str) -> list[tuple[str, str, t.Any, str]]:
    """Method, path, body, and who sends it."""
    workflow, chat = f"/api/workflows/{player.workflow}", f"/api/chat/{player.slug}"
    text = quote(body, safe="")
    return [
        ("POST", f"{workflow}/execute", {"input": "x", body: 1}, "run"),
        ("POST", f"{workflow}/execute", {"input": body, "selectedOutputs": [f"{body}.content"]}, "run"),
        ("POST", f"{workflow}/execute", f'{{"input": "{body}', "run"),
        ("POST", f"{workflow}/execute", {"input": body, "version": 77}, "run"),
        ("POST", f"{workflow}/execute", {"input": body, "stream": body}, "sender"),
        ("POST", f"{workflow}/runs", {"message": body, "input": body}, "sender"),
        ("POST", f"{workflow}/runs", {"message": "x", "thread_id": body}, "run"),
        ("POST", f"{workflow}/draft/run", {"input": body, "document": {body: body}}, "admin"),
        ("POST", f"/api/workflows/{text}/execute", {"input": body}, "sender"),
        ("POST", "/chat", {"messages": body, "workflow": body}, "sender"),
        ("POST", "/chat/resume", {"thread_id": body, "decision": body}, "sender"),
        ("GET", f"/api/runs/{text}", None, "run"),
        ("GET", f"/api/runs?status={text}&cursor={text}", None, "read"),
        ("GET", f"/api/runs/{text}/events?protocol={text}", None, "run"),
        ("GET", f"/api/threads/{text}/memory", None, "run"),
        ("POST", f"/api/decisions/{text}", {"decision": body, "text": body}, "run"),
        ("POST", chat, {"input": body, body: body}, "sender"),
        ("POST", chat, {"input": "x", "files": [{"name": body, "data": body}]}, "sender"),
        ("POST", f"/api/chat/{text}", {"input": body}, "sender"),
        ("GET", f"{chat}/conversations/{text}", None, "sender"),
        ("POST", f"{chat}/session", {"password": secret, body: 1}, "sender"),
        ("POST", f"{chat}/otp", {"email": f"{body}@example.com"}, "sender"),
        ("GET", f"/decide/{secret}", None, "nobody"),
        ("GET", f"/setup/{secret}", None, "nobody"),
        ("GET", f"/api/chat/sso/callback?code={secret}&state={secret}", None, "nobody"),
        ("POST", "/api/session", {"password": secret, body: 1}, "sender"),
        ("POST", "/api/session", {"password": secret}, "nobody"),
        ("PUT", "/api/secrets/SO", {"value": f"{secret} "}, "admin"),
        ("PUT", f"/api/secrets/{text}-so", {"value": secret}, "admin"),
        ("PUT", "/api/secrets/SO", {"value": secret, body: secret}, "admin"),
        ("POST", "/api/chats", {"slug": body, "title": body, "password": secret, body: 1}, "admin"),
        ("PUT", "/api/owner/password", {"current": secret, "new": secret, body: 1}, "admin"),
        ("POST", "/api/keys", {"name": body, "scopes": [body], body: 1}, "admin"),
        ("POST", "/api/workflows", [{"name": body}], "admin"),
        ("POST", "/api/documents", {"collection": body, "text": body, body: 1}, "admin"),
        ("GET", "/api/runs", None, secret),
        ("POST", f"{workflow}/execute", {"input": "x"}, secret),
    ]


def opened(player: Player) -> None:
    """A page that everybody may open, or a list of what was changed."""
    where, path = player.chance.choice(OPEN)
    player.ask("nobody", where, "GET", path)
    player.ask("admin", "audit", "GET", "/api/audit?limit=5", key="admin")

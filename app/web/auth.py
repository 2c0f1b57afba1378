"""Who may call what: one table for every route, and the check that follows it.

Law of this room: a route that is not in :data:`CREDENTIALS` answers nobody. The access tests are
generated from the same table. A key's plain text is never kept, logged or compared; its digest is.
"""

from __future__ import annotations

import hashlib
import hmac
import typing as t
from dataclasses import dataclass

from flask import Flask, Response, g, request

from app.schemas.limits import BudgetLimit, Rates, stored_budget, stored_rates
from app.web import sessions
from app.web.errors import forbidden, unauthorized
from app.web.http import is_api, preflight, services

if t.TYPE_CHECKING:
    from app.store import Store
    from app.store.keys import KeyRow

_MAX_KEY = 200
_MAX_CACHED = 4096


@dataclass(frozen=True, slots=True)
class Credential:
    """What one route asks of its caller.

    :ivar kind: ``open`` (anyone; a key is not looked at), ``key`` (a live key, or the owner's session), ``public`` (the
        same, or neither where the workflow is public), ``owner`` (the owner's session; a key is not looked at),
        ``chat`` (whoever the chat's own gate lets in; a key is not looked at).
    :ivar scope: what the key must be allowed; ``admin`` holds every scope.
    :ivar own: what a key reaches of runs and threads. ``all``: every one. ``also``: without ``scope`` those it
        started. ``only``: just those it started, unless it is ``admin``.
    :ivar bearer: the key may come as ``Authorization: Bearer`` too, and so may the token of the metrics.
    """

    method: str
    rule: str
    kind: t.Literal["open", "key", "public", "owner", "chat"]
    scope: str = ""
    own: t.Literal["all", "also", "only"] = "all"
    bearer: bool = False


#: Every route of the program.
CREDENTIALS: tuple[Credential, ...] = (
    Credential("POST", "/api/workflows/<workflow_id>/execute", "public", "run"),
    Credential("POST", "/api/workflows/<workflow_id>/runs", "public", "run"),
    Credential("GET", "/api/workflows", "key", "read"),
    Credential("POST", "/api/workflows", "key", "admin"),
    Credential("POST", "/api/workflows/validate", "key", "read"),
    Credential("GET", "/api/workflows/<workflow_id>", "key", "read"),
    Credential("PUT", "/api/workflows/<workflow_id>", "key", "admin"),
    Credential("PATCH", "/api/workflows/<workflow_id>", "key", "admin"),
    Credential("DELETE", "/api/workflows/<workflow_id>", "key", "admin"),
    Credential("POST", "/api/workflows/<workflow_id>/deploy", "key", "admin"),
    Credential("DELETE", "/api/workflows/<workflow_id>/deploy", "key", "admin"),
    Credential("POST", "/api/workflows/<workflow_id>/rollback", "key", "admin"),
    Credential("GET", "/api/workflows/<workflow_id>/versions", "key", "read"),
    Credential("GET", "/api/workflows/<workflow_id>/versions/<version>", "key", "read"),
    Credential("GET", "/api/workflows/<workflow_id>/diff", "key", "read"),
    Credential("POST", "/api/workflows/<workflow_id>/draft/run", "key", "admin"),
    Credential("POST", "/chat", "public", "run"),
    Credential("POST", "/chat/resume", "public", "run", own="only"),
    Credential("GET", "/graph/topology", "public", "run"),
    Credential("GET", "/api/threads", "key", "read", own="also"),
    Credential("GET", "/api/threads/<thread_id>", "key", "read", own="also"),
    Credential("POST", "/api/threads/<thread_id>/stop", "key", "run", own="only"),
    Credential("POST", "/api/threads/<thread_id>/release", "key", "run", own="only"),
    Credential("GET", "/api/threads/<thread_id>/memory", "key", "read", own="also"),
    Credential("DELETE", "/api/threads/<thread_id>/memory", "key", "run", own="only"),
    Credential("GET", "/api/runs", "key", "read", own="also"),
    Credential("GET", "/api/runs/<run_id>", "key", "read", own="also"),
    Credential("GET", "/api/runs/<run_id>/events", "key", "read", own="also"),
    Credential("GET", "/api/runs/<run_id>/values/<ref>", "key", "read", own="also"),
    Credential("DELETE", "/api/runs/<run_id>", "key", "run", own="only"),
    Credential("POST", "/api/runs/<run_id>/cancel", "key", "run", own="only"),
    Credential("POST", "/api/runs/<run_id>/resume", "key", "run", own="only"),
    Credential("GET", "/api/decisions", "key", "read", own="also"),
    Credential("GET", "/api/decisions/<decision_id>", "key", "read", own="also"),
    Credential("POST", "/api/decisions/<decision_id>", "key", "run", own="only"),
    Credential("POST", "/api/decisions/<decision_id>/link", "key", "run", own="only"),
    # The token is the credential.
    Credential("GET", "/decide/<token>", "open"),
    Credential("POST", "/decide/<token>", "open"),
    Credential("GET", "/api/session", "open"),
    Credential("POST", "/api/session", "open"),  # the password is the credential
    Credential("DELETE", "/api/session", "owner"),
    Credential("PUT", "/api/owner/password", "key", "admin"),
    Credential("GET", "/login", "open"),
    Credential("POST", "/login", "open"),
    # The token is the credential.
    Credential("GET", "/setup/<token>", "open"),
    Credential("POST", "/setup/<token>", "open"),
    Credential("GET", "/account", "owner"),
    Credential("POST", "/account", "owner"),
    Credential("POST", "/logout", "owner"),
    Credential("GET", "/api/secrets", "key", "admin"),
    Credential("PUT", "/api/secrets/<secret_name>", "key", "admin"),
    Credential("DELETE", "/api/secrets/<secret_name>", "key", "admin"),
    Credential("GET", "/api/documents", "key", "read"),
    Credential("POST", "/api/documents", "key", "admin"),
    Credential("GET", "/api/documents/collections", "key", "read"),
    Credential("GET", "/api/documents/search", "key", "read"),
    Credential("GET", "/api/documents/<document_id>", "key", "read"),
    Credential("DELETE", "/api/documents/<document_id>", "key", "admin"),
    Credential("GET", "/api/plugins", "key", "read"),
    Credential("GET", "/api/audit", "key", "admin"),
    Credential("GET", "/api/files", "key", "run", own="only"),
    Credential("POST", "/api/files", "key", "run"),
    Credential("GET", "/api/files/<file_id>", "key", "run", own="only"),
    Credential("GET", "/api/files/<file_id>/content", "key", "run", own="only"),
    Credential("DELETE", "/api/files/<file_id>", "key", "run", own="only"),
    Credential("GET", "/api/keys", "key", "admin"),
    Credential("POST", "/api/keys", "key", "admin"),
    Credential("GET", "/api/keys/<key_id>", "key", "admin"),
    Credential("PATCH", "/api/keys/<key_id>", "key", "admin"),
    Credential("DELETE", "/api/keys/<key_id>", "key", "admin"),
    Credential("GET", "/metrics", "key", "read", bearer=True),
    Credential("GET", "/api/health", "open"),
    Credential("GET", "/api/stream-check", "open"),
    Credential("GET", "/api/capabilities", "open"),
    Credential("GET", "/", "open"),
    Credential("GET", "/capabilities", "open"),
    Credential("GET", "/static/<name>", "open"),
    Credential("GET", "/api/schemas/<surface>", "open"),
    Credential("GET", "/api/chats", "key", "read"),
    Credential("POST", "/api/chats", "key", "admin"),
    Credential("GET", "/api/chats/<chat_id>", "key", "read"),
    Credential("PATCH", "/api/chats/<chat_id>", "key", "admin"),
    Credential("DELETE", "/api/chats/<chat_id>", "key", "admin"),
    Credential("GET", "/chat/<slug>", "open"),
    Credential("GET", "/api/chat/<slug>", "chat"),
    Credential("POST", "/api/chat/<slug>", "chat"),
    Credential("GET", "/api/chat/<slug>/runs/<run_id>", "chat"),
    Credential("GET", "/api/chat/<slug>/runs/<run_id>/events", "chat"),
    Credential("POST", "/api/chat/<slug>/runs/<run_id>/cancel", "chat", own="only"),
    Credential("POST", "/api/chat/<slug>/runs/<run_id>/resume", "chat", own="only"),
    Credential("GET", "/api/chat/<slug>/conversations/<path:conversation>", "chat"),
    # How visitors get in is the gate itself.
    Credential("POST", "/api/chat/<slug>/session", "open"),
    Credential("DELETE", "/api/chat/<slug>/session", "open"),
    Credential("POST", "/api/chat/<slug>/otp", "open"),
    Credential("PUT", "/api/chat/<slug>/otp", "open"),
    Credential("GET", "/api/chat/<slug>/sso", "open"),
    Credential("GET", "/api/chat/sso/callback", "open"),
    Credential("GET", "/api/openapi.json", "open"),
    Credential("GET", "/api/docs", "open"),
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: a key, or nobody in particular (``key_id`` None).

    :ivar rates: how often it may start runs; None: as the settings say. :ivar budget: what its runs may use.
    """

    key_id: str | None
    scopes: frozenset[str]
    rates: Rates | None = None
    budget: BudgetLimit | None = None
    expires_at: int | None = None

    def may(self, scope: str) -> bool:
        """Whether ``scope`` is among the caller's; ``admin`` includes all."""
        return scope in self.scopes or "admin" in self.scopes

    def owns(self, key_id: str | None) -> bool:
        """Whether the run started with ``key_id`` is the caller's own."""
        return self.key_id is not None and self.key_id == key_id

    def reads(self, key_id: str | None) -> bool:
        """Whether the caller may read the run, or the thread, of ``key_id``: with scope ``read`` any, else its own."""
        return self.may("read") or self.owns(key_id)


ANONYMOUS = Caller(None, frozenset())
#: Who has signed in to the web pages.
OWNER = Caller("owner", frozenset({"admin", "read", "run"}))


class KeyCache:
    """Live keys by the digest of their text, dropped whenever the store changed.

    Only keys that exist are kept: guesses cost their guesser a query and us no memory.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._generation = -1
        self._callers: dict[bytes, Caller] = {}

    def find(self, plaintext: str) -> Caller | None:
        """The caller behind a key; None for an unknown or revoked one.

        :raises ApiError: 401 it has expired: whoever has its text may know.
        """
        generation = g.generation = self._store.generation()
        if generation != self._generation:
            self._callers.clear()
            self._generation = generation
        digest = hashlib.sha256(plaintext.encode("utf-8", "surrogateescape")).digest()
        caller = self._callers.get(digest)
        if caller is None:
            row: KeyRow | None = self._store.keys.find(plaintext)
            if row is None or row.revoked_at is not None:
                return None
            rates, budget = stored_rates(row.rate_limit), stored_budget(row.budget)
            caller = Caller(row.id, row.scopes, rates, budget, row.expires_at)
            if len(self._callers) >= _MAX_CACHED:
                self._callers.clear()
            if generation == self._generation:  # else this may be the key of before a change
                self._callers[digest] = caller
        if not self._store.keys.use(str(caller.key_id), caller.expires_at):
            raise unauthorized("The key in X-API-Key has expired. Create a key: studio key create --name N")
        return caller


def caller() -> Caller:
    """Who this request is from."""
    return t.cast(Caller, g.caller)


def credential() -> Credential:
    """The table's row for this request."""
    return t.cast(Credential, g.credential)


def install(app: Flask, store: Store) -> None:
    """Put the table's check before every view of ``app``."""
    keys = KeyCache(store)
    table = {(row.rule, row.method): row for row in CREDENTIALS}

    def check() -> Response | None:
        if request.method == "OPTIONS" and is_api(request.environ["PATH_INFO"]):
            return preflight()
        rule = request.url_rule
        # 404, 405 and which methods there are: the dispatch that follows says so.
        if rule is None or request.method == "OPTIONS":
            return None
        method = "GET" if request.method == "HEAD" else request.method
        row = table[rule.rule, method]
        g.credential = row
        g.caller = ANONYMOUS if row.kind in ("open", "chat") else _authenticate(keys, row)
        return None

    app.before_request(check)


def _bearer(header: str) -> str | None:
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _is_metrics_token(sent: str) -> bool:
    token = services().settings.metrics_token
    return bool(token) and hmac.compare_digest(token.encode(), sent.encode("utf-8", "surrogateescape"))


def _authenticate(keys: KeyCache, row: Credential) -> Caller:
    if row.kind == "owner":
        sessions.require()
        return OWNER
    sent: str | None = request.environ.get("HTTP_X_API_KEY")
    if sent is None and row.bearer:
        sent = _bearer(request.environ.get("HTTP_AUTHORIZATION", ""))
        if sent is not None and _is_metrics_token(sent):
            return Caller(None, frozenset({row.scope}))
    if sent is None:
        if sessions.counts(or_nobody=row.kind == "public"):
            return OWNER
        if row.kind == "public":
            return ANONYMOUS  # the view lets it in where the workflow is public
        also = ", or a token as Authorization: Bearer" if row.bearer else ""
        raise unauthorized(f"Send your key in the header X-API-Key{also}.")
    found = keys.find(sent) if 0 < len(sent) <= _MAX_KEY else None
    if found is None:
        what = "key or token" if row.bearer else "key in X-API-Key"
        raise unauthorized(f"The {what} is unknown or revoked. Create a key: studio key create --name N")
    if not found.may(row.scope) and not (row.own == "also" and found.may("run")):
        raise forbidden(row.scope)
    return found

"""Chats: what workflows are deployed as for people.

Law of this room: a chat serves its workflow's live version and holds no copy of it. A password is given and kept as a
salted hash; whatever changes who gets in raises ``password_version``, so that passes given before are worth nothing.
Every write raises the catalog's generation; who asks for a chat by its slug with the generation he has read is
answered from memory.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from sqlalchemy import bindparam, delete, insert, select, update

from app.clock import Clock
from app.store.catalog import Catalog
from app.store.db import Backend, Link, Row, from_json, json_text, text
from app.store.deployment_tables import chats
from app.store.errors import RevisionConflict, StoreConflict
from app.store.pages import Pages
from app.store.tables import workflows
from app.store.writer import Note, Writer

AuthType = t.Literal["public", "password", "email", "sso"]

#: What decides who gets in.
_GATES = ("auth_type", "password", "allowed_emails")
_JSON = ("allowed_emails", "outputs", "customization", "allowed_origins", "rate_limit", "budget", "redact")
_FLAGS = ("include_thinking", "include_tool_calls", "active")
_MAX_CACHED = 1024


class SlugTaken(StoreConflict):
    """Another chat has this slug."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"There is a chat at '{slug}' already. Choose another slug, or change that chat.")
        self.code = "slug_taken"


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A chat.

    :ivar password: salted hash; None: none is set. It is for the gate and never part of an answer.
    :ivar password_version: of who gets in; it is in every visitor's pass.
    :ivar allowed_emails: addresses and ``@domain``s, lower case.
    :ivar outputs: what of the run is delivered, as ``block.path``; None: the text of agents that answer.
    :ivar allowed_origins: web origins that may use it and embed it; empty: any may use it.
    :ivar rate_limit: such as ``{"perMinute": 60}``. :ivar budget: such as ``{"tokens": 100000, "period": "day"}``.
    :ivar redact: a policy as it was given. :ivar active: visitors are let in at all.
    :ivar revision: counts its changes from 1.
    """

    id: str
    workflow_id: str
    slug: str
    title: str
    description: str | None = None
    welcome_message: str | None = None
    auth_type: AuthType = "public"
    password: str | None = field(default=None, repr=False)
    password_version: int = 1
    allowed_emails: tuple[str, ...] = ()
    outputs: tuple[str, ...] | None = None
    include_thinking: bool = False
    include_tool_calls: bool = False
    customization: dict[str, t.Any] | None = None
    allowed_origins: tuple[str, ...] = ()
    rate_limit: dict[str, t.Any] | None = None
    budget: dict[str, t.Any] | None = None
    redact: dict[str, t.Any] | None = None
    active: bool = True
    revision: int = 1
    created_at: int = 0
    updated_at: int = 0


_NAMES = tuple(entry.name for entry in fields(ChatRow))


class Chats:
    """The chats of this installation. Methods that write wait for the commit."""

    def __init__(self, backend: Backend, writer: Writer, catalog: Catalog, clock: Clock) -> None:
        self._backend, self._writer, self._catalog, self._clock = backend, writer, catalog, clock
        c = chats.c
        columns = [c[name] for name in _NAMES]
        this = c.id == bindparam("chat")
        self._insert = backend.prepare(insert(chats))
        self._get = backend.prepare(select(*columns).where(this))
        self._lock = backend.prepare(select(*columns).where(this).with_for_update())
        self._by_slug = backend.prepare(select(*columns).where(c.slug == bindparam("called")))
        self._workflow = backend.prepare(
            select(workflows.c.id).where(workflows.c.id == bindparam("workflow"))
        )
        changed: dict[str, t.Any] = {
            name: bindparam(f"new_{name}") for name in _NAMES if name not in ("id", "created_at")
        }
        self._update = backend.prepare(update(chats).where(this).values(**changed))
        self._delete = backend.prepare(delete(chats).where(this))
        self._pages = Pages(backend, chats, _NAMES, (("workflow_id",), ()))
        self._generation = -1
        self._known: dict[str, ChatRow] = {}

    def create(self, values: Mapping[str, t.Any], note: Note | None = None) -> ChatRow:
        """Make a chat.

        :param note: of the change, given what is returned (:class:`app.store.audit.Audit`; so for every writer below).
        :param values: of :class:`ChatRow`, by name; ``workflow_id``, ``slug`` and ``title`` at least.
        :raises SlugTaken: another one is there. :raises StoreConflict: there is no such workflow.
        :raises StoreFailed: it was not stored (so for every writer below).
        """
        now = self._clock.now_ms()
        made = _cleaned(ChatRow(**{**values, "id": self._clock.new_id("chat")}))
        row = replace(made, password_version=1, revision=1, created_at=now, updated_at=now)

        def job(link: Link) -> ChatRow:
            self._catalog.bump(link)  # first: it lets one writer in at a time, whatever the database
            if not link.rows(self._workflow, {"workflow": row.workflow_id}):
                raise StoreConflict(f"There is no workflow '{row.workflow_id[:100]}'.")
            if link.rows(self._by_slug, {"called": row.slug}):
                raise SlugTaken(row.slug)
            link.insert(self._insert, [_values(row)])
            return row

        self._writer.submit(job, note=note).wait()
        return row

    def update(
        self, chat_id: str, revision: int | None, changes: Mapping[str, t.Any], note: Note | None = None
    ) -> ChatRow | None:
        """Change a chat.

        :param revision: the one the writer has seen; None: any. :param changes: of :class:`ChatRow`, by name.
        :returns: the chat as it is now; None when there is none.
        :raises RevisionConflict: it has another revision. :raises SlugTaken: another chat has the new slug.
        """
        now = self._clock.now_ms()

        def job(link: Link) -> ChatRow | None:
            self._catalog.bump(link)
            before = self._seen(link, chat_id, revision)
            if before is None:
                return None
            row = _cleaned(replace(before, **changes))
            again = any(getattr(row, name) != getattr(before, name) for name in _GATES)
            row = replace(
                row,
                password_version=before.password_version + again,
                revision=before.revision + 1,
                updated_at=now,
            )
            if row.slug != before.slug and link.rows(self._by_slug, {"called": row.slug}):
                raise SlugTaken(row.slug)
            values = {f"new_{name}": value for name, value in zip(_NAMES, _values(row), strict=True)}
            link.execute(self._update, {**values, "chat": row.id})
            return row

        return t.cast("ChatRow | None", self._writer.submit(job, note=note).wait())

    def delete(self, chat_id: str, revision: int | None = None, note: Note | None = None) -> bool:
        """Remove a chat; False when there is none.

        :raises RevisionConflict: it has another revision.
        """

        def job(link: Link) -> bool:
            self._catalog.bump(link)
            row = self._seen(link, chat_id, revision)
            return row is not None and bool(link.execute(self._delete, {"chat": row.id}))

        return bool(self._writer.submit(job, note=note).wait())

    def get(self, chat_id: str) -> ChatRow | None:
        """A chat by its id.

        :raises StoreFailed: the database cannot be read (so for every reader below).
        """
        rows = self._backend.rows(self._get, {"chat": text(chat_id)})
        return _row(rows[0]) if rows else None

    def by_slug(self, slug: str, generation: int | None = None) -> ChatRow | None:
        """The chat at a slug.

        :param generation: the catalog's, when it was read already.
        """
        if generation is None:
            generation = self._catalog.generation()
        if generation != self._generation:
            self._known.clear()
            self._generation = generation
        row = self._known.get(slug)
        if row is None:
            rows = self._backend.rows(self._by_slug, {"called": text(slug)})
            if not rows:
                return None  # not kept: guesses cost us no memory
            row = _row(rows[0])
            if len(self._known) >= _MAX_CACHED:
                self._known.clear()
            if generation == self._generation:  # else this may be the chat of before a change
                self._known[slug] = row
        return row

    def list(
        self, before: str | None = None, limit: int = 50, workflow_id: str | None = None
    ) -> tuple[list[ChatRow], str | None]:
        """The next chats older than ``before``, newest first; see :meth:`app.store.pages.Pages.page`.

        :param workflow_id: of this workflow only.
        """
        wanted = {} if workflow_id is None else {"workflow_id": workflow_id}
        found, further = self._pages.page(wanted, before, limit)
        return [_row(row) for row in found], further

    def _seen(self, link: Link, chat_id: str, revision: int | None) -> ChatRow | None:
        """The chat, if it is as the writer has seen it."""
        rows = link.rows(self._lock, {"chat": text(chat_id)})
        if not rows:
            return None
        row = _row(rows[0])
        if revision is not None and row.revision != revision:
            raise RevisionConflict(row.revision)
        return row


def _cleaned(row: ChatRow) -> ChatRow:
    """The row as it will be read back: what is text is text that every database takes."""
    return _row(_values(row))


def _values(row: ChatRow) -> Row:
    return tuple(_stored(name, getattr(row, name)) for name in _NAMES)


def _stored(name: str, value: t.Any) -> t.Any:
    if name in _JSON:
        return json_text(value)
    return int(value) if name in _FLAGS else text(value) if isinstance(value, str) else value


def _row(found: Row) -> ChatRow:
    return ChatRow(**{name: _read(name, value) for name, value in zip(_NAMES, found, strict=True)})


def _read(name: str, value: t.Any) -> t.Any:
    if name in _FLAGS:
        return bool(value)
    if name not in _JSON:
        return value
    parsed = from_json(value)
    if name in ("allowed_emails", "allowed_origins"):
        return tuple(parsed or ())
    return tuple(parsed) if isinstance(parsed, list) else parsed

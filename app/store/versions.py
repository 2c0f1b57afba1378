"""Versions of workflows: numbered copies of a draft, one of which is live.

Law of this room: a version never changes and its number is given once. What becomes live, and what is compared on the
way, is settled inside one transaction that holds the workflow's row. A run has its document with it, so nothing here
touches one that goes on.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from app.clock import Clock
from app.store.catalog import Catalog
from app.store.db import Backend, Link, Row, from_json, text
from app.store.errors import RevisionConflict, StoreConflict
from app.store.workflow_statements import Statements
from app.store.writer import Note, Writer
from app.workflows.diff import same
from app.workflows.document import name_of

#: Numbers beyond are in no column, so no version has them.
_MOST = 2**31


@dataclass(frozen=True, slots=True)
class VersionRow:
    """An immutable copy, numbered from 1 in its workflow. ``name`` and ``description`` are what the deployer called it;
    ``created_by`` says who, for the record.
    """

    workflow_id: str
    version: int
    name: str | None
    document: dict[str, t.Any]
    created_at: int
    description: str | None = None
    created_by: str | None = None


@dataclass(frozen=True, slots=True)
class VersionSummary:
    """What a list says of a version."""

    workflow_id: str
    version: int
    name: str | None
    created_at: int
    description: str | None
    created_by: str | None


class VersionUnknown(StoreConflict):
    """The workflow, or its version, is not there."""


class Versions:
    """The versions of all workflows. Methods that write wait for the commit."""

    def __init__(
        self, backend: Backend, writer: Writer, catalog: Catalog, clock: Clock, statements: Statements
    ) -> None:
        self._backend, self._writer, self._catalog, self._clock = backend, writer, catalog, clock
        self._sql = statements

    def deploy(
        self,
        workflow_id: str,
        name: str | None = None,
        description: str | None = None,
        by: str | None = None,
        seen: int | None = None,
        note: Note | None = None,
    ) -> tuple[int, bool]:
        """Make the draft live: copied into a new version, unless the live one says the same and is called the same.

        :param name: what the version is called; None: nothing, or what the live one is called.
        :param by: who deploys, for the record. :param seen: the revision the draft must have; None: any.
        :param note: of the change, given what is returned (:class:`app.store.audit.Audit`; so for every writer below).
        :returns: the live version's number, and whether it is new.
        :raises VersionUnknown: there is no such workflow. :raises RevisionConflict: it has another revision.
        :raises StoreFailed: it was not stored (so for every writer below).
        """
        now = self._clock.now_ms()
        title, about, who = text(name), text(description), text(by)

        def job(link: Link) -> tuple[int, bool]:
            self._catalog.bump(link)
            id_, draft, live = self._seen(link, workflow_id, seen)
            this = {"workflow": id_}
            rows = link.rows(self._sql.live, this)
            if rows and _says(rows[0], draft, title, about):
                return int(live or 0), False
            number = int(link.rows(self._sql.last, this)[0][0] or 0) + 1
            link.insert(self._sql.copy, [(id_, number, title, draft, now, about, who)])
            link.execute(self._sql.go_live, {**this, "number": number, "at": now})
            return number, True

        return t.cast("tuple[int, bool]", self._writer.submit(job, note=note).wait())

    def undeploy(self, workflow_id: str, seen: int | None = None, note: Note | None = None) -> int | None:
        """Let no version be live. Runs that go on are left alone.

        :returns: the version that was live; None when none was.
        :raises VersionUnknown: there is no such workflow. :raises RevisionConflict: it has another revision.
        """
        now = self._clock.now_ms()

        def job(link: Link) -> int | None:
            self._catalog.bump(link)
            id_, _, live = self._seen(link, workflow_id, seen)
            if live is not None:
                link.execute(self._sql.go_live, {"workflow": id_, "number": None, "at": now})
            return live

        return t.cast("int | None", self._writer.submit(job, note=note).wait())

    def rollback(
        self,
        workflow_id: str,
        number: int,
        seen: int | None = None,
        draft: bool = False,
        note: Note | None = None,
    ) -> bool:
        """Make an earlier version, or any other, live again.

        :param draft: the draft becomes what that version says, too.
        :returns: whether anything changed.
        :raises VersionUnknown: there is no such workflow or version. :raises RevisionConflict: it has another revision.
        """
        now = self._clock.now_ms()

        def job(link: Link) -> bool:
            self._catalog.bump(link)
            id_, now_drafted, live = self._seen(link, workflow_id, seen)
            rows = (
                link.rows(self._sql.version, {"workflow": id_, "number": number})
                if 0 < number < _MOST
                else []
            )
            if not rows:
                raise VersionUnknown(f"The workflow '{id_}' has no version {number}.")
            document = rows[0][-1]
            is_live, is_drafted = live == number, not draft or now_drafted == document
            if not is_live:
                link.execute(self._sql.go_live, {"workflow": id_, "number": number, "at": now})
            if not is_drafted:
                title = name_of(from_json(document))
                values = {"workflow": id_, "title": text(title), "draft": document, "at": now}
                link.execute(self._sql.update, values)
            return not (is_live and is_drafted)

        return bool(self._writer.submit(job, note=note).wait())

    def get(self, workflow_id: str, number: int) -> VersionRow | None:
        """One version.

        :raises StoreFailed: the database cannot be read (so for every reader below).
        """
        if not 0 < number < _MOST:
            return None
        rows = self._backend.rows(self._sql.version, {"workflow": text(workflow_id), "number": number})
        return _version(rows[0]) if rows else None

    def told(self, workflow_id: str, number: int) -> VersionSummary | None:
        """One version without its document."""
        rows = self._backend.rows(self._sql.told, {"workflow": text(workflow_id), "number": number})
        return VersionSummary(*rows[0]) if rows else None

    def live(self, workflow_id: str) -> VersionRow | None:
        """The version that runs; None when the workflow is unknown or not deployed."""
        rows = self._backend.rows(self._sql.live, {"workflow": text(workflow_id)})
        return _version(rows[0]) if rows else None

    def before(self, workflow_id: str, number: int) -> int | None:
        """The highest version below ``number``; None when there is none."""
        rows = self._backend.rows(self._sql.before, {"workflow": text(workflow_id), "number": number})
        return None if rows[0][0] is None else int(rows[0][0])

    def page(
        self, workflow_id: str, before: int | None, limit: int
    ) -> tuple[list[VersionSummary], int | None]:
        """The next versions below ``before``, highest first.

        :returns: at most ``limit`` of them, and below which one the list goes on; None at its end.
        """
        asked = {"workflow": text(workflow_id), "before": _MOST - 1 if before is None else before}
        rows = self._backend.rows(self._sql.versions, {**asked, "limit": limit + 1})
        found = [VersionSummary(*row) for row in rows[:limit]]
        return found, found[-1].version if len(rows) > limit else None

    def _seen(self, link: Link, workflow_id: str, seen: int | None) -> tuple[str, str, int | None]:
        """A workflow's id, draft and live version, if it is as the writer has seen it; its row is locked."""
        found = link.rows(self._sql.lock, {"workflow": text(workflow_id)})
        if not found:
            raise VersionUnknown(f"There is no workflow {workflow_id!r}.")
        id_, _, draft, live, _, _, revision = found[0]
        if seen is not None and revision != seen:
            raise RevisionConflict(revision)
        return id_, draft, live


def _says(live: Row, draft: str, name: str | None, description: str | None) -> bool:
    """Whether a version is what deploying would make."""
    called = (name in (None, live[2]), description in (None, live[4]))
    return all(called) and (live[-1] == draft or same(from_json(live[-1]), from_json(draft)))


def _version(row: Row) -> VersionRow:
    workflow_id, number, name, created_at, description, created_by, document = row
    return VersionRow(workflow_id, number, name, from_json(document), created_at, description, created_by)

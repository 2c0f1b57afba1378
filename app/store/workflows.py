"""Workflows: a draft that is edited and numbered copies that run.

Law of this room: a version never changes. Documents are kept as given, member order included; whether
they are valid is not the store's business.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import bindparam, func, insert, select, update

from app.clock import Clock
from app.store.catalog import Catalog
from app.store.db import Backend, Link, Row, from_json, json_text, text
from app.store.errors import StoreConflict
from app.store.tables import workflow_versions, workflows
from app.store.writer import Writer


@dataclass(frozen=True, slots=True)
class WorkflowRow:
    """A workflow. ``document`` is the draft; ``live_version`` is None while nothing is deployed; ``revision`` counts
    its changes from 1.
    """

    id: str
    name: str
    document: dict[str, t.Any]
    live_version: int | None
    created_at: int
    updated_at: int
    revision: int = 1


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


class Workflows:
    """The workflows of this installation. Methods that write wait for the commit."""

    def __init__(self, backend: Backend, writer: Writer, catalog: Catalog, clock: Clock) -> None:
        self._backend, self._writer, self._catalog, self._clock = backend, writer, catalog, clock
        w, v = workflows.c, workflow_versions.c
        columns = (w.id, w.name, w.document, w.live_version, w.created_at, w.updated_at, w.revision)
        copies = (v.workflow_id, v.version, v.name, v.document, v.created_at, v.description, v.created_by)
        this, copy = w.id == bindparam("workflow"), v.workflow_id == bindparam("workflow")
        self._insert = backend.prepare(insert(workflows))
        self._update = backend.prepare(
            update(workflows)
            .where(this)
            .values(
                name=bindparam("title"),
                document=bindparam("draft"),
                updated_at=bindparam("at"),
                revision=w.revision + 1,
            )
        )
        self._get = backend.prepare(select(*columns).where(this))
        self._list = backend.prepare(select(*columns).order_by(w.created_at, w.id))
        self._version = backend.prepare(select(*copies).where(copy, v.version == bindparam("number")))
        self._live = backend.prepare(
            select(*copies)
            .join(workflows, (w.id == v.workflow_id) & (w.live_version == v.version))
            .where(this)
        )
        self._lock = backend.prepare(select(w.document).where(this).with_for_update())
        self._last = backend.prepare(select(func.max(v.version)).where(copy))
        self._copy = backend.prepare(insert(workflow_versions))
        self._go_live = backend.prepare(
            update(workflows)
            .where(this)
            .values(live_version=bindparam("number"), updated_at=bindparam("at"), revision=w.revision + 1)
        )

    def save(self, document: Mapping[str, t.Any], name: str, workflow_id: str | None = None) -> str:
        """Store a draft: a new workflow, or a new draft of the one with ``workflow_id`` (made if missing).

        :returns: its id.
        :raises StoreFailed: it was not stored.
        """
        id_ = workflow_id or self._clock.new_id("wf")
        now = self._clock.now_ms()
        draft, title = json_text(document), text(name)

        def job(link: Link) -> None:
            changed = link.execute(self._update, {"workflow": id_, "title": title, "draft": draft, "at": now})
            if not changed:
                link.insert(self._insert, [(id_, title, draft, None, now, now, 1)])
            self._catalog.bump(link)

        self._writer.submit(job).wait()
        return id_

    def deploy(self, workflow_id: str, name: str | None = None) -> int:
        """Copy the draft into a new version and make that the live one.

        :returns: its number.
        :raises StoreConflict: there is no such workflow.
        :raises StoreFailed: it was not stored.
        """
        now = self._clock.now_ms()
        title = text(name)

        def job(link: Link) -> int:
            this = {"workflow": workflow_id}
            draft = link.rows(self._lock, this)
            if not draft:
                raise StoreConflict(f"There is no workflow {workflow_id!r}.")
            number = int(link.rows(self._last, this)[0][0] or 0) + 1
            link.insert(self._copy, [(workflow_id, number, title, draft[0][0], now, None, None)])
            link.execute(self._go_live, {"workflow": workflow_id, "number": number, "at": now})
            self._catalog.bump(link)
            return number

        return int(self._writer.submit(job).wait())

    def get(self, workflow_id: str) -> WorkflowRow | None:
        """The workflow with its draft.

        :raises StoreFailed: the database cannot be read (so for every reader below).
        """
        rows = self._backend.rows(self._get, {"workflow": text(workflow_id)})
        return _workflow(rows[0]) if rows else None

    def version(self, workflow_id: str, number: int) -> VersionRow | None:
        """One version."""
        if not 0 < number < 2**31:  # outside of what the column holds, so it does not exist
            return None
        rows = self._backend.rows(self._version, {"workflow": text(workflow_id), "number": number})
        return _version(rows[0]) if rows else None

    def live(self, workflow_id: str) -> VersionRow | None:
        """The version that runs; None when the workflow is unknown or not deployed."""
        rows = self._backend.rows(self._live, {"workflow": text(workflow_id)})
        return _version(rows[0]) if rows else None

    def list(self) -> list[WorkflowRow]:
        """All workflows, oldest first."""
        return [_workflow(row) for row in self._backend.rows(self._list, {})]


def _workflow(row: Row) -> WorkflowRow:
    id_, name, document, live_version, created_at, updated_at, revision = row
    return WorkflowRow(id_, name, from_json(document), live_version, created_at, updated_at, revision)


def _version(row: Row) -> VersionRow:
    workflow_id, number, name, document, created_at, description, created_by = row
    return VersionRow(workflow_id, number, name, from_json(document), created_at, description, created_by)

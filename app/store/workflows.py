"""Workflows: a draft that is edited, and numbered copies that run.

Law of this room: documents are kept as given, member order included; whether they are valid is not the store's
business. Whoever changes a draft names the revision it has seen, which is compared inside the change. A draft is read
by nobody who runs something, so changing one drops nothing that is cached; what is live does. Versions are in
:mod:`app.store.versions`.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from app.clock import Clock
from app.store.catalog import Catalog
from app.store.db import Backend, Link, Row, from_json, json_text, text
from app.store.errors import RevisionConflict, StoreConflict
from app.store.versions import VersionRow, Versions
from app.store.workflow_statements import NAMED_CHATS, Statements
from app.store.writer import Note, Writer
from app.workflows.diff import same

#: Later than any workflow was made.
_END = 2**62
#: Most revisions of which it is kept whether they differ from what is live.
_MOST_COMPARED = 2_000


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
class WorkflowSummary:
    """What a list says of a workflow. ``draft_differs``: deploying would change what is live."""

    id: str
    name: str
    live_version: int | None
    created_at: int
    updated_at: int
    draft_differs: bool


class WorkflowExists(StoreConflict):
    """There is a workflow under that id."""

    def __init__(self, workflow_id: str) -> None:
        super().__init__(f"There is a workflow '{workflow_id}' already.")


class HasChats(StoreConflict):
    """Chats serve the workflow that was to be removed.

    :ivar slugs: some of them.
    """

    def __init__(self, slugs: list[str]) -> None:
        self.slugs = tuple(slugs[:NAMED_CHATS])
        more = " and others" if len(slugs) > NAMED_CHATS else ""
        super().__init__(f"Chats serve this workflow: {', '.join(self.slugs)}{more}.")


class Workflows:
    """The workflows of this installation. Methods that write wait for the commit.

    :ivar versions: :class:`app.store.versions.Versions`.
    """

    def __init__(self, backend: Backend, writer: Writer, catalog: Catalog, clock: Clock) -> None:
        self._backend, self._writer, self._catalog, self._clock = backend, writer, catalog, clock
        self._sql = Statements(backend)
        self._differs: dict[tuple[str, int, int], bool] = {}
        self.versions = Versions(backend, writer, catalog, clock, self._sql)
        self.deploy = self.versions.deploy
        self.version = self.versions.get
        self.live = self.versions.live

    def save(
        self,
        document: Mapping[str, t.Any],
        name: str,
        workflow_id: str | None = None,
        note: Note | None = None,
    ) -> str:
        """Store a draft, whatever is there: a new workflow, or a new draft of the one with ``workflow_id``.

        :param note: of the change, given what is returned (:class:`app.store.audit.Audit`; so for every writer below).
        :returns: its id.
        :raises StoreFailed: it was not stored (so for every writer below).
        """
        id_ = workflow_id or self._clock.new_id("wf")
        now = self._clock.now_ms()
        draft, title = json_text(document), text(name)

        def job(link: Link) -> str:
            changed = link.execute(
                self._sql.update, {"workflow": id_, "title": title, "draft": draft, "at": now}
            )
            if not changed:
                link.insert(self._sql.insert, [(id_, title, draft, None, now, now, 1)])
            self._catalog.bump(link)
            return id_

        return str(self._writer.submit(job, note=note).wait())

    def create(
        self,
        document: Mapping[str, t.Any],
        name: str,
        workflow_id: str | None = None,
        note: Note | None = None,
    ) -> WorkflowRow:
        """Store a new workflow.

        :raises WorkflowExists: there is one with ``workflow_id``.
        """
        id_ = workflow_id or self._clock.new_id("wf")
        now = self._clock.now_ms()
        draft, title = json_text(document), text(name)
        row = WorkflowRow(id_, str(title), from_json(draft), None, now, now)

        def job(link: Link) -> WorkflowRow:
            self._catalog.bump(link)  # first: it lets one writer in at a time, whatever the database
            if link.rows(self._sql.get, {"workflow": id_}):
                raise WorkflowExists(id_)
            link.insert(self._sql.insert, [(id_, title, draft, None, now, now, 1)])
            return row

        self._writer.submit(job, note=note).wait()
        return row

    def change(
        self,
        workflow_id: str,
        seen: int | None,
        document: Mapping[str, t.Any],
        name: str,
        note: Note | None = None,
    ) -> WorkflowRow | None:
        """Replace the draft; one that says the same changes nothing.

        :param seen: the revision it must have; None: any.
        :returns: the workflow as it is now; None when there is none.
        :raises RevisionConflict: it has another revision.
        """
        now = self._clock.now_ms()
        draft, title = json_text(document), text(name)

        def job(link: Link) -> WorkflowRow | None:
            found = link.rows(self._sql.lock, {"workflow": text(workflow_id)})
            if not found:
                return None
            row = _workflow(found[0])
            if seen not in (None, row.revision):
                raise RevisionConflict(row.revision)
            if (row.name, found[0][2]) == (title, draft):
                return row
            link.execute(self._sql.update, {"workflow": row.id, "title": title, "draft": draft, "at": now})
            changed = replace(
                row, name=str(title), document=from_json(draft), updated_at=now, revision=row.revision + 1
            )
            if note is not None:
                note(link, changed)
            return changed

        return t.cast("WorkflowRow | None", self._writer.submit(job).wait())

    def remove(
        self, workflow_id: str, seen: int | None, chats: bool = False, note: Note | None = None
    ) -> bool:
        """Remove a workflow with its versions. What its runs have left stays.

        :param seen: the revision it must have; None: any. :param chats: its chats go with it.
        :returns: False when there is none.
        :raises RevisionConflict: it has another revision. :raises HasChats: it has chats, and they were to stay.
        """
        this = {"workflow": text(workflow_id)}

        def job(link: Link) -> bool:
            self._catalog.bump(link)  # first: no chat is made meanwhile
            found = link.rows(self._sql.lock, this)
            if not found:
                return False
            if seen not in (None, found[0][6]):
                raise RevisionConflict(found[0][6])
            serving = [] if chats else link.rows(self._sql.chats, this)
            if serving:
                raise HasChats([row[0] for row in serving])
            return bool(link.execute(self._sql.remove, this))

        return bool(self._writer.submit(job, note=note).wait())

    def get(self, workflow_id: str) -> WorkflowRow | None:
        """The workflow with its draft.

        :raises StoreFailed: the database cannot be read (so for every reader below).
        """
        rows = self._backend.rows(self._sql.get, {"workflow": text(workflow_id)})
        return _workflow(rows[0]) if rows else None

    def draft_differs(self, workflow_id: str, created_at: int, revision: int) -> bool:
        """Whether deploying would change what is live; True while nothing is.

        :param revision: of that workflow, which was made at ``created_at``. Its documents are compared once.
        """
        seen = workflow_id, created_at, revision
        found = self._differs.get(seen)
        if found is None:
            if len(self._differs) >= _MOST_COMPARED:
                self._differs.clear()
            found = self._differs[seen] = self._compared(workflow_id)
        return found

    def _compared(self, workflow_id: str) -> bool:
        rows = self._backend.rows(self._sql.drafted, {"workflow": text(workflow_id)})
        if not rows or rows[0][2] is None:
            return True
        draft, live, _ = rows[0]
        return live is not None and not same(from_json(draft), from_json(live))

    def page(
        self, name: str | None, before: tuple[int, str] | None, limit: int
    ) -> tuple[list[WorkflowSummary], tuple[int, str] | None]:
        """The next workflows older than ``before``, newest first.

        :param name: only those whose name has this in it; the case of ASCII letters does not matter.
        :param before: when one was made, and its id; None for the newest.
        :returns: at most ``limit`` of them, and after which one the list goes on; None at its end.
        """
        at, id_ = before or (_END, "")
        values = {"before_at": at, "before_id": text(id_), "limit": limit + 1}
        if name is None:
            rows = self._backend.rows(self._sql.page, values)
        else:
            rows = self._backend.rows(
                self._sql.named_page, {**values, "pattern": _containing(str(text(name)))}
            )
        found = [self._summary(row) for row in rows[:limit]]
        last = found[-1] if len(rows) > limit else None
        return found, None if last is None else (last.created_at, last.id)

    def list(self) -> list[WorkflowRow]:
        """All workflows, oldest first."""
        return [_workflow(row) for row in self._backend.rows(self._sql.all, {})]

    def examples(self) -> frozenset[str]:
        """The examples that were imported once, whether or not they are still there."""
        return frozenset(from_json(self._backend.rows(self._sql.examples, {})[0][0]) or ())

    def note_examples(self, names: Iterable[str]) -> None:
        """Keep which examples were imported."""
        values = {"names": json_text(sorted(names))}
        self._writer.submit(lambda link: link.execute(self._sql.note_examples, values)).wait()

    def _summary(self, row: Row) -> WorkflowSummary:
        id_, name, live_version, created_at, updated_at, revision, is_same = row
        differs = not is_same and self.draft_differs(id_, created_at, revision)
        return WorkflowSummary(id_, name, live_version, created_at, updated_at, differs)


def _containing(part: str) -> str:
    """The pattern of what has ``part`` in it."""
    for special in ("\\", "%", "_"):
        part = part.replace(special, f"\\{special}")
    return f"%{part}%"


def _workflow(row: Row) -> WorkflowRow:
    id_, name, document, live_version, created_at, updated_at, revision = row
    return WorkflowRow(id_, name, from_json(document), live_version, created_at, updated_at, revision)


__all__ = ["HasChats", "VersionRow", "WorkflowExists", "WorkflowRow", "WorkflowSummary", "Workflows"]

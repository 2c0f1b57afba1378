"""What is wrong with workflow documents, said all at once.

Law of this room: a document is judged whenever it is shown or deployed, since what it uses of others may come and go.
One that is good is compiled once, for whoever runs it as well (:mod:`app.engine.compiler`). What was wrong with one is
kept while nothing else in the store has changed (:meth:`app.store.Store.generation`): to find it takes as long, with
hundreds of agents a third of a second of the processor.
"""

from __future__ import annotations

import typing as t

from app.engine.catalog import ChildUnavailable, Runnable
from app.errors import Problem, ValidationFailed
from app.web.catalog import missing_collections, missing_secrets

if t.TYPE_CHECKING:
    from app.engine.services import Services
    from app.store import VersionRow, WorkflowRow

_MOST = 64


class Judged(t.NamedTuple):
    """What is wrong with a document, and what may be a mistake. It can be deployed when nothing is wrong."""

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


class Judge:
    """Judges the documents of one store; one per process."""

    def __init__(self, services: Services) -> None:
        self._store = services.store
        self._catalog = services.catalog
        self._generation = -1
        self._wrong: dict[tuple[object, ...], Judged] = {}

    def draft(self, row: WorkflowRow, *, anew: bool = False) -> Judged:
        """What there is to say of a workflow's draft.

        :param anew: problems that were found before are looked for again: what is missing may have come without any
            change in the store.
        """
        return self._kept((row.id, row.created_at, "draft", row.revision), row.id, row.document, anew)

    def version(self, row: WorkflowRow, version: VersionRow) -> Judged:
        """What there is to say of one of its versions, as of today, to make it live: see ``anew`` above."""
        return self._kept(
            (row.id, row.created_at, "version", version.version), row.id, version.document, True
        )

    def document(self, workflow_id: str, document: dict[str, t.Any]) -> Judged:
        """What there is to say of any document.

        :param workflow_id: the id it has or will have; it cannot run inside itself.
        """
        return self._said(self._compiled(workflow_id, document))

    def _kept(
        self, key: tuple[object, ...], workflow_id: str, document: dict[str, t.Any], anew: bool
    ) -> Judged:
        generation = self._store.generation()
        if generation != self._generation or len(self._wrong) >= _MOST:
            self._wrong.clear()
            self._generation = generation
        wrong = None if anew else self._wrong.get(key)
        if wrong is not None:
            return wrong
        found = self._compiled(workflow_id, document)
        if (
            isinstance(found, Judged) and generation == self._generation
        ):  # else it may be right since a change
            self._wrong[key] = found
        return self._said(found)

    def _compiled(self, workflow_id: str, document: dict[str, t.Any]) -> Runnable | Judged:
        try:
            return self._catalog.of(workflow_id, document)
        except ChildUnavailable as missing:
            return Judged(tuple(missing.details), ())
        except ValidationFailed as failed:
            return Judged(tuple(failed.details), failed.warnings)

    def _said(self, found: Runnable | Judged) -> Judged:
        if isinstance(found, Judged):
            return found
        # Secrets and documents may come at any time, also after it was deployed.
        later = (
            *missing_secrets(found.secrets, self._store),
            *missing_collections(found.workflow, self._store),
        )
        return Judged((), (*found.workflow.warnings, *later))

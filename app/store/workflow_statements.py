"""The statements of :mod:`app.store.workflows` and :mod:`app.store.versions`, compiled once.

Law of this room: as for :mod:`app.store.db`. Whoever changes a workflow or a version of it locks the workflow's row
first, so that changes of one come one after another.
"""

from __future__ import annotations

from sqlalchemy import (
    BindParameter,
    Select,
    Text,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    null,
    or_,
    select,
    true,
    update,
)

from app.store.db import Backend
from app.store.deployment_tables import chats
from app.store.tables import catalog, workflow_versions, workflows

#: Most chats that an error names.
NAMED_CHATS = 10


class Statements:
    """See the module."""

    def __init__(self, backend: Backend) -> None:
        w, v = workflows.c, workflow_versions.c
        columns = (w.id, w.name, w.document, w.live_version, w.created_at, w.updated_at, w.revision)
        this, copy = w.id == bindparam("workflow"), v.workflow_id == bindparam("workflow")
        numbered = (copy, v.version == bindparam("number"))
        told = (v.workflow_id, v.version, v.name, v.created_at, v.description, v.created_by)
        changed = {"updated_at": bindparam("at"), "revision": w.revision + 1}
        prepare = backend.prepare
        self.insert = prepare(insert(workflows))
        self.update = prepare(
            update(workflows)
            .where(this)
            .values(name=bindparam("title"), document=bindparam("draft"), **changed)
        )
        self.get = prepare(select(*columns).where(this))
        self.lock = prepare(select(*columns).where(this).with_for_update())
        self.all = prepare(select(*columns).order_by(w.created_at, w.id))
        self.remove = prepare(delete(workflows).where(this))
        self.go_live = prepare(
            update(workflows).where(this).values(live_version=bindparam("number"), **changed)
        )
        self.copy = prepare(insert(workflow_versions))
        self.last = prepare(select(func.max(v.version)).where(copy))
        self.before = prepare(select(func.max(v.version)).where(copy, v.version < bindparam("number")))
        self.version = prepare(select(*told, v.document).where(*numbered))
        self.told = prepare(select(*told).where(*numbered))
        self.live = prepare(
            select(*told, v.document)
            .join(workflows, (w.id == v.workflow_id) & (w.live_version == v.version))
            .where(this)
        )
        self.versions = prepare(
            select(*told)
            .where(copy, v.version < bindparam("before"))
            .order_by(v.version.desc())
            .limit(bindparam("limit"))
        )
        self.chats = prepare(
            select(chats.c.slug)
            .where(chats.c.workflow_id == bindparam("workflow"))
            .order_by(chats.c.slug)
            .limit(NAMED_CHATS + 1)
        )
        self.examples = prepare(select(catalog.c.examples))
        self.note_examples = prepare(update(catalog).values(examples=bindparam("names")))
        self.page = prepare(_page(False))
        self.named_page = prepare(_page(True))
        # Only where the texts differ is there something to compare.
        self.drafted = prepare(
            select(
                w.document,
                case((v.document == w.document, null()), else_=v.document),
                w.live_version,
            )
            .outerjoin(workflow_versions, and_(v.workflow_id == w.id, v.version == w.live_version))
            .where(this)
        )


def _page(by_name: bool) -> Select[tuple[object, ...]]:
    """Workflows without their documents, newest first; ``same``: the draft is, letter by letter, what is live."""
    w, v = workflows.c, workflow_versions.c
    at: BindParameter[int] = bindparam("before_at")
    after: BindParameter[str] = bindparam("before_id")
    named = (
        func.lower(w.name).like(func.lower(bindparam("pattern", type_=Text)), escape="\\")
        if by_name
        else true()
    )
    return (
        select(
            *(w.id, w.name, w.live_version, w.created_at, w.updated_at, w.revision),
            (v.document == w.document).label("same"),
        )
        .outerjoin(workflow_versions, and_(v.workflow_id == w.id, v.version == w.live_version))
        .where(or_(w.created_at < at, and_(w.created_at == at, w.id < after)), named)
        .order_by(w.created_at.desc(), w.id.desc())
        .limit(bindparam("limit"))
    )

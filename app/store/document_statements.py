"""The statements of :mod:`app.store.documents`, compiled once per process.

Law of this room: only statements.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from sqlalchemy import Executable, bindparam, delete, func, insert, select, text, update

from app.store.db import Backend, Statement
from app.store.tables import chunks, collections, documents

_d, _c = documents.c, collections.c
_SHOWN = (
    _d.id,
    _c.name,
    _d.source,
    _d.version,
    _d.title,
    _d.media_type,
    _d.metadata,
    _d.characters,
    _d.chunks,
    _d.created_at,
    _d.updated_at,
)
_INSERTED = ("collection_id", "document_id", "version", "position", "starts", "ends", "text", "terms")

# Another process may add the same at the same moment; both databases have a word for "unless it is there".
_ADD_COLLECTION = """
INSERT INTO collections (name, created_at) VALUES (:collection, :at) ON CONFLICT (name) DO NOTHING
"""
_ADD_DOCUMENT = """
INSERT INTO documents (
    id, collection_id, source, version, claimed, media_type, characters, chunks, created_at, updated_at, text
)
SELECT :document, id, :source, 0, 0, '', 0, 0, :at, :at, '' FROM collections WHERE name = :collection
ON CONFLICT (collection_id, source) DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Statements:
    """See the module; who reads them says what for."""

    add_collection: Statement
    add_document: Statement
    claim: Statement
    claimed: Statement
    insert: Statement
    lock: Statement
    finish: Statement
    hide: Statement
    drop: Statement
    sweep: Statement
    find: Statement
    get: Statement
    read: Statement
    list: Statement
    collections: Statement
    collection: Statement


def prepare(backend: Backend) -> Statements:
    """All of them for one database."""
    return Statements(**{name: backend.prepare(made) for name, made in (_writes() | _reads()).items()})


def _writes() -> dict[str, t.Any]:
    this = _d.id == bindparam("document")
    named = (_d.source == bindparam("source")) & (
        _d.collection_id == select(_c.id).where(_c.name == bindparam("collection")).scalar_subquery()
    )
    given = ("title", "media_type", "metadata", "characters", "chunks", "created_at", "updated_at", "text")
    swept = (
        select(chunks.c.id)
        .where(
            chunks.c.document_id == bindparam("document"),
            chunks.c.version.between(bindparam("first"), bindparam("last")),
        )
        .limit(bindparam("most"))
    )
    return {
        "add_collection": text(_ADD_COLLECTION),
        "add_document": text(_ADD_DOCUMENT),
        "claim": update(documents).where(named).values(claimed=_d.claimed + 1),
        "claimed": select(_d.collection_id, _d.id, _d.version, _d.claimed, _d.created_at).where(named),
        "insert": insert(chunks).values({name: bindparam(f"new_{name}") for name in _INSERTED}),
        "lock": select(_d.version, _d.claimed).where(this).with_for_update(),
        "finish": update(documents)
        .where(this)
        .values(version=bindparam("new_version"), **{name: bindparam(f"new_{name}") for name in given}),
        "hide": update(documents).where(this).values(version=0, text=""),
        "drop": delete(documents).where(this, _d.version == 0, _d.claimed == bindparam("claimed")),
        "sweep": delete(chunks).where(chunks.c.id.in_(swept)),
    }


def _reads() -> dict[str, Executable]:
    there = select(*_SHOWN).join(collections, _c.id == _d.collection_id).where(_d.version > 0)
    this = _d.id == bindparam("document")
    named = _c.name == bindparam("collection")
    counts = (func.count(_d.id), func.sum(_d.chunks), func.sum(_d.characters), func.max(_d.updated_at))
    return {
        "find": there.where(named, _d.source == bindparam("source")),
        "get": there.where(this),
        "read": there.add_columns(_d.text).where(this),
        "list": there.where(named, _d.id > bindparam("after")).order_by(_d.id).limit(bindparam("limit")),
        "collections": select(_c.name, _c.embedding_model, *counts)
        .join(documents, _c.id == _d.collection_id)
        .where(_d.version > 0, _c.name > bindparam("after"))
        .group_by(_c.name, _c.embedding_model)
        .order_by(_c.name)
        .limit(bindparam("limit")),
        "collection": select(_c.id)
        .join(documents, _c.id == _d.collection_id)
        .where(named, _d.version > 0)
        .limit(1),
    }

"""``/api/documents``: keep documents, and search them.

Law of this room: a write on what is there names what it has seen (``If-Match``), so that nobody replaces what he does
not know. Reading a large file, storing and searching go on beside the hub.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager

from flask import Blueprint, Flask, Response, request

from app.agents.document_files import (
    COLLECTION,
    COLLECTION_WORDS,
    MAX_SOURCE,
    Read,
    UnknownKind,
    Unreadable,
    read,
)
from app.clock import rfc3339
from app.errors import ApiError, Problem, ValidationFailed
from app.schemas.document_body import DocumentBody, load_document
from app.store.documents import CollectionUnknown, DocumentRow, Draft, VersionConflict
from app.web import audit, embedding
from app.web.errors import not_found
from app.web.http import json_response, read_count, read_nothing, read_object, read_query, services
from app.web.lists import page_of, read_page

if t.TYPE_CHECKING:
    from app.store.documents import Documents

DEFAULT_TOP, MAX_TOP = 5, 50
_DOCUMENT_CURSOR = re.compile(r"doc_[0-9A-Za-z_]{1,60}")


def index() -> Response:
    """``{items, nextCursor?}``: the documents of a collection, oldest first, or the one of a source."""
    query, problems, cursor, limit = read_page(_DOCUMENT_CURSOR, "collection", "source")
    collection = _needed_collection(query, problems)
    if problems:
        raise ValidationFailed(problems)
    with _known_collection():
        _documents().collection_id(collection)
    if "source" in query:
        found = _documents().find(collection, query["source"])
        return json_response({"items": [_body(found)] if found else []})
    rows, after = _documents().list(collection, cursor, limit)
    return page_of([_body(row) for row in rows], after)


def collections() -> Response:
    """``{items, nextCursor?}``: collections by name."""
    _, problems, cursor, limit = read_page(COLLECTION)
    if problems:
        raise ValidationFailed(problems)
    rows, after = _documents().collections(cursor, limit)
    items = [
        {
            "name": row.name,
            **({} if row.embedding_model is None else {"embeddingModel": row.embedding_model}),
            "documents": row.documents,
            "chunks": row.chunks,
            "characters": row.characters,
            "updatedAt": rfc3339(row.updated_at),
        }
        for row in rows
    ]
    return page_of(items, after)


def put() -> Response:
    """Store a document: 201 when its source is new, 200 when it replaces the version that ``If-Match`` names."""
    body = load_document(read_object(), _name_problem, MAX_SOURCE)
    seen = _seen(_documents().find(body.collection, body.source))
    file = _file(body)
    metadata = None if body.metadata is None else dict(body.metadata)
    draft = Draft(body.source, file.text, body.title or file.title, file.media_type, metadata)
    model = embedding.accepted(body.collection, body.embedding_model)
    try:
        row = _documents().put(body.collection, draft, seen, audit.note(_told))
    except VersionConflict as conflict:
        raise _conflict(conflict.message) from None
    if model is not None:
        embedding.fill(body.collection, model)
    response = json_response(_body(row), 201 if seen == 0 else 200)
    response.headers["Location"] = f"/api/documents/{row.id}"
    response.set_etag(_tag(row))
    return response


def _told(row: DocumentRow) -> audit.Entry:
    details = {"collection": row.collection, "version": row.version}
    return audit.Entry("document.put", f"document:{row.id}", details)


def show(document_id: str) -> Response:
    """A document with its text; 304 for who has it."""
    found = _documents().read(document_id)
    if found is None:
        raise not_found("document", document_id)
    row, text = found
    response = json_response({**_body(row), "text": text})
    response.set_etag(_tag(row))
    response.make_conditional(request)
    return response


def remove(document_id: str) -> Response:
    """Remove a document that is as ``If-Match`` says: 204."""
    read_nothing()
    row = _documents().get(document_id)
    if row is None:
        raise not_found("document", document_id)
    told = audit.told("document.remove", f"document:{document_id}", {"collection": row.collection})
    try:
        removed = _documents().remove(document_id, _seen(row), audit.note(told))
    except VersionConflict as conflict:
        raise _conflict(conflict.message) from None
    if not removed:
        raise not_found("document", document_id)
    return Response(status=204)


def search() -> Response:
    """``{items}``: the best passages for the words of a query, or by the collection's vectors, best first."""
    query, problems = read_query("collection", "query", "topK", "mode")
    top = read_count(query, "topK", DEFAULT_TOP, MAX_TOP, problems)
    collection = _needed_collection(query, problems)
    if "query" not in query:
        problems.append(Problem("query", "is missing; say what to search for"))
    if (mode := query.get("mode", "text")) not in ("text", "embedding"):
        problems.append(Problem("mode", "must be text or embedding"))
    if problems:
        raise ValidationFailed(problems)
    with _known_collection():
        by = embedding.search if mode == "embedding" else _documents().search
        found = by(collection, query["query"], top)
    items = [
        {
            "text": passage.text,
            "source": passage.source,
            **({} if passage.title is None else {"title": passage.title}),
            "documentId": passage.document_id,
            "start": passage.start,
            "end": passage.end,
            "score": passage.score,
        }
        for passage in found
    ]
    return json_response({"items": items})


# -- Parts ---------------------------------------------------------------------------------------------


def _documents() -> Documents:
    return services().store.documents


def _body(row: DocumentRow) -> dict[str, t.Any]:
    body: dict[str, t.Any] = {
        "id": row.id,
        "collection": row.collection,
        "source": row.source,
        "version": row.version,
        "title": row.title,
        "mediaType": row.media_type,
        "metadata": row.metadata,
        "characters": row.characters,
        "chunks": row.chunks,
        "createdAt": rfc3339(row.created_at),
        "updatedAt": rfc3339(row.updated_at),
    }
    return {name: value for name, value in body.items() if value is not None}


def _tag(row: DocumentRow) -> str:
    """Of one version of one document; a later document of the same source has another id."""
    return f"{row.id}-{row.version}"


def _seen(row: DocumentRow | None) -> int:
    """The version that may be replaced; 0: there is none.

    :raises ApiError: 428 the caller does not say what it has seen. 412 that is not what is there.
    """
    sent = request.headers.get("If-Match")
    if sent is None and row is not None:
        message = f'Read the document and send its ETag, now "{_tag(row)}", in the header If-Match.'
        raise ApiError(428, "precondition_required", message)
    if sent is None:
        return 0
    wanted = request.if_match
    if row is None or not (wanted.star_tag or wanted.contains(_tag(row))):
        raise _conflict("The document is not there." if row is None else "The document was changed since.")
    return row.version


def _conflict(message: str) -> ApiError:
    return ApiError(412, "precondition_failed", f"{message.removesuffix('.')}. Read it, then decide anew.")


def _file(body: DocumentBody) -> Read:
    """What the document says.

    :raises ValidationFailed: it cannot be read.
    """
    part = "data" if body.text is None else "text"
    try:
        return _documents().beside(lambda: read(body.content(), body.media_type))
    except UnknownKind as problem:
        raise ValidationFailed([Problem("mediaType", str(problem))]) from None
    except Unreadable as problem:
        raise ValidationFailed([Problem(part, str(problem))]) from None


def _name_problem(name: str) -> str | None:
    return None if COLLECTION.fullmatch(name) else f"must be {COLLECTION_WORDS}"


def _needed_collection(query: t.Mapping[str, str], problems: list[Problem]) -> str:
    name = query.get("collection")
    if name is None:
        problems.append(Problem("collection", "is missing; name one of GET /api/documents/collections"))
    elif (problem := _name_problem(name)) is not None:
        problems.append(Problem("collection", problem))
    return name or ""


@contextmanager
def _known_collection() -> Iterator[None]:
    """Inside, an unknown collection is a 404 that names those there are."""
    try:
        yield
    except CollectionUnknown as unknown:
        raise ApiError(404, unknown.code, unknown.message) from None


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("documents", __name__)
    blueprint.add_url_rule("/api/documents", view_func=index)
    blueprint.add_url_rule("/api/documents", view_func=put, methods=["POST"])
    blueprint.add_url_rule("/api/documents/collections", view_func=collections)
    blueprint.add_url_rule("/api/documents/search", view_func=search)
    blueprint.add_url_rule("/api/documents/<document_id>", view_func=show)
    blueprint.add_url_rule("/api/documents/<document_id>", view_func=remove, methods=["DELETE"])
    app.register_blueprint(blueprint)

"""``/api/files``: files are uploaded, and named in the input of runs as ``{"file": "file_…"}``.

Law of this room: a file is its uploader's: nobody else reaches it but ``admin``, and only the uploader's runs read it.
What a file is, its bytes say; it goes out as a download of a kind that no browser runs.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from io import BytesIO
from urllib.parse import quote

from flask import Blueprint, Flask, Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.formparser import FormDataParser

from app.clock import rfc3339
from app.engine.giving_way import giving_way
from app.errors import ApiError, Problem, ValidationFailed
from app.schemas import derive
from app.schemas.files import UploadQuery
from app.schemas.paths import join
from app.store.files import FileRow, FilesFull
from app.web import audit
from app.web.auth import caller
from app.web.errors import forbidden, not_found
from app.web.http import json_response, read_bytes, read_nothing, read_query, services
from app.web.lists import page_of, read_page
from app.workflows.file_entries import FileRefused, sniff

_CURSOR = re.compile(r"file_[0-9A-Za-z_]{1,60}")
#: Most uploaded files that one input names: each is looked up.
MOST_NAMED = 100
_NUMBER = re.compile(r"[0-9]{1,10}")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,100}/[a-z0-9!#$&^_.+-]{1,100}")
_FORM = "multipart/form-data"
#: What a file may be sent as; text of any kind goes as plain text.
_SAFE = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cache-Control": "private, no-cache",
}


def index() -> Response:
    """``{items, nextCursor?}``, newest first: the caller's own, to ``admin`` all."""
    _, problems, cursor, limit = read_page(_CURSOR)
    if problems:
        raise ValidationFailed(problems)
    who = caller()
    rows, further = services().store.files.page(None if who.may("admin") else who.key_id, cursor, limit)
    return page_of(list(map(_body, rows)), further)


def upload() -> Response:
    """Keep a file: 201."""
    owner, settings = caller().key_id, services().settings
    if owner is None:
        raise forbidden("run")
    query = _query()
    name, stated, data = _sent(query.name)
    try:
        _, media_type, data = sniff(data, stated, giving_way())
    except FileRefused as refused:
        raise ApiError(415, "unsupported_media_type", f"The file {refused}.") from None
    keep_s = min(query.expires_in_seconds or settings.files_s, settings.files_s)
    end = services().clock.now_ms() + round(keep_s * 1000)
    media_type = media_type.partition(";")[0].strip().lower()
    if not _MEDIA_TYPE.fullmatch(media_type):
        media_type = "text/plain"
    store = services().store.files
    try:
        most = settings.files_mb * 1_000_000
        row = store.put(owner, _plain(name), media_type, data, end, most, audit.note(_told))
    except FilesFull as full:
        raise ApiError(409, "files_full", full.message) from None
    response = json_response(_body(row), 201)
    response.headers["Location"] = f"/api/files/{row.id}"
    return response


def _told(row: FileRow) -> audit.Entry:
    return audit.Entry("file.upload", f"file:{row.id}", {"mediaType": row.media_type, "size": row.size})


def show(file_id: str) -> Response:
    """What is known of a file."""
    return json_response(_body(_mine(file_id)))


def content(file_id: str) -> Response:
    """The bytes of a file, as a download."""
    row = _mine(file_id)
    if request.if_none_match.contains_weak(row.id):
        data: bytes | None = b""
    else:
        data = services().store.files.read(row.id)
    if data is None:  # deleted in the same moment
        raise not_found("file", file_id)
    safe = row.media_type if row.media_type in _SAFE else "text/plain; charset=utf-8"
    response = Response(data, content_type=safe, headers=_HEADERS)
    response.headers["Content-Disposition"] = _disposition(row.name)
    response.set_etag(row.id)
    response.make_conditional(request)
    return response


def remove(file_id: str) -> Response:
    """Delete a file: 204. A run that reads it afterwards fails."""
    read_nothing()
    row = _mine(file_id)
    note = audit.note(audit.told("file.delete", f"file:{row.id}"))
    if not services().store.files.remove(row.id, note):
        raise not_found("file", file_id)
    return Response(status=204)


def check_input(given: t.Any, key_id: str | None) -> None:
    """See that the uploaded files an input names are there for who starts the run.

    :raises ValidationFailed: naming each that is not, with what would be.
    """
    listed = given.get("files") if isinstance(given, Mapping) else None
    named = [
        (index, entry["file"])
        for index, entry in enumerate(listed if isinstance(listed, list) else ())
        if isinstance(entry, Mapping) and isinstance(entry.get("file"), str)
    ]
    if len(named) > MOST_NAMED:
        message = f"names {len(named)} uploaded files; at most {MOST_NAMED} can be named"
        raise ValidationFailed([Problem(join("input", "files"), message)])
    problems = []
    for index, name in named:
        row = services().store.files.get(name) if key_id is not None else None
        if row is None or row.key_id != key_id:
            cure = "upload it with the key that runs the workflow: POST /api/files"
            problems.append(Problem(join("input", "files", index, "file"), f"there is no such file; {cure}"))
    if problems:
        raise ValidationFailed(problems)


def _query() -> UploadQuery:
    """:raises ValidationFailed: with everything that is wrong with it."""
    sent, problems = read_query("name", "expiresInSeconds")
    raw: dict[str, t.Any] = {key: value for key, value in sent.items() if key == "name"}
    if (seconds := sent.get("expiresInSeconds")) is not None:
        raw["expiresInSeconds"] = int(seconds) if _NUMBER.fullmatch(seconds) else seconds
    query, more = derive.load(UploadQuery, raw, null_unset=False)
    if query is None or problems:
        raise ValidationFailed([*problems, *more])
    return query


def _sent(name: str) -> tuple[str, str, bytes]:
    """The name of the file that was sent, what it is said to be, and its bytes: as the body, or as a form's one part.

    :raises ApiError: it cannot be read.
    """
    data = read_bytes()
    if request.mimetype != _FORM:
        return name, request.mimetype, data
    try:
        parser = FormDataParser(lambda *told, **more: BytesIO(), max_form_parts=10, silent=False)
        _, fields, files = parser.parse(BytesIO(data), _FORM, len(data), request.mimetype_params)
    except (ValueError, HTTPException):
        raise ValidationFailed(
            [Problem("", "is no form of one part; curl -F file=@NAME sends one")]
        ) from None
    named = dict.fromkeys(str(key or "")[:100] for key in (*fields, *files))  # a part may have no name
    unknown = [Problem(key, "unknown part; send the file as file") for key in named if key != "file"]
    parts = files.getlist("file")
    if unknown or len(parts) != 1:
        raise ValidationFailed(
            unknown or [Problem("file", "send exactly one file, as a part with a filename")]
        )
    (part,) = parts
    return part.filename or name, part.mimetype, part.read()


def _plain(name: str) -> str:
    """The last part of a path, as people can read it."""
    last = re.split(r"[/\\]", name)[-1]
    return "".join(c for c in last if c.isprintable()).strip()[:255] or "file"


def _disposition(name: str) -> str:
    """RFC 6266: the name as it is, and one of ASCII letters for who cannot read that."""
    plain = re.sub(r"[^A-Za-z0-9. _-]", "_", name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _mine(file_id: str) -> FileRow:
    """A file that this caller may reach.

    :raises ApiError: 404.
    """
    row, who = services().store.files.get(file_id), caller()
    if row is None or not (who.may("admin") or who.owns(row.key_id)):
        raise not_found("file", file_id)
    return row


def _body(row: FileRow) -> dict[str, t.Any]:
    body = {
        "id": row.id,
        "name": row.name,
        "mediaType": row.media_type,
        "size": row.size,
        "createdBy": row.key_id,
        "createdAt": rfc3339(row.created_at),
        "expiresAt": None if row.expires_at is None else rfc3339(row.expires_at),
    }
    return {name: value for name, value in body.items() if value is not None}


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("files", __name__)
    blueprint.add_url_rule("/api/files", "index", index)
    blueprint.add_url_rule("/api/files", "upload", upload, methods=["POST"])
    blueprint.add_url_rule("/api/files/<file_id>", "show", show)
    blueprint.add_url_rule("/api/files/<file_id>", "remove", remove, methods=["DELETE"])
    blueprint.add_url_rule("/api/files/<file_id>/content", "content", content)
    app.register_blueprint(blueprint)

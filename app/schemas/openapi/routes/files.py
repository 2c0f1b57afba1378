"""Uploaded files.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

from app.schemas.files import UploadQuery
from app.schemas.openapi.operation import Answer, Operation
from app.schemas.shapes.common import Page
from app.schemas.shapes.files import File, FileList

_PAGE = "management-api.md#files"
_ANY = "application/octet-stream"
_UNKNOWN = {404: ("not_found",)}

ROUTES = (
    Operation(
        route="GET /api/files",
        id="listFiles",
        does="List uploaded files",
        tag="Files",
        page=_PAGE,
        says="Newest first: the caller's own, to a key with the scope `admin` all.",
        query=Page,
        answers={200: Answer(says="A page of files.", shape=FileList)},
    ),
    Operation(
        route="POST /api/files",
        id="uploadFile",
        does="Upload a file",
        tag="Files",
        page=_PAGE,
        says="As the body, or as the part `file` of a form. Runs of the same key read it.",
        query=UploadQuery,
        body=str,
        body_media=_ANY,
        also=("multipart/form-data",),
        answers={
            201: Answer(
                says="It is kept.",
                shape=File,
                headers=("Location",),
                links={
                    "file": ("getFile", {"file_id": "$response.body#/id"}),
                    "content": ("getFileContent", {"file_id": "$response.body#/id"}),
                },
            )
        },
        errors={
            400: ("validation_failed",),
            409: ("files_full",),
            413: ("payload_too_large",),
            415: ("unsupported_media_type",),
        },
    ),
    Operation(
        route="GET /api/files/<file_id>",
        id="getFile",
        does="Read what is known of a file",
        tag="Files",
        page=_PAGE,
        answers={200: Answer(says="The file.", shape=File)},
        errors=_UNKNOWN,
    ),
    Operation(
        route="GET /api/files/<file_id>/content",
        id="getFileContent",
        does="Download a file",
        tag="Files",
        page=_PAGE,
        headers=("If-None-Match",),
        answers={
            200: Answer(
                says="Its bytes.",
                media=("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "text/plain"),
                headers=("ETag", "Content-Disposition", "Content-Security-Policy"),
            ),
            304: Answer(says="It is as the caller has it.", headers=("ETag",)),
        },
        errors=_UNKNOWN,
    ),
    Operation(
        route="DELETE /api/files/<file_id>",
        id="removeFile",
        does="Delete a file",
        tag="Files",
        page=_PAGE,
        says="Takes no body. A run that reads it afterwards fails.",
        answers={204: Answer(says="It is gone.")},
        errors=_UNKNOWN,
    ),
)

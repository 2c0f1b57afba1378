"""What is answered about uploaded files.

Law of this room: see :mod:`app.schemas.shapes`.
"""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from app.schemas.shapes.common import Count, Cursor, Instant


class File(TypedDict):
    """An uploaded file."""

    id: Annotated[str, {"doc": 'The input of a run names it as `{"file": id}`.'}]
    name: str
    mediaType: Annotated[str, {"doc": "What its bytes say it is."}]
    size: Count
    createdBy: NotRequired[str]
    createdAt: Instant
    expiresAt: NotRequired[Annotated[Instant, {"doc": "It is deleted then."}]]


class FileList(TypedDict):
    """Files, newest first."""

    items: list[File]
    nextCursor: NotRequired[Cursor]

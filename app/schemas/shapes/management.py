"""What is answered about workflows, versions, keys, files, and who changed what.

Law of this room: see :mod:`app.schemas.shapes`.
"""

from __future__ import annotations

import typing as t
from typing import Annotated, NotRequired, TypedDict

from app.schemas.shapes.common import Cursor, Instant, Page


class AuditEntry(TypedDict):
    """One change."""

    id: str
    at: Instant
    actor: Annotated[str, {"doc": "A key's id, `owner`, or `anonymous`."}]
    action: Annotated[str, {"doc": "Such as `workflow.deploy`."}]
    subject: Annotated[str, {"doc": "What was changed, as `<kind>:<id>`."}]
    details: NotRequired[Annotated[dict[str, t.Any], {"doc": "Names and numbers; never a secret."}]]
    address: NotRequired[str]
    requestId: NotRequired[str]


class AuditList(TypedDict):
    """Changes, newest first."""

    items: list[AuditEntry]
    nextCursor: NotRequired[Cursor]


class AuditQuery(Page):
    """Which changes are listed."""

    subject: NotRequired[Annotated[str, {"doc": "Changes of this thing.", "nonempty": True}]]
    actor: NotRequired[Annotated[str, {"doc": "Changes made by this caller.", "nonempty": True}]]
    action: NotRequired[Annotated[str, {"doc": "Changes of this kind.", "nonempty": True}]]

"""What is answered about workflows, versions, keys, files, and who changed what.

Law of this room: see :mod:`app.schemas.shapes`.
"""

from __future__ import annotations

import typing as t
from typing import Annotated, NotRequired, TypedDict

from app.schemas.shapes.common import Cursor, Instant, Page, Problem


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


class Rate(TypedDict):
    """How many runs may be started. Each that is given holds."""

    perMinute: NotRequired[Annotated[int, {"low": 1}]]
    perHour: NotRequired[Annotated[int, {"low": 1}]]
    perDay: NotRequired[Annotated[int, {"low": 1}]]


class Budget(TypedDict):
    """How much may be used."""

    tokens: NotRequired[Annotated[int, {"doc": "Of prompts and answers.", "low": 1}]]
    cost: NotRequired[Annotated[float, {"doc": "In US dollars.", "above": 0}]]
    period: NotRequired[t.Literal["run", "day", "month"]]


class Spent(TypedDict):
    """What was used of a budget in its day or month (UTC) so far."""

    tokens: Annotated[int, {"doc": "Of prompts and answers.", "low": 0}]
    cost: Annotated[float, {"doc": "In US dollars, as far as prices are known.", "low": 0}]
    period: t.Literal["day", "month"]
    resetsAt: Annotated[Instant, {"doc": "When it begins again at zero."}]


class Key(TypedDict):
    """An API key, without its text."""

    id: str
    name: str
    prefix: Annotated[str, {"doc": "How its text begins."}]
    scopes: list[t.Literal["run", "read", "admin"]]
    createdAt: Instant
    createdBy: NotRequired[str]
    lastUsedAt: NotRequired[Instant]
    expiresAt: NotRequired[Instant]
    revokedAt: NotRequired[Annotated[Instant, {"doc": "It is useless since."}]]
    rateLimit: NotRequired[Rate]
    budget: NotRequired[Budget]
    spent: NotRequired[Annotated[Spent, {"doc": "Of one key that is asked for by its id."}]]


class NewKey(Key):
    """A key that has just been made."""

    key: Annotated[str, {"doc": "Its text, which is shown this once."}]


class RevokedKey(Key):
    """A key that was revoked."""

    warnings: Annotated[list[Problem], {"doc": "What whoever has revoked it should know."}]


class KeyList(TypedDict):
    """Keys, newest first, revoked ones too."""

    items: list[Key]
    nextCursor: NotRequired[Cursor]

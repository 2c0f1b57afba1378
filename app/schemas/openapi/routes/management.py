"""Workflows, versions, keys, files, and who changed what.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

from app.schemas.management import KeyBody, KeyChanges
from app.schemas.openapi.operation import Answer, Operation
from app.schemas.shapes.common import Page
from app.schemas.shapes.management import AuditList, AuditQuery, Key, KeyList, NewKey, RevokedKey

_KEYS = "management-api.md#keys"

ROUTES = (
    Operation(
        route="GET /api/keys",
        id="listKeys",
        does="List API keys",
        tag="Management",
        page=_KEYS,
        says="Newest first, revoked ones too.",
        query=Page,
        answers={200: Answer(says="A page of keys.", shape=KeyList)},
    ),
    Operation(
        route="POST /api/keys",
        id="createKey",
        does="Make an API key",
        tag="Management",
        page=_KEYS,
        says="Its text is in this answer and nowhere else.",
        body=KeyBody,
        example={"name": "Nightly report", "scopes": ["run"], "rateLimit": {"perMinute": 60}},
        answers={
            201: Answer(
                says="The key, with its text.",
                shape=NewKey,
                headers=("ETag", "Location", "Cache-Control"),
                links={"key": ("getKey", {"key_id": "$response.body#/id"})},
            )
        },
    ),
    Operation(
        route="GET /api/keys/<key_id>",
        id="getKey",
        does="Read an API key",
        tag="Management",
        page=_KEYS,
        says="Without its text.",
        answers={200: Answer(says="The key.", shape=Key, headers=("ETag",))},
        errors={404: ("not_found",)},
    ),
    Operation(
        route="PATCH /api/keys/<key_id>",
        id="changeKey",
        does="Change an API key",
        tag="Management",
        page=_KEYS,
        says="What is left out stays; null takes away. With the key's `ETag` in `If-Match`.",
        headers=("If-Match",),
        body=KeyChanges,
        example={"rateLimit": None},
        answers={200: Answer(says="The key.", shape=Key, headers=("ETag",))},
        errors={404: ("not_found",), 412: ("precondition_failed",), 428: ("precondition_required",)},
    ),
    Operation(
        route="DELETE /api/keys/<key_id>",
        id="revokeKey",
        does="Revoke an API key",
        tag="Management",
        page=_KEYS,
        says="Takes no body. At once and for good; a second time changes nothing.",
        headers=("If-Match",),
        answers={200: Answer(says="The key, and what is lost with it.", shape=RevokedKey)},
        errors={404: ("not_found",), 412: ("precondition_failed",)},
    ),
    Operation(
        route="GET /api/audit",
        id="listChanges",
        does="List who changed what",
        tag="Management",
        page="management-api.md#the-audit-log",
        says="Newest first.",
        query=AuditQuery,
        answers={200: Answer(says="A page of changes.", shape=AuditList)},
    ),
)

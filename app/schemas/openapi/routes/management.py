"""Workflows, versions, keys, files, and who changed what.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

from app.schemas.openapi.operation import Answer, Operation
from app.schemas.shapes.management import AuditList, AuditQuery

ROUTES = (
    Operation(
        route="GET /api/audit",
        id="listChanges",
        does="List who changed what",
        tag="Management",
        says="Newest first.",
        query=AuditQuery,
        answers={200: Answer(says="A page of changes.", shape=AuditList)},
    ),
)

"""The descriptions of all routes; one module per group of them.

Law of this room: a new route has its description here, or a test fails. See :class:`Operation` for what it says.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.schemas.openapi.operation import Operation
from app.schemas.openapi.routes import (
    chats,
    decisions,
    documents,
    files,
    gates,
    graph,
    management,
    owner,
    running,
    runs,
    secrets,
    server,
    threads,
    workflows,
)

_MODULES = (
    running,
    workflows,
    chats,
    gates,
    runs,
    threads,
    decisions,
    graph,
    files,
    management,
    owner,
    secrets,
    documents,
    server,
)

#: By route, as the credential table writes it: ``GET /api/runs``.
OPERATIONS: Mapping[str, Operation] = {
    described.route: described for module in _MODULES for described in module.ROUTES
}

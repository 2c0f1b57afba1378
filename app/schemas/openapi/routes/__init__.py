"""The descriptions of all routes; one module per group of them.

Law of this room: a new route has its description here, or a test fails. See :class:`Operation` for what it says.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.schemas.openapi.operation import Operation
from app.schemas.openapi.routes import (
    decisions,
    documents,
    graph,
    management,
    running,
    runs,
    secrets,
    server,
    threads,
)

#: By route, as the credential table writes it: ``GET /api/runs``.
OPERATIONS: Mapping[str, Operation] = {
    described.route: described
    for module in (running, runs, threads, decisions, graph, management, secrets, documents, server)
    for described in module.ROUTES
}

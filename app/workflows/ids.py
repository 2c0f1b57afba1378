"""Ids that people give to workflows.

Law of this room: an id is a part of addresses, so it cannot be a word that stands in its place there. One that was
stored under such a word before is still read, changed and removed; it is refused only where a workflow is made.
"""

from __future__ import annotations

import re

ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: What stands behind ``/api/workflows/`` and is no workflow.
RESERVED = frozenset({"validate"})


def id_problem(workflow_id: str) -> str | None:
    """Why a new workflow cannot have this id, and the cure; None: it can."""
    if not ID.fullmatch(workflow_id):
        return f"must match {ID.pattern}"
    if workflow_id in RESERVED:
        return f"must not be {workflow_id}, which is an address of the API; choose another id"
    return None

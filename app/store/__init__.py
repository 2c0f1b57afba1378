"""The store: what outlives a process.

Law of this room: SQLAlchemy and Alembic are known here only. Nobody yields inside a write, no write runs
on the hub, and a query is never made inside a guarded wait, but one that runs aside (:mod:`app.store.aside`).
"""

from app.store.errors import NotMigrated, StaleOwner, StoreConflict, StoreFailed
from app.store.keys import KeyRow
from app.store.store import Store
from app.store.workflows import VersionRow, WorkflowRow
from app.store.writer import Ticket

__all__ = [
    "KeyRow",
    "NotMigrated",
    "StaleOwner",
    "Store",
    "StoreConflict",
    "StoreFailed",
    "Ticket",
    "VersionRow",
    "WorkflowRow",
]

"""What can go wrong in the store.

::

    StoreFailed         the database could not be read or written; nothing of the write was kept
    ├── StaleOwner      the run belongs to another owner by now; the write was refused
    ├── NotMigrated     the database has another revision than this program needs
    ├── SecretsLocked   the key that opens the stored secrets is not here
    └── StoreConflict   the request contradicts what is stored (an unknown id, an ambiguous prefix)
        ├── CollectionUnknown                           there are no documents under that name
        ├── VersionConflict                             the document is not what the writer has seen
        ├── RevisionConflict                            the row is not what the writer has seen
        └── ModelMissing, ModelDiffers, VectorsDiffer   vectors: none, of another model, of other lengths

Law of this room: messages name the thing and the cure and carry no SQL, since they can reach clients.
The database's own words are the ``__cause__``, which is logged.
"""

from __future__ import annotations

from app.errors import StudioError


class StoreFailed(StudioError):
    """The database could not be read or written. Of a failed write nothing was kept."""

    def __init__(self, message: str, code: str = "store_failed") -> None:
        super().__init__(code, message)


class StaleOwner(StoreFailed):
    """A run's write came from an owner that has lost it (or the run has ended already)."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"Run {run_id} has ended or belongs to another process; the write was refused.", "stale_owner"
        )


class NotMigrated(StoreFailed):
    """The database's revision is not the one this program needs."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "store_not_migrated")


class StoreConflict(StoreFailed):
    """What was asked contradicts what is stored."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "store_conflict")


class RevisionConflict(StoreConflict):
    """The row has another revision than the one the writer has seen; nothing was changed.

    :ivar revision: the one it has.
    """

    def __init__(self, revision: int) -> None:
        super().__init__("It was changed since you read it.")
        self.revision = revision

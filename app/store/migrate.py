"""Bringing a database to this program's revision, and refusing one that has another.

Law of this room: only ``studio serve`` and ``studio migrate`` change a schema, one process at a time;
a worker compares and refuses.
"""

from __future__ import annotations

from app.store.db import Backend
from app.store.errors import NotMigrated
from app.store.migrations import HEAD


def migrate(backend: Backend) -> None:
    """Run the missing steps; all of them or none. Other processes wait for us, then find nothing to do.

    :raises NotMigrated: the database was made by a newer version of this program.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    with backend.migration_lock() as connection:
        config = Config()
        config.set_main_option("script_location", "app.store:migrations")
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
            connection.commit()
        except CommandError as error:
            raise _newer(backend.revision()) from error


def check_revision(backend: Backend) -> None:
    """Refuse a database of another revision.

    :raises NotMigrated: with what to do about it.
    """
    found = backend.revision()
    if found == HEAD:
        return
    if found is not None and found > HEAD:
        raise _newer(found)
    state = "is empty" if found is None else f"has revision {found}, this version needs {HEAD}"
    raise NotMigrated(f"The database {state}. Run `studio migrate`; `studio serve` does so by itself.")


def _newer(found: str | None) -> NotMigrated:
    return NotMigrated(
        f"The database has revision {found}, which this version (revision {HEAD}) does not know. "
        "Install the version that made it, or restore a backup from before."
    )

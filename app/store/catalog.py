"""The catalog's generation: one number that tells whether anything a request caches by has changed.

Law of this room: whoever writes keys, workflows or versions raises it in the same transaction, so a
reader that sees the new number sees the new rows.
"""

from __future__ import annotations

from sqlalchemy import select, update

from app.store.db import Backend, Link
from app.store.tables import catalog


class Catalog:
    """Reads and raises the generation.

    :ivar seen: the number that was read last, by whomever; None before the first time. Requests begin with that.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.seen: int | None = None
        self._read = backend.prepare(select(catalog.c.generation))
        self._raise = backend.prepare(update(catalog).values(generation=catalog.c.generation + 1))

    def generation(self) -> int:
        """The number as of now.

        :raises StoreFailed: the database cannot be read.
        """
        self.seen = int(self._backend.rows(self._read, {})[0][0])
        return self.seen

    def bump(self, link: Link) -> None:
        """Raise it; call inside the transaction that changes something."""
        link.execute(self._raise, {})

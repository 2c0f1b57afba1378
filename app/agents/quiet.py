"""The log of this room, which is silent while a secret vote asks.

Law of this room: nothing that is written while a voter is asked may tell who it was, so nothing is written. What is
silent is decided by where the call comes from, not by who happens to remember it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_SECRET: ContextVar[bool] = ContextVar("studio_secret", default=False)


class AgentLog(logging.LoggerAdapter[logging.Logger]):
    """``studio.agents``, as far as it may be written to."""

    def isEnabledFor(self, level: int) -> bool:  # logging's own name
        """Never inside of :func:`unheard`."""
        return not _SECRET.get() and super().isEnabledFor(level)


log = AgentLog(logging.getLogger("studio.agents"), None)


@contextmanager
def unheard() -> Iterator[None]:
    """Nothing is logged by this room while it is open, in this greenlet and those it starts."""
    token = _SECRET.set(True)
    try:
        yield
    finally:
        _SECRET.reset(token)

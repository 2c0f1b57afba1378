"""Masking of secrets in log lines.

Law of this room: a line is masked as it leaves, traceback included, so that nobody who logs has to think of it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from app.redaction.secrets import known_secrets, mask

#: What is done beside that to the lines of this greenlet, and of those it starts.
_FURTHER: ContextVar[Callable[[str], str] | None] = ContextVar("studio_log_lines", default=None)


def also(further: Callable[[str], str]) -> None:
    """Let the lines that this greenlet logs from now on, and those it starts, go through ``further`` as well."""
    _FURTHER.set(further)


@contextmanager
def unfiltered() -> Iterator[None]:
    """While open, the lines of this greenlet go through nothing beside the masking of secrets: for words that quote
    nobody, and must be read though the further filter fails.
    """
    token = _FURTHER.set(None)
    try:
        yield
    finally:
        _FURTHER.reset(token)


class MaskedFormatter(logging.Formatter):
    """What another formatter makes of a record, without secrets.

    :param inner: makes the line.
    :param used: the stored secrets that this process has used; must touch neither a lock nor the store.
    """

    def __init__(self, inner: logging.Formatter | None, used: Callable[[], Iterable[str]]) -> None:
        super().__init__()
        self._inner = inner or logging.Formatter()
        self._used = used
        self._environment = known_secrets(os.environ)

    def format(self, record: logging.LogRecord) -> str:
        """See ``logging.Formatter``."""
        line = mask(self._inner.format(record), (*self._environment, *self._used()))
        further = _FURTHER.get()
        return line if further is None else further(line)


def install(handlers: Iterable[logging.Handler], used: Callable[[], Iterable[str]]) -> None:
    """Mask the lines of ``handlers``."""
    for handler in handlers:
        handler.setFormatter(MaskedFormatter(handler.formatter, used))


@contextmanager
def masked(handlers: Iterable[logging.Handler], used: Callable[[], Iterable[str]]) -> Iterator[None]:
    """While open, mask the lines of ``handlers``."""
    before = [(handler, handler.formatter) for handler in handlers]
    install([handler for handler, _ in before], used)
    try:
        yield
    finally:
        for handler, formatter in before:
            handler.setFormatter(formatter)

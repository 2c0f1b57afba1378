"""Passwords: kept as a slow salted hash, compared in constant time, beside the hub.

Law of this room: a password is in no log, error or answer. One hash takes a tenth of a second of a processor and 32 MB,
so a process makes one at a time, in a native thread: guesses wait for one another, streams do not wait for them. Where
no password is set one is compared all the same: how long it takes says nothing.
"""

from __future__ import annotations

import typing as t
import unicodedata
from collections.abc import Callable

from flask import current_app
from gevent.threadpool import ThreadPool
from werkzeug.security import check_password_hash, generate_password_hash

from app.errors import ApiError

#: Characters of a password that can be set: fewer could be guessed in spite of the limits.
LEAST, MOST = 12, 1024
_METHOD = "scrypt:32768:8:1"  # OWASP's second choice of equal strength; 32 MB
#: The hash of nothing anybody knows, for comparing where there is none.
_NOBODY = f"{_METHOD}$" + "studioNoOneHere1$" + "0" * 128
#: Seconds after which an idle thread ends and gives its memory back.
_IDLE_S = 30
#: Most that wait at once for theirs: five seconds' worth.
_MOST_WAITING = 50

_T = t.TypeVar("_T")


def problem(password: str) -> str | None:
    """Why this cannot be set as a password; None: it can."""
    if len(password) < LEAST:
        return f"give at least {LEAST} characters"
    if len(password) > MOST:
        return f"give at most {MOST} characters"
    if len(set(password)) < 4:
        return "give something with more than three different characters"
    return None


def hashed(password: str) -> str:
    """What is stored of a password."""
    return generate_password_hash(_normal(password), _METHOD)


def make_hash(password: str) -> str:
    """:func:`hashed`, for requests.

    :raises ApiError: 503: too many want that at this moment.
    """
    return _aside(lambda: hashed(password))


def matches(stored: str | None, password: str) -> bool:
    """Whether ``stored`` is the hash of ``password``; takes as long where nothing is stored. For requests.

    :param password: longer ones than can be set match nothing.
    :raises ApiError: 503: too many want that at this moment.
    """
    kept, given = stored or _NOBODY, _normal(password[: MOST + 1])
    right = _aside(lambda: check_password_hash(kept, given))
    return right and stored is not None and len(password) <= MOST


def _normal(password: str) -> str:
    """The same password from every keyboard (NIST SP 800-63B, 5.1.1.2); what is no text cannot be hashed."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "replace").decode()


class _Thread:
    """The one thread that hashes, and how many wait for it."""

    def __init__(self) -> None:
        self._pool = ThreadPool(1, idle_task_timeout=_IDLE_S)
        self._waiting = 0

    def run(self, fn: Callable[[], _T]) -> _T:
        if self._waiting >= _MOST_WAITING:
            message = "Too many are signing in at this moment; try again."
            raise ApiError(503, "at_capacity", message, headers={"Retry-After": "5"})
        self._waiting += 1
        try:
            return self._pool.apply(fn)
        finally:
            self._waiting -= 1


def _aside(fn: Callable[[], _T]) -> _T:
    thread: _Thread | None = current_app.extensions.get("studio.passwords")
    if thread is None:
        thread = current_app.extensions["studio.passwords"] = _Thread()
    return thread.run(fn)

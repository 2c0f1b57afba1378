"""Spares the applications of the tests what each would make anew and hardly use: routes, and the SQL of its store.

Law of this room: what is kept is a function of its key and of nothing else. SQL is not kept, since what SQLAlchemy
caches statements by does not always tell two of them apart; it is made when a statement is first used, of which a test
uses few of two hundred. A server makes all at once (:class:`app.store.db.Statement`), as those of the tests do.
"""

from __future__ import annotations

import typing as t
from collections.abc import Hashable

from sqlalchemy import Executable
from sqlalchemy.engine import Dialect
from werkzeug.routing import Rule

from app.store import postgresql, sqlite
from app.store.db import Statement

_compile_builder = Rule._compile_builder
_builders: dict[Hashable, t.Callable[..., tuple[str, str]]] = {}


def install() -> None:
    """From now on in this process. Doing it again changes nothing."""
    Rule._compile_builder = _builder  # type: ignore[method-assign]
    for backend in (sqlite, postgresql):
        vars(backend)["Statement"] = _Later


class _Later(Statement):
    """Compiled when somebody first looks at what comes of it."""

    __slots__ = ("_given",)

    def __init__(self, statement: Executable, dialect: Dialect) -> None:
        self._given = statement, dialect

    def __getattr__(self, name: str) -> t.Any:
        if name not in Statement.__slots__:
            raise AttributeError(name)
        super().__init__(*self._given)  # two threads may do the same here
        return getattr(self, name)


def _builder(self: Rule, append_unknown: bool = True) -> t.Callable[..., tuple[str, str]]:
    """Addresses are built by a function that is given the rule it belongs to."""
    if self.defaults:
        return _compile_builder(self, append_unknown)
    key = (self.rule, tuple(self._trace), append_unknown)
    if key not in _builders:
        _builders[key] = _compile_builder(self, append_unknown)
    return _builders[key]

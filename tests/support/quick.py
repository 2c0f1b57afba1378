"""Makes once in a process what every application of the tests would make anew: its SQL and its routes.

Law of this room: what is kept is a function of its key and of nothing else, and whatever has no key is made anew. Two
thirds of what a new application takes went into compiling the same statements and the same routes.
"""

from __future__ import annotations

import typing as t
from collections.abc import Hashable

from sqlalchemy import Executable
from sqlalchemy.engine import Dialect
from werkzeug.routing import Rule

from app.store.db import Statement

_compile_statement = Statement.__init__
_compile_builder = Rule._compile_builder
_statements: dict[Hashable, Statement] = {}
_builders: dict[Hashable, t.Callable[..., tuple[str, str]]] = {}


def install() -> None:
    """From now on in this process. Doing it again changes nothing."""
    Statement.__init__ = _statement  # type: ignore[method-assign]
    Rule._compile_builder = _builder  # type: ignore[method-assign]


def _statement(self: Statement, statement: Executable, dialect: Dialect) -> None:
    key = _key(statement, dialect)
    made = _statements.get(key) if key is not None else None
    if made is not None:
        self.sql, self.names, self._defaults = made.sql, made.names, made._defaults
        return
    _compile_statement(self, statement, dialect)
    if key is not None:
        _statements[key] = self


def _key(statement: Executable, dialect: Dialect) -> Hashable:
    """What SQLAlchemy itself caches by, and the values of constants, which that leaves out."""
    known = statement._generate_cache_key()  # type: ignore[attr-defined]
    if known is None:
        return None
    constants = tuple((type(bound.value), bound.value, bound.required) for bound in known.bindparams)
    key = (type(dialect), dialect.paramstyle, known.key, constants)
    try:
        hash(key)
    except TypeError:  # a constant that is a list
        return None
    return key


def _builder(self: Rule, append_unknown: bool = True) -> t.Callable[..., tuple[str, str]]:
    """Addresses are built by a function that is given the rule it belongs to."""
    if self.defaults:
        return _compile_builder(self, append_unknown)
    key = (self.rule, tuple(self._trace), append_unknown)
    if key not in _builders:
        _builders[key] = _compile_builder(self, append_unknown)
    return _builders[key]

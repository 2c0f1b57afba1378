"""Makes once in a process what every application of the tests would make anew: its routes.

Law of this room: what is kept is a function of its key and of nothing else. SQL is not kept: what SQLAlchemy caches
statements by does not always tell two of them apart.
"""

from __future__ import annotations

import typing as t
from collections.abc import Hashable

from werkzeug.routing import Rule

_compile_builder = Rule._compile_builder
_builders: dict[Hashable, t.Callable[..., tuple[str, str]]] = {}


def install() -> None:
    """From now on in this process. Doing it again changes nothing."""
    Rule._compile_builder = _builder  # type: ignore[method-assign]


def _builder(self: Rule, append_unknown: bool = True) -> t.Callable[..., tuple[str, str]]:
    """Addresses are built by a function that is given the rule it belongs to."""
    if self.defaults:
        return _compile_builder(self, append_unknown)
    key = (self.rule, tuple(self._trace), append_unknown)
    if key not in _builders:
        _builders[key] = _compile_builder(self, append_unknown)
    return _builders[key]

"""How a setting is declared: a field whose metadata names its variable, its default and its meaning.

Law of this room: see :mod:`app.config.settings`.
"""

from __future__ import annotations

import typing as t
from dataclasses import field

from app.config import kinds


def setting(
    variable: str,
    kind: kinds.Kind,
    default: t.Any,
    doc: str,
    *,
    shown: str | None = None,
    secret: bool = False,
) -> t.Any:
    """A field; ``shown`` is the default as the page prints it, ``secret`` keeps the value out of ``repr``."""
    metadata = {"variable": variable, "kind": kind, "doc": doc, "shown": shown, "secret": secret}
    return field(default=default, metadata=metadata, repr=not secret)

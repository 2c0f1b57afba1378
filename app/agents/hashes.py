"""What went into a step, as a hash: a row of the journal is taken for a step's only where both are the same.

Law of this room: hashed is what the document says and what was journaled before, never what a template makes anew.
"""

from __future__ import annotations

import hashlib
import typing as t
import weakref
from collections.abc import Mapping

from app import encoding
from app.errors import RunError

MISMATCH = "journal_mismatch"
_KNOWN: weakref.WeakKeyDictionary[t.Any, str] = weakref.WeakKeyDictionary()


def of(*values: t.Any) -> str:
    """A hash of values, by their JSON form."""
    return hashlib.sha256(encoding.dumps(values)).hexdigest()[:32]


def of_call(name: str, arguments: Mapping[str, t.Any] | None) -> str:
    """That of a tool call: what is called with what."""
    return of(name, arguments)


def of_config(config: t.Any) -> str:
    """That of a frozen config which is compared by identity; made once."""
    found = _KNOWN.get(config)
    if found is None:
        found = _KNOWN[config] = of(config)
    return found


def check(row_hash: str | None, what: str, *expected: str) -> None:
    """See that a row belongs to the step it is taken for. A row without a hash says nothing of it.

    :param what: names the step, for the message. :param expected: hashes that it may have.
    :raises RunError: ``journal_mismatch``.
    """
    if row_hash is not None and row_hash not in expected:
        cause = "the workflow or the program is not what it was when the run began"
        message = f"What is stored of {what} belongs to another step: {cause}. Start a new run."
        raise RunError(MISMATCH, message)

"""Organisations that a vendor does not summarise its reasoning for.

Law of this room: a refusal is told by the parameter it names, not by its words where it names one. Who was refused
is remembered by a fingerprint of the credentials, never by the credentials, and not for ever: an organisation may
have itself verified.
"""

from __future__ import annotations

import hashlib
import re
import time
import typing as t
from collections import OrderedDict
from collections.abc import Callable, Mapping

import orjson

from providers import errors
from providers.spec import Connection, ProviderError

#: How long a refusal counts, in seconds, and how many are remembered.
KEPT_S = 3600.0
KEPT = 256

_PARAMS = ("reasoning.summary", "reasoning.generate_summary")
_WORDS = re.compile(r"reasoning[ ._](?:generate_)?summary", re.IGNORECASE)

Key = tuple[str, str, str]


class SummaryRefused(ProviderError):
    """The vendor takes the request, but not the wish for a summary of its reasoning."""


def telling(failure: ProviderError, error: t.Any) -> ProviderError:
    """``failure``, or a :class:`SummaryRefused` when the vendor's ``error`` is about the summary.

    :param error: the vendor's error object of any shape, possibly with another one under ``error``.
    """
    found = error.get("error") if isinstance(error, Mapping) else None
    if isinstance(found, Mapping):
        error = found
    if failure.code != "provider_bad_request" or not isinstance(error, Mapping):
        return failure
    param = error.get("param")
    if param not in _PARAMS and (param or not _WORDS.search(failure.detail)):
        return failure
    return SummaryRefused(failure.code, failure.message, detail=failure.detail, status=failure.status)


def http_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """See ``providers.errors.http_error``."""
    failure = errors.http_error(status, headers, body)
    try:
        return telling(failure, orjson.loads(body))
    except ValueError:
        return failure


class Refusals:
    """Who was refused of late, of this process.

    :param clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[Key, float] = OrderedDict()

    def add(self, connection: Connection, model: str) -> None:
        """Remember a refusal; the oldest is forgotten when there are too many."""
        key = _key(connection, model)
        self._until[key] = self._clock() + KEPT_S
        self._until.move_to_end(key)
        while len(self._until) > KEPT:
            self._until.popitem(last=False)

    def __contains__(self, asked: tuple[Connection, str]) -> bool:
        if not self._until:
            return False
        until = self._until.get(_key(*asked))
        return until is not None and self._clock() < until

    def clear(self) -> None:
        """Forget all."""
        self._until.clear()


def _key(connection: Connection, model: str) -> Key:
    """Address, fingerprint of the credentials, model: what the vendor's answer may depend on."""
    parts = "\0".join(f"{name}\0{value}" for name, value in sorted(connection.credentials.items()))
    return connection.base_url, hashlib.sha256(parts.encode()).hexdigest(), model

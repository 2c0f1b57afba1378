"""One embedding call over HTTP: a request, and the whole of its answer as vectors.

Law of this room: what every embedding wire does alike stands here, a vendor's words in its own module. An answer that
is not one good vector for each text is a ``provider_bad_stream``, never a vector made up. Switches that mean the same
on every wire (``path`` and ``query``: see ``request_parts``):

=================  ==========================================================================================
switch             meaning
=================  ==========================================================================================
``prefixes``       by purpose, words put before each text, for models that were trained with some
``body``           members added to every request as they are
=================  ==========================================================================================
"""

from __future__ import annotations

import base64
import binascii
import math
import sys
import typing as t
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from providers import errors
from providers.auth import authenticate
from providers.http_body import Body, FramingError, Head
from providers.http_connection import POOL
from providers.http_connection import Connection as Upstream
from providers.http_exchange import (
    Stale,
    exchange,
    framing,
    open_connection,
    refuse_redirect,
    serialise,
    text_of,
)
from providers.spec import Connection, Embedded, EmbeddingRequest, HttpRequest, ProviderError, Usage, Waits

#: Most bytes of one answer: some thousand vectors written as decimal numbers.
MAX_ANSWER = 64 * 1024 * 1024
_TOO_LONG = "A text does not fit the embedding model's token limit. Use a model that reads longer texts."
#: A vector as vendors write one: numbers, or float32 in base64.
Written = Sequence[float] | str


@dataclass(frozen=True, slots=True)
class Answer:
    """A good answer: ``value`` is its JSON, names of ``headers`` are in lower case."""

    value: t.Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HttpEmbeddingWire:
    """An embedding wire over HTTP (see ``providers.spec.EmbeddingWire``).

    :ivar build: makes the request, not yet authenticated.
    :ivar read: the vectors as the vendor wrote them, in the order of the texts, and its token count. What it meets
        may be of any shape: a ``LookupError``, ``TypeError``, ``ValueError`` or ``AttributeError`` of it is told as
        a bad answer.
    :ivar error: what an answer that is a failure means, from status, headers and body.
    """

    name: str
    build: Callable[[EmbeddingRequest, Connection], HttpRequest]
    read: Callable[[Answer], tuple[Iterable[Written], int | None]]
    error: Callable[[int, Mapping[str, str], bytes], ProviderError] = errors.http_error

    def embed(self, request: EmbeddingRequest, connection: Connection, waits: Waits) -> Embedded:
        """See ``providers.spec.EmbeddingWire``."""
        http = self.build(request, connection)
        authenticate(http, connection, waits)
        head, data = _ask(http, connection, waits)
        refuse_redirect(head)
        try:
            value = orjson.loads(data)
        except ValueError as error:
            if head.status >= 400:
                raise self._failure(head, data) from None
            raise _bad("it is no JSON") from error
        if head.status >= 400 or errors.has_error(value):
            raise self._failure(head, data)
        try:
            written, tokens = self.read(Answer(value, head.headers))
            vectors = vectors_of(written, len(request.texts))
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise _bad(text_of(error)) from error
        return Embedded(vectors, None if tokens is None else Usage(input=tokens, total=tokens))

    def _failure(self, head: Head, data: bytes) -> ProviderError:
        error = self.error(head.status, head.headers, data)
        if error.code == "context_length_exceeded":  # else it would speak of a conversation
            error.message = _TOO_LONG
        return error


def prefixed(request: EmbeddingRequest) -> list[str]:
    """The texts with the words that the model wants before them."""
    prefix = (request.dialect.get("prefixes") or {}).get(request.purpose, "")
    return [prefix + text for text in request.texts] if prefix else list(request.texts)


def count(value: t.Any) -> int | None:
    """A token count, where it is one."""
    return value if type(value) is int and value >= 0 else None


def _ask(http: HttpRequest, connection: Connection, waits: Waits) -> tuple[Head, bytes]:
    """Send the request on a kept connection, or a fresh one, and read all of the answer."""
    address, payload = serialise(http)
    if (upstream := POOL.take(address)) is not None:
        try:
            return _exchange(upstream, payload, connection, waits)
        except Stale:  # the peer closed it just now, before a byte of an answer: as if it had not been kept
            pass
    return _exchange(
        open_connection(address, connection.connect_s, waits), payload, connection, waits
    )  # fmt: skip


def _exchange(upstream: Upstream, payload: bytes, connection: Connection, waits: Waits) -> tuple[Head, bytes]:
    kept = False
    try:
        with waits.idle_limit(connection.idle_s):
            head, first = exchange(upstream, payload, waits)
            body = framing(head)
            data = _whole(upstream, body, first, waits)
        if head.keep_alive and body.delimited and not body.excess:
            POOL.give(upstream, body)
            kept = True
        return head, data
    finally:
        if not kept:
            upstream.close()


def _whole(upstream: Upstream, body: Body, first: bytes, waits: Waits) -> bytes:
    """A body to its end.

    :raises ProviderError: ``provider_bad_stream``: it broke off, or is longer than :data:`MAX_ANSWER`.
    """
    parts = bytearray(body.feed(first) if first else b"")
    try:
        while not body.complete:
            if body.broken is not None:
                raise body.broken
            if len(parts) > MAX_ANSWER:
                raise _bad(f"it is longer than {MAX_ANSWER} bytes")
            raw = upstream.wait_and_read(waits)
            if raw is None:
                continue
            if not raw:
                if body.ends_cleanly():
                    break
                raise FramingError("the connection ended inside the body")
            parts += body.feed(raw)
            waits.progress()
    except (OSError, FramingError) as error:
        raise errors.failure("provider_bad_stream", detail=text_of(error)) from error
    return bytes(parts)


def vectors_of(written: Iterable[Written], wanted: int) -> tuple[array[float], ...]:
    """Vectors as they were written, as float32.

    :raises ValueError: they are not ``wanted`` vectors of one length and of finite numbers.
    """
    vectors = tuple(map(_vector, written))
    if len(vectors) != wanted:
        raise ValueError(f"{len(vectors)} vectors for {wanted} texts")
    if len({len(vector) for vector in vectors}) > 1:
        raise ValueError("vectors of different lengths")
    if not all(vectors):
        raise ValueError("a vector of no numbers")
    if not all(math.isfinite(math.fsum(vector)) for vector in vectors):
        raise ValueError("a vector with a number that is none")
    return vectors


def _vector(written: Written) -> array[float]:
    vector = array("f")
    if not isinstance(written, str):
        vector.extend(written)
        return vector
    try:
        vector.frombytes(base64.b64decode(written, validate=True))
    except binascii.Error as error:
        raise ValueError("a vector that is no base64") from error
    if sys.byteorder == "big":
        vector.byteswap()
    return vector


def _bad(detail: str) -> ProviderError:
    return errors.failure(
        "provider_bad_stream",
        message="The provider's answer holds no vectors that can be used. Check that the model makes embeddings.",
        detail=detail,
    )

"""One streamed HTTP exchange, from a model request to model events.

Law of this room: one generator for every HTTP wire. What is read at once is decoded at once and
yielded as one list, the unit of flushing. Operating system and vendor texts never reach a message.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass

import orjson

from providers import errors
from providers.auth import authenticate
from providers.decoding import Decoder
from providers.http_body import Body, FramingError, Head
from providers.http_connection import POOL
from providers.http_connection import Connection as Upstream
from providers.http_exchange import (
    Stale,
    exchange,
    framing,
    open_connection,
    read_until,
    refuse_redirect,
    serialise,
    text_of,
)
from providers.spec import Connection, HttpRequest, ModelEvent, ModelRequest, ProviderError, Waits

#: How much of a body that is no stream is read, in bytes.
MAX_ERROR_BODY = 1024 * 1024
#: Seconds that a vendor has, once it said that the model is done, for usage and the end of the body. One that keeps
#: the connection open then holds up nobody.
FINISHED_S = 5.0
#: Most bytes of one answer, framing of its events included; a model that never ends must not fill the memory.
MAX_ANSWER = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HttpWire:
    """A wire over HTTP (see ``providers.spec.Wire``): how it asks and how it reads what comes.

    :ivar build: makes the request, not yet authenticated.
    :ivar decoder: makes a fresh decoder of one response body.
    :ivar error: what an answer that is no stream means, from status, headers and body.
    :ivar json_stream: a good answer may be JSON (lines, an array); its decoder tells an error report from it.
    """

    name: str
    build: Callable[[ModelRequest, Connection], HttpRequest]
    decoder: Callable[[ModelRequest], Decoder]
    error: Callable[[int, Mapping[str, str], bytes], ProviderError] = errors.http_error
    json_stream: bool = False

    def stream(
        self, request: ModelRequest, connection: Connection, waits: Waits
    ) -> Iterator[list[ModelEvent]]:
        """See ``providers.spec.Wire``."""
        return stream_http(self, request, connection, waits)


def stream_http(
    wire: HttpWire, request: ModelRequest, connection: Connection, waits: Waits
) -> Iterator[list[ModelEvent]]:
    """Make one model call over HTTP; yield what each read brought.

    Closing the generator closes the socket at once. The connection goes back to the pool, and the idle
    limit ends, before the last list is yielded.

    :raises ProviderError: with a code of contract section 11, at any point.
    """
    upstream, head, first = _answered(wire, request, connection, waits)
    decoder = wire.decoder(request)
    kept = False
    try:
        with waits.idle_limit(connection.idle_s):
            body = framing(head)
            first = _stream_start(wire, head, upstream, body, first, waits)
            keep_alive = head.keep_alive
            del head  # nothing else of it is wanted, and a stream may go on for long
            ended = yield from _events(upstream, body, first, decoder, waits, to_finish=True)
        if ended is None:
            with waits.idle_limit(min(connection.idle_s, FINISHED_S)):
                ended = yield from _events(upstream, body, b"", decoder, waits)
        last, clean = ended or ([], False)
        if clean and keep_alive and decoder.failure is None:
            POOL.give(upstream, body)
            kept = True
    finally:
        if not kept:
            upstream.close()
    if last:
        yield last
    if decoder.failure is not None:
        raise decoder.failure


def _answered(
    wire: HttpWire, request: ModelRequest, connection: Connection, waits: Waits
) -> tuple[Upstream, Head, bytes]:
    """Send the request; the connection, the head of its answer and what came after it.

    What was sent is let go with this call: it is as long as the conversation, and a stream may go on for long.
    """
    http = wire.build(request, connection)
    authenticate(http, connection, waits)
    address, payload = serialise(http)
    upstream = POOL.take(address)
    if upstream is not None:
        try:
            return _exchanged(upstream, payload, connection, waits)
        except Stale:  # the peer closed it just now, before a byte of an answer: as if it had not been kept
            pass
    upstream = open_connection(address, connection.connect_s, waits)
    return _exchanged(upstream, payload, connection, waits)


def _exchanged(
    upstream: Upstream, payload: bytes, connection: Connection, waits: Waits
) -> tuple[Upstream, Head, bytes]:
    try:
        with waits.idle_limit(connection.idle_s):
            return upstream, *exchange(upstream, payload, waits)
    except BaseException:
        upstream.close()
        raise


def _events(
    upstream: Upstream,
    body: Body,
    data: bytes,
    decoder: Decoder,
    waits: Waits,
    *,
    to_finish: bool = False,
) -> Generator[list[ModelEvent], None, tuple[list[ModelEvent], bool] | None]:
    """Read, decode, yield; returns the last events and whether the connection may be used again.

    :param to_finish: go no further than to where the vendor says that the model is done; None is returned then.
    """
    feed, gate, progress = decoder.feed, waits.gate, waits.progress
    left = MAX_ANSWER
    events: list[ModelEvent] | None
    while True:
        if data:
            left -= len(data)
            if left < 0:
                raise errors.failure(
                    "provider_bad_stream", detail=f"an answer of more than {MAX_ANSWER} bytes"
                )
            events = feed(data)
            if decoder.moved:
                decoder.moved = False
                progress()
            if decoder.done or decoder.failure is not None:
                return events, body.delimited and not body.excess
            if events:
                yield events
        if body.complete:
            return decoder.end(), not body.excess
        if to_finish and decoder.finished:
            return None
        gate()
        data, events = b"", None  # not held while nothing comes
        more = _more(upstream, body, decoder, waits)
        if more is None:
            return decoder.end(), False
        data = more


def _more(upstream: Upstream, body: Body, decoder: Decoder, waits: Waits) -> bytes | None:
    """The body bytes of the next read, None at an end that is not the framing's own but clean all the same."""
    try:
        if body.broken is not None:
            raise body.broken
        raw = upstream.wait_and_read(waits)
        if raw:
            return body.feed(raw)
        if raw is None:
            return b""
        if body.ends_cleanly():
            return None
        raise FramingError("the connection ended inside the body")
    except (OSError, FramingError) as error:
        if decoder.finished:
            return None
        raise errors.failure("provider_bad_stream", detail=text_of(error)) from error
    except ProviderError as error:
        if error.code == "provider_idle" and decoder.finished:
            return None
        raise


def _stream_start(
    wire: HttpWire, head: Head, upstream: Upstream, body: Body, first: bytes, waits: Waits
) -> bytes:
    """The first bytes of the stream's body, or the error that the answer is instead of a stream."""
    refuse_redirect(head)
    data = body.feed(first) if first else b""
    document = head.status >= 400
    if not document and not wire.json_stream and "json" in head.headers.get("content-type", "").lower():
        data = read_until(upstream, body, data, waits, enough=lambda got: bool(got.strip()))
        document = data.lstrip(b" \r\n\t\xef\xbb\xbf")[:1] in (b"{", b"[")
    if not document:
        return data
    data = read_until(upstream, body, data, waits, enough=lambda got: len(got) > MAX_ERROR_BODY)
    if head.status >= 400 or _reports_error(data):
        raise wire.error(head.status, head.headers, data)
    raise errors.failure(
        "provider_bad_stream",
        message="The provider answered with one document instead of a stream. Check the base address.",
        detail=data.decode("utf-8", "replace"),
    )


def _reports_error(data: bytes) -> bool:
    try:
        return errors.has_error(orjson.loads(data))
    except ValueError:
        return False

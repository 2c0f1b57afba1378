"""One streamed HTTP exchange, from a model request to model events.

Law of this room: one generator for every HTTP wire. What is read at once is decoded at once and
yielded as one list, the unit of flushing. Operating system and vendor texts never reach a message.
"""

from __future__ import annotations

import functools
import re
import ssl
import typing as t
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson

from providers import errors
from providers.decoding import Decoder
from providers.http_body import MAX_HEAD, Body, FramingError, Head, body_of, parse_head
from providers.http_connection import POOL, Address, connect
from providers.http_connection import Connection as Upstream
from providers.spec import Connection, HttpRequest, ModelEvent, ModelRequest, ProviderError, Waits

#: How much of a body that is no stream is read, in bytes.
MAX_ERROR_BODY = 1024 * 1024

_BAD_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


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
    http = wire.build(request, connection)
    _authenticate(http, connection, waits)
    address, payload = _serialise(http)
    upstream = POOL.take(address)
    if upstream is not None:
        try:
            yield from _call(upstream, payload, wire, request, connection, waits)
            return
        except _Stale:  # the peer closed it just now, before a byte of an answer: as if it had not been kept
            pass
    yield from _call(_connect(address, connection, waits), payload, wire, request, connection, waits)


def _authenticate(http: HttpRequest, connection: Connection, waits: Waits) -> None:
    """A scheme sees the options, too: a signature covers the region."""
    known = {**connection.options, **connection.credentials} if connection.options else connection.credentials
    if (prepare := getattr(connection.auth, "prepare", None)) is not None:
        prepare(known, connection.connect_s, waits)
    connection.auth.apply(http, known)


class _Stale(Exception):
    """A kept connection turned out to be closed before anything was answered on it."""


def _call(
    upstream: Upstream,
    payload: bytes,
    wire: HttpWire,
    request: ModelRequest,
    connection: Connection,
    waits: Waits,
) -> Iterator[list[ModelEvent]]:
    decoder = wire.decoder(request)
    kept = False
    try:
        with waits.idle_limit(connection.idle_s):
            head, first = _exchange(upstream, payload, waits)
            body = _body(head)
            first = _stream_start(wire, head, upstream, body, first, waits)
            last, clean = yield from _events(upstream, body, first, decoder, waits)
        if clean and head.keep_alive and decoder.failure is None:
            POOL.give(upstream, body)
            kept = True
    finally:
        if not kept:
            upstream.close()
    if last:
        yield last
    if decoder.failure is not None:
        raise decoder.failure


def _events(
    upstream: Upstream, body: Body, data: bytes, decoder: Decoder, waits: Waits
) -> Generator[list[ModelEvent], None, tuple[list[ModelEvent], bool]]:
    """Read, decode, yield; returns the last events and whether the connection may be used again."""
    feed, gate, progress = decoder.feed, waits.gate, waits.progress
    left = MAX_ANSWER
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
        gate()
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
        raise errors.failure("provider_bad_stream", detail=_text(error)) from error
    except ProviderError as error:
        if error.code == "provider_idle" and decoder.finished:
            return None
        raise


def _exchange(upstream: Upstream, payload: bytes, waits: Waits) -> tuple[Head, bytes]:
    """Send the request, read the response head; returns it and what came after it."""
    got = b""
    try:
        upstream.send(payload, waits)
        while True:
            end = got.find(b"\r\n\r\n")
            if end >= 0:
                head, got = parse_head(got[:end]), got[end + 4 :]
                if head.status >= 200:
                    return head, got
                continue  # 1xx: the real head follows
            if len(got) > MAX_HEAD:
                raise FramingError("a response head without end")
            waits.gate()
            data = upstream.wait_and_read(waits)
            if data is not None:
                if not data:
                    raise ConnectionError("closed before an answer")
                got += data
    except FramingError as error:
        raise errors.failure("provider_bad_stream", detail=_text(error)) from error
    except OSError as error:
        if upstream.used and not got:
            raise _Stale from error
        raise errors.failure("provider_unavailable", detail=_text(error)) from error


def _body(head: Head) -> Body:
    try:
        return body_of(head)
    except FramingError as error:
        raise errors.failure("provider_bad_stream", detail=_text(error)) from error


def _stream_start(
    wire: HttpWire, head: Head, upstream: Upstream, body: Body, first: bytes, waits: Waits
) -> bytes:
    """The first bytes of the stream's body, or the error that the answer is instead of a stream."""
    if 300 <= head.status < 400:
        raise errors.failure(
            "provider_unavailable",
            message="The provider's address answers with a redirect. Set the base address to where it leads.",
            detail=head.headers.get("location", ""),
        )
    data = body.feed(first) if first else b""
    document = head.status >= 400
    if not document and not wire.json_stream and "json" in head.headers.get("content-type", "").lower():
        data = _read_until(upstream, body, data, waits, enough=lambda got: bool(got.strip()))
        document = data.lstrip(b" \r\n\t\xef\xbb\xbf")[:1] in (b"{", b"[")
    if not document:
        return data
    data = _read_until(upstream, body, data, waits, enough=lambda got: len(got) > MAX_ERROR_BODY)
    if head.status >= 400 or _reports_error(data):
        raise wire.error(head.status, head.headers, data)
    raise errors.failure(
        "provider_bad_stream",
        message="The provider answered with one document instead of a stream. Check the base address.",
        detail=data.decode("utf-8", "replace"),
    )


def _read_until(
    upstream: Upstream, body: Body, data: bytes, waits: Waits, *, enough: t.Callable[[bytes], bool]
) -> bytes:
    """Read on until ``enough`` or the end, however it comes: a torn error report still says something."""
    parts = bytearray(data)
    try:
        while not (body.complete or body.broken or enough(bytes(parts))):
            raw = upstream.wait_and_read(waits)
            if raw is None:
                continue
            if not raw:
                break
            parts += body.feed(raw)
    except OSError:
        pass
    except ProviderError as error:
        if error.code != "provider_idle" or not parts:
            raise
    return bytes(parts)


def _reports_error(data: bytes) -> bool:
    try:
        return errors.has_error(orjson.loads(data))
    except ValueError:
        return False


def _connect(address: Address, connection: Connection, waits: Waits) -> Upstream:
    try:
        return connect(address, connection.connect_s, waits)
    except ssl.SSLCertVerificationError as error:
        raise errors.failure(
            "provider_unavailable",
            message="The provider's TLS certificate is not trusted. Check its address and the machine's certificates.",
            detail=_text(error),
        ) from error
    except (OSError, UnicodeError) as error:
        raise errors.failure(
            "provider_unavailable",
            message="The provider cannot be reached. Check its address and that it is running.",
            detail=_text(error),
        ) from error


#: Most bytes of one answer, framing of its events included; a model that never ends must not fill the memory.
MAX_ANSWER = 64 * 1024 * 1024


@functools.lru_cache(maxsize=256)
def _host_line(host: str) -> str:
    """A host as the Host header spells it; encoding a name costs more than the rest of a request."""
    return (f"[{host}]" if ":" in host else host).encode("idna").decode()


def _serialise(http: HttpRequest) -> tuple[Address, bytes]:
    """Where to send a request, and its bytes."""
    try:
        url = urlsplit(http.url)
        scheme, host, port = url.scheme, url.hostname, url.port
        host_line = _host_line(host or "")
        if scheme not in ("http", "https") or not host:
            raise ValueError("no http address")
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        first = f"{http.method} {target} HTTP/1.1".encode("ascii")
    except ValueError as error:
        raise errors.failure(
            "provider_unavailable",
            message="The provider's base address is not a usable http or https address. Check its setting.",
            detail=_text(error),
        ) from error
    if port is not None and port != (443 if scheme == "https" else 80):
        host_line = f"{host_line}:{port}"
    fields = {
        "host": ("Host", host_line),
        "user-agent": ("User-Agent", "studio"),
        "accept-encoding": ("Accept-Encoding", "identity"),
    }
    fields.update((name.lower(), (name, value)) for name, value in http.headers.items())
    fields["content-length"] = ("Content-Length", str(len(http.body)))
    lines = [first, *(_field(name, value) for name, value in fields.values()), b"", http.body]
    return (scheme, host, port or (443 if scheme == "https" else 80)), b"\r\n".join(lines)


def _field(name: str, value: str) -> bytes:
    try:
        if _BAD_HEADER.search(value):
            raise ValueError("a control character")
        return f"{name}: {value}".encode("latin-1")
    except ValueError as error:  # its text holds the value, which may be a key: left out
        raise errors.failure(
            "provider_auth",
            message=f"The value of the request header {name} holds characters that no header may carry. Check the key.",
            detail=type(error).__name__,
        ) from None


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

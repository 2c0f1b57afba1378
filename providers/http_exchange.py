"""The steps of one HTTP exchange: a request's bytes, the connection, the response head, a body read to its end.

Law of this room: no model and no stream is known here. Operating system and vendor texts never reach a message;
every failure is a ``ProviderError``, so whoever asks a vendor for anything reports it alike.
"""

from __future__ import annotations

import functools
import re
import ssl
import typing as t
from urllib.parse import urlsplit

from providers import errors
from providers.http_body import MAX_HEAD, Body, FramingError, Head, body_of, parse_head
from providers.http_connection import Address, connect
from providers.http_connection import Connection as Upstream
from providers.spec import HttpRequest, ProviderError, Waits

_BAD_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Stale(Exception):
    """A kept connection turned out to be closed before anything was answered on it."""


@functools.lru_cache(maxsize=256)
def _host_line(host: str) -> str:
    """A host as the Host header spells it; encoding a name costs more than the rest of a request."""
    return (f"[{host}]" if ":" in host else host).encode("idna").decode()


def serialise(http: HttpRequest) -> tuple[Address, bytes]:
    """Where to send a request, and its bytes.

    :raises ProviderError: ``provider_unavailable`` for an address that is none, ``provider_auth`` for a header
        value (a key) that no header may carry.
    """
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
            detail=text_of(error),
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


def open_connection(address: Address, connect_s: float, waits: Waits) -> Upstream:
    """A fresh connection (see ``http_connection.connect``).

    :raises ProviderError: ``provider_unavailable``, with a sentence that says whether it is the certificate.
    """
    try:
        return connect(address, connect_s, waits)
    except ssl.SSLCertVerificationError as error:
        raise errors.failure(
            "provider_unavailable",
            message="The provider's TLS certificate is not trusted. Check its address and the machine's certificates.",
            detail=text_of(error),
        ) from error
    except (OSError, UnicodeError) as error:
        raise errors.failure(
            "provider_unavailable",
            message="The provider cannot be reached. Check its address and that it is running.",
            detail=text_of(error),
        ) from error


def exchange(upstream: Upstream, payload: bytes, waits: Waits) -> tuple[Head, bytes]:
    """Send the request, read the response head; returns it and what came after it.

    :raises Stale: the connection had been used before and nothing was answered on it.
    :raises ProviderError: ``provider_unavailable`` when it breaks, ``provider_bad_stream`` when it is no HTTP.
    """
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
        raise errors.failure("provider_bad_stream", detail=text_of(error)) from error
    except OSError as error:
        if upstream.used and not got:
            raise Stale from error
        raise errors.failure("provider_unavailable", detail=text_of(error)) from error


def refuse_redirect(head: Head) -> None:
    """:raises ProviderError: ``provider_unavailable``, when the answer leads elsewhere: keys are not sent on."""
    if 300 <= head.status < 400:
        raise errors.failure(
            "provider_unavailable",
            message="The provider's address answers with a redirect. Set the base address to where it leads.",
            detail=head.headers.get("location", ""),
        )


def framing(head: Head) -> Body:
    """How the body that follows ``head`` is framed.

    :raises ProviderError: ``provider_bad_stream`` when that cannot be told.
    """
    try:
        return body_of(head)
    except FramingError as error:
        raise errors.failure("provider_bad_stream", detail=text_of(error)) from error


def read_until(
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


def text_of(error: Exception) -> str:
    """An exception in words, for ``detail`` only."""
    return f"{type(error).__name__}: {error}"

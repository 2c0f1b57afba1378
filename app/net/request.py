"""Requests of tools before they are sent: checked, encoded, and as redirects change them.

Law of this room: nothing of a tool's input reaches the wire unchecked; what belongs to the connection is
not the tool's to set, and what tells who asks does not follow to another origin.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlencode, urljoin, urlsplit, urlunsplit

from app import encoding
from plugins.spec.tools import ToolFailed

MAX_BODY = 10 * 1024 * 1024
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: Headers that belong to the connection; a tool may not set them.
_OURS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "upgrade", "te"}
)
#: Headers that say nothing about who asks; only these follow a redirect to another origin.
_IMPERSONAL = frozenset({"accept", "accept-language", "content-type", "user-agent"})


@dataclass(slots=True)
class Request:
    """A request as it is after zero or more redirects. ``private``: headers that stay with its origin, lower case."""

    method: str
    url: SplitResult
    headers: dict[str, str] = field(repr=False)  # any of these may hold a secret
    body: bytes | None
    private: Collection[str] = ()


def make(
    method: str,
    url: str,
    headers: Mapping[str, str],
    query: Mapping[str, t.Any],
    body: t.Any,
    private: Collection[str] = (),
) -> Request:
    """A request as :func:`app.net.client.fetch` was asked for it.

    :raises ToolFailed: the method, url, a header or the body cannot be sent.
    """
    method = method.upper()
    if method not in _METHODS:
        raise ToolFailed(f"the method must be one of {', '.join(sorted(_METHODS))}")
    parts = _parts(url)
    if query:
        more = urlencode([(key, _text(value)) for key, value in _pairs(query)])
        parts = parts._replace(query=f"{parts.query}&{more}" if parts.query else more)
    sent = sendable(headers)
    data = _body(body, sent)
    if data is not None and len(data) > MAX_BODY:
        raise ToolFailed(f"the request body is longer than {MAX_BODY} bytes")
    return Request(method, parts, sent, data, private)


def _parts(url: str) -> SplitResult:
    """A checked http(s) address without its fragment."""
    if any(ord(c) <= 32 or ord(c) == 127 for c in url):
        raise ToolFailed(
            "the url holds spaces or control characters; encode them, e.g. with the urlencode filter"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode()
    except ValueError:
        raise ToolFailed("the url is malformed") from None
    if parts.scheme.lower() not in ("http", "https"):
        raise ToolFailed("the url must begin with http:// or https://")
    if not host or "%" in host:
        raise ToolFailed("the url has no usable host name")
    if parts.username is not None or parts.password is not None:
        raise ToolFailed("the url holds a user name or password; send an Authorization header instead")
    shown = f"[{host}]" if ":" in host else host
    path = _ascii(parts.path) or "/"
    place = shown if port is None else f"{shown}:{port}"
    return SplitResult(parts.scheme.lower(), place, path, _ascii(parts.query), "")


def _ascii(text: str) -> str:
    """``text`` with what is not ASCII percent-encoded, and nothing else changed."""
    if text.isascii():
        return text
    return "".join(
        c if c.isascii() else "".join(f"%{b:02X}" for b in encoding.clean_text(c).encode()) for c in text
    )


def _pairs(query: Mapping[str, t.Any]) -> Iterator[tuple[str, t.Any]]:
    for key, value in query.items():
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if item is not None:
                yield encoding.clean_text(key), item


def _text(value: t.Any) -> str:
    return encoding.clean_text(value) if isinstance(value, str) else encoding.dumps(value).decode()


def sendable(headers: Mapping[str, t.Any]) -> dict[str, str]:
    """Headers as they go out, without those that belong to the connection.

    :raises ToolFailed: one of them cannot be sent; the message names it and not its value.
    """
    sent = {}
    for name, value in headers.items():
        if name.lower() in _OURS:
            continue
        written = _text(value)
        good_name = (
            name.isascii() and bool(name) and not any(c <= " " or c in ':"(),/;<=>?@[\\]{}\x7f' for c in name)
        )
        if not good_name or any(c in "\r\n\0" for c in written):
            raise ToolFailed(f"the header {name[:60]!r} has characters that are not allowed there")
        try:
            written.encode("latin-1")
        except UnicodeEncodeError:
            raise ToolFailed(
                f"the header {name[:60]!r} may hold only Latin-1 characters; encode its value"
            ) from None
        sent[name] = written
    return sent


def _body(body: t.Any, headers: dict[str, str]) -> bytes | None:
    if body is None:
        return None
    names = {name.lower() for name in headers}
    if isinstance(body, (bytes, str)):
        if "content-type" not in names:
            headers["Content-Type"] = "text/plain; charset=utf-8"
        return encoding.clean_text(body).encode() if isinstance(body, str) else body
    if "content-type" not in names:
        headers["Content-Type"] = "application/json"
    return encoding.dumps(body)


def port_of(url: SplitResult) -> int:
    """The port of an address, named or its scheme's own."""
    return url.port or (443 if url.scheme == "https" else 80)


def redirected(request: Request, status: int, target: str) -> Request:
    """The request a redirect of ``request`` leads to, as browsers make it.

    :param target: the ``Location`` header.
    :raises ToolFailed: the address cannot be requested, or leaves https for http.
    """
    url = _parts(
        urljoin(urlunsplit(request.url), target.encode("latin-1", "replace").decode("utf-8", "replace"))
    )
    if request.url.scheme == "https" and url.scheme == "http":
        raise ToolFailed("the server redirects from https to http; use its https address")
    headers, method, body = request.headers, request.method, request.body
    if (url.scheme, url.hostname, port_of(url)) != (
        request.url.scheme,
        request.url.hostname,
        port_of(request.url),
    ):
        follow = _IMPERSONAL.difference(request.private)
        headers = {name: value for name, value in headers.items() if name.lower() in follow}
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", None
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
    return Request(method, url, headers, body, request.private)

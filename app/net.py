"""Outbound HTTP of tools, and the guard that keeps it out of private networks.

Law of this room: an address is resolved once, judged, and then that very address is connected to, so a
name cannot change its mind in between; every redirect is judged anew. Private, loopback, link-local and
other special addresses are refused unless the operator allows their network (``STUDIO_HTTP_ALLOW``).
Every blocking step is inside ``waits.wait()`` and the connection is closed however it ends.
"""

from __future__ import annotations

import codecs
import contextlib
import ipaddress
import re
import socket
import ssl
import time
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlencode, urljoin, urlsplit, urlunsplit

import urllib3
from gevent import get_hub
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from app import encoding
from plugins.spec.tools import ToolFailed
from providers.spec import Waits

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_BYTES = 2 * 1024 * 1024
MAX_REDIRECTS = 5
MAX_BODY = 10 * 1024 * 1024
_CHUNK = 64 * 1024
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: Headers that belong to the connection; a tool may not set them.
_OURS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "upgrade", "te"}
)
#: Headers that say nothing about who asks; only these follow a redirect to another origin.
_IMPERSONAL = frozenset({"accept", "accept-language", "content-type", "user-agent"})
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_AGENT = "studio"
_CHARSET = re.compile(r"utf-(8|16|32)|ascii|iso8859|cp\d|koi8|gb|big5|euc|shift_jis|iso2022|mac|tis")


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """An answer. Header names are lower case; of repeated ones the values are joined by ``, ``."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(slots=True)
class _Request:
    """A request as it is after zero or more redirects."""

    method: str
    url: SplitResult
    headers: dict[str, str]
    body: bytes | None


@dataclass(slots=True)
class _Call:
    """What stays the same over redirects. ``until`` is a monotonic instant in seconds."""

    waits: Waits
    allow: Sequence[Network]
    max_bytes: int
    timeout_s: float
    until: float = 0.0
    expired: bool = False
    sockets: list[socket.socket] = field(default_factory=list)

    def left(self) -> float:
        """Seconds until the deadline.

        :raises ToolFailed: there are none.
        """
        left = self.until - time.monotonic()
        if left <= 0 or self.expired:
            raise self.too_late()
        return left

    def too_late(self) -> ToolFailed:
        """The failure of a call that took too long."""
        return ToolFailed(f"no complete answer within {self.timeout_s:g} s; raise timeout_s or try again")


def fetch(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, t.Any] | None = None,
    body: t.Any = None,
    timeout_s: float = 30.0,
    waits: Waits,
    allow: Sequence[Network] = (),
    max_bytes: int = MAX_BYTES,
) -> FetchResponse:
    """Make one HTTP request and follow its redirects. Any status is an answer, not a failure.

    :param query: added to the query of ``url``; a list gives its key several times, null none.
    :param body: bytes and text are sent as they are, None sends nothing, anything else goes as JSON.
    :param timeout_s: for everything together, redirects included.
    :param waits: guards the blocking steps; cancellation closes the connection.
    :param allow: networks that may be reached although they are not public.
    :param max_bytes: longest answer; a longer one is refused, not cut.
    :raises ToolFailed: the address is refused or wrong, the connection failed, the answer is too long, too late
        or compressed. The message names the cure and never a header's value.
    """
    request = _request(method, url, headers or {}, query or {}, body)
    call = _Call(waits, allow, max_bytes, timeout_s, time.monotonic() + timeout_s)
    timer = get_hub().loop.timer(max(timeout_s, 0.001))
    timer.start(_expire, call)
    try:
        for _ in range(MAX_REDIRECTS + 1):
            answer = _exchange(request, call)
            if isinstance(answer, FetchResponse):
                return answer
            request = answer
        raise ToolFailed(f"the server redirects more than {MAX_REDIRECTS} times; use the final address")
    finally:
        timer.stop()
        timer.close()
        for sock in call.sockets:
            sock.close()


def _expire(call: _Call) -> None:
    """Hub callback: wake a read that would wait beyond the deadline, by ending its connection."""
    call.expired = True
    for sock in call.sockets:
        with contextlib.suppress(OSError):  # closed by now, or handed over to its TLS layer
            sock.shutdown(socket.SHUT_RDWR)


# -- the request --------------------------------------------------------------------------------


def _request(
    method: str, url: str, headers: Mapping[str, str], query: Mapping[str, t.Any], body: t.Any
) -> _Request:
    method = method.upper()
    if method not in _METHODS:
        raise ToolFailed(f"the method must be one of {', '.join(sorted(_METHODS))}")
    parts = _parts(url)
    if query:
        more = urlencode([(key, _text(value)) for key, value in _pairs(query)])
        parts = parts._replace(query=f"{parts.query}&{more}" if parts.query else more)
    sent = _headers(headers)
    data = _body(body, sent)
    if data is not None and len(data) > MAX_BODY:
        raise ToolFailed(f"the request body is longer than {MAX_BODY} bytes")
    return _Request(method, parts, sent, data)


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


def _pairs(query: Mapping[str, t.Any]) -> t.Iterator[tuple[str, t.Any]]:
    for key, value in query.items():
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if item is not None:
                yield encoding.clean_text(key), item


def _text(value: t.Any) -> str:
    return encoding.clean_text(value) if isinstance(value, str) else encoding.dumps(value).decode()


def _headers(headers: Mapping[str, t.Any]) -> dict[str, str]:
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


# -- addresses ----------------------------------------------------------------------------------


def refused(address: Address, allow: Sequence[Network] = ()) -> bool:
    """Whether tools may not reach ``address``: everything that is not public, unless a network of ``allow`` has it.

    An IPv4 address inside an IPv6 one (mapped, 6to4, Teredo, NAT64) is judged as itself.
    """
    inner = _embedded(address)
    if inner is not None:
        return refused(inner, allow)
    if any(address in network for network in allow if network.version == address.version):
        return False
    special = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_link_local
    site_local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    return not address.is_global or special or site_local


def _embedded(address: Address) -> ipaddress.IPv4Address | None:
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _address_of(url: SplitResult, call: _Call) -> str:
    """The address to connect to: the first of the host's that may be reached.

    :raises ToolFailed: the name does not resolve, or to nothing that may be reached.
    """
    host = url.hostname or ""
    try:
        with call.waits.wait():
            found = socket.getaddrinfo(host, _port(url), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ToolFailed(f"the host {host[:253]} is not known; check the url") from None
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    for address in addresses:
        if not refused(address, call.allow):
            return str(address)
    raise ToolFailed(
        f"the host {host[:253]} is not on the public internet; private addresses are refused unless "
        "STUDIO_HTTP_ALLOW names their network"
    )


def _port(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


# -- the exchange -------------------------------------------------------------------------------


def _exchange(request: _Request, call: _Call) -> FetchResponse | _Request:
    """One request and its answer, or the request a redirect leads to."""
    address = _address_of(request.url, call)
    pool = _pool(request.url, address, call)
    answer: t.Any = None
    try:
        with call.waits.wait():
            answer = pool.urlopen(
                request.method,
                urlunsplit(("", "", request.url.path, request.url.query, "")),
                body=request.body,
                headers=_sent(request),
                redirect=False,
                retries=False,
                assert_same_host=False,
                preload_content=False,
                decode_content=False,
            )
        call.left()
        target = answer.headers.get("Location") if answer.status in (301, 302, 303, 307, 308) else None
        if target:
            return _redirected(request, answer.status, target)
        return _answer(answer, call)
    except (HTTPError, OSError, ValueError) as error:
        if call.expired:
            raise call.too_late() from None
        raise ToolFailed(_reason(error, request.url)) from None
    finally:
        if answer is not None:
            answer.close()  # one that was not read to its end still holds the connection
        pool.close()


class _Plain(HTTPConnection):
    """A connection whose sockets the deadline can end."""

    def __init__(self, *args: t.Any, call: _Call, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        self._call = call

    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        self._call.sockets.append(sock)
        return sock


class _Secure(HTTPSConnection):
    """The same over TLS: the socket before the handshake, and the one after it."""

    def __init__(self, *args: t.Any, call: _Call, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        self._call = call

    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        self._call.sockets.append(sock)
        return sock

    def connect(self) -> None:
        """See urllib3."""
        super().connect()
        if isinstance(self.sock, socket.socket):
            self._call.sockets.append(self.sock)


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _Secure


def _pool(url: SplitResult, address: str, call: _Call) -> HTTPConnectionPool:
    """A pool of one connection to ``address`` that speaks to the server as ``url.hostname``."""
    seconds = call.left()
    timeout = urllib3.Timeout(connect=min(10.0, seconds), read=seconds)
    if url.scheme == "http":
        return _PlainPool(address, _port(url), timeout=timeout, maxsize=1, call=call)
    host = url.hostname or ""
    return _SecurePool(
        address,
        _port(url),
        timeout=timeout,
        maxsize=1,
        call=call,
        ssl_context=ssl.create_default_context(),
        server_hostname=host,
        assert_hostname=host,
    )


def _sent(request: _Request) -> dict[str, str]:
    names = {name.lower() for name in request.headers}
    sent = {"Host": request.url.netloc, "Accept-Encoding": "identity", "Connection": "close"}
    if "user-agent" not in names:
        sent["User-Agent"] = _AGENT
    return {**sent, **request.headers}


def _redirected(request: _Request, status: int, target: str) -> _Request:
    url = _parts(
        urljoin(urlunsplit(request.url), target.encode("latin-1", "replace").decode("utf-8", "replace"))
    )
    if request.url.scheme == "https" and url.scheme == "http":
        raise ToolFailed("the server redirects from https to http; use its https address")
    headers, method, body = request.headers, request.method, request.body
    if (url.scheme, url.hostname, _port(url)) != (
        request.url.scheme,
        request.url.hostname,
        _port(request.url),
    ):
        headers = {name: value for name, value in headers.items() if name.lower() in _IMPERSONAL}
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", None
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
    return _Request(method, url, headers, body)


def _answer(answer: t.Any, call: _Call) -> FetchResponse:
    coding = (answer.headers.get("Content-Encoding") or "identity").strip().lower()
    if coding != "identity":
        raise ToolFailed(f"the answer is compressed ({coding[:20]}) although that was declined")
    headers = {name.lower(): value for name, value in answer.headers.items()}
    raw = _read(answer, call)
    return FetchResponse(answer.status, headers, raw.decode(_charset(headers), "replace"))


def _read(answer: t.Any, call: _Call) -> bytes:
    too_long = ToolFailed(f"the answer is longer than {call.max_bytes} bytes; ask the server for less")
    declared = answer.headers.get("Content-Length", "")
    if declared.isdecimal() and int(declared[:18]) > call.max_bytes:
        raise too_long
    chunks: list[bytes] = []
    size = 0
    while True:
        call.left()
        with call.waits.wait():
            chunk = answer.read1(_CHUNK)
        if not chunk:
            call.left()  # a connection that ends because of the deadline looks like a complete answer
            return b"".join(chunks)
        size += len(chunk)
        if size > call.max_bytes:
            raise too_long
        chunks.append(chunk)


def _charset(headers: Mapping[str, str]) -> str:
    for part in headers.get("content-type", "").split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            try:
                known = codecs.lookup(value.strip().strip('"')).name
            except (LookupError, ValueError):
                break
            # Python's other codecs are no charsets, and some take quadratic time.
            return known if _CHARSET.match(known) else "utf-8"
    return "utf-8"


def _reason(error: Exception, url: SplitResult) -> str:
    where = url.netloc[:253]
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return f"{where} refuses connections; check the url and whether the server runs"
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return f"{where} does not accept connections in time; try again"
    if isinstance(error, (urllib3.exceptions.ReadTimeoutError, TimeoutError)):
        return f"{where} did not answer in time; raise timeout_s or try again"
    if isinstance(error, (urllib3.exceptions.SSLError, ssl.SSLError)):
        return f"{where} has no certificate that can be trusted; check the url"
    return f"the exchange with {where} broke off ({type(error).__name__}); try again"

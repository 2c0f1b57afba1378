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
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlunsplit

import urllib3
from gevent import get_hub
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from app.net.guard import Network, refused
from app.net.request import Request, make, port_of, redirected
from plugins.spec.tools import ToolFailed
from providers.spec import Waits

MAX_BYTES = 2 * 1024 * 1024
MAX_REDIRECTS = 5
#: Takes secrets out of a text.
Mask = Callable[[str], str]
_CHUNK = 64 * 1024
_AGENT = "studio"
_CHARSET = re.compile(r"utf-(8|16|32)|ascii|iso8859|cp\d|koi8|gb|big5|euc|shift_jis|iso2022|mac|tis")


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """An answer. Header names are lower case; of repeated ones the values are joined by ``, ``."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text, by the charset its headers name."""
        return self.body.decode(_charset(self.headers), "replace")


@dataclass(slots=True)
class _Call:
    """What stays the same over redirects. ``until`` is a monotonic instant in seconds."""

    waits: Waits
    allow: Sequence[Network]
    max_bytes: int
    timeout_s: float
    mask: Mask
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
    redirects: int = MAX_REDIRECTS,
    private: Collection[str] = (),
    mask: Mask = str,
) -> FetchResponse:
    """Make one HTTP request and follow its redirects. Any status is an answer, not a failure.

    :param query: added to the query of ``url``; a list gives its key several times, null none.
    :param body: bytes and text are sent as they are, None sends nothing, anything else goes as JSON.
    :param timeout_s: for everything together, redirects included.
    :param waits: guards the blocking steps; cancellation closes the connection.
    :param allow: networks that may be reached although they are not public.
    :param max_bytes: longest answer; a longer one is refused, not cut.
    :param redirects: most that are followed; one more is a failure.
    :param private: names of headers, lower case, that no other origin is sent.
    :param mask: takes secrets out of what the server said, before a failure repeats a part of it.
    :raises ToolFailed: the address is refused or wrong, the connection failed, the answer is too long, too late
        or compressed. The message names the cure and never a header's value.
    """
    request = make(method, url, headers or {}, query or {}, body, private)
    call = _Call(waits, allow, max_bytes, timeout_s, mask, time.monotonic() + timeout_s)
    timer = get_hub().loop.timer(max(timeout_s, 0.001))
    timer.start(_expire, call)
    try:
        return _followed(request, call, redirects)
    finally:
        timer.stop()
        timer.close()
        for sock in call.sockets:
            sock.close()


def _followed(request: Request, call: _Call, redirects: int) -> FetchResponse:
    for _ in range(redirects + 1):
        answer = _exchange(request, call)
        if isinstance(answer, FetchResponse):
            return answer
        request = answer
    raise ToolFailed(f"the server redirects more than {redirects} times; use the final address")


def _expire(call: _Call) -> None:
    """Hub callback: wake a read that would wait beyond the deadline, by ending its connection."""
    call.expired = True
    for sock in call.sockets:
        with contextlib.suppress(OSError):  # closed by now, or handed over to its TLS layer
            sock.shutdown(socket.SHUT_RDWR)


def _address_of(url: SplitResult, call: _Call) -> str:
    """The address to connect to: the first of the host's that may be reached.

    :raises ToolFailed: the name does not resolve, or to nothing that may be reached.
    """
    host = url.hostname or ""
    shown = call.mask(host)[:253]
    try:
        with call.waits.wait():
            found = socket.getaddrinfo(host, port_of(url), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ToolFailed(f"the host {shown} is not known; check the url") from None
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    for address in addresses:
        if not refused(address, call.allow):
            return str(address)
    raise ToolFailed(
        f"the host {shown} is not on the public internet; private addresses are refused unless "
        "STUDIO_HTTP_ALLOW names their network"
    )


# -- the exchange -------------------------------------------------------------------------------


def _exchange(request: Request, call: _Call) -> FetchResponse | Request:
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
            return redirected(request, answer.status, target)
        return _answer(answer, call)
    except (HTTPError, OSError, ValueError) as error:
        if call.expired:
            raise call.too_late() from None
        raise ToolFailed(_reason(error, call.mask(request.url.netloc)[:253])) from None
    finally:
        if answer is not None:
            answer.close()  # one that was not read to its end still holds the connection
        pool.close()


def _dial(connection: HTTPConnection) -> socket.socket:
    """A socket that is connected to the address, which is known: urllib3 closes one whose connect failed, and not one
    whose connect was stopped.
    """
    host = connection.host.strip("[]")
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        for option in connection.socket_options or ():
            sock.setsockopt(*option)
        sock.settimeout(connection.timeout)
        sock.connect((host, connection.port))
    except TimeoutError as error:
        sock.close()
        raise ConnectTimeoutError(connection, "The connection was not accepted in time.") from error
    except OSError as error:
        sock.close()
        raise NewConnectionError(connection, f"The connection failed: {error}") from error
    except BaseException:
        sock.close()
        raise
    return sock


class _Plain(HTTPConnection):
    """A connection whose sockets the deadline can end."""

    def __init__(self, *args: t.Any, call: _Call, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        self._call = call

    def _new_conn(self) -> socket.socket:
        sock = _dial(self)
        self._call.sockets.append(sock)
        return sock


class _Secure(HTTPSConnection):
    """The same over TLS: the socket before the handshake, and the one after it."""

    def __init__(self, *args: t.Any, call: _Call, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        self._call = call

    def _new_conn(self) -> socket.socket:
        sock = _dial(self)
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
        return _PlainPool(address, port_of(url), timeout=timeout, maxsize=1, call=call)
    host = url.hostname or ""
    return _SecurePool(
        address,
        port_of(url),
        timeout=timeout,
        maxsize=1,
        call=call,
        ssl_context=ssl.create_default_context(),
        server_hostname=host,
        assert_hostname=host,
    )


def _sent(request: Request) -> dict[str, str]:
    names = {name.lower() for name in request.headers}
    sent = {"Host": request.url.netloc, "Accept-Encoding": "identity", "Connection": "close"}
    if "user-agent" not in names:
        sent["User-Agent"] = _AGENT
    return {**sent, **request.headers}


def _answer(answer: t.Any, call: _Call) -> FetchResponse:
    coding = (answer.headers.get("Content-Encoding") or "identity").strip().lower()
    if coding != "identity":
        raise ToolFailed(f"the answer is compressed ({call.mask(coding)[:20]}) although that was declined")
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return FetchResponse(answer.status, headers, _read(answer, call))


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


def _reason(error: Exception, where: str) -> str:
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return f"{where} refuses connections; check the url and whether the server runs"
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return f"{where} does not accept connections in time; try again"
    if isinstance(error, (urllib3.exceptions.ReadTimeoutError, TimeoutError)):
        return f"{where} did not answer in time; raise timeout_s or try again"
    if isinstance(error, (urllib3.exceptions.SSLError, ssl.SSLError)):
        return f"{where} has no certificate that can be trusted; check the url"
    return f"the exchange with {where} broke off ({type(error).__name__}); try again"

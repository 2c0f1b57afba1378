"""Upstream connections: raw sockets on the hub, kept open between calls.

Law of this room: every step that may block waits for readiness inside ``waits.wait()`` and nowhere
else, so a run can be cancelled there and only there; a read is tried only after the wait (asking
first, failing and then waiting costs a third more). A connection is offered again only after a clean
end, is looked at before it is used again, and is closed on any other end.
"""

from __future__ import annotations

import socket as _socket
import ssl
import time
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager

import gevent
import gevent.socket
from gevent.monkey import get_original

from providers.http_body import Body
from providers.spec import ProviderError, Waits

READ_SIZE = 65536
#: How many idle connections are kept per address, and how long, in seconds.
MAX_IDLE = 256
IDLE_SECONDS = 30.0
#: How often idle connections are looked at, in seconds.
SWEEP_SECONDS = 5.0

_READABLE, _WRITABLE = 1, 2

Address = tuple[str, str, int]


class Connection:
    """One connected socket, in the clear or under TLS. ``used``: it served a call before."""

    def __init__(self, address: Address, sock: _socket.socket) -> None:
        self.address = address
        self.used = False
        self.rest: Body | None = None
        self.idle_since = 0.0
        self.hub = gevent.get_hub()
        self.readable = self.hub.loop.io(sock.fileno(), _READABLE)
        self._sock = sock
        self._tls: Tls | None = None

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._sock.fileno() < 0

    def start_tls(self, host: str, waits: Waits) -> None:
        """Shake hands and check the certificate against ``host``.

        :raises OSError: the peer is not who it should be, or gave up.
        """
        self._tls = tls = Tls(host)
        while not tls.shake():
            self.send(b"", waits)
            data = self.wait_and_read(waits, encrypted=True)
            tls.take(data)
        self.send(b"", waits)

    def send(self, data: bytes, waits: Waits) -> None:
        """Send all of ``data``, in one call unless the kernel's buffer is full; each piece taken is progress.

        :raises OSError: the connection is gone.
        """
        if self._tls is not None:
            data = self._tls.seal(data)
        if not data:
            return
        view = memoryview(data)
        view = view[self._send_some(view) :]
        if not view:
            return
        writable = self.hub.loop.io(self._sock.fileno(), _WRITABLE)
        try:
            while view:
                with waits.wait():
                    self.hub.wait(writable)
                if sent := self._send_some(view):
                    waits.progress()
                    view = view[sent:]
        finally:
            writable.stop()
            writable.close()

    def _send_some(self, view: memoryview) -> int:
        try:
            return self._sock.send(view)
        except BlockingIOError:
            return 0

    def wait_and_read(self, waits: Waits, *, encrypted: bool = False) -> bytes | None:
        """Wait until something came and read it: b"" at the peer's end, None when it was nothing for us yet.

        :raises OSError: the connection is gone.
        """
        with waits.wait():
            self.hub.wait(self.readable)
        return self.read_now(encrypted=encrypted)

    def read_now(self, *, encrypted: bool = False) -> bytes | None:
        """What is there at this moment (see :meth:`wait_and_read`)."""
        try:
            data = self._sock.recv(READ_SIZE)
        except BlockingIOError:
            return None
        if self._tls is None or encrypted:
            return data
        plain = self._tls.open(data)
        answer = self._tls.pending()
        if answer:  # a key update wants an answer; it is tiny, and lost is no worse than late
            self._send_some(memoryview(answer))
        return plain

    def close(self) -> None:
        """Close at once. Safe to call again."""
        if not self.closed:
            self.readable.stop()
            self.readable.close()
            self._sock.close()


class Tls:
    """TLS without a socket: sealed bytes in and out. Nothing decrypted is ever left inside unread."""

    #: Made when first needed (it reads the machine's certificates), then shared.
    context: t.ClassVar[ssl.SSLContext | None] = None

    def __init__(self, host: str) -> None:
        cls = type(self)
        if cls.context is None:
            cls.context = ssl.create_default_context()
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = cls.context.wrap_bio(self._in, self._out, server_hostname=host)

    def shake(self) -> bool:
        """Go on with the handshake; whether it is done."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def take(self, sealed: bytes | None) -> None:
        """Sealed bytes from the peer; b"" is its end."""
        if sealed:
            self._in.write(sealed)
        elif sealed is not None:
            self._in.write_eof()

    def seal(self, data: bytes) -> bytes:
        """``data`` sealed, with whatever else has to be sent."""
        if data:
            self._object.write(data)
        return self._out.read()

    def pending(self) -> bytes:
        """What has to be sent without being asked."""
        return self._out.read() if self._out.pending else b""

    def open(self, sealed: bytes) -> bytes | None:
        """All that ``sealed`` makes readable; None when that is nothing yet, b"" at the end."""
        self.take(sealed)
        parts: list[bytes] = []
        try:
            while part := self._object.read(READ_SIZE):
                parts.append(part)
        except ssl.SSLWantReadError:
            return b"".join(parts) if parts else None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            pass
        return b"".join(parts)


class Pool:
    """Idle connections per address, newest first; a timer closes those that grew old or that the peer closed."""

    def __init__(self) -> None:
        self._idle: dict[tuple[object, Address], list[Connection]] = {}
        self._timers: dict[object, t.Any] = {}

    def take(self, address: Address) -> Connection | None:
        """A connection that is still good, or None."""
        idle = self._idle.get((gevent.get_hub(), address), [])
        while idle:
            connection = idle.pop()
            if _still_good(connection):
                connection.rest = None
                return connection
            connection.close()
        return None

    def give(self, connection: Connection, rest: Body) -> None:
        """Offer a connection again. ``rest`` frames what the ended response may still have to send."""
        hub = connection.hub
        idle = self._idle.setdefault((hub, connection.address), [])
        connection.used, connection.rest, connection.idle_since = True, rest, hub.loop.now()
        if len(idle) >= MAX_IDLE:
            idle.pop(0).close()
        idle.append(connection)
        if hub not in self._timers:
            self._timers[hub] = timer = hub.loop.timer(SWEEP_SECONDS, SWEEP_SECONDS, ref=False)
            timer.start(self._sweep, hub)

    def close(self) -> None:
        """Close everything that is idle."""
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()
        for timer in self._timers.values():
            timer.stop()
            timer.close()
        self._timers.clear()

    def _sweep(self, hub: t.Any) -> None:
        """On the hub, where nobody else runs."""
        for key in [key for key in self._idle if key[0] is hub]:
            kept = []
            for connection in self._idle[key]:
                if _still_good(connection):
                    kept.append(connection)
                else:
                    connection.close()
            self._idle[key] = kept
            if not kept:
                del self._idle[key]
        if not any(key[0] is hub for key in self._idle):
            timer = self._timers.pop(hub)
            timer.stop()
            timer.close()


POOL = Pool()


def _still_good(connection: Connection) -> bool:
    """Look before use: read what came meanwhile. Only the rest of the last response may have, and all of it must."""
    rest = connection.rest
    if connection.hub.loop.now() - connection.idle_since >= IDLE_SECONDS:
        return False
    try:
        while (data := connection.read_now()) is not None:
            if not data or rest is None or rest.complete or rest.broken:
                return False
            rest.feed(data)
    except OSError:
        return False
    return rest is not None and rest.complete and not rest.excess


def connect(address: Address, connect_s: float, waits: Waits) -> Connection:
    """A fresh connection; name lookup, TCP and TLS together may take ``connect_s`` seconds.

    :raises OSError: nobody answers there.
    :raises TimeoutError: not in time.
    """
    _, host, port = address
    deadline = time.monotonic() + connect_s
    with _within(connect_s, waits):
        targets = _lookup(host, port, waits)
    last = OSError("the name has no address")
    for tried, (family, target) in enumerate(targets):
        # An address that swallows packets may not use up the time of those after it.
        share = max(deadline - time.monotonic(), 0.001) / (len(targets) - tried)
        try:
            with _within(share, waits):
                return _open(address, family, target, waits)
        except ssl.SSLError:
            raise
        except OSError as error:
            last = error
    raise last


def _open(address: Address, family: int, target: t.Any, waits: Waits) -> Connection:
    sock = _new_socket(family)
    try:
        _connect_socket(sock, target, waits)
    except BaseException:
        sock.close()
        raise
    connection = Connection(address, sock)
    try:
        if address[0] == "https":
            connection.start_tls(address[1], waits)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _within(seconds: float, waits: Waits) -> Iterator[None]:
    """The idle limit of whoever drives us, used as a limit for connecting."""
    try:
        with waits.idle_limit(seconds):
            yield
    except ProviderError as error:
        if error.code == "provider_idle":
            raise TimeoutError(f"no connection within {seconds:g} s") from error
        raise


def _lookup(host: str, port: int, waits: Waits) -> list[tuple[int, t.Any]]:
    kind = _socket.SOCK_STREAM
    try:  # a numeric address needs no lookup, and so no thread
        found = get_original("socket", "getaddrinfo")(host, port, 0, kind, 0, _socket.AI_NUMERICHOST)
    except _socket.gaierror:
        with waits.wait():
            found = gevent.socket.getaddrinfo(host, port, 0, kind)
    return [(entry[0], entry[4]) for entry in found]


def _new_socket(family: int) -> _socket.socket:
    sock: _socket.socket = get_original("socket", "socket")(family, _socket.SOCK_STREAM)
    sock.setblocking(False)
    sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
    return sock


def _connect_socket(sock: _socket.socket, target: t.Any, waits: Waits) -> None:
    try:
        sock.connect(target)
        return
    except BlockingIOError:
        pass
    hub = gevent.get_hub()
    writable = hub.loop.io(sock.fileno(), _WRITABLE)
    try:
        with waits.wait():
            hub.wait(writable)
    finally:
        writable.stop()
        writable.close()
    code = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
    if code:
        raise OSError(code, "connection failed")

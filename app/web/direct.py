"""The back end that writes to the client's socket itself: WSGI middleware outside Flask.

Law of this room: it takes a socket only from our own worker, for HTTP/1.1, and only a plain one; everything
else goes the iterator's way with equal bytes. It sends Flask's own status and headers, then one raw
non-blocking send per batch. The request's greenlet ends at once and its environment is let go.
"""

from __future__ import annotations

import _socket
import functools
import socket
import time
import typing as t
from collections.abc import Callable, Iterable, Sequence
from email.utils import formatdate

from flask import Flask
from gevent import get_hub
from gevent.socket import socket as gevent_socket

from app.web import mailer
from app.web.accesslog import AccessLine
from app.web.held import held
from app.web.streaming import ENVIRON_KEY, Source, service
from app.web.subscriber import HIGH_WATER
from app.web.sweep import LINGER_S, Reader, StreamService
from app.web.watch import Handle, shared

#: Where :class:`app.web.worker.StudioWorker` stands in the WSGI environment.
WORKER_KEY = "studio.worker"

#: Seconds that streams of runs elsewhere get once a worker's own runs have ended: with a whole server that stops
#: they end in that time, and else they are for their readers to attach to again.
RELAYED_S = 2.0

#: Seconds in which spans that were not sent yet are sent; a receiver that does not take them holds up no stop.
FLUSH_S = 3.0

_WRITE = 2
_PIECE = 64 * 1024
_DISCARD_READS = 16
#: Headers that belong to the connection: ours, not the application's.
_CONNECTION = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive", "server", "date"})

Headers = Sequence[tuple[str, str]]


class StreamMiddleware:
    """Wrap the Flask application in this, outermost.

    :ivar app: the wrapped application.
    :ivar warm_up: called by the worker once, before it is ready and its memory is frozen.
    :ivar listen: makes the socket on which the worker also serves other processes of this host.
    """

    def __init__(
        self,
        app: Flask,
        warm_up: Callable[[], None] | None = None,
        listen: Callable[[], t.Any] | None = None,
    ) -> None:
        self.app = app
        self.warm_up = warm_up
        self.listen = listen

    def drain(self, seconds: float) -> None:
        """Take no new runs, end those that live, and return when their streams are with their clients, the e-mails
        that wait are sent and the store is flushed, or when ``seconds`` are over. The worker asks for it before it
        leaves.
        """
        services = self.app.extensions["studio"]
        until = get_hub().loop.now() + seconds
        held(self.app).close()
        services.runs.drain(max(0.0, seconds - LINGER_S))
        streams = service(self.app)
        if not streams.wait_empty(min(RELAYED_S, _left(until))):
            streams.cut_relayed()
        if not streams.wait_empty(_left(until)):
            streams.cut_all()
        mailer.drain(self.app, _left(until))
        services.runs.close()
        services.mcp.close()
        services.observing.close(min(FLUSH_S, _left(until)))
        services.store.close()

    def __call__(self, environ: dict[str, t.Any], start_response: Callable[..., t.Any]) -> Iterable[bytes]:
        """Answer one request; a stream that may take its socket leaves the server here."""
        head: list[t.Any] = []

        def capture(status: str, headers: Headers, exc_info: t.Any = None) -> t.Any:
            if ENVIRON_KEY in environ and _is_stream(headers):
                head[:] = status, headers
                return None
            return start_response(status, headers, exc_info)

        body: Iterable[bytes] = self.app(environ, capture)
        stream: Source | None = environ.pop(ENVIRON_KEY, None)
        if stream is None or not head:
            if stream is not None:
                stream.forgo()
            return body
        status, headers = head
        if not (stream.direct and _may_take(environ)):
            start_response(status, headers)
            return body
        return _take(environ, stream, status, headers, body)


def _left(until: float) -> float:
    """Seconds until a time of the hub's."""
    loop = get_hub().loop
    loop.update_now()
    return float(max(0.0, until - loop.now()))


def _is_stream(headers: Headers) -> bool:
    # A hook may have replaced the stream by an error after the view returned it.
    return any(
        name.lower() == "content-type" and value.startswith("text/event-stream") for name, value in headers
    )


def _may_take(environ: dict[str, t.Any]) -> bool:
    """Ours to write to: our worker, HTTP/1.1, a body, no TLS and no HTTP/2 (whose socket is set here too)."""
    return (
        WORKER_KEY in environ
        and environ["SERVER_PROTOCOL"] == "HTTP/1.1"
        and environ["REQUEST_METHOD"] != "HEAD"
        and environ.get("HTTP_VERSION") != "2"
        and type(environ.get("gunicorn.socket")) is gevent_socket
    )


def _take(
    environ: dict[str, t.Any], stream: Source, status: str, headers: Headers, body: t.Any
) -> Iterable[bytes]:
    worker = environ[WORKER_KEY]
    transport = SocketTransport(_head(environ, status, headers), stream.service)
    # Nothing switches before the socket is ours, and nothing is sent when starting fails.
    reader = stream.begin(transport)
    transport.log = AccessLine.of(worker.log, environ, status, headers)
    sock = environ["gunicorn.socket"]
    raw = _socket.socket(sock.family, sock.type, sock.proto, fileno=sock.detach())
    transport.open(raw, reader)
    body.close()
    environ.clear()
    return t.cast("Iterable[bytes]", worker.handled)


@functools.lru_cache(maxsize=4)
def _date(second: int) -> str:
    """An epoch second as the Date header spells it (RFC 9110, 5.6.7); made once a second."""
    return formatdate(second, usegmt=True)


def _head(environ: dict[str, t.Any], status: str, headers: Headers) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        f"Server: {environ.get('SERVER_SOFTWARE', 'studio').partition('/')[0]}",
        f"Date: {_date(time.time_ns() // 1_000_000_000)}",
        "Connection: close",
        "Transfer-Encoding: chunked",
    ]
    lines += [f"{name}: {value}" for name, value in headers if name.lower() not in _CONNECTION]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class SocketTransport:
    """Writes chunks to a raw socket; what the client does not take is sent when the hub says it will.

    :ivar log: writes the access line when the connection is over.
    """

    __slots__ = (
        "_buffer",
        "_last",
        "_service",
        "_sock",
        "_watch",
        "_writer",
        "_writing",
        "log",
        "pending",
        "progressed",
        "reader",
        "sent",
    )

    def __init__(self, head: bytes, service: StreamService) -> None:
        self.reader: Reader | None = None
        self.log: AccessLine | None = None
        self.progressed = False
        self.sent = 0
        self.pending = len(head)
        self._buffer = bytearray(head)
        self._last = False
        self._service = service
        self._sock: _socket.socket | None = None
        self._watch: Handle | None = None
        self._writer: t.Any = None
        self._writing = False

    def open(self, sock: _socket.socket, reader: Reader) -> None:
        """Own ``sock`` from now on, and send the head with whatever already waits."""
        sock.setblocking(False)
        # The kernel would take megabytes before a slow reader is felt.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, HIGH_WATER)
        self._sock = sock
        self._watch = shared().watch(sock.fileno(), reader.lost)
        if reader.closed:
            self.close()
        else:
            self._drain()

    # -- from the subscriber -----------------------------------------------------------------

    def write(self, data: bytes, last: bool) -> None:
        """See :class:`app.web.subscriber.Transport`."""
        size = len(data)
        self.sent += size
        payload = b"%x\r\n%b\r\n" % (size, data)
        if last:  # of nothing: an empty chunk is the end already
            payload = payload + b"0\r\n\r\n" if size else b"0\r\n\r\n"
        sock = self._sock
        self._last = last
        if self._buffer or sock is None:
            self._keep(payload)
            return
        try:
            taken = sock.send(payload)
        except BlockingIOError:
            taken = 0
        except OSError:
            self._gone()
            return
        if taken != len(payload):
            self._keep(payload[taken:])
        elif last:
            self._finish()

    def abort(self) -> None:
        """See :class:`app.web.subscriber.Transport`."""
        self._buffer.clear()
        self.pending = 0
        self.close()

    def close(self) -> None:
        """Close the socket, after reading what the client sent: unread bytes turn a close into a reset."""
        sock, self._sock = self._sock, None
        if sock is None:
            return
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        if self._writer is not None:
            self._writer.stop()
            self._writer.close()
        self.reader = None
        try:
            for _ in range(_DISCARD_READS):
                if not sock.recv(_PIECE):
                    break
        except OSError:
            pass
        sock.close()
        self._service.closed(self)
        if self.log is not None:
            self.log.write(self.sent)
            self.log = None

    # -- the slow path -----------------------------------------------------------------------

    def _keep(self, payload: bytes) -> None:
        self._buffer += payload
        self.pending = len(self._buffer)
        if self._sock is not None and not self._writing:
            if self._writer is None:
                self._writer = get_hub().loop.io(self._sock.fileno(), _WRITE)
            self._writing = True
            self._writer.start(self._drain)

    def _drain(self) -> None:
        """Runs on the hub whenever the client takes bytes again."""
        sock, buffer = self._sock, self._buffer
        if sock is None:
            return
        try:
            while buffer:
                taken = sock.send(bytes(buffer[:_PIECE]))
                del buffer[:taken]
                self.progressed = True
        except BlockingIOError:
            pass
        except OSError:
            self._gone()
            return
        self.pending = len(buffer)
        if buffer:
            self._keep(b"")
            return
        if self._writing:
            self._writing = False
            self._writer.stop()
        self._relieve()

    def _relieve(self) -> None:
        if self._last:
            self._finish()
        elif self.reader is not None:
            self.reader.relieved()

    def _gone(self) -> None:
        if self.reader is not None:
            self.reader.lost()

    def _finish(self) -> None:
        """The kernel has the whole body: half-close and let the client close, or the tail could be lost."""
        sock, reader = self._sock, self.reader
        if sock is None or reader is None:
            return
        reader.finished()
        self._service.linger(self)
        if self._watch is not None:
            self._watch.callback = self.close
        try:
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()

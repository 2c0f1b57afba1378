"""The answer of a view that streams, and the back end that works under any WSGI server.

Law of this room: a stream starts outside Flask's request context, and a run never lives in a request's
greenlet. Headers leave before the run's first event. Both back ends send the same bytes; this one hands them
to the server as an iterator, :mod:`app.web.direct` writes them to the socket.
"""

from __future__ import annotations

import logging
import socket
import typing as t
from collections.abc import Callable, Iterator, Mapping

from flask import Flask, Response, current_app, request
from gevent.event import Event

from app.streams import sse
from app.streams.projection import Projection
from app.web import claims
from app.web.subscriber import HIGH_WATER, Run, Subscriber
from app.web.sweep import Reader, StreamService
from app.web.watch import Handle, watch_request

if t.TYPE_CHECKING:
    from app.engine.run_request import RunRequest
    from app.engine.services import Services

log = logging.getLogger("studio.streams")

Start = Callable[[Subscriber], Run]

#: Where a stream stands in the WSGI environment for :mod:`app.web.direct`.
ENVIRON_KEY = "studio.stream"

#: Most bytes handed to the server at once: a reader that takes some of them in time is slow, not gone.
_PIECE = 64 * 1024


def respond(
    projection: Projection,
    start: Start,
    headers: Mapping[str, str],
    run_id: str,
    after: int | None = None,
    forgone: Callable[[], None] | None = None,
) -> Response:
    """The streaming answer of the current request.

    Every check that can be a 4xx is done before this is called.

    :param start: starts (or finds) the run for this reader and returns it. Called once, outside the request context,
        when the server takes the answer; never when the answer is thrown away before that.
    :param headers: further response headers, such as the echo of a negotiated protocol.
    :param after: see :class:`app.web.subscriber.Subscriber`.
    :param forgone: called instead when the answer is thrown away, and when ``start`` fails.
    """
    return answer(Stream(projection, start, service(current_app), after, forgone), headers, run_id)


def respond_run(
    services: Services,
    run_request: RunRequest,
    projection: Projection,
    headers: Mapping[str, str],
    address: str,
) -> Response:
    """The streaming answer that starts a run; see :func:`respond`.

    A thread that the run has entered is left, and a key it was to begin for let go, when the answer is thrown away
    before it began.

    :param address: of the client, by which runs are limited.
    """

    claim = claims.current()

    def start(subscriber: Subscriber) -> Run:
        return services.runs.start(run_request, (subscriber,), address=address)

    def forgone() -> None:
        if claim is not None:
            claim.release()
        if run_request.thread is not None:
            services.store.threads.leave(run_request.thread)

    return respond(projection, start, headers, run_request.run_id, forgone=forgone)


def answer(stream: Source, headers: Mapping[str, str], run_id: str) -> Response:
    """The streaming answer of the current request, from a stream that is made already."""
    environ = request.environ
    environ[ENVIRON_KEY] = stream
    response = Response(IteratorTransport(stream, environ), headers={**sse.HEADERS, "X-Run-Id": run_id})
    response.headers.update(headers)
    return response


def service(app: Flask) -> StreamService:
    """The stream service of ``app``, made from its settings on first use."""
    found: StreamService | None = app.extensions.get("studio.streams")
    if found is None:
        settings = app.extensions["studio"].settings
        found = StreamService(
            settings.keepalive_s, settings.slow_reader_s, settings.stream_writer == "direct"
        )
        app.extensions["studio.streams"] = found
    return found


class Source(t.Protocol):
    """A stream that has not begun: what a back end needs to begin it.

    :ivar direct: the configuration lets the stream take the socket.
    """

    direct: bool
    service: StreamService

    def begin(self, transport: t.Any) -> Reader:
        """Begin, for a reader on ``transport``."""

    def forgo(self) -> None:
        """The answer is thrown away. Nothing happens when the stream has begun."""


class Stream:
    """The source of a run's stream.

    :ivar direct: the configuration lets the stream take the socket.
    """

    __slots__ = ("_after", "_forgone", "_start", "direct", "projection", "service")

    def __init__(
        self,
        projection: Projection,
        start: Start,
        service: StreamService,
        after: int | None = None,
        forgone: Callable[[], None] | None = None,
    ) -> None:
        self.projection = projection
        self.service = service
        self.direct = service.direct
        self._start = start
        self._after = after
        self._forgone = forgone

    def begin(self, transport: t.Any) -> Subscriber:
        """Start the run with a reader on ``transport``.

        :raises Exception: whatever starting raises; nothing was sent then.
        """
        subscriber = Subscriber(self.projection, transport, self.service, self._after)
        transport.reader = subscriber
        try:
            run = self._start(subscriber)
        except BaseException:
            self.forgo()
            raise
        self._forgone = None
        subscriber.bind(run)
        if not subscriber.closed:
            self.service.add(subscriber)
        return subscriber

    def forgo(self) -> None:
        """The answer is thrown away. Nothing happens when the stream has begun."""
        forgone, self._forgone = self._forgone, None
        if forgone is None:
            return
        try:
            forgone()
        except Exception:
            log.exception("what a stream had claimed that never began could not be let go")


class IteratorTransport:
    """Hands the frames to the WSGI server as its response iterable."""

    def __init__(self, stream: Source, environ: Mapping[str, t.Any]) -> None:
        self.pending = 0
        self.progressed = False
        self.reader: Reader | None = None
        self._stream: Source | None = stream
        self._environ: Mapping[str, t.Any] | None = environ
        self._socket: t.Any = None
        self._watch: Handle | None = None
        self._buffer = bytearray()
        self._handed = 0
        self._over = False
        self._wake = Event()

    # -- from the subscriber -----------------------------------------------------------------

    def write(self, data: bytes, last: bool) -> None:
        """See :class:`app.web.subscriber.Transport`."""
        self._buffer += data
        self.pending += len(data)
        self._over = self._over or last
        self._wake.set()

    def abort(self) -> None:
        """See :class:`app.web.subscriber.Transport`."""
        self._buffer.clear()
        self.pending = self._handed = 0
        self._over = True
        self._wake.set()
        if self._socket is not None:
            try:
                # The server may be blocked in a send to a client that takes nothing.
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    # -- from the server ---------------------------------------------------------------------

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._stream is not None:
            self._begin(self._stream)
            return b""  # makes the server send the headers now
        self._taken()
        while not self._buffer:
            if self._over:
                self._end()
                raise StopIteration
            self._wake.wait()
            self._wake.clear()
        data = bytes(self._buffer[:_PIECE])
        del self._buffer[: len(data)]
        self._handed = len(data)
        return data

    def close(self) -> None:
        """The server is done with this answer, whether or not it sent all of it."""
        stream, self._stream, self._environ = self._stream, None, None
        if stream is not None:
            stream.forgo()
        if self.reader is not None and not self.reader.closed:
            self._socket = None  # the server closes it, or uses it on
            self.reader.lost()
        self._stop_watch()

    def _begin(self, stream: Source) -> None:
        environ = self._environ or {}
        self._stream = self._environ = None
        reader = stream.begin(self)
        sock = environ.get("gunicorn.socket")
        if sock is not None and environ.get("HTTP_VERSION") != "2":
            # Of HTTP/2 the connection carries other streams too: there it is neither bounded nor shut down.
            self._socket = sock
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, HIGH_WATER)
        self._watch = watch_request(environ, reader.lost)

    def _taken(self) -> None:
        """The server came back for more: what it was given has been sent."""
        if self._handed:
            self.pending -= self._handed
            self._handed = 0
            self.progressed = True
            if self.reader is not None:
                self.reader.relieved()

    def _end(self) -> None:
        self._stop_watch()
        if self.reader is not None:
            self.reader.finished()

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

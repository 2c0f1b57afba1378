"""Attaching to a run that another process of this host carries: its answer, passed on.

Law of this room: that process is asked as a client asks, with the caller's own key, and decides everything. Bytes
are passed on as they come; either side's leaving closes the other, and a process that dies, or says nothing any
more, leaves a stream that is cut, never one that looks complete.
"""

from __future__ import annotations

import http.client
import logging
import socket
import typing as t

from flask import Response, current_app, request
from gevent.event import Event

from app.engine.scope import spawn_service
from app.web import peers, streaming
from app.web.http import request_id
from app.web.subscriber import HIGH_WATER, LOW_WATER, Transport
from app.web.sweep import StreamService

if t.TYPE_CHECKING:
    from app.engine.services import Services

log = logging.getLogger("studio.streams")

#: Seconds the other process may take to answer; it does so at once or not at all.
ANSWER_S = 5.0
_PIECE = 64 * 1024
_SENT = (
    ("X-API-Key", "HTTP_X_API_KEY"),
    ("Last-Event-ID", "HTTP_LAST_EVENT_ID"),
    ("X-Sim-Stream-Protocol", "HTTP_X_SIM_STREAM_PROTOCOL"),
)
_RETURNED = ("Content-Type", "Retry-After", "X-Run-Id")


def respond(services: Services, owner_id: str | None, run_id: str) -> Response | None:
    """The answer of the process that carries (or carried) the run to the current request; None when it is this one,
    or cannot be reached.
    """
    store = services.store
    if not owner_id or owner_id == store.owner_id:
        return None
    try:
        sock = peers.connect(services.settings.data_dir, owner_id, ANSWER_S)
    except OSError:
        return None
    try:
        found = _ask(sock)
        if found.status == 200:
            sock.settimeout(None)
            stream = Relayed(sock, found, streaming.service(current_app), run_id)
            return streaming.answer(stream, {}, run_id)
        response = Response(found.read(), found.status)
    except (OSError, http.client.HTTPException) as error:
        log.warning("the process %s, which carries run %s, did not answer: %r", owner_id, run_id, error)
        sock.close()
        return None
    sock.close()
    del response.headers["Content-Type"]
    for name in _RETURNED:
        if (value := found.getheader(name)) is not None:
            response.headers[name] = value
    return response


def _ask(sock: socket.socket) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("localhost")
    connection.sock = sock
    headers = {name: request.environ[key] for name, key in _SENT if key in request.environ}
    headers |= {"X-Request-Id": request_id(), "Connection": "close"}
    path = request.environ.get("RAW_URI") or request.full_path
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


class Relayed:
    """One stream that is passed on: a reader for this side's transport, a client of the other process.

    :ivar closed: nothing more will be sent.
    :ivar missed: how many keepalives of the other process are overdue.
    """

    relayed = True

    __slots__ = (
        "__weakref__",
        "_response",
        "_room",
        "_run_id",
        "_sock",
        "closed",
        "direct",
        "missed",
        "quiet",
        "service",
        "stalled",
        "transport",
    )

    def __init__(
        self,
        sock: socket.socket,
        response: http.client.HTTPResponse,
        service: StreamService,
        run_id: str,
    ) -> None:
        self.service = service
        self.direct = service.direct
        self.closed = False
        self.missed = 0
        self.quiet = 0
        self.stalled = 0
        self.transport: t.Any = None  # a Transport
        self._sock = sock
        self._response = response
        self._run_id = run_id
        self._room = Event()

    def begin(self, transport: t.Any) -> Relayed:
        """See :class:`app.web.streaming.Stream`."""
        self.transport = transport
        transport.reader = self
        self.service.add(self)
        spawn_service(self._pass_on, transport)
        return self

    def forgo(self) -> None:
        """The answer is thrown away. Nothing happens when it has begun."""
        if self.transport is None:
            self.closed = True
            self._response.close()
            self._sock.close()

    def _pass_on(self, transport: Transport) -> None:
        try:
            while not self.closed and (piece := self._response.read1(_PIECE)):
                self.missed = self.quiet = 0
                transport.write(piece, False)
                while transport.pending > HIGH_WATER and not self.closed:
                    self._room.clear()
                    self._room.wait()
            if not self.closed:
                transport.write(b"", True)
        except (OSError, ValueError, http.client.HTTPException):
            self.lost()  # without an end of the body: the client sees that it was cut
        finally:
            self._response.close()
            self._sock.close()

    # -- from the transport and the sweep ----------------------------------------------------

    def relieved(self) -> None:
        """The client took bytes."""
        if self.transport.pending < LOW_WATER:
            self._room.set()

    def finished(self) -> None:
        """The client has the whole body."""
        if not self.closed:
            self._leave()

    def lost(self) -> None:
        """The client has gone, or the other process has. May be called twice."""
        if not self.closed:
            self._leave()
            self.transport.abort()
            try:
                self._sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed already

    cut = lost

    def keepalive(self) -> None:
        """The other process sends them, and they are passed on: that one lives is what they say. When they stay away,
        the client must not wait for ever for a process that hangs.
        """
        self.quiet = 0
        if self.transport.pending:  # that is read before more is asked for
            return
        self.missed += 1
        if self.missed >= self.service.overdue:
            log.warning(
                "the process that carries run %s sends nothing any more; a reader was cut", self._run_id
            )
            self.lost()

    def _leave(self) -> None:
        self.closed = True
        self._room.set()
        self.service.discard(self)

"""Attaching to a run that another process of this host carries, or answering what it asks: its answer, passed on.

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
from app.errors import ApiError
from app.web import peers, streaming
from app.web.http import request_id
from app.web.subscriber import HIGH_WATER, LOW_WATER, Transport
from app.web.sweep import StreamService
from app.web.watch import watch_request

if t.TYPE_CHECKING:
    from app.engine.services import Services

log = logging.getLogger("studio.streams")

#: Seconds the other process may take to answer; it does so at once or not at all.
ANSWER_S = 5.0
_PIECE = 64 * 1024
_SENT = (
    ("X-API-Key", "HTTP_X_API_KEY"),
    ("Cookie", "HTTP_COOKIE"),
    ("X-CSRF-Token", "HTTP_X_CSRF_TOKEN"),
    ("X-Studio-Visitor", "HTTP_X_STUDIO_VISITOR"),
    ("Origin", "HTTP_ORIGIN"),
    ("Host", "HTTP_HOST"),
    ("X-Forwarded-Proto", "HTTP_X_FORWARDED_PROTO"),
    ("Accept", "HTTP_ACCEPT"),
    ("Last-Event-ID", "HTTP_LAST_EVENT_ID"),
    ("X-Studio-Stream-Protocol", "HTTP_X_STUDIO_STREAM_PROTOCOL"),
    ("X-Sim-Stream-Protocol", "HTTP_X_SIM_STREAM_PROTOCOL"),
    ("Idempotency-Key", "HTTP_IDEMPOTENCY_KEY"),
)
_RETURNED = ("Content-Type", "Retry-After", "X-Run-Id", "WWW-Authenticate")
_ECHOED = ("X-Studio-Stream-Protocol",)


def respond(
    services: Services,
    owner_id: str | None,
    run_id: str,
    path: str | None = None,
    body: bytes | None = None,
) -> Response | None:
    """The answer of the process that carries (or carried) the run to the current request; None when it is this one,
    or cannot be reached.

    :param path: what it is asked instead, with the query; None: the same as this one.
    :param body: of a POST in JSON, whose answer takes as long as it takes; None asks with GET.
    """
    store = services.store
    if not owner_id or owner_id == store.owner_id:
        return None
    try:
        sock = peers.connect(services.settings.data_dir, owner_id, ANSWER_S)
    except OSError:
        return None
    asked = path or request.environ.get("RAW_URI") or request.full_path
    try:
        found = _ask(sock, asked, body)
        if (found.getheader("Content-Type") or "").startswith("text/event-stream"):
            sock.settimeout(None)
            stream = Relayed(sock, found, streaming.service(current_app), run_id)
            return streaming.answer(stream, _headers(found, _ECHOED), run_id)
        response = Response(found.read(), found.status)
    except (OSError, http.client.HTTPException) as error:
        log.warning("the process %s, which carries run %s, did not answer: %r", owner_id, run_id, error)
        sock.close()
        if body is None:
            return None
        # What was sent may have been done.
        raise lost(run_id) from None
    sock.close()
    del response.headers["Content-Type"]
    response.headers.update(_headers(found, _RETURNED))
    return response


def lost(run_id: str) -> ApiError:
    """503: nobody can say what became of a request that another process was to answer."""
    message = (
        f"The process that carries the run '{run_id}' went away before it answered. See what it did: "
        f"GET /api/decisions?runId={run_id}"
    )
    return ApiError(503, "run_elsewhere", message, headers={"Retry-After": "2"})


def _ask(sock: socket.socket, path: str, body: bytes | None) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("localhost")
    connection.sock = sock
    headers = {name: request.environ[key] for name, key in _SENT if key in request.environ}
    headers |= {"X-Request-Id": request_id(), "Connection": "close"}
    if body is None:
        connection.request("GET", path, headers=headers)
        return connection.getresponse()
    connection.request("POST", path, body, {**headers, "Content-Type": "application/json"})
    sock.settimeout(None)
    # Its client may leave before the run has come to an answer: then the other process sees it leave.
    with watch_request(request.environ, lambda: _shut(sock)):
        return connection.getresponse()


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already


def _headers(found: http.client.HTTPResponse, names: t.Sequence[str]) -> dict[str, str]:
    return {name: value for name in names if (value := found.getheader(name)) is not None}


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
            _shut(self._sock)

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

    def is_told(self, sweeps: int) -> bool:
        """The other process tells its clients that it works."""
        return False

    def _leave(self) -> None:
        self.closed = True
        self._room.set()
        self.service.discard(self)

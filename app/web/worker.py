"""Our gunicorn worker: the gevent worker, with runs that outlive requests and an orderly end.

Law of this room: a worker that is told to stop refuses new runs, gives every stream its terminal frame, lets
the store finish, and only then leaves; bounded by gunicorn's ``graceful_timeout`` and beating all the while,
so the master neither kills it early nor waits for ever.
"""

from __future__ import annotations

import functools
import gc
import os
import resource
import socket
import sys
import time
import typing as t
from collections.abc import Callable, Iterable

import gevent
from gevent import get_hub
from gevent.event import Event
from gevent.server import StreamServer
from gunicorn.sock import ssl_context
from gunicorn.workers.base_async import ALREADY_HANDLED
from gunicorn.workers.ggevent import GeventWorker

from app.engine.scope import spawn_service
from app.web.direct import WORKER_KEY
from app.web.malformed import ErrorPage

#: Collections are rare once the worker is up: what booting made is frozen, and a token makes no cycles.
GC_THRESHOLDS = (50_000, 20, 50)
#: Seconds kept back from the graceful timeout, so that the worker leaves by itself.
_MARGIN_S = 1.0

_Wsgi = Callable[[dict[str, t.Any], Callable[..., t.Any]], Iterable[bytes]]


class StudioWorker(GeventWorker):  # type: ignore[misc]  # gunicorn has no types
    """See the module. Set ``worker_class = "app.web.worker.StudioWorker"``.

    The WSGI application may have ``warm_up()``, called once before the worker is ready, and
    ``drain(seconds)``, which ends all runs and returns when their streams are with their clients, and ``listen()``,
    which gives the listener (:class:`app.web.peers.Listener`) on which other processes of this host are served.
    """

    #: What an application returns after it took the socket.
    handled = ALREADY_HANDLED

    wsgi: t.Any

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        self._told: Event | None = None
        self._drained: Event | None = None
        self._idle: set[t.Any] = set()
        self._peers: t.Any = None

    def init_process(self) -> None:
        """Boot in the child process; does not return before the worker is to leave."""
        raise_descriptor_limit()
        super().init_process()

    def load_wsgi(self) -> None:
        """Load the application, warm it up, and freeze what that made."""
        super().load_wsgi()
        app = self.wsgi
        warm_up = getattr(app, "warm_up", None)
        if warm_up is not None:
            warm_up()
        self._told, self._drained = Event(), Event()
        spawn_service(self._drain_when_told, getattr(app, "drain", None))
        self.wsgi = self._marked(app)
        self._serve_peers(getattr(app, "listen", None))
        # The writer's thread shares the interpreter with the hub: hand it back in fractions of a millisecond,
        # not in the default 5 ms, which a client would see as a pause of its stream.
        sys.setswitchinterval(0.0005)
        # Without it every greenlet keeps the stack it was spawned from: time and memory per stream.
        gevent.config.track_greenlet_tree = False
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)

    def _serve_peers(self, listen: Callable[[], t.Any] | None) -> None:
        """Serve other processes of this host as any client."""
        self._peers = listen() if listen is not None else None
        if self._peers is not None:
            self._peers.serve(functools.partial(self.handle, self._peers.socket))

    def _marked(self, app: _Wsgi) -> _Wsgi:
        def call(environ: dict[str, t.Any], start_response: Callable[..., t.Any]) -> Iterable[bytes]:
            environ[WORKER_KEY] = self
            return app(environ, start_response)

        return call

    def is_already_handled(self, respiter: t.Any) -> bool:
        """A socket that was taken is not read for a next request."""
        if super().is_already_handled(respiter):
            raise StopIteration
        return False

    def handle_request(self, listener_name: t.Any, req: t.Any, sock: t.Any, addr: t.Any) -> t.Any:
        """Answer one request; between two of them the connection is idle."""
        self._idle.discard(sock)
        answer = super().handle_request(listener_name, req, sock, addr)
        if not self.alive:
            raise StopIteration  # as gunicorn says that the connection ends
        self._idle.add(sock)  # not reached when the connection is to be closed
        return answer

    def handle(self, listener: t.Any, client: t.Any, addr: t.Any) -> None:
        """Serve one connection. It is idle before its first request, too: browsers open some to have them at hand."""
        self._idle.add(client)
        try:
            super().handle(listener, client, addr)
        finally:
            self._idle.discard(client)

    def handle_error(self, req: t.Any, client: t.Any, addr: t.Any, exc: BaseException) -> None:
        """What is no HTTP is answered in the one error shape too."""
        super().handle_error(req, ErrorPage(client), addr, exc)

    # -- the end -----------------------------------------------------------------------------

    def run(self) -> None:
        """Serve, then stay until every run and stream has ended.

        In place of gunicorn's own, which looks once a second whether it is to end, and once a second whether it may.
        """
        assert self._told is not None
        assert self._drained is not None
        servers = [self._serving(sock) for sock in self.sockets]
        while not self._told.wait(1.0):
            self.notify()
        for server in servers:
            server.close()
        end = time.monotonic() + self.cfg.graceful_timeout
        while (
            busy := [greenlet for server in servers for greenlet in server.pool]
        ) and time.monotonic() < end:
            self.notify()
            self._end_idle()  # one may have come between the signal and the close
            gevent.joinall(busy, timeout=1.0)
        if busy:
            self.log.warning("Worker graceful timeout (pid:%s)", self.pid)
            for server in servers:
                server.stop(timeout=1)
        while not self._drained.wait(1.0):
            self.notify()

    def _serving(self, listener: t.Any) -> t.Any:
        """A server of one of gunicorn's listeners, as gunicorn makes it."""
        listener.setblocking(1)
        tls = {"ssl_context": ssl_context(self.cfg)} if self.cfg.is_ssl else {}
        handle = functools.partial(self.handle, listener)
        server = StreamServer(listener, handle=handle, spawn=self.worker_connections, **tls)
        if self.cfg.workers > 1:
            server.max_accept = 1
        server.start()
        return server

    def _end_idle(self) -> None:
        """Read no next request; gunicorn would wait for one until its keepalive time is over."""
        for sock in list(self._idle):
            try:
                sock.shutdown(socket.SHUT_RD)
            except OSError:
                pass

    def notify(self) -> None:
        """Beat. When the master has died, end as if it had said so."""
        self.tmp.notify()
        if self.alive and self.ppid != os.getppid():
            self.log.info("The master is gone, shutting down: %s", self)
            self._stop()

    def handle_exit(self, sig: int, frame: t.Any) -> None:
        """SIGTERM."""
        self._stop()

    def handle_quit(self, sig: int, frame: t.Any) -> None:
        """SIGQUIT and SIGINT: the same; runs are stopped at once either way."""
        if self.alive:
            self.cfg.worker_int(self)
        self._stop()

    def _stop(self) -> None:
        """May be called from a signal handler, between any two instructions."""
        self.alive = False
        if self._told is not None:
            get_hub().loop.run_callback_threadsafe(self._told.set)

    def _drain_when_told(self, drain: Callable[[float], None] | None) -> None:
        assert self._told is not None
        assert self._drained is not None
        self._told.wait()
        self._end_idle()
        try:
            if drain is not None:
                drain(max(0.0, self.cfg.graceful_timeout - _MARGIN_S))
        except Exception:
            self.log.exception("draining failed")
        finally:
            if self._peers is not None:
                self._peers.close()
            self._drained.set()


def raise_descriptor_limit() -> None:
    """As many descriptors as the system lets us have: a stream takes two (client and upstream)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

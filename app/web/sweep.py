"""What all streams of a worker share: one timer for keepalives and slow readers, and the list of the living.

Law of this room: the timer runs on the hub and therefore only does what cannot block. It exists while there
are streams. Time is counted in sweeps, so a token costs no reading of a clock.
"""

from __future__ import annotations

import math
import sys
import typing as t

from gevent import get_hub
from gevent.event import Event

if t.TYPE_CHECKING:
    from app.web.direct import SocketTransport
    from app.web.subscriber import Transport

#: Seconds of silence after which a visitor of a chat is told that it is being worked (contract section 8).
WORKING_S = 5.0
#: Seconds a client gets to close a connection whose body is over.
LINGER_S = 2.0


class Reader(t.Protocol):
    """Who a stream is for, as its transport and the timer see it.

    :ivar closed: nothing more will be sent. :ivar quiet: sweeps since something was written. :ivar stalled: sweeps
        since the client took something of what waits.
    """

    closed: bool
    quiet: int
    stalled: int

    @property
    def relayed(self) -> bool:
        """Whether it reads no run of this process."""

    @property
    def transport(self) -> Transport:
        """What takes its bytes."""

    def relieved(self) -> None:
        """The client took bytes."""

    def finished(self) -> None:
        """The client has the whole body."""

    def lost(self) -> None:
        """The client has gone. May be called twice."""

    def keepalive(self) -> None:
        """Nothing was written for a while."""

    def is_told(self, sweeps: int) -> bool:
        """Told once a sweep: say that it is being worked, where that is told and nothing else was for ``sweeps``.
        Whether it was said now.
        """


class StreamService:
    """The streams of one application in this process.

    :param keepalive_s: seconds of silence after which a comment is written.
    :param slow_reader_s: seconds after which a reader who takes nothing of what waits for it counts as gone.
    :param direct: streams may take the socket out of the server's hands where that is possible.
    :ivar overdue: how many keepalives of another process may stay away before it is taken for dead.
    """

    def __init__(self, keepalive_s: float = 15.0, slow_reader_s: float = 60.0, direct: bool = True) -> None:
        self.direct = direct
        self.interval = min(1.0, keepalive_s / 4, slow_reader_s / 4)
        self._keepalive = math.ceil(keepalive_s / self.interval)
        self._slow = math.ceil(slow_reader_s / self.interval)
        self._working = math.ceil(WORKING_S / self.interval)
        self._linger = math.ceil(LINGER_S / self.interval)
        self.overdue = max(2, math.ceil(slow_reader_s / keepalive_s))
        self._streams: set[Reader] = set()
        self._lingering: dict[SocketTransport, int] = {}
        self._empty = Event()
        self._empty.set()
        self._timer: t.Any = None

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, subscriber: Reader) -> None:
        """A stream begins."""
        self._streams.add(subscriber)
        self._empty.clear()
        self._run()

    def discard(self, subscriber: Reader) -> None:
        """A stream is over."""
        self._streams.discard(subscriber)
        self._check_empty()

    def linger(self, transport: SocketTransport) -> None:
        """A body is over; close its socket when the client did, or after :data:`LINGER_S`."""
        self._lingering[transport] = 0
        self._empty.clear()
        self._run()

    def closed(self, transport: SocketTransport) -> None:
        """A lingering socket was closed."""
        self._lingering.pop(transport, None)
        self._check_empty()

    def wait_empty(self, timeout_s: float) -> bool:
        """Wait until every stream is with its client and its socket closed; False when time ran out."""
        return bool(self._empty.wait(timeout_s))

    def cut_relayed(self) -> None:
        """Cut the streams that other processes of this host send through this one: only they know how long."""
        for subscriber in list(self._streams):
            if subscriber.relayed:
                subscriber.lost()

    def cut_all(self) -> None:
        """Cut whatever is still open."""
        for subscriber in list(self._streams):
            subscriber.lost()
        for transport in list(self._lingering):
            transport.close()

    def _check_empty(self) -> None:
        if not self._streams and not self._lingering:
            self._empty.set()

    def _run(self) -> None:
        if self._timer is None:
            # Does not keep the loop alive: with nothing else to wait for, silence is for ever.
            self._timer = get_hub().loop.timer(self.interval, self.interval, ref=False)
            self._timer.start(self._sweep)

    def _sweep(self) -> None:
        for subscriber in list(self._streams):
            try:
                self._visit(subscriber)
            except Exception:
                get_hub().handle_error(subscriber, *sys.exc_info())
        for transport, waited in list(self._lingering.items()):
            if waited >= self._linger:
                transport.close()
            elif transport in self._lingering:
                self._lingering[transport] = waited + 1
        if self._timer is not None and not self._streams and not self._lingering:
            self._timer.stop()
            self._timer.close()
            self._timer = None

    def _visit(self, subscriber: Reader) -> None:
        transport = subscriber.transport
        if transport.pending and not transport.progressed:
            subscriber.stalled += 1
            if subscriber.stalled >= self._slow:
                subscriber.lost()
                return
        else:
            subscriber.stalled = 0
        transport.progressed = False
        subscriber.quiet += 1
        if not subscriber.is_told(self._working) and subscriber.quiet > self._keepalive:
            subscriber.keepalive()

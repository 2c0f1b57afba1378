"""The reader of a stream: projection and transport between a run and one client.

Law of this room: ``deliver`` appends bytes, ``flush`` hands them to the transport in one piece, neither
switches greenlets. What a reader has not taken yet is bounded: over :data:`HIGH_WATER` it shuts the run's
flow gate, under :data:`LOW_WATER` it opens it again. Where it may not slow the run (somebody else reads, too, or
it came later) it is taken off the run instead and reads the log, slice by slice on the hub, until it is up to date.
A reader that fails is cut, never half served.
"""

from __future__ import annotations

import logging
import typing as t

from gevent import get_hub

from app.events import Envelope
from app.streams import sse
from app.streams.projection import Projection
from app.streams.replay import Log, Replay

if t.TYPE_CHECKING:
    from app.web.sweep import StreamService

log = logging.getLogger("studio.streams")

#: Bytes waiting for a reader at which its run stops reading from the model, and at which it goes on.
HIGH_WATER = 256 * 1024
LOW_WATER = 64 * 1024
#: Bytes waiting at which even a frame of a run that cannot be slowed is too much; the end is always let in.
HARD_LIMIT = 8 * 1024 * 1024


class Gate(t.Protocol):
    """The run's flow gate; the run decides whether this reader may use it."""

    def shut(self) -> None:
        """Stop reading from the model."""

    def open(self) -> None:
        """Go on."""


class Run(t.Protocol):
    """What a reader needs of a run. All may be called from the hub and never block."""

    @property
    def log(self) -> Log:
        """What it said."""

    def sole(self, subscriber: t.Any) -> bool:
        """Whether this reader may slow the run by its ``gate``."""

    def follow(self, subscriber: t.Any) -> None:
        """Deliver to this reader from the next event on."""

    def unfollow(self, subscriber: t.Any) -> None:
        """Deliver no more to it."""

    def reader_gone(self, subscriber: t.Any) -> None:
        """This reader has left; what that means is the run's policy."""


class Transport(t.Protocol):
    """Takes bytes to one client.

    :ivar pending: bytes the client has not taken yet.
    :ivar progressed: the client took some since the last sweep.
    """

    pending: int
    progressed: bool

    def write(self, data: bytes, last: bool) -> None:
        """Send whole frames now, or keep what the client does not take. ``last``: the body ends after it."""

    def abort(self) -> None:
        """Cut the connection without an end of the body."""


class Subscriber:
    """One reader of one run. The emitter's ``Subscriber`` protocol.

    :param after: None for who starts the run; else the number of the last event the reader has, 0 for none.
    :ivar closed: nothing more will be sent: the body is over, or the reader has gone.
    """

    #: It reads a run of this process.
    relayed = False

    __slots__ = (
        "__weakref__",
        "_batch",
        "_frames",
        "_gated",
        "_replay",
        "_scheduled",
        "_service",
        "_untold",
        "closed",
        "projection",
        "quiet",
        "run",
        "stalled",
        "transport",
    )

    def __init__(
        self,
        projection: Projection,
        transport: Transport,
        service: StreamService,
        after: int | None = None,
    ) -> None:
        self.projection = projection
        self.transport = transport
        self.run: t.Any = None  # a Run
        self.closed = False
        self.quiet = 0
        #: Sweeps since something was written, keepalives left out.
        self._untold = 0
        self.stalled = 0
        self._service = service
        self._frames = projection.frames
        self._batch: list[bytes] = []
        self._gated = False
        #: Where it reads the log, while the run does not deliver to it.
        self._replay = None if after is None else Replay(0, after)
        self._scheduled = False

    def bind(self, run: t.Any) -> None:
        """The run (a :class:`Run`) has been started for this reader, or found."""
        if self.closed:
            if not self.projection.done:
                run.reader_gone(self)
            return
        self.run = run
        if self._replay is not None:
            self._schedule()
        elif self.transport.pending > HIGH_WATER:
            self._over()

    # -- from the run ------------------------------------------------------------------------

    def deliver(self, envelope: Envelope) -> None:
        """Project one envelope. The end of the run is sent at once."""
        if self.closed:
            return
        try:
            data = self._frames(envelope)
        except BaseException:
            # The emitter detaches whoever raises; a stream that nobody feeds any more may not stay open.
            self.cut()
            raise
        if data:
            self._batch.append(data)
            if self.projection.done:
                self.flush()

    def flush(self) -> None:
        """Send what was delivered since the last flush, as one write."""
        batch = self._batch
        if not batch or self.closed:
            return
        data = batch[0] if len(batch) == 1 else b"".join(batch)
        batch.clear()
        self.quiet = self._untold = 0
        transport, last = self.transport, self.projection.done
        if transport.pending > HARD_LIMIT and not last:
            self.lost()
            return
        transport.write(data, last)
        if transport.pending > HIGH_WATER:
            self._over()

    # -- from the transport ------------------------------------------------------------------

    def relieved(self) -> None:
        """The client took bytes."""
        if self.transport.pending < LOW_WATER:
            if self._replay is not None:
                self._schedule()
            else:
                self._open()

    def go_on(self, run: t.Any) -> None:
        """The run whose log it has read to its pause goes on in this process: read on there."""
        if self.closed or self.projection.done or self.run is None:
            return
        last = self.run.log.last
        self.run = run
        self._replay = Replay(last, last)
        self._schedule()

    def detached(self, now_ms: int) -> None:
        """The run goes on elsewhere: tell the client to attach again, and end the stream."""
        if self.closed or self.projection.done:
            return
        seq = self.run.log.last if self.run is not None and self._replay is None else 0
        if self._replay is not None:
            seq = self._replay.cursor
            self._replay = None
        self._batch.append(self.projection.detached(seq, now_ms))
        self.flush()

    def finished(self) -> None:
        """The client has the whole body."""
        if not self.closed:
            self.closed = True
            self._leave()

    def lost(self) -> None:
        """The client has gone, or must be taken for gone: cut it and tell the run. May be called twice."""
        if self.closed:
            return
        run = self.run
        self.cut()
        if run is not None:
            run.reader_gone(self)

    def cut(self) -> None:
        """End the connection without telling the run."""
        if not self.closed:
            self.closed = True
            self._batch.clear()
            self.transport.abort()
            self._leave()

    def keepalive(self) -> None:
        """Nothing was written for a while: say that we live. Only whole frames are ever written before it."""
        self.quiet = 0
        if not self.transport.pending:
            self.transport.write(sse.KEEPALIVE, False)

    def is_told(self, sweeps: int) -> bool:
        """See :class:`app.web.sweep.Reader`. Nobody works while a run waits for people; and what there is to tell comes
        first.
        """
        frame: bytes = getattr(self.projection, "working", b"")
        if not frame:
            return False
        self._untold += 1
        waits = self.run is None or self._replay is not None or getattr(self.run, "waits", False)
        if self._untold <= sweeps or waits or self.transport.pending:
            return False
        self.quiet = self._untold = 0
        self.transport.write(frame, False)
        return True

    def _leave(self) -> None:
        self._service.discard(self)
        self._open()  # a run that goes on without this reader may not wait for it
        self.run = None  # run and reader hold each other: neither may wait for the garbage collector

    # -- too much waits ----------------------------------------------------------------------

    def _over(self) -> None:
        """Too much waits for this reader: slow the run, or leave it and read its log later."""
        run = self.run
        if run is None or self.projection.done:
            return
        if run.sole(self):
            self._gated = True
            run.gate.shut()
            return
        self._gated = False
        run.unfollow(self)
        self._replay = Replay(run.log.last, run.log.last)

    def _open(self) -> None:
        if self._gated and self.run is not None:
            self._gated = False
            self.run.gate.open()

    # -- reading the log ---------------------------------------------------------------------

    def _schedule(self) -> None:
        """Read on in the hub's next turn, so that others have theirs in between."""
        if not self._scheduled:
            self._scheduled = True
            get_hub().loop.run_callback(self._read_on)

    def _read_on(self) -> None:
        self._scheduled = False
        if self.closed or self.run is None or self._replay is None:
            return
        try:
            self._slice(self._replay, self.run)
        except Exception:
            log.exception("a reader of the run's log failed and was cut")
            self.lost()

    def _slice(self, replay: Replay, run: Run) -> None:
        """One slice of the log; at its end the run delivers again, without a switch in between."""
        data = replay.next(self.projection, run.log)
        last = self.projection.done
        if last:
            self._replay = None
        if data or last:
            self.quiet = self._untold = 0
            self.transport.write(data, last)
        if last or self.closed:
            return
        full = self.transport.pending > HIGH_WATER
        if replay.cursor >= run.log.last and not full:
            self._replay = None
            self._open()
            run.follow(self)
            return
        self._gated = run.sole(self)  # the others have left: what it has not read yet need not be lost
        if self._gated:
            self.run.gate.shut()
        if not full:
            self._schedule()  # else once the client has taken bytes

"""The reader of a stream: projection and transport between a run and one client.

Law of this room: ``deliver`` appends bytes, ``flush`` hands them to the transport in one piece, neither
switches greenlets. What a reader has not taken yet is bounded: over :data:`HIGH_WATER` it shuts the run's
flow gate, under :data:`LOW_WATER` it opens it again. A reader that fails is cut, never half served.
"""

from __future__ import annotations

import typing as t

from app.events import Envelope
from app.streams import sse
from app.streams.projection import Projection

if t.TYPE_CHECKING:
    from app.web.sweep import StreamService

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
    """What a reader needs of a run. Both may be called from the hub and never block."""

    gate: t.Any  # a Gate

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

    :ivar closed: nothing more will be sent: the body is over, or the reader has gone.
    """

    __slots__ = (
        "__weakref__",
        "_batch",
        "_frames",
        "_gated",
        "_service",
        "closed",
        "projection",
        "quiet",
        "run",
        "stalled",
        "transport",
    )

    def __init__(self, projection: Projection, transport: Transport, service: StreamService) -> None:
        self.projection = projection
        self.transport = transport
        self.run: Run | None = None
        self.closed = False
        self.quiet = 0
        self.stalled = 0
        self._service = service
        self._frames = projection.frames
        self._batch: list[bytes] = []
        self._gated = False

    def bind(self, run: Run) -> None:
        """The run has been started for this reader."""
        if self.closed:
            if not self.projection.done:
                run.reader_gone(self)
            return
        self.run = run
        if self.transport.pending > HIGH_WATER:
            self._shut()

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
        self.quiet = 0
        transport, last = self.transport, self.projection.done
        if transport.pending > HARD_LIMIT and not last:
            self.lost()
            return
        transport.write(data, last)
        if transport.pending > HIGH_WATER and not self._gated:
            self._shut()

    # -- from the transport ------------------------------------------------------------------

    def relieved(self) -> None:
        """The client took bytes."""
        if self._gated and self.transport.pending < LOW_WATER:
            self._open()

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

    def _leave(self) -> None:
        self._service.discard(self)
        self._open()  # a run that goes on without this reader may not wait for it
        self.run = None  # run and reader hold each other: neither may wait for the garbage collector

    def _shut(self) -> None:
        if self.run is not None:
            self._gated = True
            self.run.gate.shut()

    def _open(self) -> None:
        if self._gated and self.run is not None:
            self._gated = False
            self.run.gate.open()

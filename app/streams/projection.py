"""What a projection is.

Law of this room: a projection turns envelopes into bytes and keeps only what it needs for that. It never
sees the request, the store, a socket or another projection, so a replay gives the same bytes as the live run.
"""

from __future__ import annotations

import typing as t

from app.events import Envelope
from app.state import RunState


class Projection(t.Protocol):
    """One reader's view of one run."""

    #: True once what ends the surface was given out: after the terminal event, a pause, or :meth:`detached`; nothing
    #: follows.
    done: bool

    def frames(self, envelope: Envelope) -> bytes:
        """The frames of this envelope, possibly several; ``b""`` when this reader gets none of it."""

    def gap(self, envelope: Envelope, state: RunState) -> bytes:
        """The frames for a range that cannot be told: what stands at its end, in place of everything given before.

        :param envelope: a ``Gap`` with the place of the last envelope that is missing.
        :param state: how the run stood there; what follows is given to :meth:`frames` again.
        """

    def detached(self, seq: int, ts: int) -> bytes:
        """The frames of a stream that ends although its run goes on: its server hands the run over, or it waited for a
        paused run that goes on elsewhere. The client attaches again. ``done`` is True afterwards.

        :param seq: number of the last event that was told. :param ts: the time, epoch ms.
        """

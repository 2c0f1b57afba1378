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

    #: True once the terminal event and what ends the surface were given out; nothing follows.
    done: bool

    def frames(self, envelope: Envelope) -> bytes:
        """The frames of this envelope, possibly several; ``b""`` when this reader gets none of it."""

    def gap(self, envelope: Envelope, state: RunState) -> bytes:
        """The frames for a range that cannot be told: what stands at its end, in place of everything given before.

        :param envelope: a ``Gap`` with the place of the last envelope that is missing.
        :param state: how the run stood there; what follows is given to :meth:`frames` again.
        """

"""What a projection is.

Law of this room: a projection turns envelopes into bytes and keeps only what it needs for that. It never
sees the request, the store, a socket or another projection, so a replay gives the same bytes as the live run.
"""

from __future__ import annotations

import typing as t

from app.events import Envelope


class Projection(t.Protocol):
    """One reader's view of one run."""

    #: True once the terminal event and what ends the surface were given out; nothing follows.
    done: bool

    def frames(self, envelope: Envelope) -> bytes:
        """The frames of this envelope, possibly several; ``b""`` when this reader gets none of it."""

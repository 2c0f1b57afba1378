"""The flow gate: how a reader who falls behind slows the model down.

Law of this room: asking costs one attribute, since it is asked once a token.
"""

from __future__ import annotations

from gevent.event import Event


class FlowGate:
    """Closed while the run's reader is too far behind; only the wire driver waits on it."""

    def __init__(self) -> None:
        self._open = Event()
        self._open.set()
        #: The driver has to wait before its next read. A plain attribute: it is asked once a token.
        self.closed = False

    def shut(self) -> None:
        """Close the gate."""
        if not self.closed:
            self.closed = True
            self._open.clear()

    def open(self) -> None:
        """Open the gate; whoever waits goes on."""
        self.closed = False
        self._open.set()

    def wait_open(self) -> None:
        """Block until open. Call inside a wait only."""
        self._open.wait()

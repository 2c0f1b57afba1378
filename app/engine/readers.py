"""Who still reads a run, and what their leaving means.

Law of this room: a lost connection is not a stop; what it means is the workflow's stated policy
(``on_disconnect``), applied after its grace time, and undone when somebody comes back in time.
"""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Callable

from gevent import get_hub

log = logging.getLogger("studio.runs")


@t.runtime_checkable
class Detachable(t.Protocol):
    """A reader whose stream can say that it ends although the run does not."""

    def detached(self, now_ms: int) -> None:
        """Say so. Never switches greenlets."""


def _nothing() -> None:
    """What to abandon once the run has ended."""


class Readers:
    """The readers of one run (starter, attached, waiting JSON callers).

    :param policy: ``cancel`` or ``continue``.
    :param grace_s: seconds the last reader may be gone.
    :param abandon: called when the policy is ``cancel`` and the time is up.
    """

    def __init__(self, policy: str, grace_s: float, abandon: Callable[[], t.Any]) -> None:
        self._policy = policy
        self._grace_s = grace_s
        self._abandon = abandon
        self._readers: list[object] = []
        self._timer: t.Any = None

    def __len__(self) -> int:
        return len(self._readers)

    def only(self, reader: object) -> bool:
        """Whether nobody else reads."""
        return len(self._readers) == 1 and self._readers[0] is reader

    def add(self, reader: object) -> None:
        """Count a reader; a running grace time is over."""
        self._readers.append(reader)
        self._stop_timer()

    def remove(self, reader: object) -> None:
        """A reader has gone. Unknown ones are ignored."""
        left = [r for r in self._readers if r is not reader]
        if len(left) == len(self._readers):
            return
        self._readers = left
        if left or self._policy != "cancel":
            return
        if self._grace_s <= 0:
            self._abandon()
        else:
            self._timer = get_hub().loop.timer(self._grace_s)
            self._timer.start(self._abandon)

    def detach(self, now_ms: int) -> None:
        """The run goes on elsewhere: those who read it on a stream are told so, and nobody's leaving means anything
        after that.
        """
        readers = self._readers
        self.close()
        for reader in readers:
            if not isinstance(reader, Detachable):
                continue
            try:
                reader.detached(now_ms)
            except Exception:
                log.exception("a reader could not be told that its run goes on elsewhere")

    def close(self) -> None:
        """The run is ending: nobody's leaving matters any more, and nothing of the run is held."""
        self._policy = "continue"
        self._stop_timer()
        self._abandon = _nothing
        self._readers = []

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
            self._timer = None

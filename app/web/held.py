"""Streams that have come to a pause and wait with their run for people.

Law of this room: a client that has everything up to a pause is not sent away, since it would come back at once, nor
told that nothing follows. It waits, with a keepalive now and then, and reads on when the run does: in this process at
once; when another carries it, the client is told to attach again, and is led there.
"""

from __future__ import annotations

import logging
import typing as t

import gevent
from flask import Flask

from app.engine.run import Run
from app.engine.run_log import RunLog
from app.engine.scope import spawn_service
from app.web.subscriber import Subscriber

if t.TYPE_CHECKING:
    from app.engine.services import Services

log = logging.getLogger("studio.streams")

#: Seconds between looks for runs that go on here, and how many of them until one that looks for those elsewhere.
LOOK_S, ELSEWHERE = 0.25, 4


class PausedRun:
    """What a reader needs of a run that waits: what it said until then, and to be told when it goes on."""

    #: Nobody works on it.
    waits = True

    def __init__(self, run_id: str, run_log: RunLog, held: Held) -> None:
        self.run_id = run_id
        self.log = run_log
        self._held = held

    def sole(self, reader: object) -> bool:
        """See :class:`app.web.subscriber.Run`: there is nothing to slow down."""
        return False

    def follow(self, reader: Subscriber) -> None:
        """See :class:`app.web.subscriber.Run`: the reader has come to the pause, and waits there."""
        self._held.add(self.run_id, reader)

    def unfollow(self, reader: Subscriber) -> None:
        """See :class:`app.web.subscriber.Run`."""

    def reader_gone(self, reader: Subscriber) -> None:
        """See :class:`app.web.subscriber.Run`: the run waits for others."""
        self._held.discard(self.run_id, reader)


class Held:
    """The streams of one application in this process that wait."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._readers: dict[str, list[Subscriber]] = {}
        self._looking = False
        self._closed = False

    def add(self, run_id: str, reader: Subscriber) -> None:
        """One more waits. Never switches."""
        self._readers.setdefault(run_id, []).append(reader)
        if self._closed:
            self._detach(run_id)
        elif not self._looking:
            self._looking = True
            spawn_service(self._look)

    def discard(self, run_id: str, reader: Subscriber) -> None:
        """One has left."""
        left = [r for r in self._readers.pop(run_id, ()) if r is not reader]
        if left:
            self._readers[run_id] = left

    def goes_on(self, run_id: str) -> None:
        """The run may go on in this process: let those who wait for it read on. Before anybody else can leave it, as
        the last of its readers.
        """
        if run_id in self._readers:
            self._see_to(run_id, elsewhere=False)

    def close(self) -> None:
        """This process ends: tell all to attach again."""
        self._closed = True
        for run_id in list(self._readers):
            self._detach(run_id)

    def _look(self) -> None:
        try:
            looks = 0
            while self._readers and not self._closed:
                gevent.sleep(LOOK_S)
                looks += 1
                for run_id in list(self._readers):
                    self._see_to(run_id, elsewhere=not looks % ELSEWHERE)
        except Exception:
            log.exception("streams that wait for a run to go on were let go")
            for run_id in list(self._readers):
                self._detach(run_id)
        finally:
            self._looking = False

    def _see_to(self, run_id: str, elsewhere: bool) -> None:
        runs = self._services.runs
        live = runs.get(run_id)
        if live is not None and live.leaves:  # it has just come to this pause, or to another
            return
        here = live or runs.ended(run_id)
        if here is not None:
            for reader in self._readers.pop(run_id, ()):
                if isinstance(here, Run) and not reader.closed:
                    here.add_reader(reader)
                reader.go_on(here)
        elif elsewhere and self._services.store.runs.status(run_id) != "paused":
            self._detach(run_id)

    def _detach(self, run_id: str) -> None:
        for reader in self._readers.pop(run_id, ()):
            reader.detached(self._services.clock.now_ms())


def held(app: Flask) -> Held:
    """The streams of ``app`` that wait."""
    found: Held | None = app.extensions.get("studio.held")
    if found is None:
        found = app.extensions["studio.held"] = Held(app.extensions["studio"])
    return found

"""Durable runs for tests: processes that die, others that go on, and what all of them told together.

Law of this room: a process dies as far as a run can see it. From one switch to the next nothing of it is stored or
told any more, and its owner is gone; what goes on is made of the store alone.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, field

import gevent
import greenlet

from app import encoding
from app import events as ev
from app.engine.envelopes import unpacked
from app.engine.run import Run
from app.engine.services import Services
from app.store import Store
from tests.support.engine import Recorder

#: Longest that a test waits for a run.
PATIENCE_S = 20


def die(run: Run) -> None:
    """Let the process of a run be gone; one that is ending has ended. May be called anywhere, also within an event."""
    assert run.durable is not None
    if run.ending is not None or run.scope.cause is not None:
        return
    run.durable.keeper.frozen = True
    run.durable.motion.close()
    run.emitter.ended = True
    run.scope.cancel("owner_lost")


def execute(store: Store, sql: str, *values: t.Any) -> None:
    """Run one statement as nobody of the program would."""
    store._writer.submit(lambda link: link.raw.execute(sql, values)).wait()


def lose_owner(made: Services, run: Run) -> None:
    """Let the owner of a run that :func:`die` ended be gone from the store, too."""
    assert run.done.wait(PATIENCE_S)
    execute(made.store, "UPDATE runs SET owner_id = 'gone' WHERE id = ? AND owner_id IS NOT NULL", run.id)


def carry_on(made: Services, run_id: str) -> tuple[Run, Recorder] | None:
    """Go on with a run as a sweep does; None when there is nothing to go on with."""
    if run_id not in made.store.durable.claimable(50, 35.0):
        return None
    run = made.runs._carrier.take(run_id)
    return None if run is None else (run, recorded(run))


def recorded(run: Run) -> Recorder:
    """A reader of a run that has just been taken up: from its first event in this process on."""
    recorder = Recorder()
    recorder.envelopes += [e for e in run.log if run.resumption is not None and e.seq > run.resumption.last]
    run.attach(recorder)
    return recorder


def killed_at(run: Run, switch: int) -> int:
    """Let a run go on to its end, or to a greenlet switch (from 1) at which its process dies; how many there were."""
    count = 0

    def trace(_event: str, _greenlets: t.Any) -> None:
        nonlocal count
        count += 1
        if count == switch:
            die(run)

    greenlet.settrace(trace)
    try:
        assert run.done.wait(PATIENCE_S), "the run did not end"
    finally:
        greenlet.settrace(None)
    return count


class KilledWithin:
    """A reader at whose n-th envelope the process dies, before whoever told it goes on."""

    def __init__(self, run: Run, at: int) -> None:
        self._run = run
        self._left = at

    def deliver(self, envelope: ev.Envelope) -> None:
        """See ``app.engine.emitter.Subscriber``."""
        self._left -= 1
        if not self._left:
            die(self._run)

    def flush(self) -> None:
        """Nothing to send."""


@dataclass
class Story:
    """What was told of a run by all that carried it."""

    run_id: str
    parts: list[Recorder] = field(default_factory=list)

    def stored(self, made: Services) -> list[ev.Envelope]:
        """Its log, as the store has it."""
        return [e for batch in made.store.durable.log(self.run_id) for e in unpacked(batch.data)]

    def faults(self, made: Services) -> list[str]:
        """What is wrong with how the parts fit together, and with what is stored of them."""
        stored = self.stored(made)
        found = _numbers(stored)
        by_seq = {e.seq: _form(e) for e in stored}
        gaps = [e.event for e in stored if isinstance(e.event, ev.Gap)]
        for part in self.parts:
            for envelope in part.envelopes:
                here = by_seq.get(envelope.seq)
                if here is None:
                    lost = any(gap.first <= envelope.seq <= gap.last for gap in gaps)
                    found += [] if lost else [f"{envelope.seq} was told, and is neither stored nor missed"]
                elif here != _form(envelope):
                    found.append(f"{envelope.seq} was told as {_form(envelope)!r}, and is stored as {here!r}")
        ends = [e for e in stored if isinstance(e.event, ev.Terminal)]
        if len(ends) != 1 or stored[-1] is not ends[0]:
            found.append(f"ends: {ends}")
        return found


def _numbers(stored: Sequence[ev.Envelope]) -> list[str]:
    found = []
    last = 0
    for envelope in stored:
        event = envelope.event
        skipped = isinstance(event, ev.Gap) and (event.first, event.last) == (last + 1, envelope.seq - 1)
        if envelope.seq != last + 1 and not skipped:
            found.append(f"{envelope.seq} follows {last}")
        last = envelope.seq
    return found


def _form(envelope: ev.Envelope) -> bytes:
    """What readers get to see. That a run began is told anew where nothing of it was stored: at another time."""
    at = 0 if isinstance(envelope.event, ev.RunStarted) else envelope.ts
    return encoding.dumps([envelope.seq, at, type(envelope.event).__name__, envelope.event])


def quiet(seconds: float = 0.0) -> None:
    """Let whatever can go on go on."""
    gevent.sleep(seconds)

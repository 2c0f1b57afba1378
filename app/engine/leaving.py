"""How a durable run leaves its process without an end: it pauses, is handed over, or has been lost.

Law of this room: a pause is stored before it is told, and nothing of the run is told after it; what runs is cut off
without a word, since it is not over. Whoever asked for an end meanwhile is not forgotten, nor is an answer.
"""

from __future__ import annotations

import logging
import typing as t

from app import events as ev
from app.engine.checkpoints import Paused
from app.engine.record import block_rows, run_row, usage_rows
from app.store.checkpoints import Pause
from app.store.errors import StaleOwner, StoreFailed

if t.TYPE_CHECKING:
    from app.engine.durable import DurableRun
    from app.engine.run import Run

log = logging.getLogger("studio.runs")

#: Causes of cancellation that are no end.
PAUSED, HANDED_OVER, LOST = "paused", "handed_over", "owner_lost"
LEAVES: t.Final = frozenset({PAUSED, HANDED_OVER, LOST})
#: Why a run should end whose process does; one that can goes on elsewhere instead.
SHUT_DOWN = "server_shutdown"


def pause(run: Run, durable: DurableRun) -> bool:
    """Pause a run in which nothing moves, unless that has changed; whether it is paused now."""
    if not durable.motion.still or durable.leaving or run.scope.cause is not None or run.ending is not None:
        return False
    if durable.halt is not None:  # whatever was going on has come to where it was
        run.scope.cancel(durable.halt)
        return False
    durable.leaving = True
    durable.stayed.clear()
    with run.scope.held(whole=True):
        paused = _paused(run)
        if _store(run, durable, paused):
            run.paused = t.cast(ev.RunPaused, paused.last.event)
            durable.close()
            run.emitter.release(paused.last)
            run.emitter.flush()
            run.readers.close()
            run.scope.cancel(PAUSED)
            return True
    durable.leaving = False
    durable.stayed.set()
    run.emitter.resume()
    durable.motion.look()
    if durable.wish == SHUT_DOWN:
        run.hand_over()
    elif durable.wish is not None:
        run.scope.cancel(durable.wish)
    return False


def _paused(run: Run) -> Paused:
    state = run.state
    asked = [(id_, event.block) for id_, event in state.decisions.items()]
    row = run_row(run, None)
    event = ev.RunPaused(asked, state.outputs(), state.tool_calls(), row["usage"])
    last = run.emitter.hold(event)
    return Paused(Pause(last.ts, row, block_rows(state), usage_rows(state)), last)


def _store(run: Run, durable: DurableRun, paused: Paused) -> bool:
    """Whether a pause was stored. Where it was not, the run goes on and tries again."""
    try:
        if durable.keeper.save(pause=paused) is None:
            return False
        durable.keeper.wait()
    except StoreFailed:
        log.exception("run %s: its pause could not be stored", run.id)
        return False
    return True


def leave(run: Run, durable: DurableRun) -> None:
    """What is left of a run that leaves has unwound: store the rest of it, and let go."""
    try:
        if run.scope.greenlets:
            run.scope.join()
        if run.scope.cause == HANDED_OVER:
            _hand_over(run, durable)
    except StaleOwner:
        log.warning("run %s: another process has it already", run.id)
    except Exception:
        log.exception("run %s: it could not be handed over; whoever finds its process gone goes on", run.id)
    durable.close()
    run.emitter.ended = True
    if run.scope.cause != PAUSED:
        run.readers.detach(run.services.clock.now_ms())


def _hand_over(run: Run, durable: DurableRun) -> None:
    ticket = durable.keeper.save(release=True)
    if ticket is not None:
        ticket.wait()

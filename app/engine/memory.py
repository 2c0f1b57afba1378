"""Where an agent's memory is kept: in the store for a run of a thread, else in the run.

Law of this room: an exchange is kept when its answer is whole, or when the run is being stopped before it is; an agent
that failed leaves nothing. A store that cannot be read or written is never taken for an empty memory.
"""

from __future__ import annotations

import logging
import typing as t
from collections import deque
from collections.abc import Sequence

from app.agents.memory import KEPT
from app.engine.leaving import LEAVES
from app.engine.redaction import FAILED
from app.engine.scope import Cancelled
from app.errors import BlockError
from app.store.errors import StoreFailed
from plugins.spec.memory import Exchange, Memory

if t.TYPE_CHECKING:
    from app.engine.run import Run

log = logging.getLogger("studio.runs")

UNAVAILABLE = "memory_unavailable"
#: Exchanges that a run outside of any thread keeps under one key.
MOST_IN_RUN = 1_000

#: Where the journal has exchanges: under the memory's key, with no execution of a block, of which the first is 1.
_NO_EXECUTION = 0

RunMemories = dict[str, deque[Exchange]]


def memory_of(run: Run, block: str, key: str) -> Memory:
    """The memory ``key`` of a run's conversation.

    :param block: instance path of the agent that asks.
    """
    thread = run.request.thread
    if thread is None or thread.key_id is None:  # nobody can come back to it
        return _InRun(run, block, key)
    return _InThread(run, thread.id, block, key)


def _stopped(run: Run) -> bool:
    """Whether the run is being ended from outside: not by a failure of its own, nor to go on elsewhere or later."""
    halted = None if run.durable is None else run.durable.halt
    return (run.scope.cause or halted) not in (None, "block_failed", "ended", *LEAVES)


def _shown(run: Run, block: str, asked: str, answer: str | None) -> tuple[str, t.Any]:
    """An exchange as it may be kept: the answer as it was told."""
    redaction = run.redaction
    if redaction is None:
        return asked, answer
    asked = redaction.asked(asked, block)
    if answer is not None:
        state = run.state.blocks.get(block)
        told = None if state is None else state.final_text
        answer = redaction.answer(answer, block) if told is None else told
    if redaction.broken:
        raise Cancelled(FAILED)
    return asked, answer


class _InRun:
    """Lasts as long as the run, also where that goes on in another process: then it is made of the journal."""

    def __init__(self, run: Run, block: str, key: str) -> None:
        self._run, self._block, self._key = run, block, key
        kept = run.memories.get(key)
        if kept is None:
            kept = run.memories[key] = deque(maxlen=MOST_IN_RUN)
            rows = run.journal.of(key, _NO_EXECUTION) if run.durable is not None else ()
            kept.extend(Exchange(*row.value) for row in sorted(rows, key=lambda row: row.turn))
        self._kept = kept

    def read(self, most: int, most_bytes: int) -> Sequence[Exchange]:
        """See :class:`plugins.spec.memory.Memory`; the run holds these texts anyway, so bytes do not count."""
        kept = list(self._kept)
        return kept[max(0, len(kept) - most) :]

    def append(self, asked: str, answer: str) -> None:
        """See :class:`plugins.spec.memory.Memory`."""
        asked, answer = _shown(self._run, self._block, asked, answer)
        self._kept.append(Exchange(asked, answer))
        if self._run.durable is not None:
            journal, path = self._run.journal, self._key
            place = len(journal.of(path, _NO_EXECUTION))
            journal.write(path, _NO_EXECUTION, place, "exchange", "told", "done", (asked, answer))

    def unanswered(self, asked: str) -> None:
        """Nobody will read it: the run ends."""


class _InThread:
    """Kept with the thread."""

    def __init__(self, run: Run, thread_id: str, block: str, key: str) -> None:
        self._run, self._thread, self._block, self._key = run, thread_id, block, key

    def read(self, most: int, most_bytes: int) -> Sequence[Exchange]:
        """See :class:`plugins.spec.memory.Memory`."""
        try:
            return self._run.services.store.memories.read(self._thread, self._key, most, most_bytes)
        except StoreFailed as error:
            message = "What was said before in this thread could not be read; try again."
            raise BlockError(UNAVAILABLE, message, detail=error.message) from error

    def append(self, asked: str, answer: str) -> None:
        """See :class:`plugins.spec.memory.Memory`."""
        try:
            if not self._kept_before():
                self._write(asked, answer).wait()
        except StoreFailed as error:
            message = "The answer is complete, but could not be remembered for the thread; try again."
            raise BlockError(UNAVAILABLE, message, detail=error.message) from error

    def unanswered(self, asked: str) -> None:
        """See :class:`plugins.spec.memory.Memory`. It is not waited for: the record of the run's end is written after
        it, and only then may the thread be entered again.
        """
        if not _stopped(self._run):
            return
        try:
            if not self._kept_before():
                self._write(asked, None)
        except StoreFailed:
            log.exception("run %s: a message that was stopped could not be remembered", self._run.id)

    def _kept_before(self) -> bool:
        """Whether an earlier process has kept this exchange, and went away before it could take that down: then there
        is one more than was taken down.
        """
        run = self._run
        if run.durable is None or not run.durable.resumed:
            return False
        noted = [step for step in run.journal.steps("told") if (step.path, step.key) == (self._block, KEPT)]
        return run.services.store.memories.count(self._thread, run.id, self._block) > len(noted)

    def _write(self, asked: str, answer: str | None) -> t.Any:
        memories = self._run.services.store.memories
        asked, answer = _shown(self._run, self._block, asked, answer)
        return memories.append(self._thread, self._key, self._block, self._run.id, asked, answer)

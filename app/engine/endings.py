"""What a run's end says: the terminal event for whatever it came to.

Law of this room: only what was let through is told, and of what nobody foresaw nothing; the log has that.
"""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Mapping

from app import events as ev
from app.engine import budgets, redaction, settle
from app.errors import BlockError, RunError

if t.TYPE_CHECKING:
    from app.engine.run import Run

log = logging.getLogger("studio.runs")

#: Why a scope is given up of which no more is wanted.
ENOUGH = "enough"

_CANCELLED: Mapping[str, ev.CancelCause] = {
    "client_disconnected": "client_disconnected",
    "stop_requested": "stop_requested",
    "server_shutdown": "server_shutdown",
}


def completed(run: Run, last: tuple[str, ...]) -> ev.Terminal:
    """It reached its end.

    :param last: the blocks it reached last.
    """
    outputs, caught = run.state.outputs(), run.caught
    return ev.RunCompleted(
        settle.run_output(run.request.workflow, outputs, last),
        outputs,
        run.state.tool_calls(),
        run.usage(),
        not caught,
        run.state.blocks[caught[0]].message if caught else None,
    )


def failed(run: Run, exc: BaseException) -> ev.Terminal:
    """It raised; anything unforeseen is ``internal`` and logged. What operators are told beside is put on the run."""
    if isinstance(exc, RunError):
        run.detail = exc.detail
        run.failed_model = exc.model
        block = exc.block if isinstance(exc, BlockError) else None
        message = exc.message if run.redaction is None else run.redaction.text(exc.message, block)
        return ev.RunFailed(exc.code, message, block, {})
    log.error("run %s failed unexpectedly", run.id, exc_info=exc)
    return ev.RunFailed("internal", "The server failed to run the workflow; see its log.", None, {})


def cancelled(run: Run, cause: str) -> ev.Terminal:
    """It was given up."""
    if cause == ENOUGH:
        return completed(run, (run.came_to,))
    if cause == "execution_timeout":
        return ev.RunTimedOut({})
    if cause in _CANCELLED:
        return ev.RunCancelled(_CANCELLED[cause], {})
    if run.meter is not None and run.meter.over is not None:
        return ev.RunFailed(budgets.EXCEEDED, run.meter.over.told(), None, {})
    return ev.RunFailed(cause, "The run could not go on.", None, {})


def without_words(terminal: ev.Terminal) -> ev.Terminal:
    """The end of a run whose words could not be searched; one that was stopped has none."""
    if isinstance(terminal, (ev.RunCancelled, ev.RunTimedOut)):
        return terminal
    return ev.RunFailed(redaction.FAILED, redaction.MESSAGE, None, {})

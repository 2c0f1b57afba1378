"""What people have approved for more than one call: for the rest of a thread, or of a run that is in none.

Law of this room: what cannot be looked up is not approved, so that a person is asked once more.
"""

from __future__ import annotations

import logging
import typing as t

from app.store.errors import StoreFailed

if t.TYPE_CHECKING:
    from app.engine.run import Run

log = logging.getLogger("studio.runs")

#: Where the journal has what was approved in the run: with no block.
_PATH, _EXECUTION = "", 0


def approved(run: Run, subject: str) -> bool:
    """Whether a person has approved what ``subject`` names."""
    if run.journal.find(_PATH, _EXECUTION, 0, subject) is not None:
        return True
    thread = run.request.thread
    if thread is None:
        return False
    try:
        return subject in run.services.store.decisions.approved_for_thread(thread.id)
    except StoreFailed:
        log.exception("run %s: what was approved in its thread could not be read", run.id)
        return False


def approve(run: Run, subject: str) -> None:
    """Take down that a person has approved what ``subject`` names."""
    run.journal.write(_PATH, _EXECUTION, 0, subject, "decision", "done")
    thread = run.request.thread
    if thread is None:
        return
    try:
        run.services.store.decisions.approve_for_thread(thread.id, subject)
    except StoreFailed:
        log.exception("run %s: an approval could not be kept for its thread", run.id)

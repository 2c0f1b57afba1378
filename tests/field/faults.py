"""Named points at which a server dies, for the field cases. Loaded by a test server's entry points, and only there.

Law of this room: nothing dies that a test has not armed: a file named after the point holds the id of the run. It is
taken away before the process ends as ``kill -9`` ends it, so that each dies once.
"""

from __future__ import annotations

import functools
import os
import signal
import typing as t
from collections.abc import Callable
from pathlib import Path

from app.engine import asking, carrying, leaving, memory
from app.engine.registry import Run, RunRegistry
from studio_plugin import Tool, hookimpl

#: The folder of what is armed.
VARIABLE = "FIELD_FAULTS"

#: Point: what has happened then, and nothing more.
POINTS = {
    "asked": "a question is stored; nobody was shown it",
    "pausing": "a question was shown; the pause is not stored",
    "paused": "the pause is stored; nobody was told",
    "answered": "an answer is stored; nobody took it up",
    "claimed": "a process has taken the run; nothing of it runs",
}
#: The same, apart from pauses: an agent's answer is kept for its thread, and that is not taken down; a run has come to
#: its end, and that is not stored.
REMEMBERED, ENDING = "remembered", "ending"


def reach(point: str, run_id: str) -> None:
    """Die here, if this is armed for the run."""
    armed = Path(os.environ[VARIABLE]) / point
    if armed.exists() and armed.read_text() == run_id:
        armed.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def _before(owner: t.Any, name: str, point: str, run_of: Callable[..., str]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: t.Any, **kwargs: t.Any) -> t.Any:
        reach(point, run_of(*args))
        return original(*args, **kwargs)

    setattr(owner, name, wrapped)


def _after(owner: t.Any, name: str, point: str, run_of: Callable[..., str]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: t.Any, **kwargs: t.Any) -> t.Any:
        made = original(*args, **kwargs)
        if made is not False:  # else it did not come about
            reach(point, run_of(*args))
        return made

    setattr(owner, name, wrapped)


@hookimpl
def tools() -> t.Sequence[Tool]:
    """None: a plugin that implements nothing is told of as a mistake."""
    return ()


if VARIABLE in os.environ:
    _after(leaving, "_store", "paused", lambda run, *_: run.id)
    _after(memory._InThread, "append", REMEMBERED, lambda kept, *_: kept._run.id)
    _before(asking.People, "_tell", "asked", lambda people, rows: people._run.id)
    _before(leaving, "_store", "pausing", lambda run, *_: run.id)
    _before(Run, "_store", ENDING, lambda run, *_: run.id)
    _before(RunRegistry, "go_on", "answered", lambda runs, run_id: run_id)
    _before(carrying, "resumed", "claimed", lambda services, claim, *_: claim.row["id"])

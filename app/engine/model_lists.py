"""Asks servers for their model lists, beside everything else.

Law of this room: nobody waits for a server but who says so; every list is bounded in time and a few are asked for
at once, so one server that hangs delays no other's list and no request.
"""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Iterable

from app.engine.scope import Cancelled, RunScope, Task, spawn_service
from plugins.listing import Job
from plugins.registry import Registry

log = logging.getLogger("studio.lists")

#: Seconds for one list, and for all of one round.
ONE_S, ALL_S = 10.0, 30.0
#: Lists asked for at once.
AT_ONCE = 8


def refresh(plugins: Registry) -> Task | None:
    """Ask for every list that is not fresh, in the background; None when there is nothing to ask."""
    jobs = plugins.lists_due()
    return spawn_service(run, jobs) if jobs else None


def refresh_now(plugins: Registry, families: Iterable[str]) -> None:
    """Ask for the lists of ``families`` that are not fresh, and wait for them (at most :data:`ONE_S` each)."""
    run(plugins.lists_due(families=families))


def run(jobs: list[Job], one_s: float = ONE_S, all_s: float = ALL_S) -> None:
    """Run ``jobs``, a few at once; what is not done in time is dropped and counts as failed.

    :param jobs: emptied.
    """
    with RunScope() as scope:
        scope.deadline(all_s, "execution_timeout")
        for _ in range(min(AT_ONCE, len(jobs))):
            scope.spawn(_work, scope, jobs, one_s)
        scope.join()
        if scope.error is not None:
            log.error("asking for model lists failed", exc_info=scope.error)


def _work(scope: RunScope, jobs: list[t.Any], one_s: float) -> None:
    while jobs:
        job = jobs.pop()
        try:
            with scope.child() as one:
                one.deadline(one_s, "execution_timeout")
                job(one)
        except Cancelled:
            if scope.cause is not None:
                raise

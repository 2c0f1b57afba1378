"""Runs that are cancelled at a given greenlet switch, so that a test can try every one of them."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

import greenlet

from app.engine.run import Run
from tests.support.engine import Recorder


def cancelled_at(
    begin: Callable[[], tuple[Run, Recorder]], causes: Mapping[int, str]
) -> tuple[Run, Recorder, int]:
    """Begin a run, cancel it at switches (from 1), each for its cause; also how many switches it took to its end."""
    count = 0
    run, recorder = begin()

    def trace(_event: str, _greenlets: t.Any) -> None:
        nonlocal count
        count += 1
        if count in causes:
            run.cancel(causes[count])

    greenlet.settrace(trace)
    try:
        assert run.done.wait(20), "the run did not end"
    finally:
        greenlet.settrace(None)
    return run, recorder, count

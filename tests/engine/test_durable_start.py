"""A durable run is stored before anybody knows of it."""

from __future__ import annotations

import typing as t
from pathlib import Path

import gevent
from gevent import monkey

from tests.support.engine import services, start
from tests.support.graphs import graph

DURABLE = {**graph([("z", "set", {"values": {"x": 1}})], "start > z"), "settings": {"durable": True}}


def test_nobody_has_a_durable_run_that_is_not_stored(tmp_path: Path) -> None:
    """Whoever was told of it finds it, though the process ends right then."""
    free = monkey.get_original("threading", "Event")()
    with services(tmp_path) as made:
        try:
            made.store._writer.submit(
                lambda link: free.wait(20)
            )  # in its thread: nothing behind it is written
            begun = gevent.spawn(start, made, DURABLE)
            for _ in range(10):
                gevent.sleep(0.005)
                assert not begun.ready()
                assert len(made.runs) == 0
        finally:
            free.set()
        run, _ = t.cast("tuple[t.Any, t.Any]", begun.get(timeout=20))
        assert made.store.runs.status(run.id) is not None
        assert run.done.wait(20)

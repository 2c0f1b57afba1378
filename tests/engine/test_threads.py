"""Tools in native threads: what hangs is left behind and takes nobody else's place."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterator

import gevent
import pytest
from gevent.monkey import get_original

from app.engine.scope import Cancelled, RunScope
from app.engine.threads import ToolThreads


@pytest.fixture
def threads() -> Iterator[ToolThreads]:
    made = ToolThreads(2)
    yield made
    made.close()


def _leave(threads: ToolThreads, release: t.Any) -> None:
    """Cancel a caller whose thread waits for the native lock ``release``."""
    with RunScope() as scope:
        scope.deadline(0.05, "tool_timeout")
        with pytest.raises(Cancelled):
            threads.run(lambda: release.acquire(True, 20), scope)


def test_threads_that_hang_are_made_up_for_until_they_end(threads: ToolThreads) -> None:
    release = get_original("_thread", "allocate_lock")()
    release.acquire()
    for _ in range(5):
        _leave(threads, release)
    began = time.monotonic()
    with RunScope() as scope, gevent.Timeout(10):
        assert threads.run(lambda: "here", scope) == "here"
    assert time.monotonic() - began < 10
    assert threads._pool is not None
    assert threads._pool.maxsize == 7
    for _ in range(5):  # each that gets the lock ends, and so does the next one
        release.release()
        with gevent.Timeout(10):
            size = threads._pool.maxsize
            while threads._pool.maxsize == size:
                gevent.sleep(0.01)
    assert threads._pool.maxsize == 2


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), gevent.Timeout(1)])
def test_what_is_no_exception_becomes_one(
    threads: ToolThreads, raised: BaseException, capfd: pytest.CaptureFixture[str]
) -> None:
    def work() -> t.NoReturn:
        raise raised

    with RunScope() as scope, pytest.raises(RuntimeError, match=f"raised {type(raised).__name__}"):
        threads.run(work, scope)
    assert capfd.readouterr().err == ""  # the caller says what happened, not the pool

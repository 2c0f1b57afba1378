"""What a run leaves behind is freed by reference counts: a garbage collection stops every stream of the worker."""

from __future__ import annotations

import gc
from pathlib import Path

import gevent
import pytest

from app.engine.registry import Run
from app.engine.scope import RunScope
from tests.support.engine import agent, services, start


@pytest.mark.parametrize("script", ["echo", "parallel", "error-mid"])
def test_an_ended_run_is_no_cyclic_garbage(script: str, tmp_path: Path) -> None:
    with services(tmp_path) as made:
        for collecting in (False, True):  # the first run fills caches
            run, recorder = start(made, agent(f"scripted/{script}", tools=["clock", "calculator"]))
            assert run.done.wait(20)
            gevent.sleep(0)  # its greenlet has nothing left to do but to end
            if collecting:
                gc.collect()
                gc.disable()
                gc.set_debug(gc.DEBUG_SAVEALL)
                try:
                    del run, recorder
                    gc.collect()
                    found = [type(each).__name__ for each in gc.garbage if isinstance(each, (Run, RunScope))]
                finally:
                    gc.set_debug(0)
                    gc.garbage.clear()
                    gc.enable()
                assert found == []

"""The graph on Studio's engine: ``python -m benchmarks.graph.studio_side RUNS`` prints what it took as JSON.

Law of this room: all of a run is counted that a server does for it once it was admitted: scheduling, templates, events,
their projection to the bytes of a stream at level full, the run log and the stored record.
"""

from gevent import monkey; monkey.patch_all()  # noqa: E702, I001  # fmt: skip

import gc
import json
import sys
import tempfile
import time
import typing as t
from pathlib import Path

from app import config
from app import events as ev
from app.builtins import Builtins
from app.clock import SystemClock
from app.engine.registry import RunRequest
from app.engine.services import Services
from app.store import Store
from app.streams.rights import Rights
from app.streams.run_events import RunEvents, RunEventsOptions
from app.streams.voices import voices
from app.workflows.compiled import CompiledWorkflow
from app.workflows.validation import compile_document
from plugins.manager import create_manager
from plugins.registry import Registry

HERE = Path(__file__).resolve().parent
#: As the worker sets them.
GC_THRESHOLDS = (50_000, 20, 50)
INPUT = {"message": "hello", "n": 5}


class Reader:
    """Makes the bytes of a stream and counts them. ``blocks``: executions that ended, skipped ones not."""

    def __init__(self, projection: RunEvents) -> None:
        self._projection = projection
        self.bytes = self.blocks = 0
        self.end: t.Any = None

    def deliver(self, envelope: ev.Envelope) -> None:
        """See ``app.engine.emitter.Subscriber``."""
        self.bytes += len(self._projection.frames(envelope))
        if type(envelope.event) is ev.BlockFinished:
            self.blocks += envelope.event.status == "executed"
        elif isinstance(envelope.event, ev.Terminal):
            self.end = envelope.event

    def flush(self) -> None:
        """There is no socket."""


def run_once(services: Services, workflow: CompiledWorkflow, options: t.Any) -> Reader:
    """One run to its end, its record stored."""
    run_id = services.clock.new_id("run")
    heard, rights = options
    reader = Reader(RunEvents(RunEventsOptions(run_id, "thr_1", "full", rights, heard)))
    run = services.runs.start(RunRequest(run_id, "wf_bench", 1, workflow, INPUT, 300), (reader,))
    run.done.wait()
    return reader


def main(runs: int) -> dict[str, t.Any]:
    """Warm up, run, count."""
    with tempfile.TemporaryDirectory() as folder:
        settings = config.load({"STUDIO_DATA_DIR": folder, "STUDIO_SCRIPTS_DIR": str(HERE / "scripts")})
        store = Store(settings)
        store.migrate()
        store.open()
        plugins = Registry(create_manager(entry_points=False, builtins=(Builtins(settings),)))
        services = Services(settings, store, plugins, SystemClock())
        document = (HERE / "thirty.yaml").read_text()
        workflow = compile_document(
            document, plugins.block_types, plugins.check_model, frozenset(plugins.tools)
        )
        options = (voices(workflow), Rights(True, True, True))
        for _ in range(max(2, runs // 10)):
            run_once(services, workflow, options)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        cpu, wall = time.process_time(), time.perf_counter()
        readers = [run_once(services, workflow, options) for _ in range(runs)]
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        services.runs.close()
        services.threads.close()
        store.close()
    assert all(isinstance(reader.end, ev.RunCompleted) for reader in readers)
    blocks = readers[0].blocks
    return {
        "cpu_ms_per_run": cpu / runs * 1e3,
        "wall_ms_per_run": wall / runs * 1e3,
        "blocks": blocks,
        "cpu_us_per_block": cpu / runs / blocks * 1e6,
        "bytes": readers[0].bytes,
        "answer": readers[0].end.output,
    }


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))

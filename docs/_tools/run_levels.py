"""Runs a workflow file in this process and prints how many bytes run events take at each level, as JSON.

    .venv/bin/python docs/_tools/run_levels.py examples/jury.yaml "Was it he?"

Law of this room: a clock that stands still and ids that count, so that two runs take equally many bytes.
"""

from gevent import monkey; monkey.patch_all()  # noqa: E702, I001  # fmt: skip

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from app import config
from app.builtins import Builtins
from app.clock import SteppingClock
from app.engine.recompiled import compiled
from app.engine.registry import RunRequest
from app.engine.services import Services
from app.events import Envelope
from app.store import Store
from app.streams.rights import Rights
from app.streams.run_event_levels import LEVELS
from app.streams.run_events import RunEvents, RunEventsOptions
from app.streams.voices import voices
from app.workflows.document import parse
from plugins.manager import create_manager
from plugins.registry import Registry


class Counter:
    """A reader at each level that counts bytes."""

    def __init__(self, options: list[RunEventsOptions]) -> None:
        self.readers = {option.level: RunEvents(option) for option in options}
        self.bytes = dict.fromkeys(self.readers, 0)
        self.frames = dict.fromkeys(self.readers, 0)

    def deliver(self, envelope: Envelope) -> None:
        """Count one envelope."""
        for level, reader in self.readers.items():
            data = reader.frames(envelope)
            self.bytes[level] += len(data)
            self.frames[level] += data.count(b"data: ")

    def flush(self) -> None:
        """Nothing to send."""


def main(path: str, message: str) -> None:
    """See the module."""
    with tempfile.TemporaryDirectory() as folder:
        settings = config.load({"STUDIO_DATA_DIR": folder})
        store = Store(settings)
        store.migrate()
        plugins = Registry(create_manager(entry_points=False, builtins=(Builtins(settings),)))
        services = Services(settings, store, plugins, SteppingClock(step_ms=0))
        workflow = compiled(parse(Path(path).read_text()), plugins)
        heard = voices(workflow)
        rights = Rights(False, True, True)
        counter = Counter([RunEventsOptions("run_1", "thr_1", level, rights, heard) for level in LEVELS])
        request = RunRequest("run_1", "jury", 1, workflow, {"message": message}, 300)
        services.runs.start(request, (counter,)).done.wait()
        services.threads.close()
        store.close()
    print(json.dumps({level: [counter.frames[level], counter.bytes[level]] for level in LEVELS}))


if __name__ == "__main__":
    main(*sys.argv[1:])

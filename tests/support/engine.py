"""The engine without HTTP: services over a real store, runs started and recorded in this process.

Law of this room: everything below the surface is the real thing; only the surface is missing.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import gevent
import gevent.event

from app import config
from app.builtins import Builtins, mcp_servers
from app.clock import Clock, SystemClock
from app.engine.recompiled import compiled
from app.engine.registry import Run, RunRequest
from app.engine.services import Services
from app.events import Envelope
from app.store import Store
from plugins.manager import create_manager
from plugins.registry import Registry
from tests.support import databases


class Recorder:
    """A subscriber that keeps every envelope."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []

    def deliver(self, envelope: Envelope) -> None:
        """Keep it."""
        self.envelopes.append(envelope)

    def flush(self) -> None:
        """Nothing to send."""

    def of(self, kind: type) -> list[t.Any]:
        """The events of one type, in order."""
        return [e.event for e in self.envelopes if isinstance(e.event, kind)]


class Awake(SystemClock):
    """A clock that sleeps for nobody: notes for how long it was asked to, lets others run, goes on.

    :ivar slept: seconds, in order. :ivar hold: wait on this event instead.
    """

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.hold: gevent.event.Event | None = None

    def sleep(self, seconds: float) -> None:
        """See ``app.clock.Clock``."""
        self.slept.append(seconds)
        if self.hold is not None:
            self.hold.wait()
        gevent.sleep(0)


@contextmanager
def services(
    folder: Path,
    environ: Mapping[str, str] | None = None,
    plugins: tuple[object, ...] = (),
    clock: Clock | None = None,
) -> Iterator[Services]:
    """Services with the built-in plugins, and ``plugins``, over a fresh SQLite store in ``folder``."""
    settings = config.load({"STUDIO_DATA_DIR": str(folder), **(environ or {})})
    databases.ready(settings)
    store = Store(settings)
    store.open()
    made = Services(
        settings,
        store,
        Registry(
            create_manager(entry_points=False, builtins=(Builtins(settings), *plugins)), mcp_servers(settings)
        ),
        clock or SystemClock(),
    )
    try:
        yield made
    finally:
        made.runs.close()
        made.threads.close()
        made.mcp.close()
        store.close()


def agent(model: str, **settings: t.Any) -> dict[str, t.Any]:
    """A document: start, then one agent."""
    return {
        "name": "test",
        "blocks": [
            {"id": "start", "type": "start"},
            {"id": "agent_1", "type": "agent", "config": {"model": model, **settings}},
        ],
        "edges": [{"source": "start", "target": "agent_1"}],
    }


def start(
    made: Services, document: Mapping[str, t.Any], given: t.Any = None, **options: t.Any
) -> tuple[Run, Recorder]:
    """Start a run of ``document`` with a recorder as its only reader."""
    workflow = compiled(document, made.plugins)
    request = RunRequest(
        run_id=made.clock.new_id("run"),
        workflow_id="wf_test",
        version=1,
        workflow=workflow,
        input={"message": "hi"} if given is None else given,
        timeout_s=options.pop("timeout_s", workflow.settings.timeout_s),
        on_disconnect=workflow.settings.on_disconnect,
        disconnect_grace_s=workflow.settings.disconnect_grace_s,
        show_thinking=True,
        **options,
    )
    recorder = Recorder()
    return made.runs.start(request, (recorder,)), recorder

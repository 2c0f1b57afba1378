"""Runs of LangGraph graphs in this process, over a real store, and what they told as lines."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app import events as ev
from app.engine.registry import Run, RunRequest
from app.engine.services import Services
from app.store.threads import ThreadRow
from app.workflows.compiled import CompiledWorkflow
from app.workflows.runner_graph import compile_runner
from plugins.hookspecs import hookimpl
from plugins.langgraph_app import GraphApp
from plugins.langgraph_app.runner import LangGraphRunner
from tests.support import engine
from tests.support.engine import Recorder


class _Plugin:
    plugin_name = "graphs"

    def __init__(self) -> None:
        self.runners: list[t.Any] = []

    @hookimpl
    def workflow_runners(self) -> list[t.Any]:
        return self.runners


@dataclass
class Told:
    """A run and what it told."""

    run: Run
    recorder: Recorder

    def of(self, kind: type) -> list[t.Any]:
        """Its events of one type."""
        return self.recorder.of(kind)

    @property
    def end(self) -> t.Any:
        """Its terminal event."""
        last = self.recorder.envelopes[-1].event
        assert isinstance(last, ev.Terminal), last
        return last

    @property
    def record(self) -> Mapping[str, t.Any]:
        """As it is stored."""
        return self.run.record()


@dataclass
class Served:
    """A graph that is served."""

    services: Services
    workflow: CompiledWorkflow

    def thread(self) -> ThreadRow:
        """A new thread."""
        return self.services.store.threads.open("langgraph:app", None, "run_none")

    def start(self, given: t.Any, thread: ThreadRow | None = None, **options: t.Any) -> Told:
        """Start a run."""
        request = RunRequest(
            run_id=self.services.clock.new_id("run"),
            workflow_id="langgraph:app",
            version=None,
            workflow=self.workflow,
            input={"message": given} if isinstance(given, str) else given,
            timeout_s=options.pop("timeout_s", self.workflow.settings.timeout_s),
            show_thinking=True,
            thread=thread,
            **options,
        )
        recorder = Recorder()
        return Told(self.services.runs.start(request, (recorder,)), recorder)

    def run(self, given: t.Any, thread: ThreadRow | None = None, **options: t.Any) -> Told:
        """Run it to its end, or until it pauses."""
        told = self.start(given, thread, **options)
        assert told.run.done.wait(60), outline(told)
        return told


@contextmanager
def serve(folder: Path) -> Iterator[Callable[..., Served]]:
    """Gives a function that serves a graph, or a :class:`GraphApp`."""
    with engine.services(folder) as made:

        def make(graph: t.Any) -> Served:
            app = graph if isinstance(graph, GraphApp) else GraphApp(graph)
            runner = LangGraphRunner("app", app)
            made.plugins.runners[runner.id] = runner
            return Served(made, compile_runner(runner))

        yield make


def outline(told: Told) -> list[str]:
    """The events as short lines."""
    return [_line(envelope.event) for envelope in told.recorder.envelopes]


#: What of an event follows its name.
_MEMBERS: Mapping[type, tuple[str, ...]] = {
    ev.BlockStarted: ("block",),
    ev.BlockFinished: ("block", "status"),
    ev.TurnEnded: ("block", "turn", "kind", "reason"),
    ev.ToolStarted: ("block", "id", "name"),
    ev.ToolExecuting: ("block", "id", "name"),
    ev.ToolFinished: ("block", "id", "status"),
    ev.AnswerRetracted: ("block", "reason"),
    ev.RunFailed: ("code", "block"),
    ev.RunCancelled: ("cause",),
    ev.DecisionSettled: ("block", "decision"),
}


def _line(event: t.Any) -> str:
    words = [type(event).__name__]
    members = _MEMBERS.get(type(event), ("block",))
    words += [str(value) for name in members if (value := getattr(event, name, None)) is not None]
    if isinstance(event, (ev.TextDelta, ev.ThinkingDelta)):
        words += [str(event.turn), repr(event.text)]
    if isinstance(event, ev.AnswerSettled):
        words.append(repr(event.text))
    if isinstance(event, (ev.BlockStarted, ev.BlockFinished)) and event.execution > 1:
        words.append(str(event.execution))
    return " ".join(words)

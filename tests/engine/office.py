"""The engine, a vendor that answers by the test's hand, and people who do."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import gevent
import pytest

from app import events as ev
from app.engine.recompiled import compiled
from app.engine.registry import Run, RunRequest
from app.engine.services import Services
from app.store.checkpoints import DecisionRow
from plugins.hookspecs import hookimpl
from plugins.spec import Tool
from tests.engine.flows import document
from tests.support.engine import Recorder, services
from tests.support.vendor import Call, Vendor, vendor

MODEL = "openai-compatible/field"
ANY: dict[str, t.Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}


class Desk:
    """Registered tools that note what they did. ``look`` needs nobody, ``careful`` always a person."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, t.Any]] = []
        self.hold: gevent.event.Event | None = None
        self.begun = gevent.event.Event()

    def _tool(self, name: str, **more: t.Any) -> Tool:
        def run(arguments: dict[str, t.Any], context: t.Any) -> str:
            self.ran.append((name, arguments))
            self.begun.set()
            if self.hold is not None:
                with context.waits.wait():
                    self.hold.wait()
            return f"{name} {arguments.get('n')}"

        return Tool(name, name, ANY, run, **more)

    @hookimpl
    def tools(self) -> list[Tool]:
        """See the class."""
        return [
            self._tool("pay"),
            self._tool("look"),
            self._tool("read", idempotent=True),
            self._tool("careful", approval="always"),
        ]


class Office:
    """The engine, a vendor that answers by the test's hand, and people who do."""

    def __init__(self, made: Services, model: Vendor, desk: Desk) -> None:
        self.made, self.vendor, self.desk = made, model, desk

    def start(self, doc: Mapping[str, t.Any], given: str = "go", **options: t.Any) -> tuple[Run, Recorder]:
        """Start a run."""
        workflow = compiled(dict(doc), self.made.plugins)
        assert workflow.durable
        request = RunRequest(
            options.pop("run_id", None) or self.made.clock.new_id("run"),
            "wf_test",
            1,
            workflow,
            {"message": given},
            workflow.settings.timeout_s,
            **options,
        )
        recorder = Recorder()
        return self.made.runs.start(request, (recorder,)), recorder

    def asked(self, run: Run) -> dict[str, DecisionRow]:
        """What people are asked of a run that has paused, by tool and ``n``, or by kind."""
        assert run.done.wait(60)
        assert run.paused is not None
        return {_label(row): row for row in self.made.store.decisions.open_of_run(run.id)}

    def answer(self, row: DecisionRow, decision: str, **more: t.Any) -> Run:
        """Answer a question of a run that has paused; the run goes on."""
        remember = bool(more.get("remember"))
        won, _ = self.made.store.decisions.answer(
            row.id, {"decision": decision, **more}, "key_7", remember=remember
        )
        assert won
        run = self.made.runs.go_on(row.run_id)
        assert run is not None
        return run

    def next_call(self) -> Call:
        """The next request of a model."""
        return self.vendor.next_call()

    def stream(self, run: Run) -> list[ev.RunEvent]:
        """All that was told of a run, by whichever process."""
        return [envelope.event for envelope in run.log]

    def output(self, run: Run) -> t.Any:
        """The output of a run that completes."""
        assert run.done.wait(60)
        end = self.stream(run)[-1]
        assert isinstance(end, ev.RunCompleted), end
        return end.output


def _label(row: DecisionRow) -> str:
    if row.review["kind"] == "answer":
        return "answer"
    return f"{row.review['tool']} {row.review['arguments'].get('n', '')}".strip()


@contextmanager
def offices(folder: Path) -> Iterator[Office]:
    """One for the tests of a module."""
    with vendor() as model, pytest.MonkeyPatch.context() as patch:
        patch.setenv("STUDIO_OPENAI_COMPATIBLE_API_BASE", model.base)
        desk = Desk()
        with services(folder, {"STUDIO_HTTP_ALLOW": "127.0.0.0/8"}, plugins=(desk,)) as made:
            yield Office(made, model, desk)


@contextmanager
def cleared(office: Office) -> Iterator[Office]:
    """As a test finds it, and has to leave it."""
    office.desk.ran, office.desk.hold = [], None
    office.desk.begun.clear()
    yield office
    assert office.vendor.calls.empty(), "a request came that the test did not expect"


def agent(*tools: t.Any, **config: t.Any) -> dict[str, t.Any]:
    return document([("a", "agent", {"model": MODEL, "tools": list(tools), **config})], "start > a")


def held(name: str, approval: str = "always", **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "approval": approval, **more}


def asks_for(call: Call, *calls: tuple[str, int]) -> None:
    """A turn that asks for tools."""
    for place, (name, n) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps({"n": n})}
        call.send({"tool_calls": [{"index": place, "id": f"t{place}", "function": function}]})
    call.finish("tool_calls")


def says(call: Call, text: str) -> None:
    call.text(text)
    call.finish()


def results(call: Call) -> list[str]:
    return [message["content"] for message in call.body["messages"] if message["role"] == "tool"]

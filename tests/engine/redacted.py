"""Runs in which something is masked: a model that says what a test wants, and everything that is told of a run.

Law of this room: what a run told is looked at as bytes, everywhere at once; a test says what must not be in it.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import gevent

from app import encoding
from app import events as ev
from app.engine.registry import Run
from app.engine.services import Services
from plugins.hookspecs import hookimpl
from plugins.spec import Capabilities, ConnectionSpec, Detector, ProviderFamily, Tool
from providers import spec
from providers.auth import NoAuth
from tests.support.engine import Awake, Recorder, services

#: What a model says in one turn: ``("text" | "thinking", piece)``, ``("call", (name, arguments))``, ``("fail", code)``,
#: ``("pause", None)``, ``("stall", None)``.
Turn = Sequence[tuple[str, t.Any]]


class Model:
    """A wire whose turns a test gives it.

    :ivar turns: the turns of one message of a user; behind the last one it says "the end". :ivar asked: every request.
    """

    name = "said"

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.asked: list[spec.ModelRequest] = []
        self.calls = 0

    def stream(
        self, request: spec.ModelRequest, connection: spec.Connection, waits: spec.Waits
    ) -> Iterator[list[spec.ModelEvent]]:
        """See :class:`providers.spec.Wire`."""
        self.asked.append(request)
        ready: list[spec.ModelEvent] = []
        for kind, value in self._turn(request):
            if kind == "text":
                yield [spec.TextDelta(value)]
            elif kind == "thinking":
                yield [spec.ThinkingDelta(value)]
            elif kind == "call":
                call = request.mint_id()
                yield [spec.ToolCallStarted(call, value[0])]
                raw = value[1] if isinstance(value[1], str) else encoding.dumps(value[1]).decode()
                given = None if isinstance(value[1], str) else value[1]
                error = "invalid_json" if given is None else None
                ready.append(spec.ToolCallReady(call, value[0], given, raw, error))
            elif kind == "fail":
                raise spec.ProviderError(value, "The model failed.", detail="what the vendor said")
            else:
                with waits.wait():
                    gevent.sleep(0 if kind == "pause" else 60)
        yield [*ready, spec.ModelFinished("tool_calls" if ready else "stop", spec.Usage(3, 4), None)]

    def _turn(self, request: spec.ModelRequest) -> Turn:
        """By how many it has said; with the model ``in-order``, one after the other."""
        if request.model == "in-order":
            self.calls += 1
            place = self.calls - 1
        else:
            place = 0
            for message in request.messages:
                place = (
                    0
                    if isinstance(message, spec.UserMessage)
                    else place + isinstance(message, spec.AssistantMessage)
                )
        if request.model == "backup":
            place = len(self.turns) - 1
        return self.turns[place] if place < len(self.turns) else [("text", "the end")]


class Plugin:
    """Brings the model as ``said/x``, tools and detectors."""

    def __init__(self, model: Model, tools: Sequence[Tool] = (), detectors: Sequence[Detector] = ()) -> None:
        can = Capabilities(thinking="full", tools="parallel", structured_output="native")
        connection = ConnectionSpec(default_base="", key_required=False)
        self._family = ProviderFamily("said", "Said", model, NoAuth(), connection, lambda name, row: can)
        self._tools = list(tools)
        self._detectors = list(detectors)

    @hookimpl
    def provider_families(self) -> list[ProviderFamily]:
        """See ``plugins.hookspecs``."""
        return [self._family]

    @hookimpl
    def tools(self) -> list[Tool]:
        """See ``plugins.hookspecs``."""
        return self._tools

    @hookimpl
    def pii_detectors(self) -> list[Detector]:
        """See ``plugins.hookspecs``."""
        return self._detectors


@contextmanager
def rig(
    folder: Path, model: Model, tools: Sequence[Tool] = (), detectors: Sequence[Detector] = ()
) -> Iterator[Services]:
    """Services with the model."""
    with services(folder, plugins=(Plugin(model, tools, detectors),)) as opened:
        opened.clock = Awake()
        yield opened


def ended(run: Run) -> Run:
    """The run, once it has ended."""
    assert run.done.wait(20), "the run did not end"
    return run


def chunks(recorder: Recorder, block: str = "agent_1") -> str:
    """The text that stands at a reader who is shown all of it."""
    standing = ""
    open_text = ""
    for envelope in recorder.envelopes:
        event = envelope.event
        if isinstance(event, ev.TextDelta) and event.block == block:
            open_text += event.text
        elif isinstance(event, ev.TurnEnded) and event.block == block:
            standing = standing if event.kind == "intermediate" else standing + open_text
            open_text = ""
        elif isinstance(event, ev.AnswerRetracted) and event.block == block:
            standing = open_text = ""
    return standing + open_text


def joined(recorder: Recorder, kind: type[ev.RunEvent] = ev.TextDelta) -> str:
    """All text of a kind of event that ever went out, retracted or not."""
    return "".join(event.text for event in recorder.of(kind))


def everything(made: Services, run: Run, recorder: Recorder) -> str:
    """All that is told and kept of a run, as one text: its events, its log, its record, what is remembered."""
    told: list[t.Any] = [envelope.event for envelope in recorder.envelopes]
    told += [envelope.event for envelope in run.log]
    told += [run.record(), made.store.runs.get(run.id)]
    told.append([joined(recorder), joined(recorder, ev.ThinkingDelta)])
    thread = run.request.thread
    if thread is not None:
        told.append([[row.asked, row.answer] for row in made.store.memories.page(thread.id, None, 100)[0]])
    text = json.dumps(encoding.plain(told), ensure_ascii=False)  # keys of rows are no plain text to orjson
    return f"{text}\n{_strings(json.loads(text))}"


def _strings(value: t.Any) -> str:
    """Every text in a JSON value as it is, without the escapes of JSON."""
    if isinstance(value, str):
        return f"{value}\n"
    if isinstance(value, Mapping):
        return "".join(f"{key}\n{_strings(item)}" for key, item in value.items())
    return "".join(map(_strings, value)) if isinstance(value, list) else f"{value}\n"

"""Models that say what was drawn, and a tool that lets others run, for random workflows.

Law of this room: a model waits before each thing it says, as one does that reads from a vendor; how often others come
to run in between is drawn, too.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterator

import gevent

from plugins.hookspecs import hookimpl
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Tool, ToolContext, ToolFailed
from providers import spec
from providers.auth import NoAuth

FAMILY = "drawn"
#: What one turn does, step by step: kind and value.
Turn = list[tuple[str, t.Any]]


class Drawn:
    """The wire of models that say what was drawn. ``streams``: those that are open. ``calls``: how often the tool of
    these models ran, by run and call.
    """

    name = "drawn"

    def __init__(self) -> None:
        self.scripts: dict[str, list[Turn]] = {}
        self.streams = 0
        self.calls: Counter[tuple[str, str]] = Counter()

    def stream(
        self, request: spec.ModelRequest, connection: spec.Connection, waits: spec.Waits
    ) -> Iterator[list[spec.ModelEvent]]:
        """See :meth:`providers.spec.Wire.stream`."""
        turns = self.scripts[request.model]
        done = sum(isinstance(message, spec.AssistantMessage) for message in request.messages)
        self.streams += 1
        ready: list[spec.ModelEvent] = []
        try:
            for kind, value in turns[min(done, len(turns) - 1)]:
                with waits.wait():  # as any wire reads what comes next
                    if kind in ("pause", "stall"):
                        gevent.sleep(0 if kind == "pause" else 600)
                if kind == "fail":
                    raise spec.ProviderError(value, "The model failed.")
                if kind == "call":
                    call_id = request.mint_id()
                    yield [spec.ToolCallStarted(call_id, value[0])]
                    ready.append(spec.ToolCallReady(call_id, value[0], value[1], "{raw", value[2]))
                elif kind == "text":
                    yield [spec.TextDelta(value)]
                elif kind == "thinking":
                    yield [spec.ThinkingDelta(value)]
            yield [*ready, spec.ModelFinished("stop", spec.Usage(3, 4), None)]
        finally:
            self.streams -= 1


def _breathe(arguments: dict[str, t.Any], context: ToolContext) -> t.Any:
    if arguments["times"] < 0:
        raise ToolFailed("less than no breath")
    for _ in range(arguments["times"]):
        with context.waits.wait():
            gevent.sleep(0)
    return arguments["times"]


class Plugin:
    """Brings the models, and a tool that lets others run."""

    def __init__(self, wire: Drawn) -> None:
        self._wire = wire

    @hookimpl
    def provider_families(self) -> list[ProviderFamily]:
        """See ``plugins.hookspecs``."""
        can = Capabilities(thinking="full", tools="parallel", structured_output="native")
        connection = ConnectionSpec(default_base="", key_required=False)
        return [ProviderFamily(FAMILY, "Drawn", self._wire, NoAuth(), connection, lambda model, row: can)]

    @hookimpl
    def tools(self) -> list[Tool]:
        """See ``plugins.hookspecs``."""
        parameters = {"type": "object", "properties": {"times": {"type": "integer"}}, "required": ["times"]}
        return [Tool("breathe", "Lets others run so many times.", parameters, self._breathe)]

    def _breathe(self, arguments: dict[str, t.Any], context: ToolContext) -> t.Any:
        self._wire.calls[context.run_id, context.call_id] += 1
        return _breathe(arguments, context)

"""Graph events: which node of the workflow runs, is done, waits for a person, and what the turn came to (contract
section 6).

Law of this room: ``graph_topology`` comes first, and exactly one of ``turn_completed``, ``paused`` and ``error`` last.
Every execution of a node has one ``node_started`` and one ``node_completed``; what never ran is told as skipped when
the turn has completed, and nothing is made up at a pause, a failure or an abort: what was cut off there has no end.

A stream also ends at ``detached``, when its run goes on elsewhere. Frames have an ``event:`` line. Several frames of
one envelope share its ``seq``; ``id: <runId>:<seq>`` stands on the last of them.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from app import events as ev
from app.encoding import dumps
from app.errors import RunError
from app.state import BlockState, RunState
from app.streams import sse
from app.streams.chat_response import Known, Turn, chat_response, open_reviews, review_of, with_wait
from app.streams.graph_failures import Failure, failure_of
from app.streams.public import seen, seen_state
from app.streams.rights import Rights
from app.streams.topology import Topology, outline

#: (event, data as JSON)
_Item = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class GraphEventsOptions:
    """What one reader may have, and what is known of the workflow.

    :ivar topology: None where the workflow is not stored any more.
    :ivar rights: ``payloads``: the arguments of tools that people are asked about.
    """

    turn: Turn
    topology: Topology | None
    rights: Rights


class GraphEvents:
    """One reader's projection. ``done`` is True after the last frame.

    :ivar response: the ChatResponse as JSON, once the turn is complete or has paused.
    :ivar failure: why it came to none.
    """

    __slots__ = (
        "_cut",
        "_drawn",
        "_known",
        "_options",
        "_told",
        "_topology",
        "_waited",
        "done",
        "failure",
        "response",
    )

    def __init__(self, options: GraphEventsOptions) -> None:
        self.done = False
        self.response: bytes | None = None
        self.failure: Failure | None = None
        self._options = options
        self._topology = options.topology or outline((), ())
        self._known = Known()
        #: Nodes that have ended, and ends that are held back: those of a run that ends are not told.
        self._told: set[str] = set()
        self._cut: list[_Item] = []
        self._waited: int | None = None
        #: The number under which a gap told the graph.
        self._drawn = 0

    def frames(self, envelope: ev.Envelope) -> bytes:
        """See :class:`app.streams.projection.Projection`."""
        event = envelope.event
        handler = _HANDLERS.get(type(event))
        if handler is None or (self.done and type(event) is not ev.RunResumed):
            return b""
        told = seen(event, self._options.rights)
        return b"" if told is None else self._frames(envelope, list(handler(self, told, envelope)))

    def gap(self, envelope: ev.Envelope, state: RunState) -> bytes:
        """See :class:`app.streams.projection.Projection`."""
        event = t.cast(ev.Gap, envelope.event)
        state = seen_state(state, self._options.rights)
        if self._options.topology is None:
            self._topology = outline(state.infos.values(), ())
        self._known, self._told, self._cut = Known(), set(), []
        missing = {"from": event.first, "to": event.last, "reason": event.reason}
        items = [self._graph(), ("gap", dumps(missing))]
        self._drawn = envelope.seq
        for block in sorted(state.blocks.values(), key=lambda block: block.ended_at or envelope.ts):
            items += self._standing(block)
        for asked in state.decisions.values():
            items += self._asked(asked, envelope)
        return self._frames(envelope, items)

    def detached(self, seq: int, ts: int) -> bytes:
        """See :class:`app.streams.projection.Projection`."""
        self.done = True
        return sse.RETRY + sse.frame(dumps({"retry_ms": sse.RETRY_MS}), event="detached")

    # -- framing -----------------------------------------------------------------------------

    def _frames(self, envelope: ev.Envelope, items: list[_Item]) -> bytes:
        last = len(items) - 1
        return b"".join(
            sse.frame(data, self._id(envelope) if place == last else None, kind)
            for place, (kind, data) in enumerate(items)
        )

    def _id(self, envelope: ev.Envelope) -> bytes:
        return b"%b:%d" % (self._options.turn.run_id.encode(), envelope.seq)

    # -- the graph ---------------------------------------------------------------------------

    def _graph(self) -> _Item:
        return "graph_topology", self._topology.data

    def _run_started(self, event: ev.RunStarted, _: ev.Envelope) -> Iterator[_Item]:
        if self._options.topology is None:
            self._topology = outline(event.blocks, event.edges)
        yield self._graph()

    # -- nodes -------------------------------------------------------------------------------

    def _block_started(self, event: ev.BlockStarted, envelope: ev.Envelope) -> Iterator[_Item]:
        yield from self._released()
        self._known.types[event.block] = event.type
        if self._topology.shows(event.block):
            yield self._starts(event.block, event.execution, envelope.ts)

    def _starts(self, block: str, execution: int, ts: int) -> _Item:
        body = {"node": self._topology.node(block), "run_id": self._options.turn.run_id, "ts_ms": ts}
        return "node_started", dumps(body | self._which(block, execution))

    def _block_finished(self, event: ev.BlockFinished, _: ev.Envelope) -> Iterator[_Item]:
        # Whatever ends in itself has an output; one without was ended from outside, maybe by the end of the run.
        if event.status == "failed" and event.output is None:
            if self._topology.shows(event.block):
                self._cut.append(self._ends(event.block, event.execution, event))
            return
        yield from self._released()
        if event.status != "skipped" and self._topology.shows(event.block):
            yield self._ends(event.block, event.execution, event)

    def _ends(self, block: str, execution: int, end: ev.BlockFinished | BlockState) -> _Item:
        node = self._topology.node(block)
        self._told.add(node)
        body: dict[str, t.Any] = {"node": node, "status": end.status, "duration_ms": end.duration_ms}
        self._known.path.append(body)
        failed = {"error": end.message or "It failed."} if end.status == "failed" else {}
        return "node_completed", dumps(body | failed | self._which(block, execution))

    def _which(self, block: str, execution: int) -> dict[str, t.Any]:
        """Which execution of its node: ``iteration`` of one that may run again, ``instance`` of several at once."""
        node = self._topology.node(block)
        repeated = execution > 1 or node in self._topology.repeated
        return {
            **({"iteration": execution} if repeated else {}),
            **({"instance": block} if block != node else {}),
        }

    def _released(self) -> Iterator[_Item]:
        """The run goes on: what was cut off in it has ended."""
        yield from self._cut
        self._cut.clear()

    def _standing(self, block: BlockState) -> Iterator[_Item]:
        """What a reader has to know of a block it missed."""
        self._known.types[block.block] = block.type
        if block.status == "skipped" or not self._topology.shows(block.block):
            return
        if block.status == "running":
            yield self._starts(block.block, block.execution, block.started_at or 0)
        else:
            yield self._ends(block.block, block.execution, block)

    # -- people ------------------------------------------------------------------------------

    def _asked(self, event: ev.DecisionRequested, _: ev.Envelope) -> Iterator[_Item]:
        yield from self._released()
        node = self._topology.node(event.block)
        self._known.open[event.pause_id] = review_of(event, node, self._options.rights)

    def _settled(self, event: ev.DecisionSettled, _: ev.Envelope) -> Iterator[_Item]:
        self._known.open.pop(event.pause_id, None)
        return self._released()

    def _paused(self, event: ev.RunPaused, _: ev.Envelope) -> Iterator[_Item]:
        yield from self._released()
        first, *others = open_reviews(event, self._known)
        turn = self._options.turn
        body = {"run_id": turn.run_id, "thread_id": turn.thread_id, **first}
        yield self._answers("paused", event, dumps(body | ({"others": others} if others else {})))

    def _resumed(self, event: ev.RunResumed, envelope: ev.Envelope) -> Iterator[_Item]:
        self.done, self.response = False, None
        if event.human_wait_ms is not None:
            self._waited = (self._waited or 0) + event.human_wait_ms
        if envelope.seq != self._drawn + 1:
            yield self._graph()

    # -- the end -----------------------------------------------------------------------------

    def _completed(self, event: ev.RunCompleted, _: ev.Envelope) -> Iterator[_Item]:
        yield from self._released()
        for node in self._topology.types:
            if node not in self._told:
                body = {"node": node, "status": "skipped", "duration_ms": 0}
                self._known.path.append(body)
                yield "node_completed", dumps(body)
        yield self._answers("turn_completed", event)

    def _answers(self, kind: str, event: ev.RunCompleted | ev.RunPaused, data: bytes | None = None) -> _Item:
        """The last frame, with the response as its data unless there is other; an error when that is too large."""
        self.done = True
        try:
            self.response = chat_response(self._options.turn, self._known, event, self._options.rights)
        except RunError as error:
            return self._fails(Failure(error.code, error.message, False, 500))
        return kind, with_wait(self.response, self._waited) if data is None else data

    def _ended(self, event: ev.Terminal, _: ev.Envelope) -> Iterator[_Item]:
        self.done = True
        self._cut.clear()
        yield self._fails(failure_of(event))

    def _fails(self, failure: Failure) -> _Item:
        self.failure = failure
        return "error", dumps(failure.body())


_HANDLERS: Mapping[type[ev.RunEvent], Callable[[GraphEvents, t.Any, ev.Envelope], Iterator[_Item]]] = {
    ev.RunStarted: GraphEvents._run_started,
    ev.BlockStarted: GraphEvents._block_started,
    ev.BlockFinished: GraphEvents._block_finished,
    ev.DecisionRequested: GraphEvents._asked,
    ev.DecisionSettled: GraphEvents._settled,
    ev.RunPaused: GraphEvents._paused,
    ev.RunResumed: GraphEvents._resumed,
    ev.RunCompleted: GraphEvents._completed,
    **dict.fromkeys((ev.RunFailed, ev.RunCancelled, ev.RunTimedOut), GraphEvents._ended),
}

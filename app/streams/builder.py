"""Builder events: a draft run as the editor follows it (contract section 4).

Law of this room: everything is told, to those who build the workflow. ``stream:*`` is provisional and may be left out
of a replay; ``block:completed.output`` is what counts. Each execution of a block that has streamed has one
``stream:done``, right before its end. One terminal, then the bare ``[DONE]``; at a pause the stream ends, not the run.

``eventId`` is the place of the event in the run, and stands on the last frame of an event: it increases and has gaps.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from app import events as ev
from app.clock import rfc3339
from app.encoding import dumps
from app.state import BlockState, RunState, plain
from app.streams import references, sse
from app.streams.builder_ends import ending, pauses
from app.streams.builder_logs import Logs
from app.streams.builder_loops import Loops
from app.streams.rights import Rights, strip_output

SENTINEL = b"[DONE]"
#: Builders have a key; that time segments hold no thinking is so for everybody.
RIGHTS = Rights(thinking=True, tools=True, payloads=True)

#: (type, data)
_Item = tuple[str, dict[str, t.Any]]


@dataclass(frozen=True, slots=True)
class BuilderOptions:
    """What one reader asked for.

    :ivar thread_id: empty for a run in no thread.
    :ivar durable_only: leave ``stream:*`` out.
    :ivar masked: takes secret values out of what is told; None: there are none.
    """

    run_id: str
    workflow_id: str
    thread_id: str = ""
    durable_only: bool = False
    masked: Callable[[t.Any], t.Any] | None = None


class _Live:
    """The text of one block at this reader: ``length`` characters stand, ``turn`` of them in the open turn; ``open``:
    this execution has streamed. ``silent``: its text is no answer to read, but what its output is made from.
    """

    __slots__ = ("head", "length", "open", "silent", "turn")

    def __init__(self, block: str, silent: bool) -> None:
        self.head = b'"data":{"blockId":%b,"chunk":' % dumps(block)
        self.length = self.turn = 0
        self.open = False
        self.silent = silent


class BuilderEvents:
    """One reader's projection. ``done`` is True after the sentinel."""

    __slots__ = (
        "_asked",
        "_infos",
        "_lives",
        "_logs",
        "_loops",
        "_middle",
        "_options",
        "_started_at",
        "done",
    )

    def __init__(self, options: BuilderOptions) -> None:
        self.done = False
        self._options = options
        self._infos: dict[str, ev.BlockInfo] = {}
        self._lives: dict[str, _Live] = {}
        self._asked: dict[str, ev.DecisionRequested] = {}
        self._logs = Logs(options.run_id)
        self._loops = Loops()
        self._started_at: int | None = None
        ids = (dumps(options.run_id), dumps(options.workflow_id))
        self._middle = b'","runId":%b,"workflowId":%b,' % ids

    def frames(self, envelope: ev.Envelope) -> bytes:
        """See :class:`app.streams.projection.Projection`."""
        event = envelope.event
        if self.done:
            return b""
        if type(event) is ev.TextDelta:
            return self._delta(event, envelope)
        handler = _HANDLERS.get(type(event))
        if handler is None:
            return b""
        data = self._frames(envelope, list(handler(self, event, envelope.ts)))
        if isinstance(event, (ev.Terminal, ev.RunPaused)):
            self.done = True
            data += sse.frame(SENTINEL, self._id(envelope.seq))
        return data

    def gap(self, envelope: ev.Envelope, state: RunState) -> bytes:
        """See :class:`app.streams.projection.Projection`."""
        event = t.cast(ev.Gap, envelope.event)
        self._infos = dict(state.infos)
        self._lives, self._logs = {}, Logs(self._options.run_id)
        self._asked = dict(state.decisions)
        self._started_at = state.started_at
        items: list[_Item] = [("gap", {"from": event.first, "to": event.last, "reason": event.reason})]
        standing = sorted(state.blocks.values(), key=lambda block: block.started_at or envelope.ts)
        for block in standing:
            items += self._standing(block)
        return self._frames(envelope, items)

    def detached(self, seq: int, ts: int) -> bytes:
        """See :class:`app.streams.projection.Projection`."""
        self.done = True
        data = b'"data":%b' % dumps({"retryMs": sse.RETRY_MS})
        return sse.RETRY + sse.frame(self._envelope("detached", ts, data, None))

    # -- framing -----------------------------------------------------------------------------

    def _id(self, seq: int) -> bytes:
        return b"%b:%d" % (self._options.run_id.encode(), seq)

    def _envelope(self, kind: str, ts: int, data: bytes, seq: int | None) -> bytes:
        tail = b"}" if seq is None else b',"eventId":%d}' % seq
        when = rfc3339(ts).encode()
        return b'{"type":"%b","timestamp":"%b%b%b%b' % (kind.encode(), when, self._middle, data, tail)

    def _frames(self, envelope: ev.Envelope, items: list[_Item]) -> bytes:
        """``items``, with the numbers on the last."""
        if self._options.durable_only:
            items = [item for item in items if not item[0].startswith("stream:")]
        last, found = len(items) - 1, []
        for place, (kind, data) in enumerate(items):
            seq = envelope.seq if place == last else None
            ended = seq is None or isinstance(envelope.event, (ev.Terminal, ev.RunPaused))
            body = self._envelope(kind, envelope.ts, b'"data":%b' % self._encoded(data), seq)
            # Of the last event the sentinel has the id.
            found.append(sse.frame(body, None if ended else self._id(envelope.seq)))
        return b"".join(found)

    def _encoded(self, data: dict[str, t.Any]) -> bytes:
        masked = self._options.masked
        return dumps(data if masked is None else masked(data))

    # -- text --------------------------------------------------------------------------------

    def _live(self, block: str) -> _Live:
        live = self._lives.get(block)
        if live is None:
            info = self._infos.get(plain(block))
            live = self._lives[block] = _Live(block, info is not None and info.structured)
        return live

    def _delta(self, event: ev.TextDelta, envelope: ev.Envelope) -> bytes:
        """A piece of an answer: once a token, so no object is made for it."""
        live = self._lives.get(event.block)
        if live is None:
            live = self._live(event.block)
        text = event.text
        if not text or live.silent:
            return b""
        live.open = True
        live.length += len(text)
        live.turn += len(text)
        options = self._options
        if options.durable_only:
            return b""
        if options.masked is not None:
            text = options.masked(text)
        body = self._envelope("stream:chunk", envelope.ts, b"%b%b}" % (live.head, dumps(text)), envelope.seq)
        return sse.frame(body, self._id(envelope.seq))

    def _thinking(self, event: ev.ThinkingDelta, _: int) -> Iterator[_Item]:
        if event.text or event.truncated:
            self._live(event.block).open = True
            cut = {"truncated": True} if event.truncated else {}
            yield "stream:thinking", {"blockId": event.block, "text": event.text, **cut}

    def _tool_started(self, event: ev.ToolStarted, _: int) -> Iterator[_Item]:
        self._live(event.block).open = True
        yield "stream:tool", {"blockId": event.block, "phase": "start", "id": event.id, "name": event.name}

    def _tool_finished(self, event: ev.ToolFinished, _: int) -> Iterator[_Item]:
        call = {"blockId": event.block, "phase": "end", "id": event.id, "name": event.name}
        yield "stream:tool", {**call, "status": event.status}

    def _turn_ended(self, event: ev.TurnEnded, _: int) -> Iterator[_Item]:
        live = self._lives.get(event.block)
        if live is None:
            return
        said, live.turn = live.turn, 0
        if said and event.kind == "intermediate":
            live.length = 0
            yield "stream:chunk_reset", {"blockId": event.block}

    def _retracted(self, event: ev.AnswerRetracted, _: int) -> Iterator[_Item]:
        live = self._lives.get(event.block)
        if live is not None and live.length:
            live.length = live.turn = 0
            yield "stream:chunk_reset", {"blockId": event.block}

    def _over(self, block: str) -> Iterator[_Item]:
        """Nothing more of this execution is streamed."""
        live = self._lives.get(block)
        if live is not None and live.open:
            live.open = False
            yield "stream:done", {"blockId": block}

    # -- blocks ------------------------------------------------------------------------------

    def _run_started(self, event: ev.RunStarted, ts: int) -> Iterator[_Item]:
        self._started_at = ts
        self._infos = {info.id: info for info in event.blocks}
        self._loops.add("", event.blocks, event.edges)
        yield "execution:started", {}

    def _child_started(self, event: ev.ChildStarted, _: int) -> Iterator[_Item]:
        base = f"{event.block}/"
        self._infos.update({f"{base}{info.id}": info for info in event.blocks})
        self._loops.add(base, event.blocks, event.edges)
        return iter(())

    def _loop(self, event: ev.LoopIteration, _: int) -> Iterator[_Item]:
        self._loops.turn(event)
        return iter(())

    def _block_started(self, event: ev.BlockStarted, ts: int) -> Iterator[_Item]:
        which = self._begin(event.block, event.name, event.type, event.given, ts)
        yield "block:started", which

    def _begin(self, block: str, name: str, kind: str, given: t.Any, ts: int | None) -> dict[str, t.Any]:
        """The members of every event about an execution."""
        self._logs.count += 1
        which: dict[str, t.Any] = {
            "blockId": block,
            "blockName": name,
            "blockType": kind,
            "executionOrder": self._logs.count,
        }
        iteration = self._loops.iteration(block)
        if iteration is not None:
            which["iteration"] = iteration
        self._logs.begin(block, which, given, ts)
        return which

    def _block_finished(self, event: ev.BlockFinished, ts: int) -> Iterator[_Item]:
        if event.status == "skipped":
            info = self._infos.get(plain(event.block))
            which = {"blockId": event.block, "blockName": info.name if info else event.block}
            self._logs.begin(event.block, which | {"blockType": info.type if info else ""}, None, None)
            self._logs.end(event.block, "skipped", {}, ts, 0)
            return
        yield from self._over(event.block)
        yield self._ends(event.block, event, ts)

    def _ends(self, block: str, end: ev.BlockFinished | BlockState, ts: int) -> _Item:
        entry = self._logs.open[block]
        given = {} if entry.given is None else {"input": entry.given}
        told: dict[str, t.Any]
        size = 0
        if end.status == "failed":
            kind, status = "block:error", "failed"
            told = {"error": end.message or "It failed.", "code": end.code or "block_failed"}
        else:
            kind, status = "block:completed", "completed"
            output = strip_output(end.output, RIGHTS)
            size = len(dumps(output))
            if size > references.VALUE_LIMIT:
                path = ("blocks", block, "output")
                output = references.referring(self._options.run_id, output, path)
            told = {"output": output}
        told["durationMs"] = end.duration_ms
        self._logs.end(block, status, told, ts, size)
        return kind, {**entry.which, **given, **told}

    def _standing(self, block: BlockState) -> Iterator[_Item]:
        """What a reader has to know of a block it missed."""
        if block.status == "skipped":
            return
        yield (
            "block:started",
            self._begin(block.block, block.name, block.type, block.given, block.started_at),
        )
        if block.status != "running":
            yield self._ends(block.block, block, block.ended_at or 0)
            return
        live = self._live(block.block)
        text = block.standing_text()
        if text and not live.silent:
            live.open, live.length = True, len(text)
            live.turn = sum(map(len, block.live))
            yield "stream:chunk", {"blockId": block.block, "chunk": text}
        for call in block.calls.values():
            if call.status is None:
                live.open = True
                which = {"blockId": block.block, "phase": "start", "id": call.id, "name": call.name}
                yield "stream:tool", which

    # -- people, and the end -----------------------------------------------------------------

    def _requested(self, event: ev.DecisionRequested, _: int) -> Iterator[_Item]:
        self._asked[event.pause_id] = event
        return iter(())

    def _decided(self, event: ev.DecisionSettled, _: int) -> Iterator[_Item]:
        self._asked.pop(event.pause_id, None)
        return iter(())

    def _paused(self, event: ev.RunPaused, ts: int) -> Iterator[_Item]:
        options = self._options
        data = pauses(options.run_id, options.thread_id, event, self._asked)
        waiting = {block for _, block in event.pauses}
        yield "execution:paused", data | self._logged(event, ts, waiting)

    def _ended(self, event: ev.Terminal, ts: int) -> Iterator[_Item]:
        kind, data = ending(self._options.run_id, event)
        yield kind, data | self._logged(event, ts)

    def _logged(self, event: t.Any, ts: int, waiting: t.Collection[str] = ()) -> dict[str, t.Any]:
        began = ts if self._started_at is None else self._started_at
        logs = self._logs.told(waiting)
        return {"durationMs": ts - began, "usage": event.usage, "finalBlockLogs": logs}


_HANDLERS: Mapping[type[ev.RunEvent], Callable[[BuilderEvents, t.Any, int], Iterator[_Item]]] = {
    ev.RunStarted: BuilderEvents._run_started,
    ev.ChildStarted: BuilderEvents._child_started,
    ev.LoopIteration: BuilderEvents._loop,
    ev.BlockStarted: BuilderEvents._block_started,
    ev.BlockFinished: BuilderEvents._block_finished,
    ev.ThinkingDelta: BuilderEvents._thinking,
    ev.TurnEnded: BuilderEvents._turn_ended,
    ev.AnswerRetracted: BuilderEvents._retracted,
    ev.ToolStarted: BuilderEvents._tool_started,
    ev.ToolFinished: BuilderEvents._tool_finished,
    ev.DecisionRequested: BuilderEvents._requested,
    ev.DecisionSettled: BuilderEvents._decided,
    ev.RunPaused: BuilderEvents._paused,
    **dict.fromkeys((ev.RunCompleted, ev.RunFailed, ev.RunCancelled, ev.RunTimedOut), BuilderEvents._ended),
}

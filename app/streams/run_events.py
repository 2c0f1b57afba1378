"""Run events: one stream that tells a whole run, at the level of detail its reader asked for (contract section 5).

Law of this room: ``thread`` comes first and ``done`` last, in every ending, and at a pause, after which a stream ends
and the run does not. Nothing that was sent is taken back: text goes out as it is written only where nothing can
retract it, everywhere else whole, once its turn is settled. Levels only lose events
(:mod:`app.streams.run_event_levels`), rights only members.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Iterator, Mapping

from app import events as ev
from app.clock import rfc3339
from app.encoding import dumps
from app.state import BlockState, RunState, plain
from app.streams import sse
from app.streams.final import selects
from app.streams.public import seen, seen_state
from app.streams.run_event_data import (
    PLAIN,
    RESPONSE,
    ask_of,
    bounded,
    call_of,
    ending,
    node_of,
    snake_usage,
    text_of,
)
from app.streams.run_event_frames import RunEventsOptions, frame, id_of
from app.streams.run_event_levels import shown

__all__ = ["RunEvents", "RunEventsOptions"]

RETRIEVE = "retrieve"

#: (type, data, whether its text is the run's answer)
_Item = tuple[str, dict[str, t.Any], bool]


class _Node(t.NamedTuple):
    """A block instance that runs."""

    type: str
    name: str
    execution: int


class RunEvents:
    """One reader's projection. ``done`` is True after the last frame."""

    __slots__ = (
        "_answered",
        "_asked",
        "_before",
        "_behind",
        "_decisions",
        "_infos",
        "_lone",
        "_nodes",
        "_options",
        "_pinned",
        "_sent",
        "_shown",
        "_spoken",
        "_thinking",
        "done",
    )

    def __init__(self, options: RunEventsOptions) -> None:
        self.done = False
        self._options = options
        self._shown = shown(options.level)
        self._infos: dict[str, ev.BlockInfo] = {}
        self._nodes: dict[str, _Node] = {}
        self._asked: set[tuple[str, str]] = set()
        self._answered: set[str] = set()
        self._thinking: dict[str, int] = {}
        self._decisions: tuple[ev.DecisionRequested, ...] = ()
        self._pinned: str | None = None
        #: Whether some of the answer was told whole, and how much was told of what is told as it is written.
        self._spoken = False
        self._sent = 0
        lone = options.voices.lone
        self._lone = lone if lone is not None and self._gets(lone) else None
        ids = (dumps(options.run_id), dumps(options.thread_id))
        self._before = b'","run_id":%b,"thread_id":%b,"data":{"content":' % ids
        self._behind = b',"node_id":%b}}' % dumps(lone)

    def frames(self, envelope: ev.Envelope) -> bytes:
        """See :class:`app.streams.projection.Projection`."""
        event = envelope.event
        if self.done:
            return b""
        # Once a token, so no object is made for it.
        if type(event) is ev.TextDelta and event.block not in self._thinking:
            return self._chunk_frame(envelope, event.text) if event.block == self._lone else b""
        handler, told = _HANDLERS.get(type(event)), seen(event, self._options.rights)
        if handler is None or told is None:
            return b""
        data = self._frames(envelope, handler(self, told))
        if isinstance(event, (ev.Terminal, ev.RunPaused)):
            self.done = True
        return data

    def detached(self, seq: int, ts: int) -> bytes:
        """See :class:`app.streams.projection.Projection`."""
        self.done = True
        # It is no event of the run, so it has no id.
        return sse.RETRY + frame(
            self._options, max(seq, 1), ts, "detached", {"retry_ms": sse.RETRY_MS}, False
        )

    def gap(self, envelope: ev.Envelope, state: RunState) -> bytes:
        """See :class:`app.streams.projection.Projection`."""
        event, state = t.cast(ev.Gap, envelope.event), seen_state(state, self._options.rights)
        self._infos = dict(state.infos)
        self._nodes, self._asked, self._answered, self._thinking = {}, set(), set(), {}
        self._decisions = ()
        self._pinned = state.pinned
        self._spoken, self._sent = False, 0
        items: list[_Item] = [] if event.first > 1 else [self._begins()]
        items.append(("gap", {"from": event.first, "to": event.last, "reason": event.reason}, False))
        for block in state.blocks.values():
            items += self._standing(block)
        for ask in state.decisions.values():
            items += self._requested(ask)
        return self._frames(envelope, items)

    def _standing(self, block: BlockState) -> Iterator[_Item]:
        """What a reader has to know of a block it missed: that it runs, what it said, and its open calls."""
        node = _Node(block.type, block.name, block.execution)
        if block.status == "running":
            self._nodes[block.block] = node
            yield self._node_starts(block.block, node)
        if block.block == self._options.voices.lone:
            yield from self._so_far(block)
        elif block.status == "executed":
            yield from self._whole(block.block, node, block.output)
        for call in block.calls.values():
            if call.executing and call.status is None:
                began = ev.ToolExecuting(
                    block.block, call.turn, call.id, call.name, call.arguments, call.started_at
                )
                yield from self._executing(began)

    def _so_far(self, block: BlockState) -> Iterator[_Item]:
        """The text that goes out as it is written; what of it was lost on the way comes when its block ends."""
        executed = block.status == "executed"
        text = text_of(block.output, block.type) if executed else block.streamed_text()
        if text:
            self._sent = len(text)
            yield "chat_chunk", {"content": text, "node_id": block.block}, self._is_answer(block.block)

    # -- framing -----------------------------------------------------------------------------

    def _frames(self, envelope: ev.Envelope, items: Iterable[_Item]) -> bytes:
        """Those of ``items`` this reader gets, with the id on the last."""
        given = [item for item in items if self._may(item)]
        last = len(given) - 1
        return b"".join(
            frame(self._options, envelope.seq, envelope.ts, kind, data, place == last)
            for place, (kind, data, _) in enumerate(given)
        )

    def _may(self, item: _Item) -> bool:
        kind, _, is_answer = item
        how = self._shown.get(kind)
        return how == "yes" or (how == "answer" and is_answer)

    def _chunk_frame(self, envelope: ev.Envelope, text: str) -> bytes:
        """A piece of the one answer."""
        if not text:
            return b""
        self._sent += len(text)
        head = b'{"type":"chat_chunk","seq":%d,"ts":"%b' % (envelope.seq, rfc3339(envelope.ts).encode())
        return sse.frame(head + self._before + dumps(text) + self._behind, id_of(self._options, envelope.seq))

    def _gets(self, block: str) -> bool:
        """Whether this reader gets the text of a block."""
        return self._shown["chat_chunk"] == "yes" or self._is_answer(block)

    def _is_answer(self, block: str) -> bool:
        return any(selects(answer, block) for answer in self._options.voices.answers)

    # -- blocks ------------------------------------------------------------------------------

    def _run_started(self, event: ev.RunStarted) -> Iterator[_Item]:
        self._infos = {info.id: info for info in event.blocks}
        yield self._begins()

    def _begins(self) -> _Item:
        return "thread", {"thread_id": self._options.thread_id}, False

    def _child_started(self, event: ev.ChildStarted) -> Iterator[_Item]:
        base = plain(event.block)
        self._infos.update({f"{base}/{info.id}": info for info in event.blocks})
        return iter(())

    def _block_started(self, event: ev.BlockStarted) -> Iterator[_Item]:
        node = _Node(event.type, event.name, event.execution)
        self._nodes[event.block] = node
        self._answered.discard(event.block)
        yield self._node_starts(event.block, node)
        if event.type == RETRIEVE:
            yield "search_started", {"node_id": event.block}, False
        elif event.type == RESPONSE:
            yield "processing_final_response", {"node_id": event.block}, False

    def _node_starts(self, block: str, node: _Node) -> _Item:
        return "workflow_node_start", node_of(block, node.type, node.name, node.execution), False

    def _block_finished(self, event: ev.BlockFinished) -> Iterator[_Item]:
        node = self._nodes.pop(event.block, None)
        if node is None:
            info = self._infos.get(plain(event.block))
            node = _Node(info.type if info else "", info.name if info else event.block, event.execution)
        yield from self._thought(event.block)
        if event.status == "executed":
            yield from self._said(event, node)
        if node.type == RETRIEVE and event.status != "skipped":
            yield "search_finished", {"node_id": event.block, "success": event.status == "executed"}, False
        data = node_of(event.block, node.type, node.name, node.execution) | {
            "success": event.status != "failed"
        }
        if event.status == "failed":
            data["error"] = event.message or event.code or "It failed."
        elif event.status == "skipped":
            data["skipped"] = True
        data["duration_ms"] = event.duration_ms
        yield "workflow_node_end", data, False

    def _said(self, event: ev.BlockFinished, node: _Node) -> Iterator[_Item]:
        """What a block came to say, unless it is known already."""
        block = event.block
        if block in self._answered:
            return
        if block != self._options.voices.lone:
            yield from self._whole(block, node, event.output)
        elif rest := text_of(event.output, node.type)[self._sent :]:
            self._sent += len(rest)
            yield "chat_chunk", {"content": rest, "node_id": block}, self._is_answer(block)

    def _whole(self, block: str, node: _Node, output: Mapping[str, t.Any] | None) -> Iterator[_Item]:
        """All that a block says, if it speaks."""
        options, base = self._options, plain(block)
        if base in options.voices.closing:
            text = "" if self._has_answered() else text_of(output, node.type)
            if text:
                yield self._message(block, text, node.name, True)
        elif base in options.voices.speakers:
            text = text_of(output, node.type, base in options.voices.relays)
            if text:
                answer = self._is_answer(block)
                self._spoken = self._spoken or answer
                yield self._message(block, text, node.name, answer)

    def _has_answered(self) -> bool:
        """Whether this reader was told the answer, or some of it, by a block that gives it."""
        lone = self._options.voices.lone
        return self._spoken or (self._sent > 0 and lone is not None and self._is_answer(lone))

    def _message(
        self, block: str, content: str, sender: str, answer: bool, round_: int | None = None
    ) -> _Item:
        data: dict[str, t.Any] = {
            "content": content,
            "sender": {"name": sender},
            "context": {"node_id": block},
        }
        if round_ is not None:
            data["round"] = round_
        return "agent_message", data, answer

    # -- models ------------------------------------------------------------------------------

    def _text(self, event: ev.TextDelta) -> Iterator[_Item]:
        yield from self._thought(event.block)
        if event.block == self._lone and event.text:
            self._sent += len(event.text)
            yield "chat_chunk", {"content": event.text, "node_id": event.block}, self._is_answer(event.block)

    def _think(self, event: ev.ThinkingDelta) -> Iterator[_Item]:
        block = event.block
        if block not in self._thinking:
            self._thinking[block] = 0
            yield "llm_thinking", {"node_id": block, "state": "started", "chars": 0}, False
        if event.text:
            chars = self._thinking[block] = self._thinking[block] + len(event.text)
            if self._options.rights.thinking:
                data = {"node_id": block, "state": "thinking", "chars": chars, "text": event.text}
                yield "llm_thinking", data, False

    def _thought(self, block: str) -> Iterator[_Item]:
        """A model has stopped to think, if it did."""
        chars = self._thinking.pop(block, None)
        if chars is not None:
            yield "llm_thinking", {"node_id": block, "state": "finished", "chars": chars}, False

    def _thinking_ends(self, event: ev.TurnEnded | ev.ToolStarted) -> Iterator[_Item]:
        return self._thought(event.block)

    def _executing(self, event: ev.ToolExecuting) -> Iterator[_Item]:
        call = call_of(event)
        yield self._asks(event, call)
        yield "tool_executing", call | {"status": "running"}, False

    def _asks(self, event: ev.ToolExecuting | ev.ToolFinished, call: dict[str, t.Any]) -> _Item:
        self._asked.add((event.block, event.id))
        known = self._options.rights.payloads and event.arguments is not None
        return "tool_use", call | ({"tool_input": event.arguments} if known else {}), False

    def _finished(self, event: ev.ToolFinished) -> Iterator[_Item]:
        call = call_of(event)
        if (event.block, event.id) not in self._asked:  # it could not run, so nothing has told of it yet
            yield self._asks(event, call)
        self._asked.discard((event.block, event.id))
        cut: dict[str, t.Any] = {}
        known = event.result is not None or event.status == "success"
        if self._options.rights.payloads and known:
            call["output"], cut = bounded(event.result)
        yield "tool_result", call | {"status": event.status} | cut, False

    # -- composites, and what needs no more than the event ------------------------------------

    def _plain(self, event: ev.RunEvent) -> Iterator[_Item]:
        kind, data = PLAIN[type(event)](event)
        yield kind, data, False

    def _agent_message(self, event: ev.AgentMessage) -> Iterator[_Item]:
        if event.answer:
            self._answered.add(event.block)
        if plain(event.block) in self._options.voices.speakers:
            answer = event.answer and self._is_answer(event.block)
            self._spoken = self._spoken or answer
            yield self._message(event.block, event.content, event.sender, answer, event.round)

    # -- people ------------------------------------------------------------------------------

    def _requested(self, event: ev.DecisionRequested) -> Iterator[_Item]:
        self._decisions = (*self._decisions, event)
        yield "decision_requested", ask_of(event, self._options.rights.payloads), False

    def _decided(self, event: ev.DecisionSettled) -> Iterator[_Item]:
        self._decisions = tuple(ask for ask in self._decisions if ask.pause_id != event.pause_id)
        yield from self._plain(event)

    def _paused(self, event: ev.RunPaused) -> Iterator[_Item]:
        asked = {ask.pause_id: ask for ask in self._decisions}
        for pause_id, _ in event.pauses:
            if pause_id in asked:
                yield "workflow_paused", ask_of(asked[pause_id], self._options.rights.payloads), False
        yield self._flow_state()
        yield "done", {"usage": snake_usage(event.usage), "status": "paused"}, False

    def _resumed(self, event: ev.RunResumed) -> Iterator[_Item]:
        yield self._begins()

    # -- the thread and the end --------------------------------------------------------------

    def _flow(self, event: ev.FlowChanged) -> Iterator[_Item]:
        self._pinned = event.pinned
        return iter(())

    def _ended(self, event: ev.Terminal) -> Iterator[_Item]:
        told, done = ending(event)
        if told is not None:
            yield (*told, False)
        yield self._flow_state()
        yield "done", done, False

    def _flow_state(self) -> _Item:
        pinned = self._pinned
        info = None if pinned is None else self._infos.get(pinned)
        agent = pinned if info is None else info.name
        return "flow_state", {"pinned_node": pinned, "pinned_agent": agent}, False


_HANDLERS: Mapping[type[ev.RunEvent], Callable[[RunEvents, t.Any], Iterator[_Item]]] = {
    ev.RunStarted: RunEvents._run_started,
    ev.ChildStarted: RunEvents._child_started,
    ev.BlockStarted: RunEvents._block_started,
    ev.BlockFinished: RunEvents._block_finished,
    ev.TextDelta: RunEvents._text,
    ev.ThinkingDelta: RunEvents._think,
    ev.TurnEnded: RunEvents._thinking_ends,
    ev.ToolStarted: RunEvents._thinking_ends,
    ev.ToolExecuting: RunEvents._executing,
    ev.ToolFinished: RunEvents._finished,
    ev.FlowChanged: RunEvents._flow,
    ev.AgentMessage: RunEvents._agent_message,
    ev.DecisionRequested: RunEvents._requested,
    ev.RunPaused: RunEvents._paused,
    ev.RunResumed: RunEvents._resumed,
    **dict.fromkeys(PLAIN, RunEvents._plain),
    ev.DecisionSettled: RunEvents._decided,
    **dict.fromkeys((ev.RunCompleted, ev.RunFailed, ev.RunCancelled, ev.RunTimedOut), RunEvents._ended),
}

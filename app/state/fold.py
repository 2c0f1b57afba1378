"""RunState: the one fold of a run's stream.

Law of this room: it is built from envelopes alone and makes the run record, the terminal's contents,
the partial text and the standing text; whoever wants to know how a run stands reads it here. A
broken invariant of the stream raises :class:`InvariantBroken` before anything is changed.
"""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Callable, Mapping

from app import events as ev
from app.state.parts import BlockState, CallState, InvariantBroken, plain


class RunState:
    """See the module. ``open_blocks`` keeps the order in which blocks started.

    :ivar pinned: where the next message of the thread enters, once ``flow_changed``.
    :ivar on_usage: told of each use that a live run reports; they never switch greenlets.
    :ivar children: how many uses had been reported when the workflow in a block began, by block.
    :ivar lost: blocks whose live text was told to be lost.
    :ivar decisions: what people have been asked by blocks that still run, and not decided, by pause id, oldest first.
    """

    def __init__(self) -> None:
        self.blocks: dict[str, BlockState] = {}
        self.started_at: int | None = None
        self.ended_at: int | None = None
        self.terminal: ev.Terminal | None = None
        self.usages: list[ev.UsageReported] = []
        self.on_usage: tuple[Callable[[ev.UsageReported], None], ...] = ()
        self.children: dict[str, int] = {}
        self.model_failures: list[tuple[int, ev.ModelCallFailed]] = []
        self.pinned: str | None = None
        self.flow_changed = False
        self.lost: frozenset[str] = frozenset()
        self.decisions: dict[str, ev.DecisionRequested] = {}
        self._names: dict[str, ev.BlockInfo] = {}
        #: What templates see, by the path of the workflow and what follows it.
        self._seen: dict[str, dict[str, Mapping[str, t.Any]]] = {}

    def apply(self, envelope: ev.Envelope) -> None:
        """Fold one envelope in.

        :raises InvariantBroken: the event may not come here.
        """
        event = envelope.event
        if self.terminal is not None:
            raise InvariantBroken(f"{type(event).__name__} after the terminal event")
        handler = _FOLDS.get(type(event))
        if handler is not None:
            handler(self, envelope.ts, event)
        elif isinstance(event, ev.Terminal):
            self._ended(envelope.ts, event)

    # -- one method per event ----------------------------------------------------------------

    def _run_started(self, ts: int, event: ev.RunStarted) -> None:
        if self.started_at is not None:
            raise InvariantBroken("a second RunStarted")
        self.started_at = ts
        self._names = {info.id: info for info in event.blocks}

    def _child_started(self, ts: int, event: ev.ChildStarted) -> None:
        self._open(event.block)
        self.children[event.block] = len(self.usages)
        self._names.update({f"{plain(event.block)}/{info.id}": info for info in event.blocks})

    def _block_started(self, ts: int, event: ev.BlockStarted) -> None:
        old = self.blocks.get(event.block)
        if old is not None and old.status == "running":
            raise InvariantBroken(f"block {event.block} started twice")
        self.blocks[event.block] = BlockState(
            event.block, event.type, event.name, "running", event.execution, ts, given=event.given
        )

    def _block_finished(self, ts: int, event: ev.BlockFinished) -> None:
        state = self.blocks.get(event.block)
        if event.status == "skipped":
            if state is not None and (state.status == "running" or state.execution >= event.execution):
                raise InvariantBroken(f"block {event.block} was skipped after it started")
            info = self._names.get(plain(event.block))
            state = BlockState(event.block, info.type if info else "", info.name if info else event.block)
            state.execution = event.execution
            self.blocks[event.block] = state
        elif state is None or state.status != "running":
            raise InvariantBroken(f"block {event.block} ended without a start")
        elif state.turn >= 0 or any(c.status is None for c in state.calls.values()):
            raise InvariantBroken(f"block {event.block} ended with an open turn or call")
        elif state.step is not None or state.debate is not None:
            raise InvariantBroken(f"block {event.block} ended with an open step or debate")
        state.status = event.status
        state.ended_at = ts
        state.output = event.output
        state.code = event.code
        state.message = event.message
        state.duration_ms = event.duration_ms
        self._see(event.block, event.output)
        for asked in [asked for asked in self.decisions.values() if asked.block == event.block]:
            del self.decisions[asked.pause_id]

    def _see(self, block: str, output: Mapping[str, t.Any] | None) -> None:
        path, slash, name = block.rpartition("/")
        seen = self._seen.setdefault(path + slash, {})
        if output is None:
            seen.pop(name, None)
        else:
            seen[name] = output

    def _open(self, block: str) -> BlockState:
        state = self.blocks.get(block)
        if state is None or state.status != "running":
            raise InvariantBroken(f"an event of block {block}, which is not running")
        return state

    def _text(self, ts: int, event: ev.TextDelta) -> None:
        state = self.blocks.get(event.block)
        if state is None or state.turn != event.turn:
            state = self._enter_turn(event.block, event.turn)
        state.live.append(event.text)

    def _thinking(self, ts: int, event: ev.ThinkingDelta) -> None:
        state = self.blocks.get(event.block)
        if state is None or state.turn != event.turn:
            self._enter_turn(event.block, event.turn)

    def _enter_turn(self, block: str, turn: int) -> BlockState:
        state = self._open(block)
        if state.turn >= 0 and state.turn != turn:
            raise InvariantBroken(f"turn {turn} of {block} began inside turn {state.turn}")
        state.turn = turn
        return state

    def _turn_ended(self, ts: int, event: ev.TurnEnded) -> None:
        state = self._open(event.block)
        if state.turn >= 0 and state.turn != event.turn:
            raise InvariantBroken(f"turn {event.turn} of {event.block} ended inside turn {state.turn}")
        text = "".join(state.live)
        if event.kind == "final":
            state.final_text = text
        elif event.kind == "aborted":
            state.partial += text
        state.live = []
        state.turn = -1

    def _tool_started(self, ts: int, event: ev.ToolStarted) -> None:
        state = self._enter_turn(event.block, event.turn)
        if event.id in state.calls:
            raise InvariantBroken(f"call {event.id} of {event.block} was announced twice")
        state.calls[event.id] = CallState(event.id, event.name, event.turn, event.at)

    def _tool_executing(self, ts: int, event: ev.ToolExecuting) -> None:
        call = self._open(event.block).calls.get(event.id)
        if call is not None:
            call.executing = True
            call.arguments = event.arguments

    def _tool_finished(self, ts: int, event: ev.ToolFinished) -> None:
        call = self._open(event.block).calls.get(event.id)
        if call is None or call.status is not None:
            raise InvariantBroken(f"call {event.id} of {event.block} ended without an open start")
        call.status = event.status
        call.arguments = event.arguments
        call.result = event.result
        call.started_at = event.started_at
        call.ended_at = event.at

    def _spoke(self, ts: int, event: ev.AgentMessage | ev.VoteCast) -> None:
        self._open(event.block).spoke = True

    def _stepped(self, ts: int, event: ev.SequenceStep) -> None:
        state = self._open(event.block)
        begins = event.phase == "start"
        if begins is (state.step is not None) or (state.step and state.step.index != event.index):
            raise InvariantBroken(f"step {event.index} of {event.block}: {event.phase} at the wrong place")
        state.step = event if begins else None

    def _debate(self, ts: int, event: ev.DebateStarted | ev.DebateRound) -> None:
        state = self._open(event.block)
        begins = isinstance(event, ev.DebateStarted)
        if begins is (state.debate is not None):
            raise InvariantBroken(f"{type(event).__name__} of {event.block} at the wrong place")
        state.debate = 0 if isinstance(event, ev.DebateStarted) else event.round

    def _debate_ended(self, ts: int, event: ev.DebateEnded) -> None:
        state = self._open(event.block)
        if state.debate is None:
            raise InvariantBroken(f"a debate of {event.block} ended that had not begun")
        state.debate = None

    def _settled(self, ts: int, event: ev.AnswerSettled) -> None:
        state = self.blocks.get(event.block)
        if state is None or state.settled is not None:
            raise InvariantBroken(f"the answer of {event.block} was settled twice or without a block")
        state.settled = event.text

    def _retracted(self, ts: int, event: ev.AnswerRetracted) -> None:
        state = self.blocks.get(event.block)
        if state is None:
            raise InvariantBroken(f"an answer of {event.block}, which never ran, was retracted")
        state.final_text = None
        state.partial = ""
        state.live = []

    def _stream_failed(self, ts: int, event: ev.StreamFailed) -> None:
        if event.block in self.lost:
            raise InvariantBroken(f"the text of {event.block} was lost twice")
        self.lost |= {event.block}

    def _asked(self, ts: int, event: ev.DecisionRequested) -> None:
        self._open(event.block)
        if event.pause_id in self.decisions:
            raise InvariantBroken(f"decision {event.pause_id} was asked for twice")
        self.decisions[event.pause_id] = event

    def _decided(self, ts: int, event: ev.DecisionSettled) -> None:
        if self.decisions.pop(event.pause_id, None) is None:
            raise InvariantBroken(f"decision {event.pause_id} was settled and not open")

    def _flow(self, ts: int, event: ev.FlowChanged) -> None:
        self.pinned = event.pinned
        self.flow_changed = True

    def _usage(self, ts: int, event: ev.UsageReported) -> None:
        self.usages.append(event)
        for told in self.on_usage:
            told(event)

    def _model_failed(self, ts: int, event: ev.ModelCallFailed) -> None:
        self.model_failures.append((ts, event))

    def _ended(self, ts: int, event: ev.Terminal) -> None:
        for state in self.blocks.values():
            if state.status == "running":
                raise InvariantBroken(f"the run ended while {state.block} was running")
        self.terminal = event
        self.ended_at = ts

    @property
    def infos(self) -> Mapping[str, ev.BlockInfo]:
        """What is known of blocks before they run, by instance path without indexes."""
        return self._names

    def told_as(
        self,
        infos: Mapping[str, ev.BlockInfo],
        blocks: Mapping[str, BlockState],
        decisions: Mapping[str, ev.DecisionRequested],
    ) -> RunState:
        """A copy for one reader, with these in place of its own; nothing is folded into it."""
        told = copy.copy(self)
        told._names, told.blocks, told.decisions = dict(infos), dict(blocks), dict(decisions)
        told._seen = {}
        return told

    def executions(self, block: str) -> int:
        """How often an instance has run, or was skipped, so far."""
        state = self.blocks.get(block)
        return 0 if state is None else state.execution

    # -- what the fold makes -----------------------------------------------------------------

    def open_blocks(self) -> list[BlockState]:
        """Blocks that started and did not end, in order of start."""
        return [state for state in self.blocks.values() if state.status == "running"]

    def tool_calls(self) -> dict[str, list[dict[str, t.Any]]]:
        """``{block: [call]}`` for every agent that ran and whatever else called tools, calls in order of
        announcement, with payloads.
        """
        return {
            name: [call.entry() for call in state.calls.values()]
            for name, state in self.blocks.items()
            if (state.type == "agent" or state.calls) and state.status != "skipped"
        }

    def visible(self, path: str = "") -> dict[str, Mapping[str, t.Any]]:
        """What templates see of the blocks right under a path, by what follows it: the outputs, and of a block that
        failed into an error edge ``error`` and ``code``. Of one that runs again, until it has ended: the last time's,
        so that an agent in a loop can revise what it said.
        """
        return dict(self._seen.get(path, ()))

    def outputs(self) -> dict[str, Mapping[str, t.Any]]:
        """``{block: output}`` of every executed block."""
        return {
            name: state.output
            for name, state in self.blocks.items()
            if state.status == "executed" and state.output is not None
        }

    def partial_text(self) -> dict[str, str]:
        """``{block: text}`` that was shown and never became final; the one place such text is kept."""
        out = {}
        for name, state in self.blocks.items():
            text = state.partial + "".join(state.live)
            if text:
                out[name] = text
        return out


#: One table for all runs: a table of bound methods would be 1.5 KB in each of a thousand streams.
_FOLDS: Mapping[type[ev.RunEvent], Callable[[RunState, int, t.Any], None]] = {
    ev.RunStarted: RunState._run_started,
    ev.ChildStarted: RunState._child_started,
    ev.BlockStarted: RunState._block_started,
    ev.BlockFinished: RunState._block_finished,
    ev.TextDelta: RunState._text,
    ev.ThinkingDelta: RunState._thinking,
    ev.TurnEnded: RunState._turn_ended,
    ev.ToolStarted: RunState._tool_started,
    ev.ToolExecuting: RunState._tool_executing,
    ev.ToolFinished: RunState._tool_finished,
    ev.AgentMessage: RunState._spoke,
    ev.VoteCast: RunState._spoke,
    ev.SequenceStep: RunState._stepped,
    ev.DebateStarted: RunState._debate,
    ev.DebateRound: RunState._debate,
    ev.DebateEnded: RunState._debate_ended,
    ev.AnswerSettled: RunState._settled,
    ev.AnswerRetracted: RunState._retracted,
    ev.StreamFailed: RunState._stream_failed,
    ev.DecisionRequested: RunState._asked,
    ev.DecisionSettled: RunState._decided,
    ev.FlowChanged: RunState._flow,
    ev.UsageReported: RunState._usage,
    ev.ModelCallFailed: RunState._model_failed,
}

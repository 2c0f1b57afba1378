"""One execution of a runner's node: what the runner reports becomes run events, in the order the stream allows.

Law of this room: a runner may report anything in any order; what leaves here never breaks an invariant of the stream.
One message speaks at a time, the last one is the node's answer, and what came before it is taken back.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from app import events as ev
from app.engine import settle

if t.TYPE_CHECKING:
    from app.engine.run import Run
    from app.state import BlockState
    from app.workflows.compiled import CompiledBlock

#: A piece of a message: its text, whether it is thinking, whether that is withheld.
_Piece = tuple[str, bool, bool]


class NodeExecution:
    """See :class:`plugins.spec.runners.NodeRun`.

    :ivar claimed: the runner runs it in this process; False for one that was left open before.
    """

    __slots__ = ("_held", "_message", "_names", "_path", "_run", "_started", "_turn", "block", "claimed")

    def __init__(self, run: Run, block: CompiledBlock, path: str) -> None:
        self._run = run
        self.block = block
        self._path = path
        self.claimed = False
        self._message: str | None = None
        #: Messages that came while another one spoke: their pieces, and how they ended.
        self._held: dict[str, tuple[list[_Piece], list[bool]]] = {}
        #: Ids of calls as they were told, by those of the runner.
        self._names: dict[str, str] = {}
        self._turn = 0
        self._started = run.services.clock.now_ms()

    # -- beginning ---------------------------------------------------------------------------

    def begin(self) -> None:
        """It starts, or goes on where it was left."""
        self.claimed = True
        run, state = self._run, self._run.state.blocks.get(self.path)
        if state is not None and state.status == "running":
            self._go_on(state)
            return
        if state is not None and (state.final_text or state.partial):
            run.emitter.emit(ev.AnswerRetracted(self.path, "iteration"))
        kind, count = self.block.type.type_name, run.state.executions(self.path) + 1
        run.emitter.emit(ev.BlockStarted(self.path, kind, self.block.name, count))

    def _go_on(self, state: BlockState) -> None:
        """Its code runs again from the beginning: what it said is taken back, its open calls stay announced."""
        self._started = state.started_at or self._started
        self._turn = 1 + max([state.turn, *(call.turn for call in state.calls.values())])
        self._names = {call: call for call in state.calls}
        if state.turn >= 0:
            self._emit(ev.TurnEnded(self.path, state.turn, "intermediate", "resumed"))

    @property
    def path(self) -> str:
        """See the protocol."""
        return self._path

    @property
    def state(self) -> BlockState:
        """What the fold knows of it."""
        return self._run.state.blocks[self.path]

    @property
    def open(self) -> bool:
        """See the protocol."""
        return self.state.status == "running"

    # -- messages ----------------------------------------------------------------------------

    def text(self, message: str, text: str) -> None:
        """See the protocol."""
        if text:
            self._piece(message, (text, False, False))

    def thinking(self, message: str, text: str, redacted: bool = False) -> None:
        """See the protocol."""
        if text or redacted:
            self._piece(message, (text, True, redacted))

    def _piece(self, message: str, piece: _Piece) -> None:
        if not self.open:
            return
        if self._message is None and message not in self._held:
            self._message = message
        if self._message == message:
            self._say(piece)
        else:
            self._held.setdefault(message, ([], []))[0].append(piece)

    def _say(self, piece: _Piece) -> None:
        text, thinks, redacted = piece
        if self._open_turn() not in (-1, self._turn):
            self._close("iteration")  # the last message's: another takes its place
        if thinks:
            self._emit(ev.ThinkingDelta(self.path, self._turn, text, redacted))
        else:
            self._emit(ev.TextDelta(self.path, self._turn, text, False))

    def ended(self, message: str, calls_tools: bool) -> None:
        """See the protocol."""
        if not self.open:
            return
        if message != self._message:
            if message in self._held:
                self._held[message][1].append(calls_tools)
            return
        self._end_message(calls_tools)
        self._let_go()

    def _let_go(self) -> None:
        """What was held back comes next, message by message."""
        while self._held and self._message is None:
            self._next_held()

    def _end_message(self, calls_tools: bool) -> None:
        """The message that speaks is whole. Its turn stays open until something else comes, or the node ends."""
        self._message = None
        if calls_tools:
            self._close("tool_turn")
        else:
            self._turn += 1

    def _next_held(self) -> None:
        message = next(iter(self._held))
        pieces, ends = self._held.pop(message)
        self._message = message
        for piece in pieces:
            self._say(piece)
        if ends:
            self._end_message(ends[0])

    def _close(self, reason: ev.ResetReason) -> None:
        """The text of the open turn does not stand."""
        turn = self._open_turn()
        if turn >= 0:
            self._emit(ev.TurnEnded(self.path, turn, "intermediate", reason))
            self._turn = max(self._turn, turn + 1)

    # -- tools -------------------------------------------------------------------------------

    def tool_started(self, call: str, name: str, arguments: t.Any) -> None:
        """See the protocol."""
        if not self.open:
            return
        known = self.state.calls.get(self._names.get(call, call))
        if known is not None and known.status is None:
            return
        told, more = call, 1
        while told in self.state.calls:
            more += 1
            told = f"{call}_{more}"
        self._names[call] = told
        now = self._now()
        self._close("tool_turn")
        turn = self._turn
        self._emit(ev.ToolStarted(self.path, turn, told, name, now))
        self._close("tool_turn")
        self._emit(ev.ToolExecuting(self.path, turn, told, name, arguments, now))

    def tool_finished(self, call: str, status: ev.ToolStatus, result: t.Any) -> None:
        """See the protocol."""
        known = self.state.calls.get(self._names.get(call, call))
        if known is None or known.status is not None or not self.open:
            return
        self._emit(
            ev.ToolFinished(
                self.path,
                known.turn,
                known.id,
                known.name,
                status,
                known.arguments,
                result,
                self._now(),
                known.started_at,
            )
        )

    def usage(self, model: str, tokens: Mapping[str, int]) -> None:
        """See the protocol."""
        if self.open:
            self._emit(ev.UsageReported(self.path, model, tokens))

    # -- ends --------------------------------------------------------------------------------

    def finished(self, output: Mapping[str, t.Any]) -> None:
        """See the protocol."""
        if not self.open:
            return
        self._message = None
        while self._held:
            self._next_held()
            self._message = None
        state, turn = self.state, self._open_turn()
        if turn >= 0:
            self._emit(ev.TurnEnded(self.path, turn, "final"))
        settle.block(self._run.emitter, state, "cancelled", self._now)
        if state.final_text is not None:
            output = {"content": state.final_text, **{k: v for k, v in output.items() if k != "content"}}
        if not self.block.config.repeats:
            self.settle(output)
        self._emit(
            ev.BlockFinished(self.path, "executed", output, None, None, self._since(), state.execution)
        )

    def settle(self, output: Mapping[str, t.Any] | None = None) -> None:
        """Tell its answer, once it can no longer run."""
        state = self.state
        text = (state.output if output is None else output or {}) or {}
        content = text.get("content")
        if self.block.type.answers and state.settled is None and isinstance(content, str) and content:
            self._emit(ev.AnswerSettled(self.path, content))

    def failed(self, code: str, message: str) -> None:
        """See the protocol."""
        if not self.open:
            return
        state = self.state
        settle.block(self._run.emitter, state, "error", self._now)
        self._emit(ev.BlockFinished(self.path, "failed", None, code, message, self._since(), state.execution))

    # -- small things ------------------------------------------------------------------------

    def _emit(self, event: ev.RunEvent) -> None:
        self._run.emitter.emit(event)

    def _open_turn(self) -> int:
        return self._run.emitter.turn_of(self.state)

    def _now(self) -> int:
        return self._run.services.clock.now_ms()

    def _since(self) -> int:
        return self._now() - self._started

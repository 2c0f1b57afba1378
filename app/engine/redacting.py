"""The emitter of a run in which something is masked: what it lets through is what everybody gets, the state included.

Law of this room: as of :mod:`app.engine.emitter`; nothing here switches greenlets. Text comes out as the filter lets it
go, or whole when its turn has ended and is the answer. What a turn said that was taken back, or never ended, and that
might still have become part of a match, is not told at all. After a detector has failed only what needs no filter is.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

import msgspec

from app import events as ev
from app.clock import Clock
from app.engine.emitter import THINKING_CAP, Emitter, units_of
from app.engine.redaction import MESSAGE, Redaction, Rules
from app.engine.run_log import RunLog
from app.redaction.finders import DetectorFailed
from app.redaction.masking import Masking
from app.redaction.sieve import Sieve
from app.state import BlockState, CallState, RunState

#: Most characters of one turn that are held until it has ended.
MOST_HELD = 16 * 1024 * 1024
#: Members of an agent's output that hold no text of anybody: counts, prices, a model's name.
_COUNTS = frozenset({"tokens", "cost", "finishReason", "model"})
#: Types of blocks whose output has those.
_AGENTS = frozenset({"agent", "debate", "vote", "sequential", "router"})
#: Type of the block whose output is what a tool gave.
_TOOL = "tool"
_PAYLOADS = ("arguments", "result")


class _Speech:
    """What one block says: text and thinking of its open turn, as far as they are held.

    :ivar turn: -1 between turns. :ivar text: filter of its text; it remembers the end of the part before.
    :ivar thinking: of its thinking. :ivar final: what the deltas of the turn said of it.
    """

    __slots__ = (
        "final",
        "held",
        "held_thinking",
        "rules",
        "size",
        "spoke",
        "text",
        "thinking",
        "thinking_size",
        "thought",
        "turn",
    )

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.turn = -1
        self.final = False
        self.text: Sieve | None = None if rules.answer is None else rules.answer.sieve()
        self.thinking: Sieve | None = None if rules.thinking is None else rules.thinking.sieve()
        self.spoke = self.thought = False
        self.held: list[str] = []
        self.held_thinking: list[str] = []
        self.size = self.thinking_size = 0

    def enter(self, turn: int) -> None:
        """Turn ``turn`` says something; what an earlier one left is not told any more."""
        if self.turn != turn:
            self.drop()
            self.turn = turn

    def drop(self) -> None:
        """What is held of the open turn is not told."""
        if self.spoke and self.text is not None:
            self.text.drop()
        if self.thought and self.thinking is not None:
            self.thinking.end()  # it may go on where it stopped
        self.held, self.held_thinking = [], []
        self.size = self.thinking_size = 0
        self.spoke = self.thought = False
        self.turn = -1


class RedactingEmitter(Emitter):
    """See the module."""

    def __init__(self, clock: Clock, state: RunState, run_log: RunLog, redaction: Redaction) -> None:
        super().__init__(clock, state, run_log)
        self._redaction = redaction
        self._speech: dict[str, _Speech] = {}

    def emit(self, event: ev.RunEvent) -> None:
        """See :class:`app.engine.emitter.Emitter`."""
        handle = _HANDLERS.get(type(event))
        if handle is None or self.ended:
            super().emit(event)
            return
        if not self._redaction.broken:
            try:
                handle(self, event)
                return
            except DetectorFailed as error:
                self._redaction.fail(error)
                self._speech.clear()
        self._blank(event)

    def turn_of(self, state: BlockState) -> int:
        """See :class:`app.engine.emitter.Emitter`: of a turn that is held nothing may have been told yet."""
        speech = self._speech.get(state.block) if state.turn < 0 else None
        return state.turn if speech is None else speech.turn

    def _blank(self, event: ev.RunEvent) -> None:
        """Tell that something happened, without a word of it."""
        blank = _BLANKS.get(type(event))
        bare = None if blank is None else blank(self, event)
        if bare is not None:
            super().emit(bare)

    # -- what is said piece by piece -----------------------------------------------------------

    def _speaks(self, block: str, turn: int) -> _Speech:
        speech = self._speech.get(block)
        if speech is None or speech.turn != turn:
            self._redaction.renew()
            rules = self._redaction.of(block)
            if speech is None or speech.rules is not rules:
                speech = self._speech[block] = _Speech(rules)
            speech.enter(turn)
        return speech

    def _text(self, event: ev.TextDelta) -> None:
        speech = self._speaks(event.block, event.turn)
        sieve = speech.text
        if sieve is None:
            super().emit(event)
            return
        if speech.thought and not speech.rules.holds_thinking:
            self._end_thinking(event.block, speech)
        speech.spoke, speech.final = True, event.final
        text = sieve.feed(event.text)
        if speech.rules.holds_answer:
            speech.held.append(text)
            speech.size += len(text)
            if speech.size > MOST_HELD:
                raise DetectorFailed(f"{event.block} said more than {MOST_HELD} characters in one turn")
        elif text:
            super().emit(ev.TextDelta(event.block, event.turn, text, event.final))

    def _thinking(self, event: ev.ThinkingDelta) -> None:
        speech = self._speaks(event.block, event.turn)
        sieve = speech.thinking
        if sieve is None or not event.text:
            super().emit(event)
            return
        speech.thought = True
        text = sieve.feed(event.text)
        if not speech.rules.holds_thinking:
            if text:
                super().emit(msgspec.structs.replace(event, text=text))
        elif speech.thinking_size <= THINKING_CAP:  # more than that is not told anyway
            speech.held_thinking.append(text)
            speech.thinking_size += units_of(text)

    def _end_thinking(self, block: str, speech: _Speech) -> None:
        """A part of its thinking is over."""
        if speech.thinking is None or not speech.thought:
            return
        speech.thought = False
        text = "".join((*speech.held_thinking, speech.thinking.end()))
        speech.held_thinking = []
        if text:
            super().emit(ev.ThinkingDelta(block, speech.turn, text))

    def _turn_ended(self, event: ev.TurnEnded) -> None:
        speech = self._speech.get(event.block)
        if speech is not None and speech.turn >= 0:
            self._end_thinking(event.block, speech)
            if event.kind == "final" and speech.spoke and speech.text is not None:
                text = "".join((*speech.held, speech.text.end()))
                speech.spoke = False
                if text:
                    super().emit(ev.TextDelta(event.block, speech.turn, text, speech.final))
            speech.drop()
        super().emit(event)

    # -- blocks --------------------------------------------------------------------------------

    def _block_started(self, event: ev.BlockStarted) -> None:
        self._abandon(event.block)  # what it was given was masked before it was cut
        super().emit(event)

    def _abandon(self, block: str) -> None:
        speech = self._speech.get(block)
        if speech is not None:
            speech.drop()

    def _block_finished(self, event: ev.BlockFinished) -> None:
        self._abandon(event.block)
        state = self._state.blocks.get(event.block)
        if state is None or state.settled is not None:  # it will not run again
            self._speech.pop(event.block, None)
        self._redaction.renew()
        rules = self._redaction.of(event.block)
        output = event.output
        if output is not None:
            output = _output(rules, state, output)
            if event.status == "failed" and rules.rest is not None:  # it may quote whatever failed
                output = rules.rest.value(output)
        message = event.message if event.message is None else _in(rules.rest, event.message)
        super().emit(msgspec.structs.replace(event, output=output, message=message))

    def _settled(self, event: ev.AnswerSettled) -> None:
        state = self._state.blocks.get(event.block)
        let_through = None
        if state is not None:
            let_through = state.final_text
            if let_through is None and state.output is not None:
                let_through = state.output.get("content")
        if isinstance(let_through, str):
            super().emit(ev.AnswerSettled(event.block, let_through))
        else:
            super().emit(ev.AnswerSettled(event.block, _in(self._of(event.block).answer, event.text)))

    def _stream_failed(self, event: ev.StreamFailed) -> None:
        super().emit(ev.StreamFailed(event.block, _in(self._of(event.block).rest, event.message)))

    def _of(self, block: str) -> Rules:
        self._redaction.renew()
        return self._redaction.of(block)

    # -- tools ---------------------------------------------------------------------------------

    def _tool_started(self, event: ev.ToolStarted) -> None:
        speech = self._speech.get(event.block)
        if speech is not None and not speech.rules.holds_thinking:
            self._end_thinking(event.block, speech)
        name = _in(self._of(event.block).tools, event.name)
        super().emit(event if name is event.name else msgspec.structs.replace(event, name=name))

    def _tool(self, event: ev.ToolExecuting | ev.ToolFinished) -> None:
        masking = self._of(event.block).tools
        if masking is not None:
            changed = {
                name: masking.value(getattr(event, name))
                for name in ("name", *_PAYLOADS)
                if hasattr(event, name)
            }
            event = msgspec.structs.replace(event, **changed)
        super().emit(event)

    # -- agents together, and people -----------------------------------------------------------

    def _answered(self, event: t.Any) -> None:
        """Events whose texts are answers, or parts of one."""
        masking = self._of(event.block).answer
        if masking is not None:
            changed = {name: masking.value(getattr(event, name)) for name in _ANSWERS[type(event)]}
            event = msgspec.structs.replace(event, **changed)
        super().emit(event)

    def _decided(self, event: ev.DecisionSettled) -> None:
        reason = None if event.reason is None else _in(self._of(event.block).rest, event.reason)
        super().emit(msgspec.structs.replace(event, reason=reason))

    # -- without a word ------------------------------------------------------------------------

    def _bare_turn(self, event: ev.TurnEnded) -> ev.TurnEnded:
        return event

    def _bare_tool(self, event: ev.ToolFinished) -> ev.ToolFinished | None:
        state = self._state.blocks.get(event.block)
        call = None if state is None else state.calls.get(event.id)
        if call is None or call.status is not None:
            return None
        return msgspec.structs.replace(event, name=call.name, arguments=None, result=None)

    def _bare_end(self, event: ev.BlockFinished) -> ev.BlockFinished:
        if event.status == "skipped":
            return event
        message = None if event.message is None else MESSAGE
        return msgspec.structs.replace(event, output=None, message=message)

    def _bare_start(self, event: ev.BlockStarted) -> ev.BlockStarted:
        return msgspec.structs.replace(event, given=None)

    def _bare_decision(self, event: ev.DecisionSettled) -> ev.DecisionSettled:
        return msgspec.structs.replace(event, reason=None)


def emitter_of(clock: Clock, state: RunState, run_log: RunLog, redaction: Redaction | None) -> Emitter:
    """The emitter of a run; the plain one where nothing is masked."""
    if redaction is None:
        return Emitter(clock, state, run_log)
    return RedactingEmitter(clock, state, run_log, redaction)


def _in(masking: Masking | None, text: str) -> str:
    return text if masking is None else masking.text(text)


def _output(rules: Rules, state: BlockState | None, output: Mapping[str, t.Any]) -> Mapping[str, t.Any]:
    """A block's output. Its ``content`` is the text that was let through where it spoke."""
    kind = "" if state is None else state.type
    shown = _members(rules, output, kind in _AGENTS, {} if state is None else state.calls)
    if kind == _TOOL and rules.tools is not None and rules.tools is not rules.answer:
        shown = t.cast("Mapping[str, t.Any]", rules.tools.value(shown))
    if state is not None and state.final_text is not None and "content" in output:
        shown = {**shown, "content": state.final_text}
    return shown


def _members(
    rules: Rules, output: Mapping[str, t.Any], agent: bool, calls: Mapping[str, CallState]
) -> Mapping[str, t.Any]:
    if not agent:
        return output if rules.answer is None else t.cast("Mapping[str, t.Any]", rules.answer.value(output))
    shown: dict[str, t.Any] = {}
    for name, value in output.items():
        if name in _COUNTS:
            shown[name] = value
        elif name == "toolCalls":
            shown[name] = {**value, "list": [_call(rules.tools, call, calls) for call in value["list"]]}
        elif name == "providerTiming":
            shown[name] = {
                **value,
                "timeSegments": [_segment(rules.tools, each) for each in value["timeSegments"]],
            }
        elif name == "answers" and isinstance(value, list):  # of a sequence: what each agent gave
            shown[name] = [_members(rules, each, True, calls) for each in value]
        else:
            shown[name] = value if rules.answer is None else rules.answer.value(value)
    return shown


def _call(
    masking: Masking | None, call: Mapping[str, t.Any], told: Mapping[str, CallState]
) -> Mapping[str, t.Any]:
    """A call as an output lists it: as it was told, if it was; to look at it again may take long."""
    if masking is None:
        return call
    known = told.get(call["id"])
    if known is not None and known.status is not None:
        return {**call, "name": known.name, "arguments": known.arguments, "result": known.result}
    return {**call, **{name: masking.value(call[name]) for name in ("name", *_PAYLOADS)}}


def _segment(masking: Masking | None, segment: Mapping[str, t.Any]) -> Mapping[str, t.Any]:
    """A segment of time; a tool may be called anything by a model."""
    if masking is None or segment["type"] != "tool":
        return segment
    return {**segment, "name": masking.text(segment["name"])}


_ANSWERS: Mapping[type[ev.RunEvent], tuple[str, ...]] = {
    ev.AgentMessage: ("content",),
    ev.VoteCast: ("vote",),
    ev.VoteClosed: ("votes", "winner"),
    ev.RouteChosen: ("reason",),
}

_HANDLERS: Mapping[type[ev.RunEvent], Callable[[RedactingEmitter, t.Any], None]] = {
    ev.TextDelta: RedactingEmitter._text,
    ev.ThinkingDelta: RedactingEmitter._thinking,
    ev.TurnEnded: RedactingEmitter._turn_ended,
    ev.BlockStarted: RedactingEmitter._block_started,
    ev.BlockFinished: RedactingEmitter._block_finished,
    ev.AnswerSettled: RedactingEmitter._settled,
    ev.StreamFailed: RedactingEmitter._stream_failed,
    ev.ToolStarted: RedactingEmitter._tool_started,
    ev.ToolExecuting: RedactingEmitter._tool,
    ev.ToolFinished: RedactingEmitter._tool,
    ev.DecisionSettled: RedactingEmitter._decided,
    **dict.fromkeys(_ANSWERS, RedactingEmitter._answered),
}

#: What is told of these once a detector has failed; of the others that have a handler: nothing.
_BLANKS: Mapping[type[ev.RunEvent], Callable[[RedactingEmitter, t.Any], ev.RunEvent | None]] = {
    ev.TurnEnded: RedactingEmitter._bare_turn,
    ev.BlockStarted: RedactingEmitter._bare_start,
    ev.BlockFinished: RedactingEmitter._bare_end,
    ev.ToolFinished: RedactingEmitter._bare_tool,
    ev.DecisionSettled: RedactingEmitter._bare_decision,
}

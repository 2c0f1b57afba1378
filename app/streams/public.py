"""The public filter: each event of a run as a visitor may see it (contract section 8).

Law of this room: every projection gives its events through :func:`seen` before it looks at them, so that no surface
can show what another one hides. The table knows every event there is, and a visitor gets none that is not in it. Ids
of blocks stay; their names become their ids; failures have the fixed texts of :mod:`app.streams.public_texts`.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from app import events as ev
from app.state import BlockState, RunState
from app.streams.public_texts import TEXT_LOST, code_for, text_for
from app.streams.rights import Rights, strip_call, strip_output, strip_review, strip_usage

_PUBLIC = Rights(public=True)


def seen(event: ev.RunEvent, rights: Rights) -> ev.RunEvent | None:
    """The event as this reader may see it; None: not at all. For readers with a key it is the event itself."""
    if not rights.public:
        return event
    how = SEEN.get(type(event))
    return None if how is None else how(event)


def seen_state(state: RunState, rights: Rights) -> RunState:
    """How a run stands, as this reader may see it."""
    if not rights.public:
        return state
    infos = {name: replace(info, name=name) for name, info in state.infos.items()}
    asked = {name: _asked(request) for name, request in state.decisions.items()}
    return state.told_as(infos, {name: _block(block) for name, block in state.blocks.items()}, asked)


class _Later(Mapping[str, t.Any]):
    """An output that is stripped when somebody looks at it: most readers want none, or one member, of few."""

    __slots__ = ("_output", "_stripped")

    def __init__(self, output: Mapping[str, t.Any]) -> None:
        self._output: Mapping[str, t.Any] | None = output
        self._stripped: Mapping[str, t.Any] = {}

    def _found(self) -> Mapping[str, t.Any]:
        if self._output is not None:
            self._stripped, self._output = strip_output(self._output, _PUBLIC), None
        return self._stripped

    def __getitem__(self, name: str) -> t.Any:
        return self._found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())


def _same(event: ev.RunEvent) -> ev.RunEvent:
    return event


def _infos(blocks: Sequence[ev.BlockInfo]) -> list[ev.BlockInfo]:
    return [replace(info, name=info.id) for info in blocks]


def _run_started(event: ev.RunStarted) -> ev.RunEvent:
    return replace(event, workflow_id="", blocks=_infos(event.blocks))


def _child_started(event: ev.ChildStarted) -> ev.RunEvent:
    return replace(event, workflow_id="", version=None, blocks=_infos(event.blocks))


def _block_started(event: ev.BlockStarted) -> ev.RunEvent:
    return replace(event, name=event.block, given=None)


def _block_finished(event: ev.BlockFinished) -> ev.RunEvent:
    output: Mapping[str, t.Any] | None = None if event.output is None else _Later(event.output)
    if event.status != "failed":
        return replace(event, output=output)
    code = code_for(event.code)
    if output is not None:  # it holds the message as well
        output = {"error": text_for(code), "code": code}
    return replace(event, output=output, code=code, message=text_for(code))


def _block(state: BlockState) -> BlockState:
    failed = state.status == "failed"
    calls = {name: replace(call, arguments=None, result=None) for name, call in state.calls.items()}
    return replace(
        state,
        name=state.block,
        output=None if state.output is None or failed else _Later(state.output),
        code=code_for(state.code) if failed else state.code,
        message=text_for(code_for(state.code)) if failed else state.message,
        calls=calls,
        step=None if state.step is None else _step(state.step),
        given=None,
    )


def _tool_executing(event: ev.ToolExecuting) -> ev.RunEvent:
    return replace(event, arguments=None)


def _tool_finished(event: ev.ToolFinished) -> ev.RunEvent:
    return replace(event, arguments=None, result=None)


def _route(event: ev.RouteChosen) -> ev.RunEvent:
    return replace(event, reason=None)


def _lost(event: ev.StreamFailed) -> ev.RunEvent:
    return replace(event, message=TEXT_LOST)


def _said(event: ev.AgentMessage) -> ev.RunEvent:
    return replace(event, sender=event.block)


def _step(event: ev.SequenceStep) -> ev.SequenceStep:
    return replace(event, name=event.block)


def _debate(event: ev.DebateStarted) -> ev.RunEvent:
    return replace(event, participants=[event.block] * len(event.participants))


def _ballot(event: ev.VoteCast) -> ev.RunEvent:
    return replace(event, sender=None)


def _asked(event: ev.DecisionRequested) -> ev.DecisionRequested:
    return replace(event, review=strip_review(event.review, _PUBLIC))


def _decided(event: ev.DecisionSettled) -> ev.RunEvent:
    return replace(event, by=None, reason=None)


def _told(event: ev.RunCompleted | ev.RunPaused) -> dict[str, t.Any]:
    """What a completion and a pause have in common."""
    return {
        "outputs": {name: _Later(output) for name, output in event.outputs.items()},
        "tool_calls": {
            block: [strip_call(call, _PUBLIC) for call in calls] for block, calls in event.tool_calls.items()
        },
        "usage": strip_usage(event.usage, _PUBLIC),
    }


def _paused(event: ev.RunPaused) -> ev.RunEvent:
    return replace(event, **_told(event))


def _completed(event: ev.RunCompleted) -> ev.RunEvent:
    error = None if event.error is None else text_for("block_failed")
    return replace(event, output=strip_output(event.output, _PUBLIC), error=error, **_told(event))


def _failed(event: ev.RunFailed) -> ev.RunEvent:
    code = code_for(event.code)
    usage = strip_usage(event.usage, _PUBLIC)
    return replace(event, code=code, message=text_for(code), usage=usage)


def _stopped(event: ev.RunCancelled | ev.RunTimedOut) -> ev.RunEvent:
    return replace(event, usage=strip_usage(event.usage, _PUBLIC))


#: How a visitor sees each event. Not in it: what models were asked and used, which is for the record.
SEEN: Mapping[type[ev.RunEvent], Callable[[t.Any], ev.RunEvent]] = {
    **dict.fromkeys(
        (
            ev.TextDelta,
            ev.ThinkingDelta,  # whether thinking is shown is a right of its own
            ev.TurnEnded,
            ev.ToolStarted,
            ev.LoopIteration,
            ev.FlowChanged,
            ev.AnswerSettled,
            ev.AnswerRetracted,
            ev.DebateRound,
            ev.DebateEnded,
            ev.VoteClosed,
            ev.RunResumed,
            ev.Gap,
        ),
        _same,
    ),
    ev.RunStarted: _run_started,
    ev.ChildStarted: _child_started,
    ev.BlockStarted: _block_started,
    ev.BlockFinished: _block_finished,
    ev.ToolExecuting: _tool_executing,
    ev.ToolFinished: _tool_finished,
    ev.RouteChosen: _route,
    ev.StreamFailed: _lost,
    ev.AgentMessage: _said,
    ev.SequenceStep: _step,
    ev.DebateStarted: _debate,
    ev.VoteCast: _ballot,
    ev.DecisionRequested: _asked,
    ev.DecisionSettled: _decided,
    ev.RunPaused: _paused,
    ev.RunCompleted: _completed,
    ev.RunFailed: _failed,
    ev.RunCancelled: _stopped,
    ev.RunTimedOut: _stopped,
}
#: The events that a visitor sees as everybody does.
UNCHANGED = frozenset(kind for kind, how in SEEN.items() if how is _same)

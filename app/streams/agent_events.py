"""Agent events v1: the frames of execute and of deployed chats (contract section 3).

Law of this room: two cadences over the same envelopes. A client that negotiated gets answer text live and
a ``chunk_reset`` when it does not stand; one that did not is a stateless map of ``AnswerSettled`` and never
meets anything provisional. The concatenation of a block's standing chunks is its stored ``content``.

A pause is an end of the stream, not of the run: ``final`` with status ``paused``. What was shown stays, and calls that
are held stay open; a later stream of the same run goes on from there.

Member order is contract. ``id: <runId>:<seq>`` stands on the last frame of an envelope, so on the sentinel
and not on the terminal frame before it, and only for clients that negotiated.
"""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from app import events as ev
from app.encoding import dumps
from app.errors import RunError
from app.state import BlockState, RunState
from app.streams import sse
from app.streams.final import RUNS_URL, Selection, final_data, paused_data, resume_of, selects
from app.streams.public import UNCHANGED, seen, seen_state
from app.streams.rights import Rights

SENTINEL = b'data: "[DONE]"\n\n'
_WORKING = b'data: {"event":"status","state":"working"}\n\n'
_DETACHED = b'data: {"event":"detached","retryMs":%d}\n\n' % sse.RETRY_MS
_TOOL_START = b'{"blockId":%b,"event":"tool","phase":"start","id":%b,"name":%b}'


@dataclass(frozen=True, slots=True)
class AgentEventsOptions:
    """What one reader asked for and may have.

    :ivar negotiated: the request named this protocol in a version header.
    :ivar separator: ``\\n\\n`` goes before a block's first chunk while text of another block stands: clients
        without a header and those of the Sim alias, who concatenate across blocks.
    :ivar selections: resolved selectors; None when none were sent, ``()`` for the final envelope only.
    :ivar answer_blocks: agents whose output reaches the run's output; their text is sent when ``selections``
        is None.
    :ivar thread_id: empty for a run in no thread.
    :ivar runs_url: where this reader finds runs.
    :ivar working: a client that negotiated is told now and then, in a frame, that it is being worked.
    """

    run_id: str
    negotiated: bool
    separator: bool
    rights: Rights
    selections: tuple[Selection, ...] | None = None
    answer_blocks: tuple[str, ...] = ()
    thread_id: str = ""
    runs_url: str = RUNS_URL
    working: bool = False

    @property
    def final_only(self) -> bool:
        """Nothing was selected: no frame but the end."""
        return self.selections is not None and not self.selections


class _Text:
    """Text of one block at this reader: ``length`` characters stand, ``turn_length`` in the open turn."""

    __slots__ = ("head", "length", "live", "turn_length")

    def __init__(self, head: bytes, live: bool) -> None:
        self.head = head
        self.live = live
        self.length = 0
        self.turn_length = 0


class AgentEvents:
    """One reader's projection. ``done`` is True after the last frame and the sentinel."""

    __slots__ = ("_asked", "_handlers", "_id", "_options", "_structured", "_texts", "done")

    def __init__(self, options: AgentEventsOptions) -> None:
        self.done = False
        self._options = options
        self._id = b"id: %b:" % options.run_id.encode() if options.negotiated else b""
        self._structured: tuple[str, ...] = ()  # no set: an empty one takes 216 bytes
        self._texts: dict[str, _Text | None] = {}
        self._asked: tuple[ev.DecisionRequested, ...] = ()
        rights = options.rights
        self._handlers = _handlers(
            options.negotiated, rights.thinking, rights.tools, rights.public, options.final_only
        )

    @property
    def working(self) -> bytes:
        """The frame for a client that hears nothing for a while; empty for those who do not know it."""
        return _WORKING if self._options.working and self._id else b""

    def frames(self, envelope: ev.Envelope) -> bytes:
        """See :class:`app.streams.projection.Projection`."""
        event = envelope.event
        handler = self._handlers.get(type(event))
        return b"" if handler is None or self.done else handler(self, event, envelope.seq)

    def gap(self, envelope: ev.Envelope, state: RunState) -> bytes:
        """See :class:`app.streams.projection.Projection`. Without the header nothing was provisional, so nothing is
        taken back: what has settled meanwhile follows.
        """
        state = seen_state(state, self._options.rights)
        self._asked = tuple(state.decisions.values())
        if self._options.final_only:
            return b""
        self._structured = tuple(name for name, info in state.infos.items() if info.structured)
        if not self._options.negotiated:
            settled = sorted(
                (block for block in state.blocks.values() if block.settled), key=lambda b: b.ended_at or 0
            )
            events = [ev.AnswerSettled(block.block, block.settled or "") for block in settled]
            return b"".join(self._settled(event, envelope.seq) for event in events)
        event = t.cast(ev.Gap, envelope.event)
        self._texts = {}
        body = {"event": "gap", "from": event.first, "to": event.last, "reason": event.reason}
        frames = [dumps(body)]
        for block in state.blocks.values():
            frames += self._standing(block)
        return b"".join(b"data: %b\n\n" % data for data in frames[:-1]) + self._frame(
            envelope.seq, frames[-1]
        )

    def detached(self, seq: int, ts: int) -> bytes:
        """See :class:`app.streams.projection.Projection`. Clients without the header get no frame that they do not
        know.
        """
        self.done = True
        return sse.RETRY + (_DETACHED if self._id else b"\n")

    def _standing(self, block: BlockState) -> Iterator[bytes]:
        """What a reader has to know of a block it missed: its text, and its open calls."""
        state = self._text_of(block.block)
        if state is not None and (state.live or block.settled is not None):
            text = block.standing_text()
            state.turn_length = 0 if block.turn < 0 else sum(map(len, block.live))
            if text:
                joint = "\n\n" if self._options.separator and self._another_stands(state) else ""
                state.length = len(text)
                yield b'{"blockId":%b,"chunk":%b}' % (dumps(block.block), dumps(joint + text))
        if self._options.rights.tools:
            for call in block.calls.values():
                if call.status is None:
                    yield _TOOL_START % (dumps(block.block), dumps(call.id), dumps(call.name))

    # -- framing -----------------------------------------------------------------------------

    def _frame(self, seq: int, data: bytes) -> bytes:
        """The one frame of an envelope."""
        if self._id:
            return b"%b%d\ndata: %b\n\n" % (self._id, seq, data)
        return b"data: %b\n\n" % data

    def _chunk(self, text: str, state: _Text, seq: int) -> bytes:
        """An answer text frame, after the separator where this reader gets one."""
        if not state.length and self._options.separator and self._another_stands(state):
            encoded = dumps("\n\n" + text)
        else:
            encoded = dumps(text)
        state.length += len(text)
        if self._id:
            return b"%b%d%b%b}\n\n" % (self._id, seq, state.head, encoded)
        return b"%b%b}\n\n" % (state.head[1:], encoded)  # without the line end after an id

    def _another_stands(self, state: _Text) -> bool:
        return any(
            other is not None and other is not state and other.length for other in self._texts.values()
        )

    def _reset(self, block: str, reason: str, seq: int) -> bytes:
        data = b'{"blockId":%b,"event":"chunk_reset","reason":%b}' % (dumps(block), dumps(reason))
        return self._frame(seq, data)

    # -- which text goes out -----------------------------------------------------------------

    def _text_of(self, block: str) -> _Text | None:
        """The state of a block whose ``content`` goes out as chunks; None for every other block."""
        if block in self._texts:
            return self._texts[block]
        state = None
        if self._content_selected(block):
            head = b'\ndata: {"blockId":%b,"chunk":' % dumps(block)
            state = _Text(head, not any(selects(known, block) for known in self._structured))
        self._texts[block] = state
        return state

    def _content_selected(self, block: str) -> bool:
        options = self._options
        if options.selections is None:
            return any(selects(answer, block) for answer in options.answer_blocks)
        return any(s.path == ("content",) and selects(s.block, block) for s in options.selections)

    # -- one method per event ----------------------------------------------------------------

    def _started(self, event: ev.RunStarted, seq: int) -> bytes:
        self._structured = tuple(info.id for info in event.blocks if info.structured)
        return b""

    def _child_started(self, event: ev.ChildStarted, seq: int) -> bytes:
        structured = (f"{event.block}/{info.id}" for info in event.blocks if info.structured)
        self._structured = tuple({*self._structured, *structured})
        return b""

    def _delta(self, event: ev.TextDelta, seq: int) -> bytes:
        block = event.block
        try:
            state = self._texts[block]
        except KeyError:
            state = self._text_of(block)
        text = event.text
        if state is None or not state.live or not text:
            return b""
        length = len(text)
        state.turn_length += length
        if not state.length:
            return self._chunk(text, state, seq)
        state.length += length
        return b"%b%d%b%b}\n\n" % (self._id, seq, state.head, dumps(text))

    def _turn_ended(self, event: ev.TurnEnded, seq: int) -> bytes:
        state = self._texts.get(event.block)
        if state is None or not state.turn_length:
            return b""
        state.turn_length = 0
        if event.kind != "intermediate":
            return b""
        state.length = 0
        return self._reset(event.block, event.reason or "tool_turn", seq)

    def _retracted(self, event: ev.AnswerRetracted, seq: int) -> bytes:
        state = self._texts.get(event.block)
        if state is None or not state.length:
            return b""
        state.length = state.turn_length = 0
        return self._reset(event.block, event.reason, seq)

    def _settled(self, event: ev.AnswerSettled, seq: int) -> bytes:
        """What of the settled text this reader does not have yet: all of it, or what was lost on the way."""
        state = self._text_of(event.block)
        if state is None:
            return b""
        text, frames = event.text, b""
        if state.length > len(text):
            # More was shown than stands. It may not happen; if it does, the client still ends up right.
            reset = b'{"blockId":%b,"event":"chunk_reset","reason":"fallback"}' % dumps(event.block)
            state.length = 0
            if not text:
                return self._frame(seq, reset)
            frames = b"data: %b\n\n" % reset
        rest = text[state.length :]
        return frames + self._chunk(rest, state, seq) if rest else b""

    def _thinking(self, event: ev.ThinkingDelta, seq: int) -> bytes:
        if event.truncated:
            data = b'{"blockId":%b,"event":"thinking","data":%b,"truncated":true}'
        elif event.text and not event.redacted:
            data = b'{"blockId":%b,"event":"thinking","data":%b}'
        else:
            return b""
        return self._frame(seq, data % (dumps(event.block), dumps("" if event.redacted else event.text)))

    def _tool_started(self, event: ev.ToolStarted, seq: int) -> bytes:
        return self._frame(seq, _TOOL_START % (dumps(event.block), dumps(event.id), dumps(event.name)))

    def _tool_finished(self, event: ev.ToolFinished, seq: int) -> bytes:
        data = b'{"blockId":%b,"event":"tool","phase":"end","id":%b,"name":%b,"status":%b}'
        names = (dumps(event.block), dumps(event.id), dumps(event.name), dumps(event.status))
        return self._frame(seq, data % names)

    def _stream_failed(self, event: ev.StreamFailed, seq: int) -> bytes:
        if self._text_of(event.block) is None:
            return b""
        data = b'{"event":"stream_error","blockId":%b,"error":%b}'
        return self._frame(seq, data % (dumps(event.block), dumps(event.message)))

    def _decision_requested(self, event: ev.DecisionRequested, seq: int) -> bytes:
        self._asked = (*self._asked, event)
        return b""

    # -- the ends ------------------------------------------------------------------------

    def _end(self, seq: int, data: bytes) -> bytes:
        self.done = True
        last = b"%b%d\n%b" % (self._id, seq, SENTINEL) if self._id else SENTINEL
        return b"data: %b\n\n%b" % (data, last)

    def _error(self, seq: int, message: str, code: str, block: str | None = None) -> bytes:
        data: dict[str, str] = {"event": "error", "error": message}
        if self._options.negotiated:
            data["code"] = code
        if block is not None:
            data["blockId"] = block
        return self._end(seq, dumps(data))

    def _sent(self) -> set[str]:
        """Blocks whose text this reader has."""
        return {block for block, state in self._texts.items() if state is not None and state.length}

    def _completed(self, event: ev.RunCompleted, seq: int) -> bytes:
        options = self._options
        try:
            data = final_data(options.run_id, event, options.selections, options.rights, self._sent())
        except RunError as error:
            return self._error(seq, error.message, error.code)
        return self._end(seq, b'{"event":"final","data":%b}' % data)

    def _paused(self, event: ev.RunPaused, seq: int) -> bytes:
        options = self._options
        resume = resume_of(options.run_id, options.thread_id, event, self._asked, options.runs_url)
        data = paused_data(options.run_id, event, options.selections, options.rights, self._sent(), resume)
        return self._end(seq, b'{"event":"final","data":%b}' % data)

    def _failed(self, event: ev.RunFailed, seq: int) -> bytes:
        return self._error(seq, event.message, event.code, event.block)

    def _cancelled(self, event: ev.RunCancelled, seq: int) -> bytes:
        return self._error(seq, ev.cancel_text(event.cause), "cancelled")

    def _timed_out(self, event: ev.RunTimedOut, seq: int) -> bytes:
        return self._error(seq, ev.TIMEOUT_TEXT, "timed_out")


_Handler = Callable[[AgentEvents, t.Any, int], bytes]

_ENDS: Mapping[type[ev.RunEvent], _Handler] = {
    ev.DecisionRequested: AgentEvents._decision_requested,
    ev.RunPaused: AgentEvents._paused,
    ev.RunCompleted: AgentEvents._completed,
    ev.RunFailed: AgentEvents._failed,
    ev.RunCancelled: AgentEvents._cancelled,
    ev.RunTimedOut: AgentEvents._timed_out,
}
_SETTLED: Mapping[type[ev.RunEvent], _Handler] = {
    ev.RunStarted: AgentEvents._started,
    ev.ChildStarted: AgentEvents._child_started,
    ev.AnswerSettled: AgentEvents._settled,
    ev.StreamFailed: AgentEvents._stream_failed,
}
_LIVE: Mapping[type[ev.RunEvent], _Handler] = {
    ev.TextDelta: AgentEvents._delta,
    ev.TurnEnded: AgentEvents._turn_ended,
    ev.AnswerRetracted: AgentEvents._retracted,
    ev.ThinkingDelta: AgentEvents._thinking,
    ev.ToolStarted: AgentEvents._tool_started,
    ev.ToolFinished: AgentEvents._tool_finished,
}


@functools.cache
def _handlers(
    negotiated: bool, thinking: bool, tools: bool, public: bool, final_only: bool
) -> Mapping[type[ev.RunEvent], _Handler]:
    """The table of one kind of reader. A type it lacks costs one failed look-up: rights cost nothing more."""
    rights = Rights(thinking, tools, public=public)
    if final_only:
        found: Mapping[type[ev.RunEvent], _Handler] = _ENDS
    elif not negotiated:
        found = {**_SETTLED, **_ENDS}
    else:
        found = {**_LIVE, **_SETTLED, **_ENDS}
        found = {kind: call for kind, call in found.items() if kind not in rights.denied}
    if not public:
        return found
    return {kind: call if kind in UNCHANGED else _filtered(call, rights) for kind, call in found.items()}


def _filtered(handler: _Handler, rights: Rights) -> _Handler:
    """A handler that is given its event as this reader may see it."""

    def handle(self: AgentEvents, event: t.Any, seq: int) -> bytes:
        told = seen(event, rights)
        return b"" if told is None else handler(self, told, seq)

    return handle

"""The scenarios. Each is a function of a rig and a recording that returns what it tried and raises :class:`Broken`.

Law of this room: a scenario knows no vendor. What is compared is what contract section 11 and ``providers/spec.py``
promise to whoever sits above a wire, and what the recording says its bytes mean.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from plugins.conformance.calling import Broken, Heard, tools_for
from plugins.conformance.recordings import Recording
from plugins.conformance.rig import IDLE_S, KEY, Rig
from plugins.conformance.server import Answer, Exchange, answer_of
from plugins.conformance.waits import Cancelled, KitWaits, Stuck
from providers import spec

#: Bytes a piece: as recorded, all in one, and torn at every kind of border.
SPLITS = (0, -1, 1, 7, 333)
#: Seconds after which a socket that is still open counts as left open.
CLOSE_S = 5.0


def played(rig: Rig, recording: Recording) -> list[Heard]:
    """What each split of ``recording`` said, each held to what was expected.

    :raises Broken: one of them differs.
    """
    tools = tools_for(recording.calls)
    if not rig.speaks:
        heard, _ = rig.ask(None, tools=tools, model=recording.model)
        _compare(recording, heard, "")
        return [heard]
    found = []
    for split in SPLITS:
        heard, waits = rig.ask(answer_of(recording, split), tools=tools)
        how = {0: "in the pieces as recorded", -1: "in one piece"}.get(split, f"in pieces of {split} bytes")
        _compare(recording, heard, how)
        if recording.error is None:
            _check_manners(rig, waits)
        found.append(heard)
    _check_request(rig)
    if recording.error is None:
        _check_live(rig, recording)
    return found


def tried(rig: Rig) -> str:
    """What :func:`played` does, for the report."""
    return "as recorded, whole, 1, 7, 333 bytes" if rig.speaks else "called directly"


def _compare(recording: Recording, heard: Heard, how: str) -> None:
    where = f" ({how})" if how else ""
    if recording.error is not None:
        code = heard.error.code if heard.error else "no error"
        _same(f"error{where}", recording.error, code)
        _same(f"text before the error{where}", recording.text, heard.text)
        return
    if heard.error is not None:
        raise Broken(
            f"{recording.title}{where}: {heard.error.code}: {heard.error.message} {heard.error.detail}".strip()
        )
    assert heard.finished is not None
    _same(f"text{where}", recording.text, heard.text)
    _same(f"thinking{where}", recording.thinking, heard.thinking)
    calls = [(call.name, call.arguments if call.error is None else call.error) for call in heard.ready]
    _same(f"calls{where}", [(name, dict(arguments)) for name, arguments in recording.calls], calls)
    _same(f"finish{where}", recording.finish, heard.finished.reason)
    _compare_usage(recording, heard.finished.usage, where)


def _compare_usage(recording: Recording, usage: spec.Usage | None, where: str) -> None:
    if recording.usage is None:
        if usage is not None and (usage.input or usage.output):
            raise Broken(f"usage{where}: expected none, heard {usage}")
        return
    for name, count in recording.usage.items():
        _same(f"usage.{name}{where}", count, getattr(usage, name, None))


def _same(what: str, expected: object, heard: object) -> None:
    if expected != heard:
        raise Broken(f"{what}: expected {expected!r}, heard {heard!r}")


def _check_manners(rig: Rig, waits: KitWaits) -> None:
    """What the wire owes to whoever drives it (``providers.spec.Waits``)."""
    if IDLE_S not in waits.limits:
        raise Broken(
            "the wire never opens waits.idle_limit(connection.idle_s): a silent vendor would hold it for ever"
        )
    if not waits.gates:
        raise Broken(
            "the wire never calls waits.gate() before it reads: a slow reader could not slow it down"
        )
    if not waits.moves:
        raise Broken("the wire never calls waits.progress(): the idle limit would end an answer that comes")


def _check_request(rig: Rig) -> None:
    exchange = rig.last
    if exchange is None:
        raise Broken(
            "no request reached the address of the connection; the wire has to use connection.base_url"
        )
    if rig.checks_key() and KEY.encode() not in exchange.head:
        raise Broken("the key is not in the request; the wire has to call connection.auth.apply")
    if b"Expect:" in exchange.head:
        raise Broken("the request asks for permission first (Expect), which costs a round trip")


def _check_live(rig: Rig, recording: Recording) -> None:
    """Something has to be said before the last piece is sent, or nothing is live."""
    if len(recording.pieces) < 4:
        return
    at = _first_event_at(rig, recording)
    if at >= len(recording.pieces):
        raise Broken(
            "nothing was said before the last piece was sent: the wire waits for the end instead of streaming"
        )


def _first_event_at(rig: Rig, recording: Recording) -> int:
    """How many pieces had been sent when the first text, thinking or call was heard."""
    seen: list[int] = []

    def note(heard: Heard) -> bool:
        if not seen and (heard.text or heard.thinking or heard.redacted or heard.started):
            exchange = rig.last
            seen.append(exchange.sent if exchange else 0)
        return True

    rig.listen(answer_of(recording, stepwise=True), KitWaits(), note, tools=tools_for(recording.calls))
    return seen[0] if seen else len(recording.pieces)


def _beginning(rig: Rig, recording: Recording, ending: t.Literal["torn", "silent"], **more: t.Any) -> Answer:
    """``recording`` up to its first words and half of the piece that follows."""
    at = _first_event_at(rig, recording)
    if at >= len(recording.pieces):
        raise Broken(
            f"the recording {recording.title} has no piece after its first words; record it piece by piece"
        )
    following = recording.pieces[at]
    pieces = (*recording.pieces[:at], following[: max(1, len(following) // 2)])
    return Answer(
        recording.status,
        recording.content_type,
        pieces,
        recording.headers,
        ending=ending,
        stepwise=True,
        **more,
    )


def cut(rig: Rig, recording: Recording) -> str:
    """The connection ends inside the body."""
    heard, _ = rig.ask(_beginning(rig, recording, "torn"), tools=tools_for(recording.calls))
    _expect_error(heard, "provider_bad_stream", "the body was cut off")
    _expect_beginning(recording, heard)
    return "after the first words"


def stall(rig: Rig, recording: Recording) -> str:
    """The vendor falls silent with the connection open."""
    waits = KitWaits()
    answer = _beginning(rig, recording, "silent", silence=waits.fall_silent)
    try:
        heard, _ = rig.listen(answer, waits, lambda heard: True, tools=tools_for(recording.calls))
    except Stuck:
        raise Broken(
            "a silent vendor holds the call for ever: wait inside waits.wait() with an idle limit open"
        ) from None
    _expect_error(heard, "provider_idle", "the vendor fell silent")
    _expect_beginning(recording, heard)
    _expect_left(rig, "after the idle limit")
    return "after the first words"


def cancel(rig: Rig, recording: Recording) -> str:
    """Stop while the vendor is silent, and a reader that closes the stream."""
    waits = KitWaits()
    answer = _beginning(rig, recording, "silent", silence=waits.cancel)
    try:
        heard, _ = rig.listen(answer, waits, lambda heard: True, tools=tools_for(recording.calls))
    except Cancelled:
        pass
    except Stuck:
        raise Broken(
            "Stop does not reach the call: everything that blocks has to wait inside waits.wait()"
        ) from None
    else:
        raise Broken(f"the cancellation was swallowed; the call ended with {heard.error or heard.finished}")
    _expect_left(rig, "after a cancellation")
    rig.listen(
        _beginning(rig, recording, "silent"), KitWaits(), _nothing_heard, tools=tools_for(recording.calls)
    )
    _expect_left(rig, "after the stream was closed")
    return "while it waits, and by closing the stream"


def _nothing_heard(heard: Heard) -> bool:
    return not (heard.text or heard.thinking or heard.redacted or heard.started)


def cancel_directly(rig: Rig, recording: Recording) -> str:
    """Stop a wire without bytes after its first words."""
    waits = KitWaits()

    def stop(heard: Heard) -> bool:
        waits.cancel()
        return True

    try:
        rig.listen(None, waits, stop, model=recording.model)
    except Cancelled:
        return "after the first words"
    raise Broken("the cancellation was swallowed: everything that blocks has to wait inside waits.wait()")


def _expect_error(heard: Heard, code: str, when: str) -> None:
    if heard.error is None:
        raise Broken(f"{when}, and the wire took it for a whole answer")
    _same(f"error when {when}", code, heard.error.code)


def _expect_beginning(recording: Recording, heard: Heard) -> None:
    if not recording.text.startswith(heard.text) or not recording.thinking.startswith(heard.thinking):
        raise Broken(f"what was said before is not the beginning of the answer: {heard.text!r}")
    if _nothing_heard(heard):
        raise Broken("what the vendor said before was lost")
    if heard.ready:
        raise Broken("a call was given as ready though its answer broke off")


def _expect_left(rig: Rig, when: str) -> None:
    exchange: Exchange | None = rig.last
    if exchange is not None and not exchange.left.wait(CLOSE_S):
        raise Broken(f"the connection to the vendor stays open {when}")


def replay(rig: Rig, recording: Recording, following: Recording) -> str:
    """The next turn: the assistant's message and the results of its calls go back, with what the vendor wants back."""
    tools = tools_for(recording.calls)
    first, _ = rig.ask(answer_of(recording) if rig.speaks else None, tools=tools, model=recording.model)
    _compare(recording, first, "first turn")
    messages = next_turn(rig, first)
    used = frozenset(call.id for call in first.ready)
    answer = answer_of(following) if rig.speaks else None
    second, _ = rig.ask(answer, tools=tools, messages=messages, used_ids=used, model=recording.model)
    if rig.speaks:
        _compare(following, second, "second turn")
        _check_second(rig, recording, first)
        _check_ids(rig, recording, tools, used)
    elif second.error is not None:
        raise Broken(f"second turn: {second.error.code}: {second.error.message}")
    return f"of {recording.title}"


def next_turn(rig: Rig, first: Heard) -> list[spec.Message]:
    """The conversation after a turn whose calls were answered."""
    assert first.finished is not None
    calls = tuple(spec.ToolCall(call.id, call.name, call.arguments, call.raw) for call in first.ready)
    answer = spec.AssistantMessage(first.text, calls, first.finished.replay, rig.resolved.wire.name)
    results: list[spec.Message] = [
        spec.ToolResult(call.id, call.name, f"result {place} of the kit", is_error=False)
        for place, call in enumerate(first.ready)
    ]
    return [
        spec.UserMessage("What does the recording say?"),
        answer,
        *(results or [spec.UserMessage("Go on.")]),
    ]


def _check_second(rig: Rig, recording: Recording, first: Heard) -> None:
    assert rig.last is not None
    body = rig.last.body
    wanted: Sequence[str] = [
        *(f"result {place} of the kit" for place in range(len(first.ready))),
        *(call.name for call in first.ready),
        *recording.replay,
        *([recording.signature] if recording.signature else []),
    ]
    for text in wanted:
        if text.encode() not in body:
            raise Broken(f"the next request does not carry {text!r}, which the vendor wants back")


def _check_ids(rig: Rig, recording: Recording, tools: Sequence[spec.ToolSpec], used: frozenset[str]) -> None:
    """A vendor that numbers its calls anew each turn must not make two calls of a run one."""
    again, _ = rig.ask(answer_of(recording), tools=tools, used_ids=used)
    repeated = used & {call.id for call in again.ready}
    if repeated:
        raise Broken(f"the ids {sorted(repeated)} were used before (request.used_ids); mint others for them")

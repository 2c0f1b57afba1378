"""ORDER: nothing twice, nothing missing, nothing in the wrong order."""

from __future__ import annotations

import gevent.event

from app import events as ev
from tests.field.rig import Engine
from tests.field.wires import sse
from tests.support.vendor import Call


def test_order_03_parallel_tools_that_end_in_reverse(engine: Engine) -> None:
    """Starts 1, 2, 3 and ends 3, 2, 1; the model gets the results in call order."""
    gates = [gevent.event.Event() for _ in range(3)]

    def work(arguments: dict[str, int], context: object) -> str:
        n = arguments["n"]
        with context.waits.wait():  # type: ignore[attr-defined]
            gates[n].wait()
        return f"result {n}"

    def plan(call: Call) -> None:
        for n in range(3):
            engine.speaker.tool(call, n, f"c{n}", "work", f'{{"n":{n}}}')
        engine.speaker.finish(call, "tool_calls")

    live = engine.start(engine.tool("work", work))
    plan(live.call())
    live.until(ev.ToolStarted, 3)
    for count, n in enumerate((2, 1, 0), 1):
        gates[n].set()
        live.until(ev.ToolFinished, count)
    engine.answer()(live.call())
    live.end()
    assert [e.id for e in live.recorder.of(ev.ToolStarted)] == ["c0", "c1", "c2"]
    assert [e.id for e in live.recorder.of(ev.ToolFinished)] == ["c2", "c1", "c0"]
    assert engine.speaker.results(live.calls[1].body) == [(f"c{n}", f"result {n}") for n in range(3)]
    assert all(status == "success" for _, status in live.ends)


def aggregate(call: Call, *pieces: str) -> None:
    for piece in pieces:
        call.text(piece)
    last = {
        "index": 0,
        "delta": {},
        "message": {"role": "assistant", "content": "AB"},
        "finish_reason": "stop",
    }
    call.send_bytes(sse({"choices": [last]}))
    call.send_bytes(sse("[DONE]"))
    call.end_body()


def test_order_04_an_aggregate_after_the_deltas_is_not_said_again(chat: Engine) -> None:
    """Live text and stored text are "AB"."""

    def look(call: Call) -> None:
        chat.speaker.tool(call, 0, "c", "look", "{}")
        chat.speaker.finish(call, "tool_calls")

    live = chat.run(look, lambda call: aggregate(call, "A", "B"), tools=[chat.tool("look")])
    assert live.text == live.output["content"] == "AB"


def test_order_04_an_aggregate_without_deltas_is_used_once(chat: Engine) -> None:
    """Nothing was streamed: the aggregate is the answer."""
    live = chat.run(aggregate)
    assert live.text == live.output["content"] == "AB"


def test_order_06_an_answer_in_one_piece(engine: Engine) -> None:
    """One delta, the answer once."""
    live = engine.run(engine.answer("All of it, at once."))
    assert [e.text for e in live.recorder.of(ev.TextDelta)] == ["All of it, at once."]
    assert [e.text for e in live.recorder.of(ev.AnswerSettled)] == ["All of it, at once."]
    assert live.output["content"] == "All of it, at once."

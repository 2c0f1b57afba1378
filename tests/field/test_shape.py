"""SHAPE: unusual but legal chunks."""

from __future__ import annotations

import typing as t

import pytest

from tests.field.rig import Engine
from tests.field.wires import RUNNING, sse
from tests.support.vendor import Call


def usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion}


def test_shape_01_empty_choices_first_and_last(chat: Engine) -> None:
    """The answer is whole, usage is that of the last chunk."""

    def say(call: Call) -> None:
        call.send_bytes(sse({"id": "", "choices": [], "prompt_filter_results": [{}]}))
        call.text("All ")
        call.text("there.")
        call.send({}, "stop")
        call.send_bytes(sse({"choices": [], "usage": usage(7, 3)}))
        call.send_bytes(sse("[DONE]"))
        call.end_body()

    live = chat.run(say)
    assert live.output["content"] == "All there."
    assert live.output["tokens"] == {"input": 7, "output": 3, "total": 10}


@pytest.mark.parametrize("name", RUNNING)
def test_shape_03_running_totals_are_not_added_up(over: t.Callable[[str], Engine], name: str) -> None:
    """The last value of a call counts; two rounds are the sum of their last values."""
    engine = over(name)

    def say(call: Call, last: bool) -> None:
        for count in (1, 50):
            engine.speaker.running(call, "x", 10, count)  # type: ignore[union-attr]  # those of RUNNING can
        if not last:
            engine.speaker.tool(call, 0, "c", "look", "{}")
        engine.speaker.finish(call, "stop" if last else "tool_calls", (10, 100))

    live = engine.run(lambda c: say(c, False), lambda c: say(c, True), tools=[engine.tool("look")])
    assert live.output["tokens"] == {"input": 20, "output": 200, "total": 220}
    assert live.terminal.usage["tokens"] == {"input": 20, "output": 200, "total": 220}


def test_shape_05_missing_usage_is_not_zero(chat: Engine) -> None:
    """It was asked for; what did not come is counted and marked; a price nobody knows is left out."""
    live = chat.run(chat.answer())
    assert live.calls[0].body["stream_options"] == {"include_usage": True}
    tokens = live.output["tokens"]
    assert tokens["input"] > 0
    assert tokens["output"] > 0
    assert tokens["total"] == tokens["input"] + tokens["output"]
    assert live.terminal.usage["tokens"] == tokens
    assert [usage["estimated"] for usage in live.row["usages"]] == [True]
    assert "cost" not in live.output
    assert "cost" not in live.terminal.usage


def test_shape_05_a_zero_where_something_was_said_is_no_count(chat: Engine) -> None:
    """Servers that do not count send zeros; they are counted for, and the call is marked."""

    def say(call: Call) -> None:
        call.text("Some words.")
        call.send({}, "stop")
        call.send_bytes(sse({"choices": [], "usage": usage(0, 0)}))
        call.send_bytes(sse("[DONE]"))
        call.end_body()

    live = chat.run(say)
    assert min(live.output["tokens"].values()) > 0
    assert [usage["estimated"] for usage in live.row["usages"]] == [True]


def test_shape_06_the_last_words_share_a_chunk_with_the_usage(chat: Engine) -> None:
    """Both are taken."""

    def say(call: Call) -> None:
        call.text("The")
        last = {"index": 0, "delta": {"content": " end"}, "finish_reason": "stop"}
        call.send_bytes(sse({"choices": [last], "usage": usage(4, 2)}))
        call.send_bytes(sse("[DONE]"))
        call.end_body()

    live = chat.run(say)
    assert live.output["content"] == live.text == "The end"
    assert live.output["tokens"]["output"] == 2


@pytest.mark.parametrize(
    "stated",
    [
        {"prompt_tokens": 7, "completion_tokens": float("inf")},
        {"prompt_tokens": 7, "prompt_tokens_details": 5, "completion_tokens_details": ["x"]},
        {"prompt_tokens": 7, "total_tokens": 10**30},
    ],
    ids=["infinite", "details", "beyond any count"],
)
def test_shape_usage_that_is_no_count_costs_no_answer(chat: Engine, stated: dict[str, t.Any]) -> None:
    """What is no number of tokens is left out; the answer stands."""

    def say(call: Call) -> None:
        call.text("Whole.")
        call.send({}, "stop")
        call.send_bytes(sse({"choices": [], "usage": stated}))
        call.send_bytes(sse("[DONE]"))
        call.end_body()

    live = chat.run(say)
    assert live.output["content"] == "Whole."
    assert live.output["tokens"]["input"] == 7

"""Usage is always there: the vendor's, or ours and marked; what it costs by the rates that are known."""

from __future__ import annotations

import typing as t

import pytest

from app import events as ev
from app.agents import estimate, usage
from plugins.spec import Capabilities
from providers import spec, tokens
from tests.agents.conftest import Agents
from tests.field.rig import Live
from tests.field.wires import Messages, sse
from tests.support.vendor import Call

MODEL = "priced/one"


def says(text: str, counts: dict[str, t.Any] | None = None) -> t.Callable[[Call], None]:
    def say(call: Call) -> None:
        call.text(text)
        call.send({}, "stop")
        if counts is not None:
            call.send_bytes(sse({"choices": [], "usage": counts}))
        call.send_bytes(b"data: [DONE]\n\n")
        call.end_body()

    return say


def marks(live: Live) -> list[bool]:
    return [row["estimated"] for row in live.row["usages"]]


def test_what_the_vendor_states_is_not_touched(agents: Agents) -> None:
    live = agents.run(MODEL, says("Hello", {"prompt_tokens": 7, "completion_tokens": 3}))
    assert live.output["tokens"] == {"input": 7, "output": 3, "total": 10}
    assert live.terminal.usage["cost"] == {
        "total": pytest.approx(7 * 2e-6 + 3 * 10e-6),
        "currency": "USD",
        "estimated": False,
    }
    assert marks(live) == [False]


def test_without_a_word_of_the_vendor_the_tokenizer_counts_both_sides(agents: Agents) -> None:
    live = agents.run(
        MODEL, says("The answer is forty-two."), system="You answer briefly.", prompt="What is it?"
    )
    counted = tokens.COUNTER.count("You answer briefly.\nWhat is it?")
    # Two messages' worth of overhead: the user's and the answer's own.
    assert live.output["tokens"]["input"] == counted + 6
    assert live.output["tokens"]["output"] == tokens.COUNTER.count("The answer is forty-two.")
    assert live.terminal.usage["cost"]["estimated"] is True
    assert marks(live) == [True]


def test_only_what_is_missing_is_counted(agents: Agents) -> None:
    live = agents.run(MODEL, says("Hello there", {"prompt_tokens": 1234}))
    assert live.output["tokens"]["input"] == 1234
    assert live.output["tokens"]["output"] == tokens.COUNTER.count("Hello there")
    assert live.output["tokens"]["total"] == 1234 + live.output["tokens"]["output"]
    assert marks(live) == [True]


def test_calls_and_thinking_are_output_and_results_and_tools_are_input(agents: Agents) -> None:
    def look(call: Call) -> None:
        call.send({"reasoning_content": "I should calculate this."})
        function = {"name": "calculator", "arguments": '{"expression":"6*7"}'}
        call.send({"tool_calls": [{"index": 0, "id": "c", "function": function}]})
        call.finish("tool_calls")

    live = agents.run("openai-compatible/x", look, says("42"), tools=["calculator"])
    first, second = (row["tokens"] for row in live.row["usages"])
    said = 'I should calculate this.calculator{"expression":"6*7"}'
    assert first["output"] == tokens.COUNTER.count(said)
    assert second["input"] > first["input"] > tokens.COUNTER.count("hi") + 6
    assert live.output["tokens"] == usage.total([first, second]) == live.terminal.usage["tokens"]


@pytest.mark.parametrize("how", ["cut", "stopped", "timed out"])
def test_a_part_of_an_answer_is_counted_when_the_vendor_said_nothing(agents: Agents, how: str) -> None:
    live = agents.start(MODEL, retries=0)
    call = live.call()
    call.text("Half of an answer")
    live.until(ev.TextDelta)
    if how == "cut":
        call.cut()
    elif how == "stopped":
        live.run.cancel("stop_requested")
    else:
        live.run.scope.deadline(0.01, "execution_timeout")
    live.end()
    (row,) = live.row["usages"]
    assert row["estimated"]
    assert row["tokens"]["output"] > 0
    assert row["cost"] > 0
    assert live.row["usage"]["tokens"]["output"] == row["tokens"]["output"]


def test_what_the_vendor_said_before_a_cut_is_its_last_word(agents: Agents) -> None:
    def cut(call: Call) -> None:
        counts = {"prompt_tokens": 10, "completion_tokens": 5}
        call.send_bytes(sse({"choices": [{"index": 0, "delta": {"content": "word "}}], "usage": counts}))
        call.cut()

    live = agents.run(MODEL, cut, retries=0)
    assert live.row["usage"]["tokens"] == {"input": 10, "output": 5, "total": 15}
    assert marks(live) == [False]


def test_a_call_that_brought_nothing_is_not_counted(agents: Agents) -> None:
    live = agents.run(MODEL, lambda call: call.answer(401, b"{}"))
    assert live.row["usages"] == []
    assert live.terminal.usage["tokens"] == {}
    assert "cost" not in live.terminal.usage


def test_an_unknown_price_is_absent_and_makes_the_sum_unknown(agents: Agents) -> None:
    live = agents.run("openai-compatible/x", says("Hello", {"prompt_tokens": 7, "completion_tokens": 3}))
    assert "cost" not in live.output
    assert "cost" not in live.terminal.usage
    assert live.row["usages"][0]["cost"] is None


def test_a_free_model_is_counted_by_length_and_costs_nothing(agents: Agents) -> None:
    live = agents.start("scripted/echo")
    live.end()
    out = live.output
    assert out["tokens"]["output"] == tokens.by_length(out["content"])
    assert out["cost"]["total"] == 0
    assert marks(live) == [True]


def test_reads_and_writes_of_the_prompt_cache_have_their_own_rates(agents: Agents) -> None:
    counts = {
        "prompt_tokens": 1000,
        "completion_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 600},
    }
    live = agents.run(MODEL, says("Hello", counts))
    assert live.output["tokens"]["cacheRead"] == 600
    assert live.output["cost"]["input"] == pytest.approx((400 * 2.0 + 600 * 0.2) / 1e6)
    assert live.output["cost"]["output"] == pytest.approx(10 * 10.0 / 1e6)


CAN = Capabilities(price=(3.0, 15.0), cache_price=(0.3, 3.75))


@pytest.mark.parametrize(
    ("used", "can", "cost"),
    [
        (spec.Usage(input=1000, output=100), CAN, (3000, 1500)),
        (spec.Usage(1000, 100, None, 500, 300), CAN, (200 * 3 + 500 * 0.3 + 300 * 3.75, 1500)),
        (spec.Usage(1000, 100, None, 500, 300), Capabilities(price=(3.0, 15.0)), (3000, 1500)),
        (spec.Usage(100, 1, None, 500, 0), CAN, (150, 15)),  # more was read than sent: a vendor's slip
        (spec.Usage(1000, 100, reasoning=90), CAN, (3000, 1500)),  # part of output already
        (spec.Usage(input=1000), CAN, None),
        (spec.Usage(1000, 100), Capabilities(), None),
        (spec.Usage(1000, 100), Capabilities(price=(0.0, 0.0)), (0, 0)),
    ],
)
def test_prices(used: spec.Usage, can: Capabilities, cost: tuple[float, float] | None) -> None:
    found = usage.price(used, can)
    assert found == (None if cost is None else pytest.approx((cost[0] / 1e6, cost[1] / 1e6)))


def test_sums_leave_out_what_nobody_stated() -> None:
    one, other = {"input": 1, "output": 2, "total": 3}, {"input": 5, "cacheRead": 4}
    assert list(usage.total([other, one]).items()) == [
        ("input", 6),
        ("output", 2),
        ("total", 3),
        ("cacheRead", 4),
    ]
    assert usage.total([]) == {}


def test_files_weigh_in_the_prompt() -> None:
    def request(*files: spec.FilePart) -> spec.ModelRequest:
        return spec.ModelRequest("m", [spec.UserMessage("hi", files)], lambda: "id")

    def prompt(*files: spec.FilePart) -> int:
        found = estimate.partial(request(*files), ["x"], None)
        assert found is not None
        assert found.input is not None
        return found.input

    pdf = b"%PDF-1.4 << /Type /Pages >> << /Type /Page >> << /Type/Page >>"
    bare = prompt()
    assert prompt(spec.FilePart("image", "image/png", b"x")) == bare + 1_000
    assert prompt(spec.FilePart("pdf", "application/pdf", pdf)) == bare + 2 * 2_000
    assert prompt(spec.FilePart("text", "text/plain", b"word " * 100)) > bare + 90


# -- what is asked of the vendor's cache --------------------------------------------------------


def marked(call: Call) -> bool:
    return "cache_control" in str(call.body)


def test_the_prompt_of_an_agent_with_tools_is_marked_for_the_cache_unless_told_otherwise(
    agents: Agents,
) -> None:
    speaker = Messages()

    def say(call: Call) -> None:
        speaker.text(call, "Hello")
        speaker.finish(call)

    claude = "anthropic/claude-sonnet-4-5"
    for settings, expected in (
        ({}, False),
        ({"tools": ["clock"]}, True),
        ({"tools": ["clock"], "prompt_cache": False}, False),
        ({"prompt_cache": True}, True),
    ):
        live = agents.run(claude, say, system="You answer.", **settings)
        assert marked(live.calls[0]) is expected


def test_turns_of_a_conversation_share_an_opaque_name_and_no_others_do(agents: Agents) -> None:
    def name(**more: t.Any) -> str:
        live = agents.start("openai/gpt-4.1", **more)
        call = live.call()
        call.answer(401, b"{}")
        live.end()
        found: str = call.body["prompt_cache_key"]
        return found

    mine = name(conversation_id="customer 7")
    assert mine == name(conversation_id="customer 7")
    assert mine != name(conversation_id="customer 8")
    assert name() != name()
    assert "customer" not in mine
    assert len(mine) == 32

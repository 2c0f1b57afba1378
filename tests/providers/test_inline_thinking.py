"""Thinking in tags inside the text, however it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers import spec
from providers.inline_thinking import HOLD, ThinkSplitter


def run(pieces: list[str], *, implicit: bool = False) -> tuple[str, str]:
    """Thinking and text of these deltas."""
    splitter = ThinkSplitter(implicit=implicit)
    out: list[spec.ModelEvent] = []
    for piece in pieces:
        splitter.feed(piece, out)
    splitter.flush(out)
    assert all(event.text for event in out)  # type: ignore[attr-defined]
    thinking = "".join(event.text for event in out if isinstance(event, spec.ThinkingDelta))
    return thinking, "".join(event.text for event in out if isinstance(event, spec.TextDelta))


CASES = [
    ("<think>plan A</think>\n\nHello", "plan A", "Hello"),
    ("<thinking>\nplan</thinking>\nHello", "plan", "Hello"),
    ("<reasoning>plan</reasoning>Hello", "plan", "Hello"),
    ("<THINK>plan</Think>Hello", "plan", "Hello"),
    ("\n <think>plan</think>Hello", "plan", "Hello"),
    ("<think>never closed", "never closed", ""),
    ("only closed</think>\n\nHello", "only closed", "Hello"),
    ("<think></think>\n\nHello", "", "Hello"),
    ("<think>a</think>b\n<think>c</think>\nd", "ac", "b\nd"),
    ("Sure. <think>a</think>b", "a", "Sure. b"),
    ("<think>a < b, <thin> and </thinking></think>c", "a < b, <thin> and </thinking>", "c"),
    (
        "Use `<think>` and\n```\n<think>x</think>\n```\ndone",
        "",
        "Use `<think>` and\n```\n<think>x</think>\n```\ndone",
    ),
    ("<think>```\ncode</think>Hello", "```\ncode", "Hello"),
    ("<think>a</think>```\n</think>\n```", "a", "```\n</think>\n```"),
    ("plain a<b and <thin", "", "plain a<b and <thin"),
    ("plain", "", "plain"),
    ("", "", ""),
]


@pytest.mark.parametrize(("text", "thinking", "answer"), CASES)
def test_at_every_cut(text: str, thinking: str, answer: str) -> None:
    assert run([text]) == (thinking, answer)
    assert run(list(text)) == (thinking, answer)
    for at in range(len(text)):
        assert run([text[:at], text[at:]]) == (thinking, answer)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<thin", "k>", "`", "```", "\n", "a", "<", ">", " "]))
)
def test_cuts_change_nothing(parts: list[str]) -> None:
    whole = "".join(parts)
    assert run(parts) == run([whole]) == run(list(whole))


@pytest.mark.parametrize(
    "text", ["plan</think>Hello", "<think>plan</think>Hello", "\n<think>\nplan</think>\nHello"]
)
def test_a_template_that_opens_the_tag_itself(text: str) -> None:
    assert run(list(text), implicit=True) == ("plan", "Hello")


def test_thinking_streams_while_it_is_open() -> None:
    splitter = ThinkSplitter()
    out: list[spec.ModelEvent] = []
    splitter.feed("<think>one ", out)
    assert out == [spec.ThinkingDelta("one ")]
    splitter.feed("two</think>answer", out)
    assert out[1:] == [spec.ThinkingDelta("two"), spec.TextDelta("answer")]


def test_undecided_text_is_held_back_up_to_a_bound() -> None:
    splitter = ThinkSplitter()
    out: list[spec.ModelEvent] = []
    splitter.feed("a" * HOLD, out)
    assert out == []
    splitter.feed("b", out)
    assert out == [spec.TextDelta("a" * HOLD + "b")]
    splitter.feed("c", out)
    assert out[1:] == [spec.TextDelta("c")]

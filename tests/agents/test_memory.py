"""The window of a conversation: whole exchanges, the newest, within its limit."""

from __future__ import annotations

import typing as t
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.agents import estimate
from app.agents.memory import NO_TEXT, UNANSWERED, Remembered, fitting, newest, tokens, told
from app.engine.journal import Journal
from app.errors import BlockError
from app.workflows.memory_config import MemoryConfig, memory_of
from plugins.spec import Capabilities, Exchange
from providers import spec
from providers.tokens import COUNTER

EXCHANGES = st.lists(st.builds(Exchange, st.text(max_size=60), st.none() | st.text(max_size=60)), max_size=30)


class Kept:
    """A memory that is a list."""

    def __init__(self, exchanges: list[Exchange]) -> None:
        self.exchanges = exchanges

    def read(self, most: int, most_bytes: int) -> list[Exchange]:
        return self.exchanges[max(0, len(self.exchanges) - most) :]

    def append(self, asked: str, answer: str) -> None:
        self.exchanges.append(Exchange(asked, answer))


class Context:
    """As much of a block's context as a memory needs."""

    name = "Agent 1"
    waits: t.Any = None

    def __init__(self, exchanges: list[Exchange]) -> None:
        self.kept = Kept(exchanges)
        self.journal = Journal().bind("a", 1)
        self.keys: list[str | None] = []

    def memory(self, key: str | None = None) -> Kept:
        self.keys.append(key)
        return self.kept

    def commit(self) -> None:
        """Nothing is stored here."""

    def render(self, template: str) -> str:
        return template.replace("{{ nothing }}", "")

    def run_blocking(self, fn: t.Callable[[], t.Any], waits: t.Any) -> t.Any:
        return fn()


def window(exchanges: list[Exchange], **config: t.Any) -> list[Exchange]:
    context = t.cast(t.Any, Context(list(exchanges)))
    memory = Remembered(context, MemoryConfig(**config), "now")
    memory.around(lambda: {"content": ""})
    return list(memory.earlier)


def test_an_exchange_is_kept_once_though_the_process_ends_right_after() -> None:
    context = Context([])
    for _ in range(2):
        Remembered(t.cast(t.Any, context), MemoryConfig(type="conversation"), "now").around(
            lambda: {"content": "then"}
        )
    assert context.kept.exchanges == [Exchange("now", "then")]


def is_end_of(window: t.Sequence[Exchange], exchanges: t.Sequence[Exchange]) -> bool:
    return list(window) == list(exchanges)[len(exchanges) - len(window) :]


@settings(deadline=None)
@given(EXCHANGES)
def test_a_conversation_is_told_whole(exchanges):
    assert window(exchanges, type="conversation") == exchanges


@settings(deadline=None)
@given(EXCHANGES, st.integers(2, 40))
def test_a_window_of_messages_holds_as_many_whole_exchanges_as_fit(exchanges, limit):
    found = window(exchanges, type="sliding_window", limit=limit)
    assert is_end_of(found, exchanges)
    assert len(list(told(found))) <= limit
    assert len(found) == min(len(exchanges), limit // 2)


@settings(deadline=None)
@given(EXCHANGES, st.integers(1, 400))
def test_a_window_of_tokens_holds_as_many_whole_exchanges_as_fit(exchanges, limit):
    found = window(exchanges, type="sliding_window_tokens", limit=limit)
    assert is_end_of(found, exchanges)
    assert sum(map(tokens, found)) <= limit
    if len(found) < len(exchanges):
        assert sum(map(tokens, found)) + tokens(exchanges[-len(found) - 1]) > limit


@settings(deadline=None)
@given(EXCHANGES)
def test_what_is_told_takes_turns_begins_with_the_user_and_is_never_empty(exchanges):
    messages = list(told(exchanges))
    assert [type(message) for message in messages] == [spec.UserMessage, spec.AssistantMessage] * len(
        exchanges
    )
    for message, text in zip(messages, [text for pair in exchanges for text in pair], strict=True):
        assert message.text.strip()
        assert message.text in (text, NO_TEXT, UNANSWERED)
        if isinstance(message, spec.AssistantMessage):
            assert (message.calls, message.replay) == ((), None)


def test_a_message_that_was_stopped_is_told_as_not_answered():
    first, second = told([Exchange("Why?", None)])
    assert (first.text, second.text) == ("Why?", UNANSWERED)


def test_thinking_alone_is_no_empty_answer():
    assert [message.text for message in told([Exchange("Why?", " \n")])] == ["Why?", NO_TEXT]


@settings(deadline=None)
@given(EXCHANGES, st.integers(0, 200))
def test_the_newest_that_fit_end_at_the_first_that_does_not(exchanges, most):
    found = newest(exchanges, lambda exchange: len(exchange.asked), most)
    assert is_end_of(found, exchanges)
    assert sum(len(exchange.asked) for exchange in found) <= most


def request(*texts: str, system: str | None = None) -> spec.ModelRequest:
    return spec.ModelRequest("m", [spec.UserMessage(text) for text in texts], lambda: "id", system=system)


def model(**can: t.Any) -> t.Any:
    return SimpleNamespace(capabilities=replace(Capabilities(), **can))


@settings(deadline=None)
@given(EXCHANGES, st.integers(1, 3_000), st.none() | st.integers(1, 500), st.text(max_size=200))
def test_a_conversation_fits_into_the_context_of_the_model(exchanges, size, max_tokens, asked):
    asks = request(asked)
    context = t.cast(t.Any, Context([]))
    found = fitting(context, exchanges, asks, model(context_window=size, max_output=100), max_tokens)
    assert is_end_of(found, exchanges)
    answer = max_tokens or min(100, size // 4)
    if found:
        whole = replace(asks, messages=[*told(found), *asks.messages])
        line_ends = len(whole.messages)
        assert estimate.prompt_tokens(whole, COUNTER.count) <= size + line_ends - answer
    elif exchanges:
        room = size * 0.9 - answer - estimate.prompt_tokens(asks, COUNTER.count)
        assert tokens(exchanges[-1]) > room - 1


def test_a_model_of_unknown_context_is_told_everything():
    exchanges = [Exchange("x" * 10_000, "y" * 10_000)] * 50
    assert fitting(t.cast(t.Any, Context([])), exchanges, request("q"), model(), None) is exchanges


def test_a_short_conversation_is_not_counted(monkeypatch):
    monkeypatch.setattr(COUNTER, "count", lambda text, most=0: pytest.fail("it was counted"))
    exchanges = [Exchange("Hi", "Hello")]
    asks = request("q", system="s")
    found = fitting(t.cast(t.Any, Context([])), exchanges, asks, model(context_window=1_000), None)
    assert found is exchanges


@settings(deadline=None)
@given(st.text(), st.lists(st.text(), max_size=5))
def test_nothing_has_more_tokens_than_the_bound_that_saves_counting(system, texts):
    asks = request(*texts, system=system)
    COUNTER.load()
    assert estimate.prompt_tokens(asks, COUNTER.count) <= estimate.at_most(asks) + len(texts) + 1


def test_a_key_is_a_template_and_may_not_be_empty():
    context = Context([])
    Remembered(t.cast(t.Any, context), MemoryConfig("conversation", key=" team "), "q")
    Remembered(t.cast(t.Any, context), MemoryConfig("conversation"), "q")
    assert context.keys == ["team", None]
    for key, says in (("{{ nothing }}", "renders empty"), ("x" * 201, "201 characters")):
        with pytest.raises(BlockError) as caught:
            Remembered(t.cast(t.Any, context), MemoryConfig("conversation", key=key), "q")
        assert caught.value.code == "memory_key_invalid"
        assert says in caught.value.message


def test_words_alone_are_types_without_a_limit():
    assert memory_of("conversation") == MemoryConfig("conversation")
    assert memory_of(None) is memory_of("none") is memory_of({"type": "none"}) is None
    assert memory_of({"type": "sliding_window", "limit": 4}) == MemoryConfig("sliding_window", 4)

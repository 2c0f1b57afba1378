"""What a script plays, and how it waits."""

from __future__ import annotations

import itertools
import os
import typing as t
from pathlib import Path

import gevent
import pytest
import yaml

from app.engine.scope import Cancelled, RunScope
from providers.auth import NoAuth
from providers.scripted import ScriptedWire, Scripts
from providers.spec import (
    AssistantMessage,
    Connection,
    Message,
    ModelEvent,
    ModelFinished,
    ModelRequest,
    ProviderError,
    TextDelta,
    ThinkingDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolResult,
    Usage,
    UserMessage,
)

CONNECTION = Connection("", NoAuth())


class Stage:
    """A folder of scripts and a way to play them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wire = ScriptedWire(Scripts(lambda: folder))

    def write(self, name: str, data: t.Any) -> None:
        (self.folder / f"{name}.yaml").write_text(data if isinstance(data, str) else yaml.safe_dump(data))

    def batches(
        self, name: str, *messages: Message, waits: t.Any = None, idle_s: float = 60.0, **request: t.Any
    ) -> t.Iterator[list[ModelEvent]]:
        numbers = itertools.count(1)
        asked = ModelRequest(
            name, messages or (UserMessage("hello you"),), lambda: f"minted_{next(numbers)}", **request
        )
        return self.wire.stream(asked, Connection("", NoAuth(), idle_s=idle_s), waits or RunScope())

    def play(self, name: str, *messages: Message, **options: t.Any) -> list[ModelEvent]:
        return [event for batch in self.batches(name, *messages, **options) for event in batch]

    def steps(self, *steps: t.Any, **options: t.Any) -> list[ModelEvent]:
        self.write("s", {"turns": [{"steps": list(steps)}]})
        return self.play("s", **options)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def finished(reason: t.Any, usage: Usage | None = None, name: str = "s", turn: int = 0) -> ModelFinished:
    return ModelFinished(reason, usage, {"script": name, "turn": turn}, name)


def test_text_thinking_and_usage(stage: Stage) -> None:
    events = stage.steps(
        {"thinking": "hm"}, {"redacted": True}, {"text": "hi"}, {"usage": {"input": 3, "output": 1}}
    )
    assert events == [
        ThinkingDelta("hm"),
        ThinkingDelta("", True),
        TextDelta("hi"),
        finished("stop", Usage(input=3, output=1)),
    ]


def test_thinking_is_left_out_when_it_is_switched_off(stage: Stage) -> None:
    events = stage.steps({"thinking": "hm"}, {"redacted": True}, {"text": "hi"}, thinking="none")
    assert events == [TextDelta("hi"), finished("stop")]


@pytest.mark.parametrize(
    ("chunk", "pieces"),
    [
        ("whole", ["one  two\nthree "]),
        ("words", ["one  ", "two\n", "three "]),
        ("chars", list("one  two\nthree ")),
        (6, ["one  t", "wo\nthr", "ee "]),
    ],
)
def test_chunks_join_to_the_text(stage: Stage, chunk: t.Any, pieces: list[str]) -> None:
    events = stage.steps({"text": "one  two\nthree ", "chunk": chunk})
    assert [event.text for event in events if isinstance(event, TextDelta)] == pieces


def test_times_repeats(stage: Stage) -> None:
    assert stage.steps({"text": "a", "times": 40}).count(TextDelta("a")) == 40


def test_placeholders(stage: Stage) -> None:
    events = stage.steps(
        {"text": "{{ message }}|{{system}}|{{model}}|{{tools.clock}}"},
        {"tool_call": {"name": "x", "arguments": {"a": ["{{message}}", 1], "b": {"c": "{{model}}"}}}},
        system="be kind",
    )
    assert events[0] == TextDelta("hello you|be kind|s|")
    assert t.cast(ToolCallReady, events[2]).arguments == {"a": ["hello you", 1], "b": {"c": "s"}}


def test_a_script_can_say_what_it_has_heard(stage: Stage) -> None:
    stage.write("s", {"turns": [{"steps": [{"text": "{{messages}}"}]}]})
    heard = (UserMessage("a"), AssistantMessage("x"), UserMessage("b"))
    assert stage.play("s", *heard)[0] == TextDelta("a, b")


def test_an_empty_text_says_nothing(stage: Stage) -> None:
    assert stage.steps({"text": "{{tools.none}}"}) == [finished("stop")]


def test_lone_surrogates_are_replaced(stage: Stage) -> None:
    stage.write("s", 'turns: [{steps: [{text: "a\\uD800b"}]}]')
    assert stage.play("s")[0] == TextDelta("a\ufffdb")
    assert stage.play("echo", UserMessage("a\ud800b"))[0] == TextDelta("a\ufffdb")


def test_the_turn_is_chosen_by_the_conversation(stage: Stage) -> None:
    stage.write("s", {"turns": [{"steps": [{"text": f"turn {n}"}]} for n in range(2)]})

    def said(*messages: Message) -> str:
        return t.cast(TextDelta, stage.play("s", *messages)[0]).text

    user, assistant = UserMessage("u"), AssistantMessage("a")
    result = ToolResult("1", "clock", "noon")
    assert said(user) == "turn 0"
    assert said(user, assistant, result) == "turn 1"
    assert said(user, assistant, result, assistant, result) == "turn 1"
    assert said(user, assistant, user) == "turn 0"
    assert said(assistant) == "turn 1"


def test_tool_results_can_be_quoted(stage: Stage) -> None:
    messages = (
        UserMessage("u"),
        AssistantMessage("a"),
        ToolResult("1", "clock", "old"),
        ToolResult("2", "clock", '{"time":"noon","weekday":"Friday"}'),
        ToolResult("3", "calculator", '{"result":42}'),
    )
    text = "".join(event.text for event in stage.play("tour", *messages) if isinstance(event, TextDelta))
    assert "It is noon, a Friday, says the clock, and six times seven is 42, says" in text
    said = stage.steps(
        {"text": "{{tools.clock}}|{{tools.clock.x}}|{{tools.none.x}}|{{tools.calculator.result.y}}"}
    )
    assert said[0] == TextDelta("|||")


def test_calls(stage: Stage) -> None:
    events = stage.steps(
        {"tool_call": {"name": "a", "arguments": {"x": 1}}},
        {"tool_call": {"name": "b", "id": "mine"}},
        {"tool_call": {"name": "c", "id": "mine"}},
        {"tool_call": {"name": "d", "id": "spoken-for"}},
        used_ids=frozenset({"spoken-for"}),
    )
    assert events == [
        ToolCallStarted("minted_1", "a"),
        ToolCallReady("minted_1", "a", {"x": 1}, '{"x":1}'),
        ToolCallStarted("mine", "b"),
        ToolCallReady("mine", "b", {}, "{}"),
        ToolCallStarted("minted_2", "c"),
        ToolCallReady("minted_2", "c", {}, "{}"),
        ToolCallStarted("minted_3", "d"),
        ToolCallReady("minted_3", "d", {}, "{}"),
        finished("tool_calls"),
    ]


def test_a_call_with_a_delay_is_announced_first(stage: Stage) -> None:
    stage.write("s", {"turns": [{"steps": [{"tool_call": {"name": "a"}, "delay_ms": 1}]}]})
    first, second, _end = stage.batches("s")
    assert first == [ToolCallStarted("minted_1", "a")]
    assert second == [ToolCallReady("minted_1", "a", {}, "{}")]


@pytest.mark.parametrize(
    ("raw", "arguments", "error"),
    [
        ("", {}, None),
        ('{"a": 1}', {"a": 1}, None),
        ('{"a": ', None, "invalid_json"),
        ("[1]", None, "not_an_object"),
        ("null", None, "not_an_object"),
    ],
)
def test_raw_arguments(stage: Stage, raw: str, arguments: t.Any, error: str | None) -> None:
    events = stage.steps({"tool_call": {"name": "a", "arguments": raw}})
    assert events[1] == ToolCallReady("minted_1", "a", arguments, raw, error)


def test_a_cut_call_ends_by_length(stage: Stage) -> None:
    events = stage.play("cut-call")
    assert events[-2:] == [
        ToolCallReady("minted_1", "calculator", None, '{"expression": "1 + ', "cut"),
        finished("length", name="cut-call"),
    ]


def test_a_finish_label_is_said_as_written(stage: Stage) -> None:
    assert stage.steps({"text": "no"}, {"finish": "refusal"})[-1] == finished("refusal")


def test_an_error_carries_everything(stage: Stage) -> None:
    said: list[ModelEvent] = []
    with pytest.raises(ProviderError) as caught:
        said.extend(itertools.chain.from_iterable(stage.batches("error-mid")))
    assert "".join(event.text for event in said if isinstance(event, TextDelta)) == "This answer will not "
    assert caught.value.code == "provider_bad_stream"
    with pytest.raises(ProviderError) as caught:
        stage.play("rate-limited")
    error = caught.value
    assert (error.code, error.status, error.retry_after) == ("provider_rate_limited", 429, 1)
    assert error.message == error.detail == "The scripted vendor wants a pause."


def test_a_stall_ends_by_the_idle_limit(stage: Stage) -> None:
    with pytest.raises(ProviderError) as caught:
        stage.play("stall", idle_s=0.05)
    assert caught.value.code == "provider_idle"


def test_a_pause_longer_than_the_idle_limit_is_idle(stage: Stage) -> None:
    with pytest.raises(ProviderError) as caught:
        stage.steps({"text": "a"}, {"delay_ms": 60_000}, {"text": "b"}, idle_s=0.05)
    assert caught.value.code == "provider_idle"


def test_chunks_restart_the_idle_limit(stage: Stage) -> None:
    events = stage.steps({"text": "a", "times": 6, "delay_ms": 200}, idle_s=1)
    assert events.count(TextDelta("a")) == 6


@pytest.mark.leak_check
@pytest.mark.parametrize("name", ["stall", "slow", "silent"])
def test_a_cancel_ends_it_at_once(stage: Stage, name: str) -> None:
    scope = RunScope()
    ended: list[str] = []

    def run() -> None:
        try:
            stage.play(name, waits=scope)
        except Cancelled as error:
            ended.append(error.cause)

    greenlet = gevent.Greenlet(run)
    greenlet.start()
    gevent.sleep(0.01)
    scope.cancel("stop_requested")
    greenlet.join(30)
    assert ended == ["stop_requested"]


def test_a_script_without_delays_lets_others_run(stage: Stage) -> None:
    """Another greenlet gets its turn at least every sixteen batches, from the first to the last."""
    stage.write("s", {"turns": [{"steps": [{"text": "a", "times": 200}]}]})
    said: list[None] = []
    turns = [0]

    def other() -> None:
        while len(said) < 200:
            turns.append(len(said))
            gevent.sleep(0)

    greenlet = gevent.Greenlet(other)
    greenlet.start()
    for _ in stage.batches("s"):
        said.append(None)
    greenlet.join(30)
    assert max(after - before for before, after in itertools.pairwise([*turns, 200])) <= 16


def test_the_gate_is_asked_before_each_piece(stage: Stage) -> None:
    scope = RunScope()
    stage.write("s", {"turns": [{"steps": [{"text": "a", "times": 3}]}]})
    stream = stage.batches("s", waits=scope)
    assert next(stream) == [TextDelta("a")]
    scope.flow.shut()
    opened: list[bool] = []

    def open_later() -> None:
        opened.append(True)
        scope.flow.open()

    timer = gevent.get_hub().loop.timer(0.02)
    timer.start(open_later)
    assert next(stream) == [TextDelta("a")]
    assert opened == [True]
    timer.close()


def test_own_scripts_come_first_and_are_read_again(stage: Stage) -> None:
    assert stage.play("echo", UserMessage("a"))[0] == TextDelta("a")
    stage.write("echo", {"turns": [{"steps": [{"text": "mine"}]}]})
    assert stage.play("echo")[0] == TextDelta("mine")
    stage.write("echo", {"turns": [{"steps": [{"text": "changed"}]}]})
    os.utime(stage.folder / "echo.yaml", ns=(1, 1))
    assert stage.play("echo")[0] == TextDelta("changed")
    script = stage.wire.scripts.load("echo")
    assert stage.wire.scripts.load("echo") is script
    (stage.folder / "echo.yaml").unlink()
    assert stage.play("echo", UserMessage("a"))[0] == TextDelta("a")


def test_names_are_looked_up_when_asked(stage: Stage) -> None:
    scripts = stage.wire.scripts
    assert "mine" not in scripts
    stage.write("mine", {"turns": [{"steps": [{"text": "a"}]}]})
    stage.write("not a name", {"turns": []})
    assert "mine" in scripts
    assert "mine" in list(scripts)
    assert "not a name" not in list(scripts)
    assert len(scripts) == len(list(scripts))
    assert "../echo" not in scripts
    assert 5 not in scripts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("turns: [", "cannot be read"),
        ("turns: []", "turns: must be a list"),
        ("!!python/object/apply:os.getcwd []", "cannot be read"),
        ("\x00", "cannot be read"),
        ("a" * (1 << 20) + "a", "at most"),
    ],
)
def test_a_broken_file_fails_the_call_and_says_where(stage: Stage, text: str, words: str) -> None:
    stage.write("s", text)
    with pytest.raises(ProviderError) as caught:
        stage.play("s")
    assert caught.value.code == "provider_bad_request"
    assert caught.value.message.startswith('Script "s" is not valid: ')
    assert words in caught.value.message


def test_a_missing_file_fails_the_call(stage: Stage) -> None:
    with pytest.raises(ProviderError) as caught:
        stage.play("gone")
    assert caught.value.code == "provider_bad_request"
    assert '"gone"' in caught.value.message

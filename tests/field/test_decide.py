"""DECIDE: whether to run, not to run or to end is decided from the content, not from labels."""

from __future__ import annotations

import typing as t

import pytest

from app import events as ev
from providers import spec
from tests.field.rig import Engine, until
from tests.field.wires import Speaker
from tests.support.vendor import Call


@pytest.mark.parametrize("label", ["stop", "other", "tool_calls", None])
def test_decide_01_complete_calls_run_whatever_the_label(engine: Engine, label: str | None) -> None:
    """All three tools run, and the model is asked again."""
    speaker = engine.speaker

    def plan(call: Call) -> None:
        speaker.text(call, "On it. ")
        for n in range(3):
            speaker.tool(call, n, f"c{n}", "work", f'{{"n":{n}}}')
        speaker.finish(call, label)

    live = engine.run(plan, engine.answer(), tools=[engine.tool("work")])
    assert [arguments["n"] for _, arguments in engine.ran] == [0, 1, 2]
    assert [call_id for call_id, _ in speaker.results(live.calls[1].body)] == ["c0", "c1", "c2"]
    assert live.output["content"] == "done"


def cut_call(speaker: Speaker, call: Call) -> None:
    speaker.tool(call, 0, "c", "save", '{"file_path":"x.txt"')
    speaker.finish(call, "length")


def test_decide_03_a_cut_call_never_runs(fragmented: Engine) -> None:
    """By default the run fails and says why."""
    live = fragmented.run(lambda call: cut_call(fragmented.speaker, call), tools=[fragmented.tool("save")])
    assert fragmented.ran == []
    assert live.terminal.code == "tool_call_truncated"
    assert "max_tokens" in live.terminal.message
    assert live.ends == [("save", "error")]


def test_decide_03_the_model_is_told_as_often_as_it_may_be(fragmented: Engine) -> None:
    """With one retry: told once, then the run fails."""

    def cut(call: Call) -> None:
        cut_call(fragmented.speaker, call)

    live = fragmented.run(cut, cut, tools=[fragmented.tool("save")], cut_call_retries=1)
    ((_, told),) = fragmented.speaker.results(live.calls[1].body)
    assert "cut off" in told
    assert fragmented.ran == []
    assert live.terminal.code == "tool_call_truncated"


def test_decide_05_malformed_is_not_called_truncated(fragmented: Engine) -> None:
    """The reason is the arguments, and the raw text is kept for operators only."""

    def broken(call: Call) -> None:
        fragmented.speaker.tool(call, 0, "c", "act", '{"action": listt"}')
        fragmented.speaker.finish(call, "tool_calls", (10, 20))

    live = fragmented.run(broken, fragmented.answer(), tools=[fragmented.tool("act")])
    ((_, told),) = fragmented.speaker.results(live.calls[1].body)
    assert "not valid JSON" in told
    assert "cut" not in told
    assert fragmented.ran == []
    (entry,) = live.row["tool_calls"]["agent_1"]
    assert (entry["arguments"], entry["status"]) == ('{"action": listt"}', "error")


def test_decide_06_an_unknown_tool_beside_a_real_one(engine: Engine) -> None:
    """The real one runs, the unknown one is answered, both are settled, the run goes on."""

    def both(call: Call) -> None:
        engine.speaker.tool(call, 0, "c0", "no_such_tool", "{}")
        engine.speaker.tool(call, 1, "c1", "real", '{"n":1}')
        engine.speaker.finish(call, "tool_calls")

    live = engine.run(both, engine.answer(), tools=[engine.tool("real")])
    assert engine.ran == [("real", {"n": 1})]
    results = engine.speaker.results(live.calls[1].body)
    assert [call_id for call_id, _ in results] == ["c0", "c1"]
    assert "Unknown tool" in results[0][1]
    assert sorted(live.ends) == [("no_such_tool", "error"), ("real", "success")]
    assert live.output["content"] == "done"


def test_decide_07_a_preview_then_the_confirmed_call(chat: Engine) -> None:
    """On a wire: one start, one run, the last arguments."""

    def twice(call: Call) -> None:
        for arguments in ('{"q":"dr"}', '{"q":"dra"}', '{"q":"draft","n":1}'):
            chat.speaker.tool(call, 0, "c1", "find", arguments)
        chat.speaker.finish(call, "tool_calls")

    live = chat.run(twice, chat.answer(), tools=[chat.tool("find")])
    assert chat.ran == [("find", {"q": "draft", "n": 1})]
    assert len(live.recorder.of(ev.ToolStarted)) == 1


class Previewing:
    """A third party's wire that says every call three times."""

    name = "previewing"

    def stream(self, request: spec.ModelRequest, connection: t.Any, waits: spec.Waits) -> t.Any:
        if isinstance(request.messages[-1], spec.ToolResult):
            yield [spec.TextDelta("done"), spec.ModelFinished("stop", None, None)]
            return
        for arguments in ({"q": "dr"}, {"q": "dra"}, {"q": "draft"}):
            yield [spec.ToolCallStarted("c1", "find"), spec.ToolCallReady("c1", "find", arguments, "")]
        yield [spec.ModelFinished("tool_calls", None, None)]


def test_decide_07_a_plugin_that_previews(chat: Engine) -> None:
    """One start, one run, the last arguments, though the plugin broke the rules of wires."""
    import dataclasses

    families = chat.services.plugins.families
    families["openai-compatible"] = dataclasses.replace(families["openai-compatible"], wire=Previewing())
    live = chat.run(tools=[chat.tool("find")])
    assert live.output["content"] == "done"
    assert chat.ran == [("find", {"q": "draft"})]
    assert len(live.recorder.of(ev.ToolStarted)) == 1


def test_decide_09_a_preamble_does_not_end_the_run(engine: Engine) -> None:
    """The second round is streamed live; the preamble is retracted and in no stored text."""
    live = engine.start(engine.tool("weather"))
    call = live.call()
    engine.speaker.text(call, "I'll check the weather.")
    engine.speaker.tool(call, 0, "c", "weather", "{}")
    engine.speaker.finish(call, "tool_calls")
    call = live.call()
    for number, piece in enumerate(("18 ", "degrees"), 2):
        engine.speaker.text(call, piece)
        until(
            lambda number=number: len(live.recorder.of(ev.TextDelta)) == number,
            f"piece {number} is shown live",
        )
    engine.speaker.finish(call)
    live.end()
    assert live.output["content"] == "18 degrees"
    boundaries = [(e.turn, e.kind, e.reason) for e in live.recorder.of(ev.TurnEnded)]
    assert boundaries == [(0, "intermediate", "tool_turn"), (1, "final", None)]
    assert live.row["partial_text"] in (None, {})


def test_decide_no_batch_is_a_limit_too(engine: Engine) -> None:
    """``max_batches: 0``: the model is asked once, with tools off, and nothing runs."""
    live = engine.run(engine.answer(), tools=[engine.tool("work")], max_batches=0)
    assert engine.ran == []
    body = live.calls[0].body
    assert "tools" not in body or body["tool_choice"] == {"type": "none"}
    assert live.output["content"] == "done"

"""The tool block: a call as an agent's, with arguments of the workflow's own; shown, bounded, settled."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from app import events as ev
from app.engine.services import Services
from app.streams.agent_events import AgentEventsOptions
from app.streams.rights import Rights
from plugins.hookspecs import hookimpl
from plugins.spec import Tool, ToolContext, ToolFailed
from tests.engine.flows import document, ended, finished, problems, stopped, stored
from tests.streams.reader import read
from tests.support.engine import services, start

pytestmark = pytest.mark.leak_check

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Tools:
    """``double``; ``fails``, which says what it should not; ``waits`` for ever; ``flaky`` works at the second try."""

    def __init__(self) -> None:
        self.waiting = gevent.event.Event()
        self.left = False
        self.tries = 0

    def _wait(self, arguments: dict[str, t.Any], context: ToolContext) -> t.Any:
        try:
            with context.waits.wait():
                self.waiting.set()
                gevent.event.Event().wait()
        finally:
            self.left = True

    def _fail(self, arguments: dict[str, t.Any], context: ToolContext) -> t.Any:
        raise ToolFailed("host db-7 refused us")

    def _flaky(self, arguments: dict[str, t.Any], context: ToolContext) -> t.Any:
        self.tries += 1
        if self.tries == 1:
            raise ToolFailed("not yet")
        return "now"

    @hookimpl
    def tools(self) -> list[Tool]:
        """See the class."""
        anything = {"type": "object"}
        return [
            Tool("double", "d", NUMBER, lambda arguments, context: arguments["n"] * 2),
            Tool("fails", "f", anything, self._fail),
            Tool("waits", "w", anything, self._wait),
            Tool("flaky", "f", anything, self._flaky),
        ]


@pytest.fixture
def tools() -> Tools:
    return Tools()


@pytest.fixture
def made(tmp_path: Path, tools: Tools) -> Iterator[Services]:
    with services(tmp_path, {"STUDIO_TOOL_TIMEOUT_S": "5"}, plugins=(tools,)) as opened:
        yield opened


def doc(tool: t.Any, *edges: str, **config: t.Any) -> dict[str, t.Any]:
    blocks = [("call", "tool", {"tool": tool, **config})]
    if edges:
        read_ = {"code": "{{ blocks.call.code }}", "result": "{{ blocks.call.result }}"}
        blocks.append(("caught", "set", {"values": read_}))
    return document(blocks, "start > call", *edges)


def test_a_registered_tool_runs_with_rendered_arguments(made: Services) -> None:
    end, recorder = ended(made, doc("double", arguments={"n": "{{ input.n + 1 }}"}), {"n": 3})
    assert end.output == {"result": 8, "status": "success"}
    (began,) = recorder.of(ev.ToolStarted)
    (done,) = recorder.of(ev.ToolFinished)
    assert (began.block, began.name, began.id) == ("call", "double", done.id)
    assert (done.status, done.arguments, done.result) == ("success", {"n": 4}, 8)


def test_arguments_may_be_one_template_that_gives_an_object(made: Services) -> None:
    end, _ = ended(made, doc("double", arguments="{{ input }}"), {"n": 5})
    assert end.output["result"] == 10


def test_an_inline_tool_runs_as_an_agent_s_does(made: Services) -> None:
    end, _ = ended(made, doc({"name": "fixed", "description": "d", "result": {"a": 1}}))
    assert end.output["result"] == {"a": 1}


def test_readers_see_it_by_their_rights(made: Services) -> None:
    _, recorder = ended(made, doc("double", arguments={"n": 1}))
    for allowed in (True, False):
        options = AgentEventsOptions("run_1", True, False, Rights(tools=allowed), None, ())
        frames = read(options, recorder.envelopes).events("tool")
        assert [frame["phase"] for frame in frames] == (["start", "end"] if allowed else [])


@pytest.mark.parametrize("arguments", [{"n": "three"}, "{{ input.message }}"])
def test_arguments_that_do_not_fit_never_reach_the_tool(made: Services, arguments: t.Any) -> None:
    end, recorder = ended(made, doc("double", arguments=arguments, retries=3))
    assert isinstance(end, ev.RunFailed)
    assert (end.code, end.block) == ("tool_arguments_invalid", "call")
    assert [e.status for e in recorder.of(ev.ToolFinished)] == ["error"]
    assert "three" not in end.message


def test_a_tool_that_says_no_fails_the_block_with_words_of_ours(made: Services) -> None:
    run, recorder = start(made, doc("fails"))
    run.done.wait(10)
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunFailed)
    assert (end.code, "db-7" in end.message) == ("tool_failed", False)
    row = made.store.runs.get(run.id)
    assert row is not None
    assert "db-7" in row["error"]["detail"]


def test_blocks_behind_the_error_edge_read_the_result(made: Services) -> None:
    end, _ = ended(made, doc("fails", "call -error> caught"))
    assert end.output == {"code": "tool_failed", "result": {"error": "host db-7 refused us"}}
    assert end.success is False


def test_a_template_that_fails_over_the_arguments_is_told_as_the_tool_s_failure(made: Services) -> None:
    tool = {"name": "ask", "description": "d", "http": {"url": "https://x.invalid/{{ 1 / args.n }}"}}
    end, _ = ended(made, doc(tool, "call -error> caught", arguments={"n": 0}))
    assert end.output["result"] == {"error": "A template failed at line 1: division by zero"}


def test_retries_are_calls_of_their_own(made: Services, tools: Tools) -> None:
    end, recorder = ended(made, doc("flaky", retries=2))
    assert end.output["result"] == "now"
    assert [e.status for e in recorder.of(ev.ToolFinished)] == ["error", "success"]
    assert len({e.id for e in recorder.of(ev.ToolStarted)}) == 2


def test_it_runs_again_in_a_loop(made: Services) -> None:
    again = document(
        [
            ("each", "loop", {"kind": "for_each", "items": [1, 2]}),
            ("call", "tool", {"tool": "double", "arguments": {"n": "{{ loop.item }}"}}),
        ],
        "start > each",
        "each -loop> call",
        "call > each",
    )
    end, _ = ended(made, again)
    assert [result["result"] for result in end.output["results"]] == [2, 4]


def test_a_tool_that_takes_too_long_fails_the_block(tmp_path: Path, tools: Tools) -> None:
    with services(tmp_path, {"STUDIO_TOOL_TIMEOUT_S": "0.1"}, plugins=(tools,)) as impatient:
        end, _ = ended(impatient, doc("waits"))
    assert end.code == "tool_failed"
    assert tools.left


def test_a_stop_ends_the_call_cancelled(made: Services, tools: Tools) -> None:
    run, recorder = start(made, doc("waits", "call > caught"))
    assert tools.waiting.wait(10)
    stopped(run, recorder)
    assert tools.left
    assert [e.status for e in recorder.of(ev.ToolFinished)] == ["cancelled"]
    assert finished(recorder) == [("start", "executed", 1), ("call", "failed", 1)]
    assert stored(made, run)["call"]["error"]["code"] == "cancelled"


def test_what_is_wrong_with_a_document_is_told_with_its_path(made: Services) -> None:
    at = "blocks[1].config."
    assert "double" in problems(made, doc("duoble"))[f"{at}tool"]
    assert set(problems(made, doc({"name": "x", "http": {"url": "ftp://x"}}))) == {f"{at}tool.http.url"}
    assert set(problems(made, doc({"mcp": "docs"}))) == {f"{at}tool.mcp", f"{at}tool.tools"}
    assert set(problems(made, doc("double", arguments=[1]))) == {f"{at}arguments"}
    told = problems(made, doc("double", arguments={"key": "{{ secrets.KEY }}"}))
    assert set(told) == {f"{at}arguments.key"}

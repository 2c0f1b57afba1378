"""Tools of MCP servers in agents and tool blocks, over pipes and real processes."""

from __future__ import annotations

import logging
import os
import signal
import typing as t
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from app import events as ev
from app.engine.mcp_use import server_use
from app.engine.scope import RunScope
from app.engine.services import Services
from tests.engine.flows import document, ended, stopped
from tests.support.engine import Recorder, agent, services, start
from tests.support.mcp_servers import OLD_SERVER, call, pids, program, runs, script, settings
from tests.support.servers import wait_until

SAYS = [{"text": "{{system}}"}]
ENVIRON_KEY = "the-worker-s-own-key"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mcp")


@pytest.fixture(scope="module")
def made(folder: Path) -> Iterator[Services]:
    """Servers: two of the same program, an older one, one whose program is not there, one that ends at once."""
    os.environ["MCP_TEST_API_KEY"] = ENVIRON_KEY
    servers = {
        "one": program(folder / "one", PASSED="${MCP_TEST_API_KEY}"),
        "two": program(folder / "two"),
        "old": program(folder / "old", OLD_SERVER, GROWS="1"),
        "away": {"command": "/nowhere/at/all"},
        "ends": {"command": "false"},
        "unset": {"command": "true", "env": {"X": "${MCP_TEST_NOT_SET}"}},
    }
    more = {"STUDIO_MCP_INLINE_COMMANDS": "on", "STUDIO_TOOL_TIMEOUT_S": "30", "STUDIO_MCP_START_S": "60"}
    with services(folder, settings(folder, servers, **more)) as opened:
        yield opened
    del os.environ["MCP_TEST_API_KEY"]


def once(server: t.Any, tool: str, arguments: t.Any = None, **more: t.Any) -> dict[str, t.Any]:
    """A workflow that calls one tool."""
    config = {"tool": {"mcp": server, "tools": [tool]}, "arguments": arguments or {}, **more}
    return document([("call", "tool", config)], "start > call")


def result(made: Services, server: t.Any, tool: str, **arguments: t.Any) -> t.Any:
    """What a tool answers; what the model would be told when it fails."""
    end, recorder = ended(made, once(server, tool, arguments))
    (settled,) = recorder.of(ev.ToolFinished)
    assert (settled.status == "success") == isinstance(end, ev.RunCompleted)
    return settled.result


def answer(recorder: Recorder) -> str:
    """The text of the one agent."""
    (settled,) = recorder.of(ev.AnswerSettled)
    return str(settled.text)


def test_an_agent_calls_a_tool_and_reads_its_answer(made: Services, folder: Path) -> None:
    model = script(folder, "adds", [call("add", a=20, b=22)], [{"text": "It is {{tools.add.result}}."}])
    end, recorder = ended(made, agent(model, tools=[{"mcp": "one"}]))
    assert isinstance(end, ev.RunCompleted)
    assert answer(recorder) == "It is 42."
    (settled,) = recorder.of(ev.ToolFinished)
    assert (settled.name, settled.status, settled.result) == ("add", "success", {"result": 42})


def test_arguments_are_checked_against_the_server_s_schema(made: Services, folder: Path) -> None:
    model = script(folder, "wrong", [call("add", a="x", b=1)], [{"text": "{{tools.add}}"}])
    _, recorder = ended(made, agent(model, tools=[{"mcp": "one"}]))
    assert answer(recorder).startswith("Invalid arguments. a:")


def test_what_a_server_sends_becomes_text_or_a_value(made: Services) -> None:
    assert result(made, "one", "echo", text="h\u00e9 \u2028 \U0001f600") == "h\u00e9 \u2028 \U0001f600"
    assert result(made, "one", "add", a=1, b=2) == {"result": 3}
    assert result(made, "one", "mixed") == "first\n[image: image/png, 3 bytes, not shown]\nsecond"


def test_a_tool_that_says_no_is_a_tool_error_the_model_is_told(made: Services, folder: Path) -> None:
    model = script(folder, "asks", [call("fails")], [{"text": "told: {{tools.fails}}"}])
    end, recorder = ended(made, agent(model, tools=[{"mcp": "one"}]))
    assert isinstance(end, ev.RunCompleted)
    assert answer(recorder) == "told: Error executing tool fails: the shelf is empty"


def test_a_server_that_dies_fails_its_call_and_is_started_again(made: Services, folder: Path) -> None:
    result(made, "one", "add", a=1, b=1)
    before = len(pids(folder / "one"))
    told = result(made, "one", "dies")["error"]
    assert told == "The MCP server one ended with code 3; see the log. Whether the call was run is unknown."
    assert result(made, "one", "add", a=1, b=1) == {"result": 2}
    assert len(pids(folder / "one")) == before + 1


def test_a_server_that_dies_between_calls_is_started_again(made: Services, folder: Path) -> None:
    result(made, "one", "add", a=1, b=1)
    last = pids(folder / "one")[-1]
    os.kill(last, signal.SIGKILL)
    wait_until(lambda: not runs(last), "the server is dead")
    # Its end may reach the other process after the call; then the call fails and the next one does not.
    results = [result(made, "one", "add", a=1, b=1) for _ in range(2)]
    assert results[1] == {"result": 2}


def test_a_call_that_takes_too_long_ends_and_harms_no_other(made: Services) -> None:
    result(made, "two", "echo", text="")
    config = {"tool": {"mcp": "two", "tools": ["hangs"]}, "timeout_s": 0.5}
    end, recorder = ended(made, document([("call", "tool", config)], "start > call"))
    assert (end.code, end.block) == ("block_timeout", "call")
    assert all(e.status == "error" for e in recorder.of(ev.ToolFinished))
    assert result(made, "two", "echo", text="on") == "on"


def test_a_stopped_run_settles_its_call_at_once(made: Services, folder: Path) -> None:
    (folder / "two" / "hanging").unlink(missing_ok=True)
    (folder / "two" / "left").unlink(missing_ok=True)
    run, recorder = start(made, once("two", "hangs"))
    wait_until((folder / "two" / "hanging").exists, "the tool runs")
    stopped(run, recorder)
    assert [e.status for e in recorder.of(ev.ToolFinished)] == ["cancelled"]
    left = folder / "two" / "left"
    wait_until(lambda: left.exists() and left.read_text() == "CancelledError\n", "the server was told")
    assert result(made, "two", "echo", text="still here") == "still here"


def test_a_server_that_takes_nothing_more_is_ended_after_a_call(made: Services, folder: Path) -> None:
    run, recorder = start(made, once("two", "freezes"))
    wait_until((folder / "two" / "frozen").exists, "the tool runs")
    frozen = pids(folder / "two")[-1]
    stopped(run, recorder)
    wait_until(lambda: not runs(frozen), "the frozen server is gone", 60)
    assert result(made, "two", "echo", text="another") == "another"
    assert pids(folder / "two")[-1] != frozen


def test_an_answer_that_is_too_long_is_an_error_and_harms_no_other(made: Services) -> None:
    assert len(result(made, "one", "big", size=1_900_000)) == 1_900_000
    told = "The answer is longer than 2097152 bytes; ask the server for less."
    assert result(made, "one", "big", size=3_000_000) == {"error": told}
    lost = result(made, "one", "big", size=9_000_000)  # beyond what is read of a server at all
    assert "ended" in lost["error"]
    assert result(made, "one", "echo", text="on") == "on"


def test_calls_run_side_by_side(made: Services) -> None:
    """None of the twenty is answered before all are there."""
    branches = [
        (
            f"call_{n}",
            "tool",
            {"tool": {"mcp": "one", "tools": ["together"]}, "arguments": {"number": n, "count": 20}},
        )
        for n in range(20)
    ]
    end, _ = ended(made, document(branches, *(f"start > {name}" for name, _, _ in branches)))
    assert isinstance(end, ev.RunCompleted)
    told = {name: output["result"] for name, output in end.output.items()}
    assert told == {f"call_{n}": f"answer {n}" for n in range(20)}


def test_long_answers_leave_the_hub_to_others(made: Services) -> None:
    """Others run while a long answer comes in: the hub is never held for the whole of it."""
    result(made, "one", "echo", text="")
    turns = 0

    def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            gevent.sleep(0)

    counting = gevent.spawn(count)
    try:
        before = turns
        result(made, "one", "big", size=1_900_000)
        assert turns - before > 20
    finally:
        counting.kill()


def test_tools_are_asked_for_once_and_again_when_they_changed(made: Services) -> None:
    client = made.mcp
    result(made, "one", "echo", text="")
    kept = dict(client._tools)
    result(made, "one", "echo", text="")
    assert {key: id(tools) for key, (_, tools) in client._tools.items()} == {
        key: id(tools) for key, (_, tools) in kept.items()
    }
    assert result(made, "one", "learns") == "learned"
    wait_until(lambda: set(kept) - set(client._tools), "the old list is forgotten")


def test_a_tool_that_is_not_on_the_list_is_looked_for_once_more(made: Services) -> None:
    result(made, "old", "good")
    assert result(made, "old", "grown_5") == "grown_5 of old"


def test_an_older_server_is_understood_and_its_bad_schemas_do_no_harm(made: Services) -> None:
    use = server_use("old", made.plugins.mcp, {}, dict)
    with RunScope() as scope:
        tools = {tool.name: tool for tool in made.mcp.tools(use, scope)}
    assert list(tools)[:5] == ["good", "broken", "far", "bare", "with.dots/and more"]
    anything = {"type": "object", "properties": {}}
    assert [tools[name].parameters for name in ("broken", "far", "bare")] == [anything] * 3
    assert tools["good"].parameters["properties"] == {"n": {"type": "integer"}}
    assert result(made, "old", "broken") == "broken of old"


def test_names_that_clash_are_prefixed_and_odd_ones_made_fit(made: Services, folder: Path) -> None:
    model = script(folder, "names", [{"text": "ok"}])
    kept = {"name": "echo", "description": "Ours.", "result": 1}
    entries = [{"mcp": "one", "tools": ["add", "echo"]}, {"mcp": "two", "tools": ["add"]}, kept,
               {"mcp": "old", "tools": ["with.dots/and more"]}]  # fmt: skip
    doc = agent(model, tools=entries, tool_choice="one__add")
    end, _ = ended(made, doc)
    assert isinstance(end, ev.RunCompleted)
    called = script(
        folder, "called",
        [call("one__add", a=1, b=1), call("two__add", a=2, b=2), call("one__echo", text="x"), call("echo"),
         call("with_dots_and_more", n=1), call("add", a=1, b=1)],
        [{"text": "ok"}],
    )  # fmt: skip
    _, recorder = ended(made, agent(called, tools=entries))
    got = {e.name: (e.status, e.result) for e in recorder.of(ev.ToolFinished)}
    unknown = got.pop("add")
    assert unknown[0] == "error"
    assert got == {
        "one__add": ("success", {"result": 2}),
        "two__add": ("success", {"result": 4}),
        "one__echo": ("success", "x"),
        "echo": ("success", 1),
        "with_dots_and_more": ("success", "with.dots/and more of old"),
    }


def test_an_agent_does_without_a_server_that_is_away_and_is_told(made: Services, folder: Path) -> None:
    model = script(folder, "without", [call("search")], [{"text": "{{system}} | {{tools.search}}"}])
    doc = agent(model, system="Be brief.", tools=[{"mcp": "away"}, {"mcp": "one", "tools": ["add"]}])
    end, recorder = ended(made, doc)
    assert isinstance(end, ev.RunCompleted)
    told = "The MCP server away cannot be started; check its command and see the log."
    system, _, unknown = answer(recorder).partition(" | ")
    assert system.startswith("Be brief.\n\nSome of your tools are not available at the moment.")
    assert system.endswith(told)
    assert unknown == f"Unknown tool 'search'. Available tools: add. {told}"


def test_a_call_tries_once_more_to_reach_a_server_that_was_away(made: Services, folder: Path) -> None:
    model = script(folder, "tries", [call("search", q="x")], [{"text": "{{tools.search}}"}])
    end, recorder = ended(made, agent(model, tools=[{"mcp": "ends", "tools": ["search"]}]))
    assert isinstance(end, ev.RunCompleted)
    assert answer(recorder) == "The MCP server ends ended with code 1; see the log."
    assert [e.status for e in recorder.of(ev.ToolFinished)] == ["error"]


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"mcp": "away", "required": True}, "mcp_unavailable"),
        ({"mcp": "one", "tools": ["ad"]}, "mcp_tool_unknown"),
    ],
)
def test_what_an_agent_cannot_do_without_fails_its_block(
    made: Services, folder: Path, entry: t.Any, code: str
) -> None:
    model = script(folder, "fine", [{"text": "never"}])
    end, recorder = ended(made, agent(model, tools=[entry]))
    assert (end.code, end.block) == (code, "agent_1")
    assert recorder.of(ev.TextDelta) == []


@pytest.mark.parametrize(
    ("entry", "choice", "code"),
    [
        ({"mcp": "away"}, "required", "mcp_unavailable"),
        ({"mcp": "away"}, "search", "mcp_unavailable"),
        ({"mcp": "one"}, "subtract", "mcp_tool_unknown"),
    ],
)
def test_a_tool_that_has_to_be_called_has_to_be_there(
    made: Services, folder: Path, entry: t.Any, choice: str, code: str
) -> None:
    model = script(folder, "fine", [{"text": "never"}])
    end, _ = ended(made, agent(model, tools=[entry], tool_choice=choice))
    assert (end.code, end.block) == (code, "agent_1")


def test_a_call_that_needs_approval_waits_for_a_person(made: Services, folder: Path) -> None:
    model = script(folder, "held", [call("echo", text="x")], [{"text": "{{tools.echo}}"}])
    doc = agent(model, tools=[{"mcp": "one", "tools": ["echo"], "approval": "always"}])
    end, recorder = ended(made, doc)
    assert isinstance(end, ev.RunPaused)
    assert recorder.of(ev.ToolExecuting) == []
    (asked,) = recorder.of(ev.DecisionRequested)
    assert (asked.review["tool"], asked.review["arguments"]) == ("echo", {"text": "x"})


def test_a_missing_variable_is_named(made: Services) -> None:
    told = result(made, "unset", "anything")["error"]
    assert (
        told == "The MCP server unset needs the variable MCP_TEST_NOT_SET, which is not set on this server."
    )


def test_a_program_gets_a_bare_environment_and_what_its_entry_says(made: Services) -> None:
    lines = result(made, "two", "environment").splitlines()
    names = {line.partition("=")[0] for line in lines}
    assert "NOTES" in names
    assert "PATH" in names
    assert not any(
        name.startswith(("STUDIO_", "MCP_TEST", "PYTEST")) or name.endswith("_KEY") for name in names
    )


def test_secrets_are_in_no_answer_and_no_log_line(made: Services, caplog: pytest.LogCaptureFixture) -> None:
    assert f"PASSED={ENVIRON_KEY}" not in result(made, "one", "environment")
    assert "PASSED=***" in result(made, "one", "environment")
    with caplog.at_level(logging.INFO, "studio.mcp"):
        assert result(made, "one", "says", text=f"found {ENVIRON_KEY} there") == "said"
        wait_until(lambda: any("there" in line for line in caplog.messages), "the line is in the log")
    assert not any(ENVIRON_KEY in line for line in caplog.messages)
    assert "one: found *** there" in caplog.messages


def test_a_server_written_out_uses_stored_secrets(made: Services, folder: Path) -> None:
    made.store.secrets.set("WORD", "open-sesame-17")
    server = {**program(folder / "inline"), "name": "own"}
    server["env"] = {
        **server["env"],
        "WORD": "{{ secrets.WORD }}",
        "TURNED": "to {{ secrets.WORD|reverse }}",
        "WHO": "{{ input.message }}",
    }
    told = result(made, server, "environment").splitlines()
    assert {"WORD=***", "TURNED=to ***", "WHO=hi"} <= set(told)


def test_what_a_template_made_is_not_looked_through_for_variables(made: Services, folder: Path) -> None:
    server = {**program(folder / "inline2"), "name": "own"}
    server["env"] = {**server["env"], "WHO": "{{ input.message }}"}
    doc = once(server, "environment")
    end, _ = ended(made, doc, {"message": "${MCP_TEST_API_KEY}"})
    assert "WHO=${MCP_TEST_API_KEY}" in end.output["result"].splitlines()


def test_a_host_that_dies_fails_its_calls_and_is_started_again(made: Services, folder: Path) -> None:
    (folder / "two" / "hanging").unlink(missing_ok=True)
    run, recorder = start(made, once("two", "hangs"))
    wait_until((folder / "two" / "hanging").exists, "the tool runs")
    host, server = made.mcp.pipe.pid, pids(folder / "two")[-1]
    assert host is not None
    os.kill(host, signal.SIGKILL)
    assert run.done.wait(20)
    (settled,) = recorder.of(ev.ToolFinished)
    assert settled.result == {
        "error": "The process of MCP servers ended. Whether the call was run is unknown."
    }
    wait_until(lambda: not runs(server), "its server ended with it")
    assert result(made, "two", "echo", text="again") == "again"
    assert made.mcp.pipe.pid not in (None, host)

"""MCP servers that break the protocol: whoever asked is told at once, and nothing of a secret comes back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import events as ev
from app.engine.mcp_client import ServerUse
from app.engine.scope import RunScope
from app.engine.services import Services
from plugins.spec import ToolContext, ToolFailed
from plugins.spec.mcp import McpServer
from tests.engine.flows import ended
from tests.support.engine import agent, services
from tests.support.mcp_servers import WRONG_SERVER, pids, program, script, settings
from tests.support.servers import wait_until

KEY = "key-of-the-shelf-17"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with services(tmp_path_factory.mktemp("mcp"), {"STUDIO_MCP_START_S": "60"}) as opened:
        yield opened


def use(what: str, folder: Path) -> ServerUse:
    """The server that does ``what`` wrong."""
    raw = program(folder, WRONG_SERVER, KEY=KEY)
    server = McpServer("shelf", raw["command"], (*raw["args"], what), raw["env"], trusted=True)
    return ServerUse(server, frozenset({KEY}))


def asked(made: Services, what: str, folder: Path) -> str:
    """What its tool answers, as often as it is asked."""
    with RunScope() as scope:
        (tool,) = made.mcp.tools(use(what, folder), scope)
        return str(tool.run({}, ToolContext(scope, "run", "call", 30.0)))


def failure(made: Services, what: str, folder: Path) -> str:
    with pytest.raises(ToolFailed) as failed:
        asked(made, what, folder)
    return str(failed.value)


UNUSABLE = "The MCP server shelf gave an answer that cannot be used"


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("null", f"{UNUSABLE}."),
        ("odd error", f"{UNUSABLE}."),
        ("deep", f"{UNUSABLE}."),
        ("no content", f"{UNUSABLE} (content: Input should be a valid list)."),
        (
            "an entry",
            f"{UNUSABLE} (tools.1.inputSchema: Field required; tools.1.name: Input should be a valid string).",
        ),
        ("patterns", "The answer is not what the server promises of tool_1, at s."),
        ("its own error", "the shelf is empty"),
        ("keeps its list", "The MCP server shelf does not name its tools (code -32603); see the log."),
        (
            "words for a model",
            f"{UNUSABLE} (tools.0.inputSchema.properties.….…: Input should be a valid dictionary; "
            "tools.0.inputSchema.properties.….bool: Input should be a valid boolean, unable to interpret input).",
        ),
        ("old", "The MCP server shelf speaks a version of the protocol that is not known here."),
        ("refuses", "The MCP server shelf does not answer as an MCP server (code -32000)."),
        (
            "begins with nothing",
            "The MCP server shelf does not answer as an MCP server (capabilities: Field required; "
            "protocolVersion: Field required; serverInfo: Field required).",
        ),
        ("chatters", "The MCP server shelf ended."),
        ("asks", "The MCP server shelf broke the connection off. Whether the call was run is unknown."),
    ],
)
def test_what_is_wrong_is_told_at_once(made: Services, tmp_path: Path, what: str, told: str) -> None:
    assert failure(made, what, tmp_path) == told


@pytest.mark.parametrize("what", ["null", "deep", "no content", "its own error"])
def test_a_server_outlives_its_wrong_answers(made: Services, tmp_path: Path, what: str) -> None:
    for _ in range(2):
        failure(made, what, tmp_path)
    assert len(pids(tmp_path)) == 1


@pytest.mark.parametrize(
    ("what", "answer"), [("half a pair", "a\ufffdb"), ("no UTF-8", "a\ufffdb"), ("prints", "told ***")]
)
def test_what_can_be_read_is_read(made: Services, tmp_path: Path, what: str, answer: str) -> None:
    assert asked(made, what, tmp_path) == answer


def test_no_part_of_a_secret_is_left_where_an_error_is_cut(made: Services, tmp_path: Path) -> None:
    told = failure(made, "a long error", tmp_path)
    assert told == "m" * 19_990 + "***"


def test_a_list_without_an_end_is_given_up(made: Services, tmp_path: Path) -> None:
    with RunScope() as scope:
        assert made.mcp.tools(use("never ends", tmp_path), scope) == ()


def test_descriptions_hold_no_secret(made: Services, tmp_path: Path) -> None:
    with RunScope() as scope:
        (tool,) = made.mcp.tools(use("prints", tmp_path), scope)
    assert tool.description == "Uses ***."


def test_a_list_that_has_changed_while_it_came_is_not_kept(made: Services, tmp_path: Path) -> None:
    with RunScope() as scope:
        counts = [len(made.mcp.tools(use("grows", tmp_path), scope)) for _ in range(3)]
    assert counts == [1, 2, 3]


def test_the_log_has_no_half_of_a_secret(
    made: Services, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither where a line is cut, nor in what the SDK says of a message that is not of the protocol."""
    with caplog.at_level(logging.INFO, "studio.mcp"):
        assert asked(made, "talks", tmp_path) == "told ***"
        failure(made, "no content", tmp_path)
        failure(made, "begins with nothing", tmp_path)
        failure(made, "keeps its list", tmp_path)
        wait_until(
            lambda: any("name its tools" in line for line in caplog.messages), "the last line is there"
        )
    lines = [line.removeprefix("shelf: ") for line in caplog.messages]
    assert "x" * 990 + "***" + "y" * 7 in lines
    assert "z" * 1000 in lines
    assert "the end" in lines
    assert "does not name its tools: not with ***" in lines
    assert "ValidationError: content: Input should be a valid list" in lines
    pieces = {KEY[at : at + 6] for at in range(len(KEY) - 5)}
    assert not [line for line in lines for piece in pieces if piece in line]


def test_the_servers_of_an_agent_are_asked_at_once(tmp_path: Path) -> None:
    """Either of these two answers only when the other one has been asked."""
    meeting = tmp_path / "meeting"
    servers = {name: program(meeting, WRONG_SERVER, WHO=name) for name in ("one", "two")}
    for server in servers.values():
        server["args"].append("meets")
    environ = settings(tmp_path, servers, STUDIO_MCP_START_S="60")
    model = script(tmp_path, "says", [{"text": "system: {{system}}"}])
    with services(tmp_path, environ) as made:
        end, recorder = ended(made, agent(model, tools=[{"mcp": "one"}, {"mcp": "two"}]))
    assert isinstance(end, ev.RunCompleted)
    (settled,) = recorder.of(ev.AnswerSettled)
    assert settled.text == "system: "

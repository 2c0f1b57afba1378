"""Tool entries of MCP servers: what can be judged without asking the server."""

from __future__ import annotations

import typing as t

import pytest

from app.workflows import mcp_entries
from plugins.spec.mcp import McpServer, McpServers
from tests.workflows.kit import agent, chain, compiled, told

START_BLOCK = {"id": "s", "type": "start"}
SERVERS = McpServers({"docs": McpServer("docs", "x", trusted=True)})
INLINE = McpServers(SERVERS.named, inline_commands=True)
AT = "blocks[1].config.tools[0]"


def found(entry: t.Any, servers: McpServers = INLINE, **config: t.Any) -> dict[str, str]:
    return told(chain(START_BLOCK, agent(tools=[entry], **config)), servers=servers)


@pytest.mark.parametrize(
    "entry",
    [
        {"mcp": "docs"},
        {"mcp": "docs", "tools": ["a", "b"], "required": True, "approval": "never"},
        {"mcp": "docs", "approval": "always", "approval_deadline_s": 60},
        {"mcp": {"command": "npx", "args": ["-y", "x"], "env": {"KEY": "{{ secrets.KEY }}"}}},
        {
            "mcp": {
                "url": "https://a/mcp",
                "headers": {"Authorization": "Bearer {{ secrets.KEY }}"},
                "name": "a",
            }
        },
    ],
)
def test_a_good_entry_has_no_problems(entry: t.Any) -> None:
    assert found(entry) == {}


@pytest.mark.parametrize(
    ("entry", "path", "cure"),
    [
        ({"mcp": "dosc"}, ".mcp", 'there is no MCP server "dosc". Did you mean'),
        ({"mcp": 7}, ".mcp", "must be the name of a configured server"),
        ({"mcp": {}}, ".mcp", "must have command or url, one of them"),
        ({"mcp": {"command": "a", "url": "https://a"}}, ".mcp", "must have command or url, one of them"),
        ({"mcp": {"url": "file:///etc/passwd"}}, ".mcp.url", "must begin with http:// or https://"),
        ({"mcp": {"url": "https://{{ input.host }}/"}}, ".mcp.url", "cannot be a template"),
        ({"mcp": {"command": "a", "args": ["{{ input.x }}"]}}, ".mcp.args[0]", "cannot be a template"),
        ({"mcp": {"command": "a", "headers": {"A": "b"}}}, ".mcp.headers", "belongs to a server with url"),
        ({"mcp": {"url": "https://a", "env": {"A": "b"}}}, ".mcp.env", "belongs to a server with command"),
        ({"mcp": {"url": "https://a", "name": "a b"}}, ".mcp.name", "must match"),
        ({"mcp": {"url": "https://a", "hedaers": {}}}, ".mcp.hedaers", "headers"),
        ({"mcp": {"url": "https://a", "headers": {"A": "{{ input. }}"}}}, ".mcp.headers.A", ""),
        ({"mcp": "docs", "tool": ["a"]}, ".tool", "tools"),
        ({"mcp": "docs", "tools": []}, ".tools", "must name 1 to 128 tools"),
        ({"mcp": "docs", "tools": ["a", "a"]}, ".tools[1]", 'names "a" twice'),
        ({"mcp": "docs", "tools": "a"}, ".tools", ""),
        ({"mcp": "docs", "approval": "maybe"}, ".approval", ""),
        ({"mcp": "docs", "approval_deadline_s": "1h"}, ".approval_deadline_s", "number"),
    ],
)
def test_what_is_wrong_is_told_with_its_path(entry: t.Any, path: str, cure: str) -> None:
    problems = found(entry)
    assert cure in problems[AT + path]
    assert set(problems) == {AT + path}


def test_a_document_brings_a_program_only_where_the_operator_lets_it() -> None:
    message = found({"mcp": {"command": "rm"}}, SERVERS)[f"{AT}.mcp.command"]
    assert "STUDIO_MCP_INLINE_COMMANDS=on" in message
    assert "STUDIO_MCP_SERVERS" in message


def test_without_any_servers_the_file_is_named() -> None:
    assert "STUDIO_MCP_SERVERS" in found({"mcp": "docs"}, McpServers())[f"{AT}.mcp"]


def test_a_tool_choice_that_only_the_server_can_know_is_left_to_the_run() -> None:
    assert found({"mcp": "docs"}, tool_choice="search") == {}
    assert found({"mcp": "docs"}, tool_choice="required") == {}


def test_the_secrets_a_server_uses_are_known_before_the_run() -> None:
    """So that one that is not stored is told before the first byte."""
    entry = {"mcp": {"url": "https://a", "headers": {"Authorization": "Bearer {{ secrets.KEY }}"}}}
    workflow = compiled(chain(START_BLOCK, agent(tools=[entry])), servers=SERVERS)
    assert workflow.secrets == ((f"{AT}.mcp.headers.Authorization", "KEY"),)


def test_the_same_server_may_be_named_twice() -> None:
    entries = [{"mcp": "docs", "tools": ["a"]}, {"mcp": "docs", "tools": ["b"], "approval": "always"}]
    assert compiled(chain(START_BLOCK, agent(tools=entries)), servers=SERVERS)


@pytest.mark.parametrize(
    ("server", "title"),
    [
        ({"url": "https://mcp.example.com:8443/x"}, "mcp_example_com"),
        ({"command": "/usr/local/bin/docs-mcp"}, "docs-mcp"),
        ({"command": "npx", "name": "own"}, "own"),
    ],
)
def test_a_server_without_a_name_is_called_by_its_address_or_program(server: t.Any, title: str) -> None:
    assert mcp_entries.inline(server).title == title

"""The file of MCP servers: the well-known format, and every problem at once."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from app import builtins, config, mcp_file
from plugins.spec.mcp import McpServer


def loaded(tmp_path: Path, text: str) -> config.Settings:
    file = tmp_path / "servers"
    file.write_text(text)
    return config.load({"STUDIO_MCP_SERVERS": str(file)})


DOCS = McpServer("docs", "npx", ("-y", "docs-mcp"), {"KEY": "${DOCS_KEY}"}, trusted=True)
WEB = McpServer("web", url="https://mcp.example.com/mcp", headers={"Authorization": "Bearer x"}, trusted=True)
TREE = {
    "mcpServers": {
        "docs": {"command": "npx", "args": ["-y", "docs-mcp"], "env": {"KEY": "${DOCS_KEY}"}},
        "web": {
            "type": "http",
            "url": WEB.url,
            "headers": {"Authorization": "Bearer x"},
            "autoApprove": ["a"],
        },
        "off": {"command": "x", "disabled": True},
    }
}
YAML = """
servers:
  docs: {command: npx, args: [-y, docs-mcp], env: {KEY: "${DOCS_KEY}"}}
  web: {type: http, url: "https://mcp.example.com/mcp", headers: {Authorization: Bearer x}}
"""


@pytest.mark.parametrize(
    "text", [json.dumps(TREE), json.dumps(TREE, indent="\t"), "\ufeff" + json.dumps(TREE), YAML]
)
def test_the_file_other_clients_use_is_understood(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, text).mcp_servers == {"docs": DOCS, "web": WEB}


@pytest.mark.parametrize(
    ("server", "cure"),
    [
        ({}, "give command or url, one of them"),
        ({"command": "a", "url": "https://a"}, "give command or url, one of them"),
        ({"type": "sse", "url": "https://a"}, "give the server's streamable HTTP address"),
        ({"type": "http", "command": "a"}, "type 'http' does not fit"),
        ({"url": "ftp://a"}, "url must begin with http:// or https://"),
        ({"command": " "}, "command must be text"),
        ({"command": "a", "args": "b"}, "args must be a list of texts"),
        ({"command": "a", "args": [1]}, "args must be a list of texts"),
        ({"command": "a", "env": {"A": 1}}, "env must be an object of texts"),
        ({"url": "https://a", "headers": ["x"]}, "headers must be an object of texts"),
        ("npx", "must be an object with command or url"),
    ],
)
def test_a_server_that_cannot_be_used_is_named_with_its_cure(server: t.Any, cure: str) -> None:
    with pytest.raises(ValueError) as failed:
        mcp_file.servers({"mcpServers": {"docs": server}})
    assert "docs" in str(failed.value)
    assert cure in str(failed.value)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigError) as failed:
        loaded(tmp_path, json.dumps({"mcpServers": {"a b": {"command": "x"}, "c": {}, "d": {"url": "x"}}}))
    (problem,) = failed.value.problems
    assert problem.variable == "STUDIO_MCP_SERVERS"
    assert [part in problem.cure for part in ("'a b'", "c: give", "d: url")] == [True] * 3


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("{", "is neither JSON nor YAML (line 1, column 2: Expecting property name"),
        ("mcpServers:\n  a: [}", "is neither JSON nor YAML (line 2, column 7: "),
        ('{"mcpServers": {"docs": {"command": "a"}, "docs": {"command": "b"}}}', "names 'docs' twice"),
        ("servers:\n  docs: {command: a}\n  docs: {command: b}", "names 'docs' twice"),
        ("[]", "holds no servers"),
        ("{}", "holds no servers"),
        ('{"mcpServers": []}', "holds no servers"),
        ("a: " + "[" * 5000, "is neither JSON nor YAML"),
        ("x" * (mcp_file.MAX_BYTES + 1), "is larger than"),
    ],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, text: str, cure: str) -> None:
    with pytest.raises(config.ConfigError) as failed:
        loaded(tmp_path, text)
    assert cure in failed.value.problems[0].cure


def test_json_is_read_as_json(tmp_path: Path) -> None:
    text = r'{"mcpServers": {"docs": {"command": "a\/b", "args": ["\ud83d\ude00"]}}}'
    assert loaded(tmp_path, text).mcp_servers == {
        "docs": McpServer("docs", "a/b", ("\U0001f600",), trusted=True)
    }
    assert loaded(tmp_path, "{servers: {docs: {command: a}}}").mcp_servers == {
        "docs": McpServer("docs", "a", trusted=True)
    }


def test_a_file_of_other_bytes_is_told(tmp_path: Path) -> None:
    (tmp_path / "servers").write_bytes(b'{"mcpServers": "\xff"}')
    with pytest.raises(config.ConfigError, match="is not in UTF-8"):
        config.load({"STUDIO_MCP_SERVERS": str(tmp_path / "servers")})


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigError) as failed:
        config.load({"STUDIO_MCP_SERVERS": str(tmp_path / "nowhere")})
    assert "cannot be read (No such file or directory)" in str(failed.value)


def test_values_of_a_server_are_in_no_repr_of_the_settings(tmp_path: Path) -> None:
    assert "Bearer x" not in repr(loaded(tmp_path, json.dumps(TREE)))


def test_templates_of_a_file_are_judged_when_studio_starts(tmp_path: Path) -> None:
    env = {"A": "{{ secrets[", "B": "{{ x|nofilter }}", "C": "{{ secrets.SHOP }}", "D": "{{ vars.region }}"}
    settings = loaded(tmp_path, json.dumps({"mcpServers": {"docs": {"command": "x", "env": env}}}))
    with pytest.raises(config.ConfigError) as failed:
        builtins.mcp_servers(settings)
    assert "docs.env.A: template syntax, line 1: " in str(failed.value)
    assert 'docs.env.B: line 1: there is no filter "nofilter"' in str(failed.value)
    assert "docs.env.C" not in str(failed.value)
    assert "docs.env.D" not in str(failed.value)

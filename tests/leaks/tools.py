"""Tools that documents do not bring: one that fails as a program does, and those of a server of MCP.

Law of this room: what a tool fails with is what it was told, so that it is a text of the case.
"""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

from plugins.spec import Tool
from tests.leaks.author import SHELF


def _fail(arguments: dict[str, t.Any], context: object) -> t.NoReturn:
    raise RuntimeError(arguments["why"])


FAILS = Tool("fails", "Fails as a program does.", {"type": "object"}, _fail)


def add(plugins: t.Any) -> None:
    """Let workflows use the tools."""
    plugins.tools[FAILS.name] = FAILS


def servers(folder: Path) -> Path:
    """The file of MCP servers for a world with secrets."""
    program = {
        "command": sys.executable,
        "args": [str(Path(__file__).with_name("shelf_server.py"))],
        "env": {"KEY": "{{ secrets.S1 }}"},
    }
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": {SHELF: program}}))
    return path

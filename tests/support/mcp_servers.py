"""MCP servers for tests, and agents that use them: real processes, real pipes, real sockets of loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import typing as t
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.support.servers import free_port, tail, wait_until

SERVER = Path(__file__).with_name("mcp_server.py")
OLD_SERVER = Path(__file__).with_name("old_mcp_server.py")
WRONG_SERVER = Path(__file__).with_name("wrong_mcp_server.py")


def program(folder: Path, script: Path = SERVER, **env: str) -> dict[str, t.Any]:
    """A server on standard input and output that notes in ``folder`` what it meets."""
    folder.mkdir(parents=True, exist_ok=True)
    return {"command": sys.executable, "args": [str(script)], "env": {"NOTES": str(folder), **env}}


def settings(folder: Path, servers: Mapping[str, t.Any], **more: str) -> dict[str, str]:
    """An environment whose server file has ``servers``; scripts are those of :func:`script`."""
    file = folder / "servers.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    (folder / "scripts").mkdir(exist_ok=True)
    return {"STUDIO_MCP_SERVERS": str(file), "STUDIO_SCRIPTS_DIR": str(folder / "scripts"), **more}


def script(folder: Path, name: str, *turns: list[dict[str, t.Any]]) -> str:
    """Write a script of the scripted family; its model id."""
    text = yaml.safe_dump({"turns": [{"steps": steps} for steps in turns]})
    (folder / "scripts" / f"{name}.yaml").write_text(text)
    return f"scripted/{name}"


def call(name: str, **arguments: t.Any) -> dict[str, t.Any]:
    """The step of a script that calls a tool."""
    return {"tool_call": {"name": name, "arguments": arguments}}


@contextmanager
def http_server(folder: Path) -> Iterator[str]:
    """The same server over streamable HTTP; its address."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "http.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(SERVER), str(port)], stderr=log, env={**os.environ, "NOTES": str(folder)}
        )
    try:
        wait_until(lambda: _listens(port), f"the server listens\n{tail(folder / 'http.log')}")
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()  # asked to leave, it would wait for the stream of changes that we hold open
        process.wait()


def pids(folder: Path) -> list[int]:
    """Process ids of the servers that were started, in order."""
    file = folder / "pids"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def runs(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

"""The process of MCP servers: nothing of it is left behind, nothing of it leaks into the worker."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

import gevent
import pytest

from app.engine.mcp_client import McpClient, ServerUse
from app.engine.scope import Cancelled, RunScope
from plugins.spec import ToolContext, ToolFailed
from plugins.spec.mcp import McpServer
from tests.engine.flows import document
from tests.support import sse
from tests.support.engine import agent, services
from tests.support.mcp_servers import call, pids, program, runs, script, settings
from tests.support.servers import studio, wait_until
from tests.support.shared import ROOT

#: A worker of our own: calls a tool, says which processes there are and what it has imported, then waits.
WORKER = """
from gevent import monkey; monkey.patch_all()
import json, sys, time
from app.config import Settings
from app.engine.mcp_client import McpClient, ServerUse
from app.engine.scope import RunScope
from plugins.spec import ToolContext
from plugins.spec.mcp import McpServer
given = json.loads(sys.argv[1])
client = McpClient(Settings())
server = McpServer("t", given["command"], tuple(given["args"]), given["env"], trusted=True)
with RunScope() as scope:
    tools = {tool.name: tool for tool in client.tools(ServerUse(server), scope)}
    value = tools["add"].run({"a": 1, "b": 2}, ToolContext(scope, "run", "call", 10.0))
    foreign = sorted({name.partition(".")[0] for name in sys.modules} & {"mcp", "mcp_types", "anyio", "httpx2"})
    print(json.dumps([value, client.pipe.pid, foreign]), flush=True)
    if given["wait_in"]:
        tools[given["wait_in"]].run({}, ToolContext(scope, "run", "call", 10.0))
time.sleep(600)
"""


def worker(folder: Path, wait_in: str = "") -> tuple[subprocess.Popen[bytes], list[t.Any]]:
    """A running worker and what it said."""
    given = json.dumps({**program(folder), "wait_in": wait_in})
    process = subprocess.Popen([sys.executable, "-c", WORKER, given], stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


@pytest.mark.parametrize("state", ["", "hangs", "freezes"])
def test_a_killed_worker_leaves_no_process_behind(tmp_path: Path, state: str) -> None:
    """Neither its host nor its servers, whatever these are doing; one that is stopped takes no signal but the last."""
    process, (value, host, foreign) = worker(tmp_path, state)
    try:
        assert value == {"result": 3}
        assert foreign == []
        (server,) = pids(tmp_path)
        assert runs(host)
        assert runs(server)
        if state:
            file = tmp_path / {"hangs": "hanging", "freezes": "frozen"}[state]
            wait_until(file.exists, "the tool runs")
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    wait_until(lambda: not runs(server) and not runs(host), "host and server are gone", 60)


def test_the_host_itself_knows_no_gevent() -> None:
    check = (
        "import sys, app.engine.mcp_host.host; "
        "sys.exit(any(name.partition('.')[0] in ('gevent', 'flask', 'sqlalchemy') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=False).returncode == 0


def used(folder: Path) -> ServerUse:
    raw = program(folder)
    return ServerUse(McpServer("t", raw["command"], tuple(raw["args"]), raw["env"], trusted=True))


@pytest.mark.leak_check
def test_an_idle_server_is_closed_and_comes_back(tmp_path: Path) -> None:
    with (
        services(tmp_path, {"STUDIO_MCP_IDLE_S": "0.3", "STUDIO_MCP_START_S": "60"}) as made,
        RunScope() as scope,
    ):
        tools = {tool.name: tool for tool in made.mcp.tools(used(tmp_path), scope)}
        context = ToolContext(scope, "run", "call", 10.0)
        assert tools["add"].run({"a": 1, "b": 2}, context) == {"result": 3}
        first = pids(tmp_path)[0]
        wait_until(lambda: not runs(first), "the idle server is closed", 60)
        assert tools["add"].run({"a": 2, "b": 2}, context) == {"result": 4}
        assert pids(tmp_path)[-1] != first


def test_a_server_that_never_begins_is_ended_with_the_rest(tmp_path: Path) -> None:
    """It takes what it is sent and says nothing; whoever waits gives up, and nothing of it stays."""
    silent = tmp_path / "silent.py"
    silent.write_text(
        "import os, sys; open('pid', 'w').write(str(os.getpid())); list(iter(sys.stdin.readline, 'x'))"
    )
    server = McpServer("silent", sys.executable, (str(silent),), cwd=str(tmp_path), trusted=True)
    with services(tmp_path) as made, RunScope() as scope, scope.child() as inner:
        begun = gevent.spawn(
            wait_until,
            lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(),
            "it has begun",
            60,
        )
        begun.link(lambda _: inner.cancel("tool_timeout"))
        with pytest.raises(Cancelled):
            made.mcp.tools(ServerUse(server), inner)
        pid = int(begun.get())
        assert runs(pid)
        made.mcp.close()
        assert not runs(pid)


@pytest.mark.leak_check
def test_closing_ends_everything(tmp_path: Path) -> None:
    with services(tmp_path) as made, RunScope() as scope:
        made.mcp.tools(used(tmp_path), scope)
        host, (server,) = made.mcp.pipe.pid, pids(tmp_path)
        assert host is not None
        made.mcp.close()
        assert not runs(host)
        assert not runs(server)


def test_nothing_is_started_before_the_first_use(tmp_path: Path) -> None:
    with services(tmp_path) as made:
        assert made.mcp.pipe.pid is None


def test_a_host_that_keeps_dying_is_left_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with services(tmp_path) as made, RunScope() as scope:
        monkeypatch.setattr(sys, "executable", shutil.which("false"))
        for _ in range(2):
            with pytest.raises(ToolFailed, match="The process of MCP servers ended"):
                made.mcp.tools(used(tmp_path), scope)
        with pytest.raises(ToolFailed, match="failed several times in a row"):
            made.mcp.tools(used(tmp_path), scope)
        assert made.mcp.pipe.starts == 2


def test_a_host_that_hangs_is_ended_once_it_keeps_a_cancelled_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.mcp_client.GIVE_UP_S", 0.0)
    with services(tmp_path, {"STUDIO_MCP_START_S": "60"}) as made, RunScope() as scope:
        tools = {tool.name: tool for tool in made.mcp.tools(used(tmp_path), scope)}
        host = made.mcp.pipe.pid
        assert host is not None
        os.kill(host, signal.SIGSTOP)
        with scope.child() as inner:
            inner.deadline(0.2, "tool_timeout")
            with pytest.raises(Cancelled):
                tools["add"].run({"a": 1, "b": 2}, ToolContext(inner, "run", "call", 10.0))
        assert tools["add"].run({"a": 1, "b": 2}, ToolContext(scope, "run", "call", 10.0)) == {"result": 3}
        assert made.mcp.pipe.pid != host


def test_servers_that_are_used_first_at_once_share_one_process(tmp_path: Path) -> None:
    """To start it lets others run, which then must not start another, nor lose what was asked of the first."""
    with services(tmp_path, {"STUDIO_MCP_START_S": "60"}) as made, RunScope() as scope:
        got: list[int] = []

        def ask(folder: Path) -> None:
            got.append(len(made.mcp.tools(used(folder), scope)))

        for name in ("one", "two", "three"):
            scope.spawn(ask, tmp_path / name)
        scope.join()
        assert len(got) == 3
        assert made.mcp.pipe.starts == 1


def test_a_waiting_list_is_shared_and_outlives_who_leaves(tmp_path: Path) -> None:
    """Two who ask at once ask once; the start goes on for the other when one of them is cancelled."""
    with services(tmp_path, {"STUDIO_MCP_START_S": "60"}) as made, RunScope() as scope:
        client: McpClient = made.mcp
        got: list[int] = []
        leaving = scope.child()
        leaving.spawn(lambda: client.tools(used(tmp_path), leaving))
        scope.spawn(lambda: got.append(len(client.tools(used(tmp_path), scope))))
        wait_until(lambda: client.pipe.pid, "the process is there")
        leaving.cancel("stop_requested")
        leaving.join()
        scope.join()
        leaving.close()
        assert got[0] > 5
        assert len(pids(tmp_path)) == 1


def test_a_server_of_studio_uses_its_mcp_servers_and_ends_them(tmp_path: Path) -> None:
    """The whole way: gunicorn's worker, its host, the program; asked to leave, none of them stays."""
    (tmp_path / "data").mkdir()
    environ = settings(tmp_path, {"docs": program(tmp_path / "docs")}, STUDIO_MCP_START_S="60")
    model = script(tmp_path, "adds", [call("add", a=20, b=22)], [{"text": "It is {{tools.add.result}}."}])
    with studio(tmp_path / "data", environ) as server:
        workflow = server.deploy(agent(model, tools=[{"mcp": "docs"}]))
        path = f"/api/workflows/{workflow}/execute"
        headers = {"X-API-Key": server.key, "Content-Type": "application/json"}
        status, _, body = sse.request(server.port, "POST", path, b'{"input": "hi"}', headers, timeout=60)
        assert status == 200
        assert json.loads(body)["output"]["content"] == "It is 42."
        (program_pid,) = pids(tmp_path / "docs")
        assert runs(program_pid)
        assert server.stop() == 0
        wait_until(lambda: not runs(program_pid), "the program has left")


def test_a_worker_that_begins_later_knows_the_servers_of_the_start(tmp_path: Path) -> None:
    """Whatever became of the file: a broken one would take the whole server down with the first worker that died."""
    (tmp_path / "data").mkdir()
    environ = settings(tmp_path, {"docs": program(tmp_path / "docs")}, STUDIO_MCP_START_S="60")
    config = {"tool": {"mcp": "docs", "tools": ["add"]}, "arguments": {"a": 1, "b": 2}}
    with studio(tmp_path / "data", environ) as server:
        workflow = server.deploy(document([("call", "tool", config)], "start > call"))
        headers = {"X-API-Key": server.key, "Content-Type": "application/json"}
        (worker,) = server.workers()
        (tmp_path / "servers.json").write_text("{broken")
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: set(server.workers()) - {worker}, "another worker is there", 60)
        path = f"/api/workflows/{workflow}/execute"
        status, _, body = sse.request(server.port, "POST", path, b"{}", headers, timeout=60)
        assert (status, json.loads(body)["output"]["result"]) == (200, {"result": 3})

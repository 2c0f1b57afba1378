"""A third party's plugin for the field cases: tools that misbehave. Loaded by the test server's entry points.

Law of this room: a tool waits only for what a test does; it never sleeps by itself.
"""

from __future__ import annotations

import os
import typing as t

import gevent.event

from studio_plugin import Tool, ToolContext, hookimpl

_PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
_NONE = {"type": "object", "properties": {}}
_SIZE = {"type": "object", "properties": {"bytes": {"type": "integer"}}, "required": ["bytes"]}

#: What JSON cannot hold.
NAN = {"mean": float("nan"), "max": float("inf"), "rows": [float("-inf"), 1]}
BYTES = b"\xff\xfe\x00raw"


def _fifo(arguments: dict[str, t.Any], context: ToolContext) -> str:
    with open(arguments["path"]) as pipe:  # blocks in the kernel, out of gevent's sight, until a test writes
        return pipe.read()


def _spin(arguments: dict[str, t.Any], context: ToolContext) -> int:
    turns = 0
    while not os.path.exists(arguments["path"]):
        turns += sum(range(1000))
    return turns


def _stuck(arguments: dict[str, t.Any], context: ToolContext) -> None:
    with context.waits.wait():
        gevent.event.Event().wait()


def _huge(arguments: dict[str, t.Any], context: ToolContext) -> str:
    return "é" * (arguments["bytes"] // 2)


def _boom(arguments: dict[str, t.Any], context: ToolContext) -> None:
    raise RuntimeError("a tool with a fault")


TOOLS = (
    Tool("fifo", "Waits outside of gevent.", _PATH, _fifo, runs="thread"),
    Tool("spin", "Computes until a file appears.", _PATH, _spin, runs="thread"),
    Tool("stuck", "Never ends.", _NONE, _stuck),
    Tool("boom", "Raises.", _NONE, _boom),
    Tool("huge", "Gives one long line of text.", _SIZE, _huge),
    Tool("nan", "Gives what JSON cannot hold.", _NONE, lambda arguments, context: NAN),
    Tool("raw", "Gives bytes.", _NONE, lambda arguments, context: BYTES),
)


@hookimpl
def tools() -> t.Sequence[Tool]:
    """See the module."""
    return TOOLS

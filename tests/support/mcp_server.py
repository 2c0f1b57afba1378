"""An MCP server for tests, over standard input and output or over HTTP: ``mcp_server.py [PORT]``.

It says on standard error when it is ready, and tells by ``NOTES`` (a folder) what it has met.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

server = MCPServer("tests")
NOTES = pathlib.Path(os.environ.get("NOTES", "."))


def note(name: str, text: str = "") -> None:
    with (NOTES / name).open("a") as file:
        file.write(text + "\n")


note("pids", str(os.getpid()))


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.tool(structured_output=False)
def environment() -> str:
    """Names and values of the environment."""
    return "\n".join(f"{name}={value}" for name, value in sorted(os.environ.items()))


@server.tool()
def fails() -> str:
    """Say no."""
    raise ToolError("the shelf is empty")


@server.tool(structured_output=False)
async def hangs() -> str:
    """Never answer; note how that ends."""
    note("hanging")
    try:
        await asyncio.Event().wait()
    except BaseException as error:
        note("left", type(error).__name__)
        raise
    return ""


@server.tool(structured_output=False)
def freezes() -> str:
    """Never answer, and take nothing else either."""
    import signal

    note("frozen")
    os.kill(os.getpid(), signal.SIGSTOP)
    return "thawed"


@server.tool()
def dies() -> str:
    """End the process."""
    sys.stderr.write("out of paper\n")
    sys.stderr.flush()
    os._exit(3)


@server.tool(structured_output=False)
def big(size: int) -> str:
    """A long text."""
    return "x" * size


@server.tool()
def mixed() -> CallToolResult:
    """Text, a picture and a resource."""
    return CallToolResult(
        content=[
            TextContent(type="text", text="first"),
            ImageContent(type="image", data="AAAA", mime_type="image/png"),
            EmbeddedResource(
                type="resource",
                resource=TextResourceContents(uri="note://1", mime_type="text/plain", text="second"),
            ),
        ]
    )


_gate = asyncio.Event()
_inside = 0


@server.tool(structured_output=False)
async def together(number: int, count: int) -> str:
    """Answer once ``count`` calls are inside, the last first."""
    global _inside
    _inside += 1
    if _inside == count:
        _gate.set()
    await _gate.wait()
    return f"answer {number}"


@server.tool(structured_output=False)
async def learns(context: Context) -> str:
    """Have one more tool from now on, and say so."""
    server.add_tool(lambda: "new", name="learned", description="New.", structured_output=False)
    await context.notify_tools_changed()
    return "learned"


@server.tool(structured_output=False)
def says(text: str) -> str:
    """Say something on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
    return "said"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")

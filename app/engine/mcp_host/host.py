"""Requests of the worker: listing and calling tools, many at once, each answered exactly once.

Law of this room: an answer of any size is one line below the limit or a failure that says so; nothing a server does
ends the host, and nothing of it outlives the worker.

Requests: ``{id, do: "list"|"call", key, server, name?, arguments?}`` and ``{cancel: id}``. Answers: ``{id, tools}``,
``{id, text}``, ``{id, value}``, ``{id, failed}``; without an id ``{changed: key}``. ``key`` stands for the server and
everything it is started or asked with.
"""

from __future__ import annotations

import asyncio
import typing as t

from app import encoding
from app.engine.mcp_host.results import MAX_RESULT, Failed
from app.engine.mcp_host.session import Session
from app.engine.mcp_host.stdio import say

#: Longest line from the worker, in bytes.
MAX_LINE = 64 * 1024 * 1024
#: Most servers that are open at once; beyond, the one that was used last longest ago is closed.
MAX_SESSIONS = 64
#: Seconds between looks for servers nobody uses.
SWEEP_S = 5.0
#: Seconds all servers together get to end when the host leaves.
LEAVE_S = 8.0

Message = dict[str, t.Any]


class Host:
    """See the module. ``writer`` goes to the worker."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._sessions: dict[str, Session] = {}
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._idle_s = 300.0

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Take requests until there are no more."""
        sweeping = asyncio.create_task(self._sweep())
        try:
            while line := await reader.readline():
                self._take(encoding.loads(line))
        except (ConnectionError, ValueError):
            pass  # the worker is gone, or not to be understood
        finally:
            sweeping.cancel()

    async def close(self) -> None:
        """End every server."""
        for task in self._requests.values():
            task.cancel()
        closing = [asyncio.create_task(session.close()) for session in self._sessions.values()]
        closing += self._closing
        if closing:
            await asyncio.wait(closing, timeout=LEAVE_S)

    def _take(self, message: Message) -> None:
        if "cancel" in message:
            task = self._requests.get(message["cancel"])
            if task is not None:
                task.cancel()
            return
        self._idle_s = message["idle_s"]
        number = message["id"]
        task = asyncio.create_task(self._answer(number, message))
        self._requests[number] = task
        task.add_done_callback(lambda _: self._requests.pop(number, None))

    async def _answer(self, number: int, message: Message) -> None:
        try:
            answer = await self._result(message)
        except Failed as failed:
            answer = {"failed": str(failed)}
        except asyncio.CancelledError:
            answer = {"failed": "The call was cancelled."}
        except Exception as error:  # a fault of ours: the others go on
            say("-", f"{message['do']} failed unexpectedly: {type(error).__name__}: {error}")
            answer = {
                "failed": f"The MCP server {message['server']['title']} could not be used; see the log."
            }
        await self._send({"id": number, **answer})

    async def _result(self, message: Message) -> Message:
        session = self._session(message["key"], message["server"])
        if message["do"] == "list":
            return {"tools": await session.tools()}
        return await session.call(message["name"], message["arguments"])

    def _session(self, key: str, server: Message) -> Session:
        found = self._sessions.get(key)
        if found is None:
            if len(self._sessions) >= MAX_SESSIONS:
                self._make_room()
            found = self._sessions[key] = Session(server, lambda: self._tell({"changed": key}))
        found.used_at = asyncio.get_running_loop().time()
        return found

    def _make_room(self) -> None:
        idle = [(session.used_at, key) for key, session in self._sessions.items() if not session.calls]
        if not idle:
            raise Failed(f"{MAX_SESSIONS} MCP servers are in use already; try again.")
        self._close(min(idle)[1])

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(SWEEP_S, self._idle_s))
            before = asyncio.get_running_loop().time() - self._idle_s
            for key, session in tuple(self._sessions.items()):
                if not session.calls and session.used_at <= before:
                    self._close(key)

    def _close(self, key: str) -> None:
        task = asyncio.create_task(self._sessions.pop(key).close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # -- to the worker -----------------------------------------------------------------------

    async def _send(self, answer: Message) -> None:
        line = _line(answer)
        if len(line) > MAX_RESULT:
            too_long = f"The answer is longer than {MAX_RESULT} bytes; ask the server for less."
            line = _line({"id": answer["id"], "failed": too_long})
        self._writer.write(line)
        try:
            await self._writer.drain()
        except ConnectionError:
            pass  # the worker is gone; serving ends by itself

    def _tell(self, message: Message) -> None:
        self._writer.write(_line(message))


def _line(message: Message) -> bytes:
    return encoding.dumps(message) + b"\n"

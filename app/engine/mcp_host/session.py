"""One server: its session, opened at first use, opened again when it was lost, closed when nobody needs it.

Law of this room: a session is entered and left by one task of its own, as the SDK demands; whoever uses it may be
cancelled at any time and takes nothing with it.
"""

from __future__ import annotations

import asyncio
import typing as t
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_network

from mcp import types
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from app.engine.mcp_host import results
from app.engine.mcp_host.debts import bounded
from app.engine.mcp_host.lines import UNREADABLE
from app.engine.mcp_host.promises import Promises
from app.engine.mcp_host.results import MAX_TOOLS, Failed, Refused, lost, plainly, reason
from app.engine.mcp_host.stdio import MAX_LINE, Ended, say, stdio
from app.net.guarded_transport import http_client

#: Seconds a server may take to begin, and to name its tools; longer than anybody waits for it, so that the next one
#: finds it ready.
START_S = 120.0
#: Seconds to wait for a sign of life of a server that left a call unanswered.
PING_S = 5.0
#: Most pages of a list of tools.
MAX_PAGES = 200
#: After a failed start the same failure is told for this long, twice as long each time, up to the second.
RETRY_S, RETRY_MOST_S = 0.5, 15.0
_TERMINATED = "Session terminated"


class Session:
    """See the module.

    :param server: title, command, args, env, cwd, url, headers, allow (networks; null: everything).
    :param changed: called when the server says that its tools are others now.
    """

    def __init__(self, server: Mapping[str, t.Any], changed: Callable[[], None]) -> None:
        self.title = str(server["title"])
        self.calls = 0
        self.used_at = 0.0
        self._server = server
        self._changed = changed
        self._told = False
        self._promises = Promises()
        self._opened: asyncio.Future[Client] | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._status: int | None = None
        self._refused: str | None = None
        self._ended: Ended | None = None
        self._failure = ""
        self._failures = 0
        self._retry_at = 0.0

    # -- requests ----------------------------------------------------------------------------

    async def tools(self) -> list[dict[str, t.Any]]:
        """All its tools.

        :raises Failed: it cannot be reached, or does not say.
        """
        self._told = False
        try:
            async with asyncio.timeout(START_S):
                return await self._listed()
        except TimeoutError:
            self._drop(self._task)
            raise Failed(f"The MCP server {self.title} did not name its tools in time.") from None
        except Refused as refused:  # its words would be in the system prompt of who has to do without it
            say(self.title, f"does not name its tools: {refused}")
            message = (
                f"The MCP server {self.title} does not name its tools (code {refused.code}); see the log."
            )
            raise Failed(message) from None

    async def _listed(self) -> list[dict[str, t.Any]]:
        found: list[dict[str, t.Any]] = []
        async with self._used() as client:
            cursor: str | None = None
            for _ in range(MAX_PAGES):
                page = await client.list_tools(cursor=cursor, cache_mode="refresh")
                for tool in page.tools[: MAX_TOOLS - len(found)]:
                    found.append(results.tool(tool))
                    self._promises.take(tool)
                    await asyncio.sleep(0)  # to judge a thousand schemas takes half a second
                cursor = page.next_cursor
                if cursor is None or len(found) == MAX_TOOLS:
                    break
        return found

    async def call(self, name: str, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Call one tool.

        :raises Failed: it says no, or cannot be reached.
        """
        for _ in range(2):
            try:
                async with self._used() as client:
                    result = await client.call_tool(name, arguments)
            except _Terminated:  # it has forgotten us, and did not run the call
                continue
            if (broken := self._promises.broken(name, result)) is not None:
                raise Failed(f"The answer is not what the server promises of {name}, at {broken}.")
            return results.answer(result)
        raise Failed(f"The MCP server {self.title} does not keep its sessions.")

    @asynccontextmanager
    async def _used(self) -> AsyncGenerator[Client]:
        """The open client; what the SDK raises becomes :class:`Failed`, and a lost session is dropped."""
        self.calls += 1
        client = task = None
        try:
            client = await self._client()
            task = self._task
            yield client
        except asyncio.CancelledError:
            if client is not None and self.calls == 1 and self._server["url"] is None:
                self._keep(asyncio.create_task(self._look_after(client, task)))
            raise
        except Failed:
            raise
        except MCPError as error:
            await self._judge(error, task)
        except Exception as error:
            say(self.title, plainly(error))
            raise self._unusable(error) from error
        finally:
            self.calls -= 1
            self.used_at = asyncio.get_running_loop().time()

    async def _judge(self, error: MCPError, task: asyncio.Task[None] | None) -> t.NoReturn:
        """What an error answer means: of the server's own making, or the end of the session."""
        if error.message == _TERMINATED:
            self._drop(task)
            raise _Terminated from error
        if lost(error):
            await asyncio.sleep(0)  # its end may be known by now
            ended = self._ended
            self._drop(task)
            why = self._refused or reason(error, self._status, ended)
            raise Failed(
                f"The MCP server {self.title} {why}. Whether the call was run is unknown."
            ) from error
        if error.message.startswith(UNREADABLE):  # the SDK's message quotes a part of it
            raise self._unusable(error) from error
        if self._status is not None and error.code == types.INTERNAL_ERROR:
            raise Failed(f"The MCP server {self.title} {reason(error, self._status, None)}.") from error
        raise Refused(error) from error

    def _unusable(self, error: Exception) -> Failed:
        where = f" ({results.violations(error)})" if isinstance(error, ValidationError) else ""
        return Failed(f"The MCP server {self.title} gave an answer that cannot be used{where}.")

    async def _look_after(self, client: Client, task: asyncio.Task[None] | None) -> None:
        """Close a program that left a call unanswered and gives no sign of life, unless others still wait for it."""
        try:
            async with asyncio.timeout(PING_S):
                await client.list_tools(cache_mode="refresh")
        except TimeoutError:
            if not self.calls:
                say(self.title, "does not answer any more; it is ended")
                self._drop(task)
        except Exception:  # an answer, of a kind
            pass

    # -- opening and closing -----------------------------------------------------------------

    async def _client(self) -> Client:
        loop = asyncio.get_running_loop()
        if self._opened is None:
            if loop.time() < self._retry_at:
                raise Failed(self._failure)
            self._opened = loop.create_future()
            self._closing = asyncio.Event()
            self._status = self._ended = self._refused = None
            self._task = asyncio.create_task(self._run(self._opened, self._closing))
        return await asyncio.shield(self._opened)

    async def _run(self, opened: asyncio.Future[Client], closing: asyncio.Event) -> None:
        """The life of one session."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(START_S):
                    client = await stack.enter_async_context(await self._made(stack, closing))
                self._failures = 0
                client.session.validate_tool_result = _judged_by_us  # type: ignore[method-assign]
                opened.set_result(client)
                listening = asyncio.create_task(self._listen(client))
                try:
                    await closing.wait()
                finally:
                    listening.cancel()
                await asyncio.wait((listening,))
        except Exception as error:
            if not opened.done():
                self._not_opened(opened, error)
            elif not closing.is_set():
                say(self.title, f"its session ended: {plainly(error)}")
        finally:
            if not opened.done():
                opened.cancel()
            if self._opened is opened:
                self._opened = None

    def _not_opened(self, opened: asyncio.Future[Client], error: Exception) -> None:
        say(self.title, f"cannot be used: {plainly(error)}")
        why = self._refused or reason(error, self._status, self._ended)
        self._failure = f"The MCP server {self.title} {why}."
        self._failures += 1
        wait = min(RETRY_MOST_S, RETRY_S * 2**self._failures)
        self._retry_at = asyncio.get_running_loop().time() + wait
        opened.set_exception(Failed(self._failure))
        opened.exception()  # whoever waited may have left; then nobody asks

    async def _made(self, stack: AsyncExitStack, closing: asyncio.Event) -> Client:
        """A client over the server's transport, not entered."""
        server = self._server

        def ended(code: int | None) -> None:
            self._ended = Ended(code)
            closing.set()

        if server["url"] is None:
            transport: t.Any = stdio(
                self.title, server["command"], server["args"], server["env"], server["cwd"], ended
            )
        else:
            client = await stack.enter_async_context(self._http())
            transport = streamable_http_client(server["url"], http_client=client, max_sse_event_size=MAX_LINE)
        transport = bounded(transport, self.title, closing.set)
        return Client(transport, message_handler=self._heard, cache=None)

    def _http(self) -> t.Any:
        allow = self._server["allow"]

        def note(method: str, status: int, problem: str | None) -> None:
            if method == "POST":
                self._status = status if status >= 400 else None
                self._refused = problem

        networks = None if allow is None else [ip_network(text) for text in allow]
        return http_client(self._server["headers"], networks, MAX_LINE, note)

    async def _heard(self, message: t.Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._note_change()

    def _note_change(self) -> None:
        """Tell that its tools are others: once, until somebody asks for them again."""
        if not self._told:
            self._told = True
            self._changed()

    async def _listen(self, client: Client) -> None:
        """Servers of the newer protocol tell of changes only to those who ask."""
        capabilities = client.server_capabilities.tools
        if capabilities is None or not capabilities.list_changed:
            return
        try:
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._note_change()
        except ListenNotSupportedError:
            pass  # an older server, which tells without being asked
        except Exception as error:  # then its tools are asked for again by and by
            say(self.title, f"does not tell of changes: {type(error).__name__}")

    def _drop(self, task: asyncio.Task[None] | None) -> None:
        """End the session of ``task``; the next use opens another."""
        if task is self._task:
            self._opened = None
            self._closing.set()

    async def close(self) -> None:
        """End the session, and wait for that."""
        task, opened = self._task, self._opened
        self._drop(task)
        if task is not None and not task.done():
            if opened is not None and not opened.done():
                task.cancel()  # it does not look for that before it is open
            await asyncio.wait((task,))

    def _keep(self, task: asyncio.Task[None]) -> None:
        _BACKGROUND.add(task)
        task.add_done_callback(_BACKGROUND.discard)


async def _judged_by_us(name: str, result: types.CallToolResult) -> None:
    """Instead of the SDK's own validation; see ``promises``."""


#: Tasks nobody waits for; the loop holds only weak references.
_BACKGROUND: set[asyncio.Task[None]] = set()


class _Terminated(Exception):
    """The server does not know our session any more."""

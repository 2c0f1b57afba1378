"""What a server asks of us. The SDK refuses it, request by request; how many may wait for that is bounded here.

Law of this room: a server that asks faster than it takes the answers ends its session: what it asks costs memory until
its answer is written, and one that never reads would fill all there is.
"""

from __future__ import annotations

import typing as t
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from app.engine.mcp_host.stdio import say

#: Most requests of a server that wait for their answers.
MOST = 100


@asynccontextmanager
async def bounded(transport: t.Any, title: str, end: Callable[[], None]) -> AsyncGenerator[TransportStreams]:
    """``transport`` with what its server asks counted.

    :param end: called when it asks too much.
    """
    async with transport as (incoming, outgoing):
        debts = _Debts(title, end)
        yield _Incoming(incoming, debts), _Outgoing(outgoing, debts)


class _Debts:
    def __init__(self, title: str, end: Callable[[], None]) -> None:
        self._title = title
        self._end = end
        self._owed = 0

    def asked(self, item: t.Any) -> bool:
        """Take note of what came; False when it is too much."""
        if not isinstance(getattr(item, "message", None), types.JSONRPCRequest):
            return True
        self._owed += 1
        if self._owed <= MOST:
            return True
        say(self._title, f"asks more than {MOST} things and takes no answers; its session is ended")
        self._end()
        return False

    def answered(self, item: SessionMessage) -> None:
        """Take note of what was written."""
        if isinstance(item.message, (types.JSONRPCResponse, types.JSONRPCError)):
            self._owed -= 1


class _Stream:
    """What both ends of a transport have in common."""

    def __init__(self, inner: t.Any, debts: _Debts) -> None:
        self._inner = inner
        self._debts = debts

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> t.Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: t.Any) -> bool | None:
        left: bool | None = await self._inner.__aexit__(*exc)
        return left


class _Incoming(_Stream):
    @property
    def last_context(self) -> t.Any:
        """See the SDK."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        item: SessionMessage | Exception = await self._inner.receive()
        return item

    def __aiter__(self) -> t.Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        item: SessionMessage | Exception = await self._inner.__anext__()
        if not self._debts.asked(item):
            raise StopAsyncIteration
        return item


class _Outgoing(_Stream):
    async def send(self, item: SessionMessage, /) -> None:
        await self._inner.send(item)
        self._debts.answered(item)

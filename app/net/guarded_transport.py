"""The guard for HTTP clients on an event loop: it judges the very addresses that are connected to.

Law of this room: for the process of MCP servers only; no gevent here. A name is resolved at each connect, every
address it gives is judged as ``app.net.guard`` says, and one of those is connected to; nobody can change the name's
mind in between. Answers are bounded.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Iterable, Sequence

import httpcore2
import httpx2

from app.net.guard import Network, refused

_CONNECT_S = 10.0


class AddressRefused(httpcore2.ConnectError):
    """The host is not on the public internet."""


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """httpx's transport without proxies, over connections to permitted addresses.

    :param allow: networks that may be reached although they are not public; None: everything may be.
    :param max_bytes: longest answer; the events of a stream are bounded by whoever reads them.
    """

    def __init__(self, allow: Sequence[Network] | None, max_bytes: int) -> None:
        super().__init__(trust_env=False)
        self._max_bytes = max_bytes
        # httpx has no parameter for what httpcore takes.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=100,
            max_keepalive_connections=4,
            keepalive_expiry=30.0,
            network_backend=httpcore2.AnyIOBackend() if allow is None else _Guarded(allow),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See httpx."""
        answer = await super().handle_async_request(request)
        if not answer.headers.get("content-type", "").lower().startswith("text/event-stream"):
            assert isinstance(answer.stream, httpx2.AsyncByteStream)
            answer.stream = _Bounded(answer.stream, self._max_bytes)
        return answer


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._most:
                raise httpx2.ReadError(f"the answer is longer than {self._most} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Guarded(httpcore2.AsyncNetworkBackend):
    """Connects to permitted addresses only."""

    def __init__(self, allow: Sequence[Network]) -> None:
        self._allow = allow
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """See httpcore."""
        last: Exception | None = None
        for address in await self._permitted(host, port):
            try:
                return await self._inner.connect_tcp(
                    address, port, min(timeout or _CONNECT_S, _CONNECT_S), local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last = error
        raise last or AddressRefused("the host is not on the public internet")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """A socket of this machine is never permitted."""
        raise AddressRefused("a socket of this machine")

    async def sleep(self, seconds: float) -> None:
        """See httpcore."""
        await self._inner.sleep(seconds)

    async def _permitted(self, host: str, port: int) -> list[str]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError("the host is not known") from error
        addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
        return [str(a) for a in dict.fromkeys(addresses) if not refused(a, self._allow)]

"""The guard for HTTP clients on an event loop: it judges the very addresses that are connected to.

Law of this room: for the process of MCP servers only; no gevent here. A name is resolved at each connect, every
address it gives is judged as ``app.net.guard`` says, and one of those is connected to; nobody can change the name's
mind in between. Answers are bounded, as they come and as they are: none may be compressed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

import httpcore2
import httpx2

from app.net.guard import Network, refused

_CONNECT_S = 10.0


class AddressRefused(httpcore2.ConnectError):
    """The host is not on the public internet."""


def http_client(
    headers: Mapping[str, str],
    allow: Sequence[Network] | None,
    max_bytes: int,
    note: Callable[[str, int, str | None], None],
) -> httpx2.AsyncClient:
    """A client that follows no redirects, waits for its answers as long as it is let, and uses no proxy.

    :param allow: networks that may be reached although they are not public; None: everything may be.
    :param max_bytes: longest answer. :param note: told of the method and the status of each, and why it is not
        read, to follow the server's name: what is compressed is small on the wire and may fill the memory.
    """

    async def answered(response: httpx2.Response) -> None:
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        problem = None if coding == "identity" else "compresses its answers although that was declined"
        note(response.request.method, response.status_code, problem)
        if problem is not None:
            raise httpx2.ReadError(problem)

    own = {"user-agent": "studio", "accept-encoding": "identity"} | {
        name.lower(): value for name, value in headers.items()
    }
    return httpx2.AsyncClient(
        headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in own.items()],
        timeout=httpx2.Timeout(30.0, read=None),
        transport=GuardedTransport(allow, max_bytes),
        trust_env=False,
        event_hooks={"response": [answered]},
    )


def why_not(error: BaseException) -> str | None:
    """Why a server cannot be reached, to follow its name; None when the exception is about something else."""
    if isinstance(error, AddressRefused):
        return (
            "is not on the public internet; private addresses are refused unless STUDIO_HTTP_ALLOW names their "
            "network, or the server is named in the file STUDIO_MCP_SERVERS"
        )
    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        return "does not accept connections; check its url and whether it runs"
    if isinstance(error, (httpx2.LocalProtocolError, httpx2.InvalidURL, httpx2.UnsupportedProtocol)):
        return "has a url or a header that cannot be sent"
    return None


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

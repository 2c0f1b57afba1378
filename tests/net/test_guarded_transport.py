"""The guard for clients on an event loop. They never run in this process, which gevent has patched."""

from __future__ import annotations

import subprocess
import sys

from tests.support.shared import ROOT

#: A server that answers with 2,000 bytes, a name server that gives a private address before a permitted one.
CHECK = """
import asyncio, ipaddress, socket, sys
from app.net.guarded_transport import AddressRefused, http_client, why_not
seen, connected = [], []
LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]

def resolve(host, port, *args, **kwargs):
    seen.append(host)
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answers]

async def serve(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    connected.append(writer.get_extra_info("sockname")[0])
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2000\\r\\nConnection: close\\r\\n\\r\\n" + b"x" * 2000)
    await writer.drain()
    writer.close()

async def ask(allow, most=10_000):
    async with http_client({}, allow, most, lambda method, status, problem: None) as client:
        return len((await client.get(f"http://name.invalid:{port}/")).content)

async def fails(allow, most=10_000):
    try:
        await ask(allow, most)
    except Exception as error:
        return error

async def main():
    global answers, port
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    asyncio.get_running_loop().getaddrinfo = lambda host, port, **kw: asyncio.to_thread(resolve, host, port)
    answers = ["10.0.0.1", "127.0.0.1"]
    assert await ask(LOOPBACK) == 2000
    assert connected == ["127.0.0.1"], connected
    error = await fails([])
    assert "public internet" in why_not(error.__cause__ or error), repr(error)
    answers = ["10.0.0.1", "169.254.169.254", "::1", "fe80::1%1"]
    assert (await fails(LOOPBACK)) is not None
    assert len(connected) == 1
    assert seen == ["name.invalid"] * 3
    answers = ["127.0.0.1"]
    assert "longer than 1000 bytes" in str(await fails(LOOPBACK, 1000))

asyncio.run(main())
"""


def test_the_address_that_is_judged_is_the_one_connected_to() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECK], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

"""Entry point; see the package.

Standard input is one end of a socket pair: requests come and answers go there, one JSON value per line. Standard
error is for the log, one line each: ``LEVEL<TAB>SERVER<TAB>text``. The process leaves when the socket ends, which is
when its worker is gone, however that one died.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys

from app.engine.mcp_host.death import end_with_parent
from app.engine.mcp_host.host import MAX_LINE, Host
from app.engine.mcp_host.stdio import say


class _Lines(logging.Handler):
    """What libraries log, one line each and without tracebacks, which may quote parts of what was sent."""

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``."""
        failure = f" ({record.exc_info[0].__name__})" if record.exc_info and record.exc_info[0] else ""
        say("-", f"{record.name}: {record.getMessage()}{failure}")


def main() -> None:
    """Serve until the socket ends."""
    end_with_parent(int(sys.argv[1]), signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server; it closes the socket
    logging.basicConfig(handlers=[_Lines()], level=logging.WARNING)
    asyncio.run(_serve())
    os._exit(0)  # threads may be resolving names; nobody waits for what they find


async def _serve() -> None:
    sock = socket.socket(fileno=0)
    sock.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=sock, limit=MAX_LINE)
    host = Host(writer)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    serving = asyncio.create_task(host.serve(reader))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    await host.close()


if __name__ == "__main__":
    main()

"""The worker's end of the process of MCP servers: started at first use, started again when it died.

Law of this room: nothing here blocks the hub. Writing is handed to a greenlet of its own, since a line that is half
written when a run is cancelled would break all that follow; reading is one greenlet too. What the process says on
standard error goes to the log, masked and bounded.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import typing as t
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gevent import socket
from gevent.event import Event
from gevent.lock import BoundedSemaphore
from gevent.subprocess import PIPE, Popen, TimeoutExpired

from app import encoding
from app.engine.mcp_lines import CARRIED, SHOWN, LineSplitter
from app.engine.scope import Task, spawn_service, stop_service
from app.redaction.secrets import known_secrets, mask

log = logging.getLogger("studio.mcp")

#: Longest line of the process, in bytes; it keeps its answers below.
MAX_LINE = 4 * 1024 * 1024
#: Most bytes that wait to be written; a process that takes none is as good as dead.
MAX_WAITING = 64 * 1024 * 1024
#: After a death within this many seconds of its start, the next start waits, each time twice as long, up to the other.
YOUNG_S, BACK_OFF_MOST_S = 30.0, 60.0
#: Most values that are masked in the log; beyond, those that were met longest ago are forgotten.
MAX_SECRETS = 2000
#: Where the package ``app`` is.
_PROGRAM = Path(__file__).resolve().parents[2]
_CHUNK = 256 * 1024
#: More of a line than the process sends, which puts a level and a name before what it carries.
_LOG_CHUNK, _LOG_LINE = 16 * 1024, CARRIED + 1024
#: What the process gets of our environment, and of it the servers: never keys or settings.
_ENVIRONMENT = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "TMPDIR"),
    *("VIRTUAL_ENV", "LD_LIBRARY_PATH", "SYSTEMROOT", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)


class Unavailable(Exception):
    """The process cannot be started, or has ended; the text says so."""


class HostPipe:
    """See the module.

    :param heard: called on every message, from the reading greenlet; must not wait.
    :param lost: called when the process has ended.
    """

    def __init__(self, heard: Callable[[dict[str, t.Any]], None], lost: Callable[[], None]) -> None:
        self._heard = heard
        self._lost = lost
        self._process: Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._tasks: list[Task] = []
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._more = Event()
        self._starting = BoundedSemaphore()
        self._started_at = 0.0
        self._retry_at = 0.0
        self._failures = 0
        self._secrets: dict[str, None] = {}
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._process is None else self._process.pid

    def keep_secret(self, values: Iterable[str]) -> None:
        """Mask these in what goes to the log, line by line."""
        for line in (line for value in values for line in value.splitlines()):
            self._secrets.pop(line, None)
            self._secrets[line] = None
        for line in list(self._secrets)[: -MAX_SECRETS or None]:
            del self._secrets[line]

    def send(self, message: Mapping[str, t.Any]) -> None:
        """Have a message written. Waits for nothing but the start of a process.

        :raises Unavailable: there is no process to take it.
        """
        with self._starting:  # which lets others run; two of them must not start two
            if self._process is None:
                self._start()
        line = encoding.dumps(message) + b"\n"
        if self._bytes + len(line) > MAX_WAITING:
            raise Unavailable("The process of MCP servers takes no more requests; try again.")
        self._bytes += len(line)
        self._waiting.append(line)
        self._more.set()

    def kill(self) -> None:
        """End a process that does not answer any more."""
        if self._process is not None:
            log.error("the process of MCP servers does not answer; it is ended")
            self._process.kill()
            self._end(self._process)

    def close(self, seconds: float = 10.0) -> None:
        """Let the process leave, with the servers it runs; returns when it has left or was killed."""
        process = self._let_go()
        if process is None:
            return
        try:
            process.wait(seconds)
        except TimeoutExpired:
            process.kill()
            process.wait()

    def _let_go(self) -> Popen[bytes] | None:
        process, tasks = self._process, self._tasks
        self._process, self._tasks = None, []
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        for task in tasks:
            stop_service(task)
        self._lost()
        return process

    # -- the process -------------------------------------------------------------------------

    def _start(self) -> None:
        if time.monotonic() < self._retry_at:
            raise Unavailable("The process of MCP servers failed several times in a row; see the log.")
        ours, theirs = socket.socketpair()
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        try:
            process = Popen(
                [sys.executable, "-m", "app.engine.mcp_host", str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=PIPE,
                cwd=_PROGRAM,
                env=environment,
                start_new_session=True,  # Ctrl-C at a terminal reaches the server only
            )
        except OSError as error:
            ours.close()
            self._back_off()
            raise Unavailable(f"The process of MCP servers cannot be started ({error.strerror}).") from None
        finally:
            theirs.close()
        self._process, self._socket = process, ours
        self._started_at = time.monotonic()
        self.starts += 1
        self._waiting.clear()
        self._bytes = 0
        self._tasks = [
            spawn_service(self._read, process, ours),
            spawn_service(self._write, process, ours),
        ]
        spawn_service(self._log, process.stderr)  # to its end, for the last words

    def _end(self, process: Popen[bytes]) -> None:
        """Take note of a process that ended."""
        if process is not self._process:
            return
        if time.monotonic() - self._started_at < YOUNG_S:
            self._back_off()
        else:
            self._failures = 0
        log.error("the process of MCP servers ended; it is started again at its next use")
        self._let_go()
        spawn_service(process.wait)  # so that it leaves no zombie

    def _back_off(self) -> None:
        self._failures += 1
        if self._failures > 1:  # a first death may be anybody's; the next start is at once
            self._retry_at = time.monotonic() + min(BACK_OFF_MOST_S, 0.5 * 2**self._failures)

    # -- greenlets ---------------------------------------------------------------------------

    def _read(self, process: Popen[bytes], sock: socket.socket) -> None:
        """Lines from the process, until there are no more."""
        parts: list[bytes] = []
        size = 0
        try:
            while chunk := sock.recv(_CHUNK):
                *whole, rest = chunk.split(b"\n")
                for end in whole:
                    self._heard(encoding.loads(b"".join((*parts, end))))
                    parts, size = [], 0
                parts.append(rest)
                size += len(rest)
                if size > MAX_LINE:
                    log.error("the process of MCP servers sent a line that is too long")
                    break
        except OSError:
            pass
        except ValueError:
            log.exception("the process of MCP servers sent what is no message")
            process.kill()
        self._end(process)

    def _write(self, process: Popen[bytes], sock: socket.socket) -> None:
        try:
            while True:
                self._more.wait()
                self._more.clear()
                while self._waiting:
                    line = self._waiting.popleft()
                    self._bytes -= len(line)
                    sock.sendall(line)
        except OSError:
            self._end(process)

    def _log(self, stream: t.Any) -> None:
        """``LEVEL<TAB>SERVER<TAB>text`` lines of standard error."""
        splitter = LineSplitter(_LOG_LINE)
        try:
            while chunk := stream.read1(_LOG_CHUNK):
                for line in splitter.feed(chunk):
                    self._write_log(line.decode(errors="replace"))
            for line in splitter.last():
                self._write_log(line.decode(errors="replace"))
        except (OSError, ValueError):
            pass  # closed
        finally:
            stream.close()

    def _write_log(self, line: str) -> None:
        level, _, rest = line.partition("\t")
        title, _, text = rest.partition("\t")
        if level not in ("I", "W"):  # a traceback, or the rest of a message
            level, title, text = "W", "-", line
        known = (*self._secrets, *known_secrets(os.environ))
        shown = mask(text, known)[:SHOWN]
        log.log(logging.INFO if level == "I" else logging.WARNING, "%s: %s", title, shown)

"""The transport to a server that is a program: JSON lines on its standard input and output.

Law of this room: a server ends with its session, with the host, and with the host's worker, its whole process group
with it; a line of any length costs no more than the limit, lines that are no messages are counted, and what it says on
standard error is passed on bounded.
The SDK's own transport does neither (``docs/decisions/0014-mcp-host.md``).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import typing as t
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import anyio
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from app.engine.mcp_host import lines
from app.engine.mcp_host.death import CANNOT_RUN, launcher
from app.engine.mcp_lines import CARRIED, LineSplitter

#: Longest line of a server, in bytes; one that is longer ends the session.
MAX_LINE = 8 * 1024 * 1024
#: Seconds a server gets to leave after its input ended, and again after SIGTERM.
GRACE_S = 2.0
#: Lines in a row that are no messages; a server with more of them has nothing to say.
MAX_STRAY = 1000
#: Lines of standard error a minute; what is more is dropped.
LOG_LINES = 120
#: What a program gets of our environment: never keys or settings.
_ENVIRONMENT = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "SYSTEMROOT",
)


class CannotStart(Exception):
    """The program is not there, or may not be run."""


class Ended(Exception):
    """The program ended. ``code`` is None when it was we who ended it."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


@asynccontextmanager
async def stdio(
    title: str,
    command: str,
    args: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    ended: Callable[[int | None], None],
) -> AsyncGenerator[TransportStreams]:
    """Run the program and speak with it.

    :param ended: called once with its exit code when it ends by itself.
    :raises CannotStart: it cannot be run.
    """
    process = await _start(command, args, env, cwd)
    program = _Program(title, process)
    tasks = [asyncio.create_task(job) for job in program.jobs(ended)]
    try:
        yield program.incoming, program.outgoing
    finally:
        with anyio.CancelScope(shield=True):
            await program.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _start(
    command: str, args: Sequence[str], env: Mapping[str, str], cwd: str | None
) -> asyncio.subprocess.Process:
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    try:
        return await asyncio.create_subprocess_exec(
            *launcher(os.getpid(), command, list(args)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**kept, **env},
            cwd=cwd,
            start_new_session=True,
            limit=MAX_LINE,
        )
    except (OSError, ValueError) as error:  # no such folder; a NUL in an argument
        raise CannotStart(str(getattr(error, "strerror", None) or "unusable argument")) from error


class _Program:
    """One running server."""

    def __init__(self, title: str, process: asyncio.subprocess.Process) -> None:
        self._title = title
        self._process = process
        self._stray, self._told = 0, False
        self._read, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.outgoing, self._written = anyio.create_memory_object_stream[SessionMessage](0)

    def jobs(self, ended: Callable[[int | None], None]) -> tuple[t.Coroutine[t.Any, t.Any, None], ...]:
        return self._reader(ended), self._writer(), self._log()

    async def stop(self) -> None:
        """End it: its input ends, then SIGTERM, then SIGKILL, each to the whole group after a grace."""
        process = self._process
        self.incoming.close()
        self.outgoing.close()
        if process.stdin is not None:
            process.stdin.close()
        for how in (signal.SIGTERM, signal.SIGKILL):
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    await process.wait()
                    break
            self._signal(how)
        self._signal(signal.SIGKILL)  # what it started and left behind
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await process.wait()

    def _signal(self, how: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, how)

    async def _reader(self, ended: Callable[[int | None], None]) -> None:
        assert self._process.stdout is not None
        async with self._read:  # closed last, so that whoever hears of the end can ask for its code
            try:
                left = await self._receive(self._process.stdout)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the session is over
            if left:
                with suppress(TimeoutError):  # a process that it started may hold the other pipes
                    async with asyncio.timeout(GRACE_S):
                        await self._process.wait()
            ended(self._process.returncode)

    async def _receive(self, stdout: asyncio.StreamReader) -> bool:
        """Hand its messages on until there are no more. False when what it writes is not worth reading on."""
        try:
            while line := await stdout.readline():
                message = lines.message(line)
                if message is not None:
                    self._stray = 0
                    await self._read.send(SessionMessage(message))
                elif line.strip() and not self._forgiven():
                    return False
        except ValueError:
            say(self._title, f"sent a line of more than {MAX_LINE} bytes; its session is ended")
            return False
        return True

    def _forgiven(self) -> bool:
        """Whether to go on after one more line that is no message."""
        self._stray += 1
        if not self._told:
            self._told = True
            say(self._title, "writes what is no message; standard output is for messages alone")
        if self._stray > MAX_STRAY:
            say(self._title, f"wrote {self._stray} lines that are no messages; its session is ended")
        return self._stray <= MAX_STRAY

    async def _writer(self) -> None:
        assert self._process.stdin is not None
        async with self._written:
            async for message in self._written:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    self._process.stdin.write(text.encode() + b"\n")
                    await self._process.stdin.drain()
                except (OSError, RuntimeError):  # its end is told by the reader
                    return

    async def _log(self) -> None:
        """Standard error, line by line."""
        assert self._process.stderr is not None
        splitter = LineSplitter()
        window, count = 0.0, 0
        while chunk := await self._process.stderr.read(64 * 1024):
            for line in splitter.feed(chunk):
                now = asyncio.get_running_loop().time()
                if now - window > 60:
                    window, count = now, 0
                count += 1
                if count <= LOG_LINES:
                    self._say(line.decode(errors="replace"))
                elif count == LOG_LINES + 1:
                    self._say("says more than is kept; the rest of this minute is dropped")
        for line in splitter.last():
            self._say(line.decode(errors="replace"))

    def _say(self, text: str) -> None:
        say(self._title, text, "I")


def say(title: str, text: str, level: t.Literal["I", "W"] = "W") -> None:
    """A line for the log: what a server says by itself is information, what we say of it a warning."""
    with suppress(OSError):  # the worker is gone, and with it who reads this
        sys.stderr.write(f"{level}\t{title}\t{' '.join(text[:CARRIED].splitlines())}\n")
        sys.stderr.flush()


__all__ = ["CANNOT_RUN", "CannotStart", "Ended", "say", "stdio"]

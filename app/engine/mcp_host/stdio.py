"""The transport to a server that is a program: JSON lines on its standard input and output.

Law of this room: a server ends with its session, with the host, and with the host's worker, its whole process group
with it; a line of any length costs no more than the limit, and what it says on standard error is passed on bounded.
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
import mcp_types
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from app.engine.mcp_host.death import CANNOT_RUN, launcher

#: Longest line of a server, in bytes; one that is longer ends the session.
MAX_LINE = 8 * 1024 * 1024
#: Seconds a server gets to leave after its input ended, and again after SIGTERM.
GRACE_S = 2.0
#: Of standard error: longest line, and lines a minute; what is more is dropped.
LOG_LINE, LOG_LINES = 1000, 120
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
                while line := await self._process.stdout.readline():
                    await self._read.send(_parsed(line))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the session is over
            except ValueError:
                say(self._title, f"sent a line of more than {MAX_LINE} bytes; its session is ended")
            else:
                with suppress(TimeoutError):  # a process that it started may hold the other pipes
                    async with asyncio.timeout(GRACE_S):
                        await self._process.wait()
            ended(self._process.returncode)

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
        window, lines, rest = 0.0, 0, b""
        while chunk := await self._process.stderr.read(64 * 1024):
            *whole, rest = (rest + chunk).split(b"\n")
            if len(rest) > LOG_LINE:
                whole, rest = [*whole, rest], b""
            for line in whole:
                now = asyncio.get_running_loop().time()
                if now - window > 60:
                    window, lines = now, 0
                lines += 1
                if lines <= LOG_LINES:
                    self._say(line[:LOG_LINE].decode(errors="replace"))
                elif lines == LOG_LINES + 1:
                    self._say("says more than is kept; the rest of this minute is dropped")
        if rest:
            self._say(rest[:LOG_LINE].decode(errors="replace"))

    def _say(self, text: str) -> None:
        say(self._title, text, "I")


def say(title: str, text: str, level: t.Literal["I", "W"] = "W") -> None:
    """A line for the log: what a server says by itself is information, what we say of it a warning."""
    sys.stderr.write(f"{level}\t{title}\t{text}\n".replace("\r", " "))
    sys.stderr.flush()


def _parsed(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


__all__ = ["CANNOT_RUN", "CannotStart", "Ended", "say", "stdio"]

"""What a command prints: the one way in which credentials come out of other programs.

Law of this room: no shell, bounded time, bounded output; the command and what it started end with whoever waits for
it. What it complains about is not read.
"""

from __future__ import annotations

import contextlib
import os
import signal
import typing as t
from collections.abc import Mapping, Sequence
from pathlib import Path

from gevent.subprocess import DEVNULL, PIPE, Popen

from providers.spec import ProviderError, Waits

#: Longest output that is looked at, in bytes.
MAX_OUTPUT = 64 * 1024


def command_output(
    words: Sequence[str],
    waits: Waits,
    seconds: float,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> tuple[bytes, int]:
    """Run ``words``; returns its standard output and its exit status.

    :param environment: default: this process's own.
    :param folder: where it runs; default: where this process does.
    :raises OSError: it cannot be started.
    :raises TimeoutError: it took longer than ``seconds``.
    """
    process: t.Any = Popen(
        list(words),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=DEVNULL,
        env=environment,
        cwd=folder,
        start_new_session=True,
    )
    try:
        with waits.idle_limit(seconds), waits.wait():
            output: bytes = process.stdout.read(MAX_OUTPUT)
            return output, process.wait() if len(output) < MAX_OUTPUT else 0
    except ProviderError as error:
        if error.code != "provider_idle":
            raise
        raise TimeoutError from None
    finally:
        _end(process)


def _end(process: t.Any) -> None:
    """End a command that has not ended by itself, and what it started: both hold the pipe."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    process.stdout.close()

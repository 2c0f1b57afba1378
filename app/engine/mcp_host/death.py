"""No orphans: a process that ends with its parent, and the launcher that makes a server's program one.

Law of this room: imports nothing but the standard library, since the launcher is started for every server as a file
of its own: ``python -I -S death.py PARENT_PID PROGRAM ARGUMENT…``. It becomes the program.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
#: Exit code of the launcher when the program cannot be run, as of a shell.
CANNOT_RUN = 127


def end_with_parent(parent: int, how: signal.Signals) -> None:
    """Have the kernel send ``how`` to this process when ``parent`` dies; end now if it is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, how)
    if os.getppid() != parent:
        raise SystemExit(0)


def launcher(parent: int, command: str, args: list[str]) -> list[str]:
    """The command line that runs ``command`` so that it ends with ``parent``."""
    return [sys.executable, "-I", "-S", __file__, str(parent), command, *args]


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]), signal.SIGKILL)
    try:
        os.execvp(sys.argv[2], sys.argv[2:])
    except OSError as error:
        sys.stderr.write(f"{sys.argv[2]}: {error.strerror}\n")
        sys.exit(CANNOT_RUN)

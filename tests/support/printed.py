"""Runs what pages print, as printed: in a shell, at a server of the test's own.

Law of this room: a script ends at its first command that fails, and the test with it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.servers import Studio

#: What a reader pastes into a shell.
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def need_curl() -> None:
    """Skip loudly where there is no curl; on CI a skip is a failure."""
    if shutil.which("curl") is None:
        pytest.skip("no curl here (Debian: apt install curl)")


def run(script: str, server: Studio, folder: Path) -> str:
    """What a script prints, with the server's address and key in place of the reader's."""
    done = subprocess.run(
        ["bash", "-e", "-c", script.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}")],
        cwd=folder,
        env={**os.environ, "STUDIO_API_KEY": server.key},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

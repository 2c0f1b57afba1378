"""Commands that print credentials: bounded, and gone with whoever waits for them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.engine.scope import RunScope
from providers.command_output import MAX_OUTPUT, command_output


def run(program: str) -> tuple[bytes, int]:
    """The output and status of a Python program."""
    with RunScope() as scope:
        return command_output([sys.executable, "-c", program], scope, 60.0)


def test_output_and_status() -> None:
    assert run("import sys; print('it', end=''); print('no', file=sys.stderr); sys.exit(3)") == (b"it", 3)


def test_output_is_bounded() -> None:
    output, _ = run("import sys\nwhile True: sys.stdout.write('x' * 4096)")
    assert len(output) == MAX_OUTPUT


def test_time_is_bounded(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    with RunScope() as scope, pytest.raises(TimeoutError):
        command_output(["sh", "-c", f"echo $$ > {marker}; exec sleep 600"], scope, 1.0)
    assert not Path("/proc", marker.read_text().strip()).exists()


def test_what_cannot_be_started() -> None:
    with RunScope() as scope, pytest.raises(OSError):
        command_output(["/nonexistent/program"], scope, 60.0)

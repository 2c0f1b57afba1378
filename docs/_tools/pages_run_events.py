"""The tables of the page of run events: which level has what, and how many bytes that is.

Law of this room: read from the one table in the program; the bytes are measured, by running the example.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from docs._tools.markdown import table

_ROOT = Path(__file__).resolve().parents[2]
_MARKS = {"yes": "●", "answer": "answer only", "no": ""}


def events() -> str:
    """Every event with its members and the levels that have it."""
    from app.streams.run_event_levels import EVENTS, LEVELS

    rows = [
        (f"`{row.type}`", row.when, f"`{row.data}`", *(_MARKS[row.shown(level)] for level in LEVELS))
        for row in EVENTS
    ]
    return table(("`type`", "Meaning", "`data`", *LEVELS), rows)


def savings() -> str:
    """Frames and bytes of the jury at each level."""
    command = [sys.executable, "docs/_tools/run_levels.py", "examples/jury.yaml", "Was it he?"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=60, check=True)
    counted = json.loads(done.stdout)
    whole = counted["full"][1]
    rows = [
        (f"`{level}`", frames, f"{size:,}", f"{100 * (whole - size) / whole:.0f} %")
        for level, (frames, size) in counted.items()
    ]
    return table(("`events`", "Frames", "Bytes", "Saved"), rows)

"""The folder in which workers write their metrics, one set of files each.

Law of this room: gunicorn's own process uses it, which imports next to nothing. Only files that are metrics are ever
removed.
"""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from pathlib import Path

#: Where ``prometheus_client`` looks for the folder; read when it is first imported.
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_FILE = re.compile(r"(?:counter|histogram|summary|gauge_[a-z]+)_[0-9]+\.db")


def choose(environ: MutableMapping[str, str], data_dir: Path, port: int) -> Path:
    """Name the folder to the workers that will be forked: the operator's, else one of this server's own."""
    folder = Path(environ.get(VARIABLE) or data_dir / "metrics" / str(port)).absolute()
    environ[VARIABLE] = str(folder)
    return folder


def empty(folder: Path) -> None:
    """A server starts: what one before it has left counts no more."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        if _FILE.fullmatch(file.name):
            file.unlink(missing_ok=True)


def leave(folder: Path, pid: int) -> None:
    """A worker is gone: what it counted stays, what it had open does not."""
    for file in folder.glob(f"gauge_live*_{pid}.db"):
        file.unlink(missing_ok=True)


def remove(folder: Path) -> None:
    """The server is gone."""
    if folder.exists():
        empty(folder)
    try:
        os.rmdir(folder)
    except OSError:
        pass  # something of others' is in it

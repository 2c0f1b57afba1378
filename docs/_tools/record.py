"""Records a command in a terminal as an SVG that plays once and then stands still.

    .venv/bin/python docs/_tools/record.py docs/_static/tour.svg .venv/bin/studio run tour ...

Law of this room: what is drawn is what the command wrote, when it wrote it. The output has to be of the
kind that only grows; a command that moves the cursor is refused.
"""

from __future__ import annotations

import fcntl
import html
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
import time
import typing as t
from dataclasses import dataclass
from pathlib import Path

#: Few columns: a phone shows the picture 360 pixels wide, and it has to be read there.
COLUMNS, CELL_W, LINE_H, MARGIN = 64, 8.43, 20, 18
#: Styles of ``app/cli/render.py`` by their SGR code.
CLASSES = {"2": "dim", "2;9": "gone", "31": "red", "32": "green"}
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_OTHER = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a]")
_CSS = """
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d7dae0; white-space: pre }
.dim { fill: #7f8794 } .gone { fill: #7f8794; text-decoration: line-through } .red { fill: #f2777a } .green { fill: #8fc97a }
.run { opacity: 0; animation: show 1ms linear forwards } @keyframes show { to { opacity: 1 } }
@media (prefers-reduced-motion: reduce) { .run { opacity: 1; animation: none } }
""".strip()


@dataclass(frozen=True)
class Run:
    """Text of one style that appeared at one moment, at one place."""

    at: float
    row: int
    column: int
    style: str
    text: str


def capture(command: t.Sequence[str]) -> list[tuple[float, str]]:
    """Run ``command`` in a terminal; ``(seconds since start, text)`` as it was written."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    env.pop("NO_COLOR", None)
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, close_fds=True)
    os.close(slave)
    pieces, began = [], 0.0
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        began = began or time.monotonic()
        pieces.append((time.monotonic() - began, piece.decode(errors="replace")))
    process.wait()
    return pieces


def lay_out(pieces: t.Iterable[tuple[float, str]], row: int) -> list[Run]:
    """Place what was written, wrapping at words where the terminal would cut them.

    :raises ValueError: the command moved the cursor.
    """
    runs: list[Run] = []
    column, style = 0, ""
    for at, text in pieces:
        if _OTHER.search(text):
            raise ValueError("this command moves the cursor; record one that only writes on")
        for index, part in enumerate(_SGR.split(text.replace("\r", ""))):
            if index % 2:
                style = CLASSES.get(part, "")
                continue
            for word in re.findall(r"\n|[^\s]+ *| +", part):
                if word == "\n":
                    row, column = row + 1, 0
                    continue
                if column + len(word.rstrip()) > COLUMNS:
                    row, column = row + 1, 0
                runs.append(Run(at, row, column, style, word))
                column += len(word)
    return merged(runs)


def merged(runs: t.Iterable[Run]) -> list[Run]:
    """Neighbours that came in the same tenth of a second, as one."""
    out: list[Run] = []
    for run in runs:
        last = out[-1] if out else None
        if (
            last
            and (last.row, last.style) == (run.row, run.style)
            and last.column + len(last.text) == run.column
            and run.at - last.at < 0.1
        ):
            out[-1] = Run(last.at, last.row, last.column, last.style, last.text + run.text)
        else:
            out.append(run)
    return out


def draw(runs: t.Sequence[Run], title: str) -> str:
    """The picture."""
    rows = max(run.row for run in runs) + 1
    width, height = round(COLUMNS * CELL_W + 2 * MARGIN), rows * LINE_H + 2 * MARGIN + 26
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
        f"<title>{html.escape(title)}</title>",
        f"<style>{_CSS}</style>",
        f'<rect width="{width}" height="{height}" rx="9" fill="#1d2026"/>',
        *(
            f'<circle cx="{20 + 18 * i}" cy="18" r="5.5" fill="{c}"/>'
            for i, c in enumerate(("#f2777a", "#e6c07b", "#8fc97a"))
        ),
    ]
    for run in runs:
        x, y = MARGIN + run.column * CELL_W, 44 + MARGIN / 2 + run.row * LINE_H
        kind = " ".join(filter(None, ("run", run.style)))
        text = html.escape(run.text.rstrip())
        length = round(len(run.text.rstrip()) * CELL_W, 1)
        lines.append(
            f'<text class="{kind}" style="animation-delay:{run.at:.2f}s" x="{x:.1f}" y="{y:.1f}" '
            f'textLength="{length}" lengthAdjust="spacingAndGlyphs">{text}</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def main(argv: t.Sequence[str]) -> int:
    """``record.py FILE COMMAND...``; the prompt shows the command without its folder."""
    target, *command = argv
    shown = "$ " + " ".join(shlex.quote(part) for part in (Path(command[0]).name, *command[1:]))
    pause = 0.6
    prompt = lay_out([(0.0, shown + "\n")], 0)
    rest = lay_out([(at + pause, text) for at, text in capture(command)], prompt[-1].row + 1)
    Path(target).write_text(draw([*prompt, *rest], shown))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

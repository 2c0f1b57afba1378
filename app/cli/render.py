"""How a stream of agent events looks: in a terminal, in a pipe, as one JSON document.

Law of this room: a view is fed frames and nothing else, so that a local run and one over HTTP look the
same. What was taken back is shown as taken back; through a pipe it is not shown at all.
"""

from __future__ import annotations

import os
import re
import sys
import typing as t

from app import encoding

Frame = t.Mapping[str, t.Any]

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_DIM, _STRUCK, _RED, _GREEN, _OFF = "\x1b[2m", "\x1b[2;9m", "\x1b[31m", "\x1b[32m", "\x1b[0m"
_MARKS = {"success": "✓", "error": "✗", "cancelled": "⊘"}
#: How much of a text that was taken back is repeated, struck through.
_RECALL = 160


def harmless(text: str) -> str:
    """``text`` without what a terminal would obey: models and tools may say anything."""
    return _CONTROL.sub("�", text.replace("\r\n", "\n"))


class View(t.Protocol):
    """Shows one run."""

    def show(self, frame: Frame) -> None:
        """Take one frame."""

    def close(self) -> None:
        """The stream is over."""


class Plain:
    """For pipes: the standing answer, once it stands for good, and nothing else on standard output."""

    def __init__(self) -> None:
        self._standing: dict[str, list[str]] = {}

    def show(self, frame: Frame) -> None:
        """See :class:`View`."""
        kind = frame.get("event")
        if kind is None:
            self._standing.setdefault(frame["blockId"], []).append(frame["chunk"])
        elif kind == "chunk_reset":
            self._standing.pop(frame["blockId"], None)
        elif kind == "final":
            texts = ["".join(parts) for parts in self._standing.values()]
            text = "\n\n".join(texts) if texts else _as_text(frame["data"].get("output"))
            sys.stdout.write(text if text.endswith("\n") or not text else text + "\n")
            sys.stdout.flush()
            if not frame["data"]["success"]:
                _complain(frame["data"].get("error", ""))
        elif kind == "error":
            _complain(frame["error"], frame.get("code"))
        elif kind == "stream_error":
            _complain(frame["error"])

    def close(self) -> None:
        """See :class:`View`."""


class Json:
    """For programs: one JSON document in one line, when the run has ended."""

    def __init__(self, run_id: str) -> None:
        self._body: dict[str, t.Any] = {"success": False, "runId": run_id, "status": "failed"}
        self._text: dict[str, str] = {}
        self._thinking: dict[str, str] = {}

    def show(self, frame: Frame) -> None:
        """See :class:`View`."""
        kind = frame.get("event")
        if kind is None:
            self._text[frame["blockId"]] = self._text.get(frame["blockId"], "") + frame["chunk"]
        elif kind == "chunk_reset":
            self._text.pop(frame["blockId"], None)
        elif kind == "thinking":
            self._thinking[frame["blockId"]] = self._thinking.get(frame["blockId"], "") + frame["data"]
        elif kind == "final":
            self._body = dict(frame["data"])
        elif kind == "error":
            code = frame.get("code", "failed")
            if code in ("cancelled", "timed_out"):
                self._body["status"] = code
            error = {"code": code, "message": frame["error"]}
            if "blockId" in frame:
                error["blockId"] = frame["blockId"]
            self._body["error"] = error

    def close(self) -> None:
        """Print the document."""
        if self._text:
            self._body["text"] = self._text
        if self._thinking:
            self._body["thinking"] = self._thinking
        sys.stdout.write(encoding.dumps(self._body).decode() + "\n")
        sys.stdout.flush()


class Terminal:
    """For people: live, with thinking dimmed, tools as chips, and every retraction visible."""

    def __init__(self, colour: bool | None = None) -> None:
        self._colour = "NO_COLOR" not in os.environ if colour is None else colour
        self._block = ""
        self._mode = ""  # "text", "thinking", or "" at the start of a line of its own
        self._column_open = False
        self._style = ""
        self._standing: dict[str, list[str]] = {}
        self._handlers: dict[str, t.Callable[[Frame], None]] = {
            "chunk": self._chunk,
            "thinking": self._thinking,
            "tool": self._tool,
            "chunk_reset": self._chunk_reset,
            "stream_error": self._stream_error,
            "final": self._final,
            "error": self._error,
        }

    def show(self, frame: Frame) -> None:
        """See :class:`View`."""
        handler = self._handlers.get(frame.get("event", "chunk"))
        if handler is not None:  # a later version may add kinds; they are for those who know them
            handler(frame)
            sys.stdout.flush()

    def close(self) -> None:
        """See :class:`View`."""
        self._break()
        self._paint("")
        sys.stdout.flush()

    def _chunk(self, frame: Frame) -> None:
        self._enter("text", frame["blockId"])
        self._standing.setdefault(frame["blockId"], []).append(frame["chunk"])
        self._write(frame["chunk"])

    def _thinking(self, frame: Frame) -> None:
        self._enter("thinking", frame["blockId"])
        self._write(frame["data"], _DIM)
        if frame.get("truncated"):
            self._line("… thinking is cut here", _DIM)

    def _tool(self, frame: Frame) -> None:
        if frame["phase"] == "start":
            self._line(f"▸ {frame['name']} …", _DIM)
        else:
            status = frame["status"]
            colour = {"success": _GREEN, "error": _RED}.get(status, _DIM)
            said = "" if status == "success" else f" {status}"
            self._line(f"{_MARKS[status]} {frame['name']}{said}", colour)

    def _chunk_reset(self, frame: Frame) -> None:
        text = " ".join("".join(self._standing.pop(frame["blockId"], ())).split())
        if len(text) > _RECALL:
            text = text[: _RECALL - 1] + "…"
        self._line("↩ taken back: ", _DIM, end="")
        self._write(text + "\n", _STRUCK)
        self._mode = ""

    def _stream_error(self, frame: Frame) -> None:
        self._line(f"! {frame['error']}", _RED)

    def _final(self, frame: Frame) -> None:
        data = frame["data"]
        if not self._standing and data.get("output") not in (None, {}, ""):
            self._line(_as_text(data["output"]), "")
        if data["status"] == "paused":
            self._line(f"‖ paused · {_summary(data)}", _DIM)
        elif data["success"]:
            self._line(f"✓ completed · {_summary(data)}", _DIM)
        else:
            self._line(f"✗ {data.get('error', '')}", _RED)

    def _error(self, frame: Frame) -> None:
        code = f" ({frame['code']})" if "code" in frame else ""
        self._line(f"✗ {frame['error']}{code}", _RED)

    def _enter(self, mode: str, block: str) -> None:
        if (mode, block) == (self._mode, self._block):
            return
        self._break()
        if self._block and block != self._block:
            self._line(f"[{block}]", _DIM)
        self._mode, self._block = mode, block

    def _break(self) -> None:
        if self._column_open:
            sys.stdout.write("\n")
            self._column_open = False

    def _line(self, text: str, style: str, end: str = "\n") -> None:
        self._break()
        self._mode = ""
        self._write(text + end, style)

    def _write(self, text: str, style: str = "") -> None:
        shown = harmless(text)
        self._paint(style)
        sys.stdout.write(shown)
        if shown:
            self._column_open = not shown.endswith("\n")

    def _paint(self, style: str) -> None:
        """Change the style; thinking comes word by word and needs no switch at each."""
        if self._colour and style != self._style:
            sys.stdout.write(f"{_OFF if self._style else ''}{style}")
        self._style = style


def _summary(data: Frame) -> str:
    usage = data.get("usage") or {}
    tokens = usage.get("tokens") or {}
    parts = []
    if "durationMs" in usage:
        parts.append(f"{usage['durationMs'] / 1000:.1f} s")
    if "input" in tokens or "output" in tokens:
        parts.append(f"{tokens.get('input', 0)} tokens in, {tokens.get('output', 0)} out")
    parts.append(str(data.get("runId", "")))
    return " · ".join(parts)


def _as_text(output: t.Any) -> str:
    if output in (None, {}):
        return ""
    if isinstance(output, t.Mapping) and isinstance(output.get("content"), str):
        return str(output["content"])
    return output if isinstance(output, str) else encoding.dumps(output).decode()


def _complain(message: str, code: str | None = None) -> None:
    sys.stderr.write(f"{message} ({code})\n" if code else f"{message}\n")

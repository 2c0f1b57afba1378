"""Thinking that a server leaves inside the answer text, told apart by its tags.

Law of this room: no fragment of a tag is ever shown, whatever the cuts between deltas, and the
state lives for one model call. Tags are ``<think>``, ``<thinking>`` and ``<reasoning>``, in any case.

* Inside a code fence or between backticks of the answer, tags are text.
* Line ends after a tag are dropped.
* Unclosed: the rest of the turn is thinking.
* Only a closing tag (the model's template opened it): what came before is thinking. So text that does not
  begin with a tag is held back until a closing tag, the end of the turn, or :data:`HOLD` characters decide;
  a family whose models always do so says ``inline_thinking: "implicit"`` and streams live.
"""

from __future__ import annotations

import re

from providers.spec import ModelEvent, TextDelta, ThinkingDelta

#: Characters of undecided text held back at most.
HOLD = 8192

_NAMES = ("think", "thinking", "reasoning")
_MARK = re.compile(r"<(/?)(thinking|think|reasoning)>|`+|\n", re.IGNORECASE)
_SPELLINGS = tuple(f"<{slash}{name}>" for name in _NAMES for slash in ("", "/"))
_LONGEST = max(map(len, _SPELLINGS))


class ThinkSplitter:
    """Splits one call's text; ``implicit``: it starts inside thinking."""

    def __init__(self, *, implicit: bool = False) -> None:
        #: ``start`` while undecided, then ``text``, or the name of the open tag (``any``: opened by the template).
        self._mode = "any" if implicit else "start"
        self._tail = ""
        self._held = ""
        self._trim = implicit
        self._fence = 0
        self._ticks = 0

    def feed(self, text: str, out: list[ModelEvent]) -> None:
        """Take a piece of text; append what is certain to ``out``."""
        text = self._tail + text
        keep = _undecided_from(text)
        self._tail = text[keep:]
        self._split(text[:keep], out)

    def flush(self, out: list[ModelEvent]) -> None:
        """Give all that is held back: a tool call begins or the turn ends."""
        tail, self._tail = self._tail, ""
        self._split(tail, out)
        if self._held.strip():
            self._settle_text(out)

    def _split(self, text: str, out: list[ModelEvent]) -> None:
        at = 0
        for mark in _MARK.finditer(text):
            if mark[2] is None:
                self._note_code(mark[0])
            elif self._counts(bool(mark[1]), mark[2].lower()):
                self._emit(text[at : mark.start()], out)
                at = mark.end()
                self._turn(bool(mark[1]), mark[2].lower(), out)
        self._emit(text[at:], out)

    def _counts(self, closing: bool, name: str) -> bool:
        """Whether a tag is one here: not inside code, and inside thinking only the one that closes it."""
        if self._mode in ("start", "text"):
            return not self._fence and not self._ticks
        if closing:
            return self._mode in (name, "any")
        return self._mode == "any" and self._trim  # a template's opening tag, repeated by the model

    def _turn(self, closing: bool, name: str, out: list[ModelEvent]) -> None:
        if self._mode == "start":
            if closing:
                self._mode, self._trim = "any", True
                held, self._held = self._held, ""
                self._emit(held, out)
            else:
                self._settle_text(out)
        self._mode = "text" if closing else name
        self._trim = True
        self._fence = self._ticks = 0

    def _settle_text(self, out: list[ModelEvent]) -> None:
        """What was held is answer text."""
        held, self._held = self._held, ""
        self._mode = "text"
        if held.strip():
            out.append(TextDelta(held))

    def _emit(self, text: str, out: list[ModelEvent]) -> None:
        if self._trim:
            text = text.lstrip("\r\n")
        if not text:
            return
        self._trim = False
        if self._mode == "start":
            self._held += text
            if len(self._held) > HOLD:
                self._settle_text(out)
        elif self._mode == "text":
            out.append(TextDelta(text))
        else:
            out.append(ThinkingDelta(text))

    def _note_code(self, mark: str) -> None:
        """Follow fences (three backticks or more) and code between backticks, which ends with its line."""
        if self._mode not in ("start", "text"):
            return
        if mark == "\n":
            self._ticks = 0
        elif self._fence:
            if len(mark) >= self._fence:
                self._fence = 0
        elif len(mark) >= 3 and not self._ticks:
            self._fence = len(mark)
        else:
            self._ticks = 0 if self._ticks else len(mark)


def _undecided_from(text: str) -> int:
    """Where the end of ``text`` may be the start of a tag or of a longer run of backticks; its length if nowhere."""
    if text.endswith("`"):
        return len(text.rstrip("`"))
    at = text.rfind("<", max(0, len(text) - _LONGEST))
    if at >= 0 and any(spelling.startswith(text[at:].lower()) for spelling in _SPELLINGS):
        return at if ">" not in text[at:] else len(text)
    return len(text)

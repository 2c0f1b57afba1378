"""What a script of the ``scripted`` family may say, and how a YAML file becomes one.

Law of this room: a script is checked as a whole when it is read; every problem is reported at once
with its path (``turns[0].steps[2].text``) and a cure. Nothing here plays, waits or reads a file.

A script is a mapping::

    description: One sentence for `studio capabilities`.       # optional
    turns:                                                     # one per model call of a user message
      - steps:
          - thinking: Let me look at the clock first.          # chunk, delay_ms, times as for text
          - redacted: true                                     # thinking the vendor withheld
          - text: "You said: {{message}}"
            chunk: words          # whole (default) | words | chars | a number of characters
            delay_ms: 30          # waited before each chunk
            times: 1              # say it this often
          - tool_call: {name: clock, arguments: {timezone: UTC}, id: call_1}
            delay_ms: 50          # between announcing the call and its complete arguments
          - delay_ms: 200         # silence
          - stall: true           # silence without end: the idle limit or a cancel ends it
          - usage: {input: 10, output: 5}
          - error: {code: provider_overloaded, message: Try again., retry_after: 2}
          - finish: stop          # optional; default: tool_calls after a call, length after a cut one, else stop

Turn ``n`` (from 0) answers the request that has ``n`` assistant messages after the last user message;
the last turn answers all later ones too. ``{{message}}`` is the last user message, ``{{messages}}`` all
that the user has said in the conversation, with a comma between, ``{{system}}`` the system prompt,
``{{model}}`` the script's name, ``{{tools.NAME}}`` the latest result of that tool since the last user
message and ``{{tools.NAME.KEY}}`` a member of it where it is a JSON object (empty when there is none);
they work in texts and in strings of arguments.
``arguments`` as a text is sent as it stands, so that malformed JSON can be played; ``cut: true`` plays
a call the output limit ended. ``id`` left out: a fresh one.
"""

from __future__ import annotations

import difflib
import re
import typing as t
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from providers.spec import FinishReason, ProviderErrorCode, Usage

PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_PLACEHOLDERS = ("message", "messages", "system", "model")
_TOOL_PLACEHOLDER = re.compile(r"tools(?:\.[A-Za-z0-9_-]{1,64})+")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_FINISH = t.get_args(FinishReason)
_CODES = t.get_args(ProviderErrorCode)
_USAGE = Usage.__struct_fields__
_MAX_DELAY_MS = 3_600_000
_MAX_TIMES = 1_000_000


@dataclass(frozen=True, slots=True)
class Say:
    """Text or thinking. ``chunk``: 0 whole, -1 words, else characters. ``delay_s``: seconds before each chunk."""

    thinking: bool
    template: str
    chunk: int = 0
    delay_s: float = 0.0
    times: int = 1


@dataclass(frozen=True, slots=True)
class Redacted:
    """Withheld thinking."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. ``arguments``: an object, or the raw text to send."""

    name: str
    arguments: Mapping[str, t.Any] | str
    id: str | None = None
    delay_s: float = 0.0
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Silence of ``seconds``; None: without end."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class Fail:
    """The call fails here."""

    code: ProviderErrorCode
    message: str
    retry_after: float | None = None
    status: int | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """What the vendor says was used."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Finish:
    """The vendor's finish label."""

    reason: FinishReason


Step = Say | Redacted | Call | Pause | Fail | Count | Finish


@dataclass(frozen=True, slots=True)
class Script:
    """A checked script."""

    name: str
    description: str
    turns: tuple[tuple[Step, ...], ...]


class ScriptInvalid(Exception):
    """A script breaks the schema; ``problems`` are ``(path, message)``, all of them."""

    def __init__(self, name: str, problems: list[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        first = f"{problems[0][0]}: {problems[0][1]}" if problems[0][0] else problems[0][1]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        self.message = f'script "{name}" is not valid: {first}{more}'
        super().__init__(self.message)


def parse_script(name: str, data: t.Any) -> Script:
    """Check ``data``, the loaded YAML of script ``name``.

    :raises ScriptInvalid: with every problem.
    """
    reader = _Reader()
    script = reader.script(name, data)
    if reader.problems:
        raise ScriptInvalid(name, reader.problems)
    return script


class _Reader:
    def __init__(self) -> None:
        self.problems: list[tuple[str, str]] = []
        self._forms: Mapping[str, Callable[[Mapping[str, t.Any], str], Step | None]] = {
            "thinking": self._say,
            "text": self._say,
            "redacted": self._redacted,
            "tool_call": self._call,
            "stall": self._stall,
            "error": self._error,
            "usage": self._usage,
            "finish": self._finish,
        }

    def script(self, name: str, data: t.Any) -> Script:
        if not isinstance(data, Mapping):
            self._no("", "a script is a mapping with the key turns")
            return Script(name, "", ())
        self._keys(data, ("description", "turns"), "")
        description = self._text(data, "description", "") if "description" in data else ""
        turns = data.get("turns")
        if not isinstance(turns, list) or not turns:
            self._no("turns", "must be a list with at least one turn")
            return Script(name, description, ())
        return Script(
            name, description, tuple(self._turn(turn, f"turns[{n}]") for n, turn in enumerate(turns))
        )

    def _turn(self, turn: t.Any, path: str) -> tuple[Step, ...]:
        if not isinstance(turn, Mapping):
            self._no(path, "a turn is a mapping with the key steps")
            return ()
        self._keys(turn, ("steps",), path)
        steps = turn.get("steps")
        if not isinstance(steps, list) or not steps:
            self._no(f"{path}.steps", "must be a list with at least one step")
            return ()
        read: list[Step] = []
        for place, step in enumerate(steps):
            if read and _ends(read[-1]):
                self._no(f"{path}.steps[{place}]", "is never reached; the step before it ends the turn")
                break
            made = self._step(step, f"{path}.steps[{place}]")
            if made is not None:
                read.append(made)
        return tuple(read)

    def _step(self, step: t.Any, path: str) -> Step | None:
        if not isinstance(step, Mapping):
            self._no(path, f"a step is a mapping with one of {', '.join(self._forms)} or delay_ms")
            return None
        forms = [key for key in step if key in self._forms]
        if len(forms) > 1:
            self._no(path, f"has both {forms[0]} and {forms[1]}; make two steps of it")
            return None
        if forms:
            return self._forms[forms[0]](step, path)
        if "delay_ms" in step:
            self._keys(step, ("delay_ms",), path)
            return Pause(self._delay(step, path))
        self._keys(step, (*self._forms, "delay_ms"), path)
        if not step:
            self._no(path, "is empty")
        return None

    def _say(self, step: Mapping[str, t.Any], path: str) -> Step:
        kind = "thinking" if "thinking" in step else "text"
        self._keys(step, (kind, "chunk", "delay_ms", "times"), path)
        template = self._text(step, kind, path)
        if step[kind] == "":
            self._no(f"{path}.{kind}", "must not be empty")
        self._placeholders(template, f"{path}.{kind}")
        times = self._number(step, "times", path, 1, 1, _MAX_TIMES)
        return Say(kind == "thinking", template, self._chunk(step, path), self._delay(step, path), int(times))

    def _chunk(self, step: Mapping[str, t.Any], path: str) -> int:
        chunk = step.get("chunk", "whole")
        named = {"whole": 0, "words": -1, "chars": 1}
        if isinstance(chunk, str) and chunk in named:
            return named[chunk]
        if isinstance(chunk, int) and not isinstance(chunk, bool) and chunk >= 1:
            return chunk
        self._no(f"{path}.chunk", "must be whole, words, chars or a number of characters from 1")
        return 0

    def _redacted(self, step: Mapping[str, t.Any], path: str) -> Step:
        self._keys(step, ("redacted",), path)
        self._is_true(step, "redacted", path)
        return Redacted()

    def _stall(self, step: Mapping[str, t.Any], path: str) -> Step:
        self._keys(step, ("stall",), path)
        self._is_true(step, "stall", path)
        return Pause(None)

    def _call(self, step: Mapping[str, t.Any], path: str) -> Step | None:
        self._keys(step, ("tool_call", "delay_ms"), path)
        call, at = self._mapping(step, "tool_call", path, ("name", "arguments", "id", "cut"))
        if call is None:
            return None
        name = self._text(call, "name", at)
        if name and not _TOOL_NAME.fullmatch(name):
            self._no(f"{at}.name", 'must be 1 to 64 letters, digits, "_", "." or "-"')
        arguments = call.get("arguments", {})
        if not isinstance(arguments, (Mapping, str)):
            self._no(f"{at}.arguments", "must be a mapping, or a text to send as it stands")
            arguments = {}
        for text in _strings(arguments):
            self._placeholders(text, f"{at}.arguments")
        call_id = self._text(call, "id", at) if "id" in call else None
        cut = call.get("cut", False)
        if not isinstance(cut, bool):
            self._no(f"{at}.cut", "must be true or false")
        return Call(name, arguments, call_id, self._delay(step, path), cut is True)

    def _error(self, step: Mapping[str, t.Any], path: str) -> Step | None:
        self._keys(step, ("error",), path)
        error, at = self._mapping(step, "error", path, ("code", "message", "retry_after", "status"))
        if error is None:
            return None
        code = self._choice(error.get("code"), _CODES, f"{at}.code")
        retry_after = self._number(error, "retry_after", at, 0, 0, 86_400) if "retry_after" in error else None
        status = int(self._number(error, "status", at, 0, 100, 599)) if "status" in error else None
        return Fail(t.cast(ProviderErrorCode, code), self._text(error, "message", at), retry_after, status)

    def _usage(self, step: Mapping[str, t.Any], path: str) -> Step | None:
        self._keys(step, ("usage",), path)
        usage, at = self._mapping(step, "usage", path, _USAGE)
        if usage is None:
            return None
        counts = {key: int(self._number(usage, key, at, 0, 0, 10**12)) for key in _USAGE if key in usage}
        return Count(msgspec.convert(counts, Usage))

    def _finish(self, step: Mapping[str, t.Any], path: str) -> Step:
        self._keys(step, ("finish",), path)
        return Finish(t.cast(FinishReason, self._choice(step["finish"], _FINISH, f"{path}.finish")))

    def _no(self, path: str, message: str) -> None:
        self.problems.append((path, message))

    def _keys(self, data: Mapping[t.Any, t.Any], known: Iterable[str], path: str) -> None:
        known = tuple(known)
        for key in data:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, 1)
                hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(known)}"
                self._no(f"{path}.{key}" if path else str(key), f"unknown key; {hint}")

    def _mapping(
        self, data: Mapping[str, t.Any], key: str, path: str, known: Iterable[str]
    ) -> tuple[Mapping[str, t.Any] | None, str]:
        at = f"{path}.{key}"
        value = data.get(key)
        if not isinstance(value, Mapping):
            self._no(at, f"must be a mapping with {', '.join(known)}")
            return None, at
        self._keys(value, known, at)
        return value, at

    def _text(self, data: Mapping[str, t.Any], key: str, path: str) -> str:
        value = data.get(key)
        if isinstance(value, str):
            return value
        self._no(f"{path}.{key}" if path else key, "must be a text; put quotes around it")
        return ""

    def _number(
        self, data: Mapping[str, t.Any], key: str, path: str, default: float, low: float, high: float
    ) -> float:
        value = data.get(key, default)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high:
            return value
        self._no(f"{path}.{key}", f"must be a number from {low} to {high}")
        return default

    def _delay(self, step: Mapping[str, t.Any], path: str) -> float:
        return self._number(step, "delay_ms", path, 0, 0, _MAX_DELAY_MS) / 1000

    def _choice(self, value: t.Any, choices: tuple[str, ...], path: str) -> str:
        if value in choices:
            return str(value)
        self._no(path, f"must be one of {', '.join(choices)}")
        return choices[0]

    def _is_true(self, step: Mapping[str, t.Any], key: str, path: str) -> None:
        if step[key] is not True:
            self._no(f"{path}.{key}", "must be true; leave the step out otherwise")

    def _placeholders(self, template: str, path: str) -> None:
        for name in PLACEHOLDER.findall(template):
            if name not in _PLACEHOLDERS and not _TOOL_PLACEHOLDER.fullmatch(name):
                self._no(
                    path,
                    f"unknown placeholder {{{{{name}}}}}; there are message, messages, system, model, tools.NAME "
                    "and tools.NAME.KEY",
                )


def _ends(step: Step) -> bool:
    return isinstance(step, (Fail, Finish)) or (isinstance(step, Pause) and step.seconds is None)


def _strings(value: t.Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)

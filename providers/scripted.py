"""The ``scripted`` wire: plays a YAML script instead of calling a model.

Law of this room: deterministic and plainly named. What a script says is all that is ever said; no
address is called and no token is invented. Every wait is guarded like that of a real vendor, so a
script can be cancelled, gated and idle-limited anywhere. The schema is :mod:`providers.script_schema`.

Scripts are looked up by name: those of a folder (``STUDIO_SCRIPTS_DIR``) first, then the built-in
ones in ``providers/scripts``. A file is read again when it changed on disk.
"""

from __future__ import annotations

import json
import os
import re
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import gevent
import yaml

from providers.script_schema import (
    PLACEHOLDER,
    Call,
    Count,
    Fail,
    Finish,
    Pause,
    Redacted,
    Say,
    Script,
    ScriptInvalid,
    Step,
    parse_script,
)
from providers.spec import (
    AssistantMessage,
    Connection,
    FinishReason,
    ModelEvent,
    ModelFinished,
    ModelRequest,
    ProviderError,
    TextDelta,
    ThinkingDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolResult,
    Usage,
    UserMessage,
    Waits,
)

BUILT_IN = Path(__file__).parent / "scripts"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WORDS = re.compile(r"\s*\S+\s*")
_MAX_BYTES = 1 << 20
#: Pieces played without a wait of their own before other greenlets get a turn.
_BREATH = 16


class Scripts(Sequence[str]):
    """The names of all scripts there are, looked up when asked, and the scripts behind them.

    :param folder: gives the folder of one's own scripts, or None; asked each time.
    """

    def __init__(self, folder: Callable[[], Path | None] = lambda: None) -> None:
        self._folder = folder
        self._built_in = {path.stem: str(path) for path in BUILT_IN.glob("*.yaml")}
        self._cache: dict[str, tuple[tuple[int, int], Script]] = {}

    def names(self) -> list[str]:
        """All names, sorted."""
        folder = self._folder()
        own = {path.stem for path in folder.glob("*.yaml")} if folder and folder.is_dir() else set()
        return sorted(self._built_in.keys() | {name for name in own if _NAME.fullmatch(name)})

    def path(self, name: str) -> str | None:
        """Where script ``name`` is, or None. One's own come before built-in ones."""
        if not _NAME.fullmatch(name):
            return None
        folder = self._folder()
        # Text, not Path objects: this is asked at every request.
        if folder is not None and os.path.isfile(own := os.path.join(folder, f"{name}.yaml")):
            return own
        return self._built_in.get(name)

    def load(self, name: str) -> Script:
        """The script ``name``, from memory unless its file changed.

        :raises KeyError: there is none.
        :raises ScriptInvalid: it breaks the schema or is no YAML.
        """
        path = self.path(name)
        if path is None:
            raise KeyError(name)
        try:
            stat = os.stat(path)
            stamp = (stat.st_mtime_ns, stat.st_size)
            cached = self._cache.get(path)
            if cached is not None and cached[0] == stamp:
                return cached[1]
            script = parse_script(name, _read(path, stat.st_size))
        except (OSError, UnicodeDecodeError, ValueError, yaml.YAMLError, RecursionError) as error:
            raise ScriptInvalid(name, [("", f"cannot be read: {_one_line(error)}")]) from error
        self._cache[path] = (stamp, script)
        return script

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.path(name) is not None

    def __len__(self) -> int:
        return len(self.names())

    @t.overload
    def __getitem__(self, index: int) -> str: ...

    @t.overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self.names()[index]


class ScriptedWire:
    """Plays the script that :attr:`ModelRequest.model` names."""

    name = "scripted"

    def __init__(self, scripts: Scripts) -> None:
        self.scripts = scripts

    def stream(
        self, request: ModelRequest, connection: Connection, waits: Waits
    ) -> Iterator[list[ModelEvent]]:
        """Play one turn; see :meth:`providers.spec.Wire.stream`.

        :raises ProviderError: the script says so, cannot be read, or stalls beyond the idle limit.
        """
        try:
            script = self.scripts.load(request.model)
        except KeyError:
            raise ProviderError(
                "provider_bad_request", f'There is no script "{request.model}"; its file was removed.'
            ) from None
        except ScriptInvalid as error:
            raise ProviderError(
                "provider_bad_request", f"{error.message[0].upper()}{error.message[1:]}"
            ) from None
        with waits.idle_limit(connection.idle_s):
            yield from _Performance(request, waits).play(script)


class _Performance:
    """One turn being played."""

    def __init__(self, request: ModelRequest, waits: Waits) -> None:
        self._request = request
        self._waits = waits
        self._values = _values(request)
        self._ids: set[str] = set()
        self._usage: Usage | None = None
        self._finish: FinishReason | None = None
        self._natural: FinishReason = "stop"
        self._unbroken = 0

    def play(self, script: Script) -> Iterator[list[ModelEvent]]:
        turn = min(_turn_number(self._request), len(script.turns) - 1)
        for step in script.turns[turn]:
            for delay, events in self._pieces(step):
                self._wait(delay)
                if events:  # a pause is silence, not progress
                    self._waits.progress()
                    yield events
        self._waits.gate()
        reason = self._finish or self._natural
        yield [ModelFinished(reason, self._usage, {"script": script.name, "turn": turn}, script.name)]

    def _pieces(self, step: Step) -> Iterator[tuple[float, list[ModelEvent]]]:
        """What ``step`` says: seconds to wait, then events."""
        match step:
            case Say():
                yield from self._say(step)
            case Call():
                yield from self._call(step)
            case Redacted() if self._request.thinking != "none":
                yield 0.0, [ThinkingDelta("", True)]
            case Pause(seconds=None):
                self._stall()
            case Pause(seconds=float(seconds)):
                yield seconds, []
            case Count(usage=usage):
                self._usage = usage
            case Finish(reason=reason):
                self._finish = reason
            case Fail():
                raise ProviderError(
                    step.code,
                    step.message,
                    detail=step.message,
                    status=step.status,
                    retry_after=step.retry_after,
                )

    def _stall(self) -> t.NoReturn:
        while True:  # no progress: only the idle limit, a cancel or a deadline ends it
            self._sleep(60.0)

    def _say(self, step: Say) -> Iterator[tuple[float, list[ModelEvent]]]:
        if step.thinking and self._request.thinking == "none":
            return
        kind = ThinkingDelta if step.thinking else TextDelta
        chunks = _chunks(self._render(step.template), step.chunk)
        for _ in range(step.times):
            for chunk in chunks:
                yield step.delay_s, [kind(chunk)]

    def _call(self, step: Call) -> Iterator[tuple[float, list[ModelEvent]]]:
        call_id = step.id
        if not call_id or call_id in self._ids or call_id in self._request.used_ids:
            call_id = self._request.mint_id()
        self._ids.add(call_id)
        if step.cut:
            self._natural = "length"
        elif self._natural == "stop":
            self._natural = "tool_calls"
        started = ToolCallStarted(call_id, step.name)
        ready = self._ready(call_id, step)
        if step.delay_s:
            yield 0.0, [started]
            yield step.delay_s, [ready]
        else:
            yield 0.0, [started, ready]

    def _ready(self, call_id: str, step: Call) -> ToolCallReady:
        if isinstance(step.arguments, str):
            raw = self._render(step.arguments)
            arguments, error = _parse(raw)
        else:
            arguments, error = self._fill(step.arguments), None
            raw = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), default=str)
        if step.cut:
            return ToolCallReady(call_id, step.name, None, raw, "cut")
        return ToolCallReady(call_id, step.name, arguments, raw, error)

    def _wait(self, seconds: float) -> None:
        self._unbroken = 0 if seconds else self._unbroken + 1
        self._waits.gate()
        if seconds or self._unbroken % _BREATH == 0:
            self._sleep(seconds)

    def _sleep(self, seconds: float) -> None:
        with self._waits.wait():
            gevent.sleep(seconds)

    def _render(self, template: str) -> str:
        return _whole_characters(PLACEHOLDER.sub(lambda match: _value(self._values, match[1]), template))

    def _fill(self, value: t.Any) -> t.Any:
        if isinstance(value, str):
            return self._render(value)
        if isinstance(value, Mapping):
            return {str(key): self._fill(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._fill(item) for item in value]
        return value


def _read(path: str, size: int) -> t.Any:
    if size > _MAX_BYTES:
        raise ValueError(f"it has {size} bytes; at most {_MAX_BYTES} are read")
    return yaml.safe_load(Path(path).read_text(encoding="utf-8"))


def _since_user(request: ModelRequest) -> int:
    """Index just after the last user message."""
    for index in range(len(request.messages), 0, -1):
        if isinstance(request.messages[index - 1], UserMessage):
            return index
    return 0


def _turn_number(request: ModelRequest) -> int:
    recent = request.messages[_since_user(request) :]
    return sum(isinstance(message, AssistantMessage) for message in recent)


def _values(request: ModelRequest) -> dict[str, str]:
    said = ", ".join(message.text for message in request.messages if isinstance(message, UserMessage))
    values = {"message": "", "messages": said, "system": request.system or "", "model": request.model}
    start = _since_user(request)
    if start:
        values["message"] = t.cast(UserMessage, request.messages[start - 1]).text
    for message in request.messages[start:]:
        if isinstance(message, ToolResult):
            values[f"tools.{message.name}"] = message.content
    return values


def _value(values: Mapping[str, str], name: str) -> str:
    """What placeholder ``name`` stands for; ``tools.NAME.KEY`` looks into a JSON result."""
    if name in values or not name.startswith("tools."):
        return values.get(name, "")
    tool, *keys = name.split(".")[1:]
    try:
        found = json.loads(values.get(f"tools.{tool}", ""))
        for key in keys:
            found = found[key]
    except (ValueError, KeyError, TypeError, IndexError):
        return ""
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _chunks(text: str, size: int) -> list[str]:
    if not text:
        return []
    if size == 0:
        return [text]
    if size < 0:
        return _WORDS.findall(text) or [text]
    return [text[start : start + size] for start in range(0, len(text), size)]


def _whole_characters(text: str) -> str:
    """``text`` without lone surrogates, which YAML escapes can hold and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _parse(raw: str) -> tuple[dict[str, t.Any] | None, str | None]:
    if not raw:
        return {}, None
    try:
        value = json.loads(raw)
    except ValueError:
        return None, "invalid_json"
    return (value, None) if isinstance(value, dict) else (None, "not_an_object")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__

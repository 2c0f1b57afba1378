"""What a reader may see, as a pure function of one value.

Law of this room: fewer rights only ever lose something: an envelope, or a member of a value. Nothing is
renamed, reordered or added for anybody (property test over A ⊂ B).
"""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from app import encoding
from app.events import RunEvent, ThinkingDelta, ToolExecuting, ToolFinished, ToolStarted

#: What of a tool call everybody may see who may see that it happened (contract 3.5).
CALL_FIELDS = ("id", "name", "status", "startTime", "endTime", "duration")
#: What a time segment may hold, on every surface and for everybody (contract 3.5).
SEGMENT_FIELDS = ("type", "name", "startTime", "endTime", "duration", "toolCallId")

_PAYLOADS = ("arguments", "result")
_MAX_DEPTH = 200


@dataclass(frozen=True, slots=True)
class Rights:
    """One reader's rights.

    :ivar thinking: thinking text may be shown.
    :ivar tools: tool starts and ends may be shown live.
    :ivar payloads: arguments and results of tools may be shown where a surface has them at all.
    :ivar public: a visitor without a key: names of blocks and models, prompts, prices and what failed inside are not
        for them (contract section 8).
    """

    thinking: bool = False
    tools: bool = False
    payloads: bool = False
    public: bool = False

    @property
    def denied(self) -> frozenset[type[RunEvent]]:
        """Types of events this reader never gets."""
        return _denied(self.thinking, self.tools)


@functools.cache
def _denied(thinking: bool, tools: bool) -> frozenset[type[RunEvent]]:
    denied: set[type[RunEvent]] = set()
    if not thinking:
        denied.add(ThinkingDelta)
    if not tools:
        denied |= {ToolStarted, ToolExecuting, ToolFinished}
    return frozenset(denied)


def strip_call(call: Mapping[str, t.Any], rights: Rights) -> Mapping[str, t.Any]:
    """One entry of ``toolCalls.list`` as this reader may see it."""
    return call if rights.payloads else {key: call[key] for key in CALL_FIELDS if key in call}


def strip_segments(segments: t.Any) -> t.Any:
    """``providerTiming.timeSegments`` without thinking and payloads; anything but a list stays as it is."""
    if not isinstance(segments, (list, tuple)):
        return segments
    return [
        {key: segment[key] for key in SEGMENT_FIELDS if key in segment}
        for segment in segments
        if isinstance(segment, Mapping)
    ]


def strip_output(value: t.Any, rights: Rights) -> t.Any:
    """An output as this reader may see it: calls and time segments reduced wherever they appear.

    A mapping counts as a call when it has the members an agent's call has; a workflow that builds something
    of its own from a tool's result decides for itself what it shows.
    """
    if not rights.payloads:
        # Only plain containers can be searched: nothing may hide in an iterator or a dataclass.
        value = encoding.plain(value)
    return _strip(value, rights, 0)


def _is_call(value: Mapping[str, t.Any]) -> bool:
    return "id" in value and "name" in value and "startTime" in value and any(k in value for k in _PAYLOADS)


def _strip(value: t.Any, rights: Rights, depth: int) -> t.Any:
    if depth > _MAX_DEPTH:
        return "[unserializable]"  # what the encoder makes of a cycle or of such depth
    if isinstance(value, Mapping):
        if not rights.payloads and _is_call(value):
            return strip_call(value, rights)
        return {
            key: strip_segments(item) if key == "timeSegments" else _strip(item, rights, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_strip(item, rights, depth + 1) for item in value]
    return value

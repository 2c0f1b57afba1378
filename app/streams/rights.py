"""What a reader may see, as a pure function of one value. The one filter of all surfaces.

Law of this room: fewer rights only ever lose something: an envelope, or a member of a value. Nothing is
reordered or added for anybody (property test over A ⊂ B). Where a form needs a member that a visitor may not have, the
id of the block or a fixed text stands in its place. Values are here, events in :mod:`app.streams.public`.
"""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from app import encoding
from app.events import RunEvent, ThinkingDelta, ToolExecuting, ToolFinished, ToolStarted
from app.streams.public_texts import code_for, text_for

#: What of a tool call everybody may see who may see that it happened (contract 3.5).
CALL_FIELDS = ("id", "name", "status", "startTime", "endTime", "duration")
#: What a time segment may hold, on every surface and for everybody (contract 3.5).
SEGMENT_FIELDS = ("type", "name", "startTime", "endTime", "duration", "toolCallId")

#: What a visitor loses of a value that has all of some members, whatever else it has: what an agent ran on, what its
#: authors called those who spoke, why something was decided and by whom.
NOT_FOR_VISITORS: tuple[tuple[frozenset[str], frozenset[str]], ...] = tuple(
    (frozenset(shape.split()), frozenset(lost.split()))
    for shape, lost in (
        ("model finishReason", "model"),  # of an agent, and of each in a sequence
        ("model providerTiming", "model"),
        ("index name content", "name"),  # who spoke in a debate, or in a sequence
        ("index name vote", "name"),
        ("statements transcript", "transcript"),  # it holds the names
        ("route reason", "reason"),
        ("check passed", "check reason"),  # of a guardrail
        ("check skipped", "check reason"),
        ("decision asked", "by reason"),  # of an approval
    )
)

_PAYLOADS = ("arguments", "result")
_MAX_DEPTH = 200


@dataclass(frozen=True, slots=True)
class Rights:
    """One reader's rights.

    :ivar thinking: thinking text may be shown.
    :ivar tools: tool starts and ends may be shown live.
    :ivar payloads: arguments and results of tools may be shown where a surface has them at all; never to the public.
    :ivar public: a visitor without a key: names of blocks and models, prompts, prices and what failed inside are not
        for them (contract section 8).
    """

    thinking: bool = False
    tools: bool = False
    payloads: bool = False
    public: bool = False

    def __post_init__(self) -> None:
        if self.public:
            object.__setattr__(self, "payloads", False)

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


def strip_segments(segments: t.Any, rights: Rights) -> t.Any:
    """``providerTiming.timeSegments`` without thinking and payloads, and for visitors without the names of models;
    anything but a list stays as it is.
    """
    if not isinstance(segments, (list, tuple)):
        return segments
    return [
        {
            key: segment[key]
            for key in SEGMENT_FIELDS
            if key in segment and not (rights.public and key == "name" and segment.get("type") != "tool")
        }
        for segment in segments
        if isinstance(segment, Mapping)
    ]


def strip_usage(usage: Mapping[str, t.Any], rights: Rights) -> Mapping[str, t.Any]:
    """The usage object as this reader may see it: visitors learn counts and times, no price and no model."""
    if not rights.public:
        return usage
    found = {name: value for name, value in usage.items() if name not in ("cost", "byModel")}
    if "byBlock" in found:
        found["byBlock"] = {
            block: {name: value for name, value in share.items() if name != "cost"}
            for block, share in found["byBlock"].items()
        }
    return found


def strip_review(review: Mapping[str, t.Any], rights: Rights) -> Mapping[str, t.Any]:
    """What a person is asked, as this reader may see it: a visitor who is asked sees question and text. Of the call of
    a tool nobody sees more than its name who may not see payloads.
    """
    if not rights.public:
        return review
    known = ("kind", "tool") if review.get("kind") == "tool" else ("kind", "draft", "prompt", "reasons")
    return {name: value for name, value in review.items() if name in known}


def strip_output(value: t.Any, rights: Rights) -> t.Any:
    """An output as this reader may see it: calls and time segments reduced wherever they appear, and for visitors
    :data:`NOT_FOR_VISITORS`.

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
        hidden = _hidden(value) if rights.public else ()
        return {
            key: _strip_member(key, item, rights, depth) for key, item in value.items() if key not in hidden
        }
    if isinstance(value, (list, tuple)):
        return [_strip(item, rights, depth + 1) for item in value]
    return value


def _strip_member(key: str, item: t.Any, rights: Rights, depth: int) -> t.Any:
    if key == "timeSegments":
        return strip_segments(item, rights)
    if key == "errors" and rights.public and isinstance(item, Mapping):
        item = {name: _neutral(error) for name, error in item.items()}
    return _strip(item, rights, depth + 1)


def _neutral(error: t.Any) -> t.Any:
    """How a branch failed, as a ``parallel`` block says it; anything else as it is."""
    if not (isinstance(error, Mapping) and error.keys() == {"error", "code"}):
        return error
    code = code_for(str(error["code"]))
    return {"error": text_for(code), "code": code}


def _hidden(value: Mapping[str, t.Any]) -> set[str]:
    """The members of a value that are not for visitors."""
    hidden: set[str] = set()
    for shape, lost in NOT_FOR_VISITORS:
        if shape <= value.keys():
            hidden |= lost
    cost = value.get("cost")
    if isinstance(cost, Mapping) and {"total", "currency"} <= cost.keys():
        hidden.add("cost")
    return hidden

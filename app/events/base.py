"""What all run events share, and the envelope they travel in."""

from __future__ import annotations

import typing as t

import msgspec

ResetReason = t.Literal["tool_turn", "iteration", "fallback", "guardrail", "resumed"]


class RunEvent(msgspec.Struct, frozen=True, gc=False, tag=True, tag_field="is"):
    """Base of the union. The tag names the class where events are stored."""


class BlockInfo(msgspec.Struct, frozen=True):
    """What a projection may know of a block. ``structured``: its text is never streamed live."""

    id: str
    type: str
    name: str
    structured: bool = False


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """An event with its place (``seq`` from 1, gapless) and time (``ts``, epoch ms) in the run."""

    seq: int
    ts: int
    event: RunEvent

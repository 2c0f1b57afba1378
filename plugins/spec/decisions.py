"""What a person is asked to decide, and what they answered."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

#: What an answer says. ``expired``: nobody answered in time.
Verdict = t.Literal["approve", "edit", "reject", "expired"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a person: exactly what they are shown and exactly what then happens.

    :ivar key: names it inside the execution of the block: a tool call's id, or ``answer``.
    :ivar kind: ``answer``: a text (``draft``) is released, changed or turned down; ``tool``: a call is.
    :ivar turn: the model call it belongs to, from 0.
    :ivar tool: the tool's name; ``arguments`` are those it is called with, ``parameters`` the JSON Schema that changed
        ones have to fit.
    :ivar reasons: why a person is asked, in words. :ivar prompt: what they are asked.
    :ivar show: further values they are shown, by name.
    :ivar deadline_s: seconds after which the answer is ``expired``; None waits for ever.
    :ivar subject: what ``remember`` remembers for the thread (a tool's identity); None: it cannot be remembered.
    """

    key: str
    kind: t.Literal["answer", "tool"]
    turn: int = 0
    draft: str | None = None
    tool: str | None = None
    arguments: Mapping[str, t.Any] | None = None
    reasons: Sequence[str] = ()
    prompt: str | None = None
    show: Mapping[str, t.Any] = field(default_factory=dict)
    deadline_s: float | None = None
    subject: str | None = None
    parameters: Mapping[str, t.Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person answered to the :class:`Ask` with the same ``key``.

    :ivar text: of an ``edit`` of an answer, the new text. :ivar arguments: of an ``edit`` of a call, the new ones.
    :ivar reason: why, in their words. :ivar remember: approve the same tool for the rest of the thread.
    :ivar at: when it was accepted, epoch ms. :ivar by: who answered, as the record says it; None for nobody.
    """

    key: str
    verdict: Verdict
    at: int
    text: str | None = None
    arguments: Mapping[str, t.Any] | None = None
    reason: str | None = None
    remember: bool = False
    by: str | None = None

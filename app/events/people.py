"""Events of what people are asked, and of a run that waits for them."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from app.events.base import RunEvent


class DecisionRequested(RunEvent, frozen=True, gc=False):
    """A person has to decide, and is shown ``review``; what runs beside goes on.

    ``pause_id`` names the decision everywhere. ``review`` (contract section 6) has ``kind`` (``answer`` or
    ``tool``), ``draft`` or ``tool`` and ``arguments``, ``reasons``, and ``prompt`` where there is one. ``call`` is the
    id of the tool call that waits. ``expires_at``: epoch ms.
    """

    block: str
    pause_id: str
    review: Mapping[str, t.Any]
    call: str | None = None
    expires_at: int | None = None


class DecisionSettled(RunEvent, frozen=True, gc=False):
    """A decision was made, or its time was up, and the run has taken note of it.

    ``decision``: ``approve``, ``edit``, ``reject``, or ``expired``. ``by`` says who, for the record: a key's id, or how
    it was answered; None for nobody. ``at``: when the answer was accepted, epoch ms.
    """

    block: str
    pause_id: str
    decision: str
    at: int
    by: str | None = None
    reason: str | None = None


class RunPaused(RunEvent, frozen=True, gc=False):
    """Nothing can move before a person has decided. Not terminal; it ends the streams that are open, not the run.

    ``pauses``: (pause id, block) of the open decisions, oldest first. ``output`` is empty; ``tool_calls``, ``outputs``
    and ``usage`` are those of the run so far, as in :class:`RunCompleted`.
    """

    pauses: Sequence[tuple[str, str]]
    outputs: Mapping[str, Mapping[str, t.Any]]
    tool_calls: Mapping[str, Sequence[Mapping[str, t.Any]]]
    usage: Mapping[str, t.Any]


class RunResumed(RunEvent, frozen=True, gc=False):
    """A paused run, or one whose process has gone, goes on.

    ``human_wait_ms``: from the durable write of the pause to the acceptance of the answer; None where nobody was
    waited for.
    """

    human_wait_ms: int | None = None

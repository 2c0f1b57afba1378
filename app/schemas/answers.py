"""What people answer to what a run asks them (contract 7.2).

Law of this room: strict, as for every body. What fits the question is judged where the question is known.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import ValidationFailed
from app.schemas import derive
from app.schemas.paths import in_document_order

#: What may have become of a decision, as the API says it.
STATUSES = ("open", "answered", "expired", "cancelled")
#: Most characters of a reason.
MAX_REASON = 10_000


@dataclass(frozen=True, slots=True)
class AnswerBody:
    """Body of ``POST /api/decisions/{id}``."""

    decision: t.Literal["approve", "edit", "reject"] = dataclasses.field(metadata={"doc": "The decision."})
    text: str | None = dataclasses.field(
        default=None, metadata={"doc": "With `edit`, of a text: what is said in its place."}
    )
    arguments: Mapping[str, t.Any] | None = dataclasses.field(
        default=None, metadata={"doc": "With `edit`, of a call: what it is made with instead."}
    )
    reason: str | None = dataclasses.field(
        default=None,
        metadata={"doc": "Why. Of a call that is rejected, the model is told.", "most": MAX_REASON},
    )
    remember: bool = dataclasses.field(
        default=False,
        metadata={"doc": "With `approve` or `edit`, of a call: approve its tool for the rest of the thread."},
    )


@dataclass(frozen=True, slots=True)
class ResumeBody(AnswerBody):
    """Body of ``POST /api/runs/{id}/resume``."""

    pause_id: str | None = dataclasses.field(
        default=None,
        metadata={
            "key": "pauseId",
            "doc": "Which question is answered; needed when several are open.",
            "most": 255,
        },
    )


_Body = t.TypeVar("_Body", AnswerBody, ResumeBody)


def load_answer(kind: type[_Body], body: Mapping[str, t.Any]) -> _Body:
    """An answer as it was sent.

    :raises ValidationFailed: 400 with every problem.
    """
    parsed, problems = derive.load(kind, body, null_unset=False)
    if parsed is None:
        raise ValidationFailed(in_document_order(body, problems))
    return parsed

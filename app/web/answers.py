"""Answering what a run asks people, for every surface on which that can be done.

Law of this room: every check comes before the one write that decides, and of many answers that write lets exactly one
through; the others are told who was first, and when. It knows no request: who may answer is judged before.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from dataclasses import dataclass

from app.clock import rfc3339
from app.errors import ApiError, Problem, ValidationFailed
from app.schemas import json_schema
from app.schemas.answers import AnswerBody
from app.web.errors import not_found

if t.TYPE_CHECKING:
    from app.store import Store
    from app.store.checkpoints import DecisionRow


@dataclass(frozen=True, slots=True)
class Names:
    """What a surface calls the parts of an answer, for its messages."""

    pause: str = "pauseId"
    text: str = "text"
    arguments: str = "arguments"


OURS = Names()


def open_decision(store: Store, run_id: str, pause_id: str | None, names: Names = OURS) -> DecisionRow:
    """The question of a run that an answer is for.

    :param pause_id: as the caller named it: its id, or that of the call it is about; None: the one there is.
    :raises ApiError: 404 the run has no such question; 409 ``not_paused`` nothing is asked, ``several_pauses`` more
        than one is and none was named, ``already_answered`` or ``decision_expired`` it is not open any more.
    """
    if pause_id is not None:
        row = _named(store, run_id, pause_id, names)
        if row.state != "open":
            raise closed(row)
        return row
    asked = store.decisions.open_of_run(run_id)
    if len(asked) > 1:
        raise _several(asked, names.pause)
    if asked:
        return asked[0]
    known = [row for row in store.decisions.of_run(run_id) if row.state in ("answered", "expired")]
    if known:
        raise closed(known[-1])
    raise _not_paused(run_id, store.runs.status(run_id))


def _named(store: Store, run_id: str, name: str, names: Names) -> DecisionRow:
    row = store.decisions.get(name)
    if row is not None and row.run_id == run_id:
        return row
    about = [row for row in store.decisions.of_run(run_id) if _is_call(row) and row.key == name]
    still = [row for row in about if row.state == "open"]
    if len(still) > 1:  # several blocks called their calls so
        raise _several(still, names.pause)
    if not about:
        raise not_found("decision", name)
    return (still or about)[-1]


def check(row: DecisionRow, body: AnswerBody, names: Names = OURS) -> None:
    """Judge whether an answer fits its question.

    :raises ValidationFailed: 400 with every problem.
    """
    problems = [*_fitting(row, body, names), *_edited(row, body, names)]
    if problems:
        raise ValidationFailed(problems)


def give(store: Store, row: DecisionRow, body: AnswerBody, by: str) -> DecisionRow:
    """Answer a question that :func:`open_decision` found and :func:`check` let through. It is durable afterwards; the
    run has yet to be told.

    :param by: who, for the record.
    :returns: the question, answered.
    :raises ApiError: 409: somebody was faster, or its time is up.
    """
    won, now = store.decisions.answer(row.id, stored(body), by, remember=body.remember)
    if now is None:
        raise not_found("decision", row.id)
    if not won:
        raise closed(now)
    return now


def stored(body: AnswerBody) -> dict[str, t.Any]:
    """An answer as it is kept, by the names of the API; what was not said is not in it."""
    said: dict[str, t.Any] = {
        "decision": body.decision,
        "text": body.text,
        "arguments": body.arguments,
        "reason": body.reason,
        "remember": body.remember or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def body_of(row: DecisionRow) -> dict[str, t.Any]:
    """A decision as the API says it."""
    body: dict[str, t.Any] = {
        "id": row.id,
        "status": row.state,
        "runId": row.run_id,
        "threadId": row.thread_id,
        "workflowId": row.workflow_id,
        "blockId": row.node,
        "toolCallId": row.key if row.review.get("kind") == "tool" else None,
        "review": row.shown,
        "parameters": row.parameters,
        "canRemember": True if row.subject is not None and row.thread_id is not None else None,
        "createdAt": rfc3339(row.created_at),
        "expiresAt": _instant(row.expires_at),
        "answer": row.told or None,
        "answeredBy": row.answered_by,
        "answeredAt": _instant(row.answered_at) if row.state == "answered" else None,
    }
    return {name: value for name, value in body.items() if value is not None}


def _instant(ms: int | None) -> str | None:
    return None if ms is None else rfc3339(ms)


def closed(row: DecisionRow) -> ApiError:
    """The error for a question that is not open any more."""
    at = "" if row.answered_at is None else rfc3339(row.answered_at)
    if row.state == "answered":
        verdict = str((row.answer or {}).get("decision", ""))
        message = (
            f"The decision '{row.id}' was answered already: {verdict}, by {row.answered_by}, at {at}. "
            f"See: GET /api/decisions/{row.id}"
        )
        details = [
            Problem("decision", verdict),
            Problem("answeredBy", str(row.answered_by)),
            Problem("answeredAt", at),
        ]
        return ApiError(409, "already_answered", message, details)
    if row.state == "expired":  # it was up when it was up, not when somebody saw to it
        at = at if row.expires_at is None else rfc3339(row.expires_at)
        message = f"The time for the decision '{row.id}' was up at {at}; the run goes on without it."
        return ApiError(409, "decision_expired", message, [Problem("expiredAt", at)])
    return ApiError(409, "not_paused", f"Nothing waits for the decision '{row.id}' any more.")


def _not_paused(run_id: str, status: str | None) -> ApiError:
    message = f"The run '{run_id}' asks nobody anything. See: GET /api/runs/{run_id}"
    return ApiError(409, "not_paused", message, [] if status is None else [Problem("status", status)])


def _several(asked: t.Sequence[DecisionRow], names: str) -> ApiError:
    ids = ", ".join(row.id for row in asked)
    message = f"{len(asked)} decisions are open: {ids}. Say in {names} which one this answers."
    details = [Problem(names, row.id) for row in asked]
    return ApiError(409, "several_pauses", message, details)


def _fitting(row: DecisionRow, body: AnswerBody, names: Names) -> Iterator[Problem]:
    other = "text" if _is_call(row) else "arguments"
    if getattr(body, other) is not None:
        wanted = names.arguments if _is_call(row) else names.text
        yield Problem(getattr(names, other), f"this decision is about {_about(row)}; with edit send {wanted}")
    for name in ("text", "arguments"):
        if body.decision != "edit" and name != other and getattr(body, name) is not None:
            yield Problem(
                getattr(names, name), f'goes with "decision": "edit" only, not with {body.decision}'
            )
    if not body.remember:
        return
    if body.decision == "reject":
        yield Problem("remember", "goes with approve or edit only")
    elif row.subject is None:
        yield Problem("remember", "this decision cannot be remembered; leave it out")
    elif row.thread_id is None:
        yield Problem("remember", "the run is in no thread to remember it for; leave it out")


def _is_call(row: DecisionRow) -> bool:
    return row.review.get("kind") == "tool"


def _about(row: DecisionRow) -> str:
    return "a call of a tool" if _is_call(row) else "a text"


def _edited(row: DecisionRow, body: AnswerBody, names: Names) -> Iterator[Problem]:
    if body.decision != "edit":
        return
    if not _is_call(row):
        if body.text is None:
            yield Problem(names.text, "is missing; edit says what stands in the place of the text")
        return
    if body.arguments is None:
        yield Problem(names.arguments, "is missing; edit says with which arguments the call is made")
        return
    schema = row.parameters
    if schema is not None:
        for where, message in json_schema.checker(schema).problems(body.arguments):
            dot = "." if where and not where.startswith("[") else ""
            yield Problem(f"{names.arguments}{dot}{where}", message)

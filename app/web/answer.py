"""The JSON answer of a caller who waits (contract 3.4). Pure: the end of a run in, a body out.

Law of this room: once a run id exists the answer is 200 and a failure is in band. A run that waits for people is no
failure: the answer says how it goes on.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Sequence

from app import encoding
from app import events as ev
from app.engine import settle
from app.errors import RunError
from app.streams.final import RUNS_URL, joined, output_bytes, output_so_far, resume_of
from app.streams.public import seen
from app.streams.rights import Rights

if t.TYPE_CHECKING:
    from app.streams.final import Selection

_Event = t.TypeVar("_Event", bound=ev.RunEvent)


def answer_body(
    run_id: str, end: ev.Terminal, selections: Sequence[Selection] | None, rights: Rights
) -> bytes:
    """The answer as JSON.

    :param selections: what the caller selected; None for the run's output.
    :param rights: the caller's.
    """
    end = _seen(end, rights)
    if isinstance(end, ev.RunCompleted):
        try:
            output = output_bytes(run_id, end, selections, rights)
        except RunError as error:
            failure = {"code": error.code, "message": error.message}
            return _failure(run_id, "failed", failure, end.usage)
        return _success(run_id, end, output)
    code, message = settle.reason(end)
    failure = {"code": code, "message": message}
    if isinstance(end, ev.RunFailed) and end.block is not None:
        failure["blockId"] = end.block
    return _failure(run_id, settle.status_of(end), failure, settle.usage_of(end))


def paused_body(
    run_id: str,
    thread_id: str,
    pause: ev.RunPaused,
    asked: Iterable[ev.DecisionRequested],
    selections: Sequence[Selection] | None,
    rights: Rights,
    runs_url: str = RUNS_URL,
) -> bytes:
    """The answer of a run that waits for people, as JSON.

    :param thread_id: empty for a run in no thread. :param asked: its open decisions. See :func:`answer_body`.
    :param runs_url: where the caller finds runs.
    """
    pause = _seen(pause, rights)
    return joined(
        [
            (b"success", b"true"),
            (b"runId", encoding.dumps(run_id)),
            (b"status", b'"paused"'),
            (b"output", output_so_far(run_id, pause, selections, rights)),
            (b"usage", encoding.dumps(pause.usage)),
            (b"resume", encoding.dumps(resume_of(run_id, thread_id, pause, asked, runs_url))),
        ]
    )


def _seen(event: _Event, rights: Rights) -> _Event:
    """An end, or a pause, as the caller may see it: nobody is left without one."""
    return t.cast(_Event, seen(event, rights))


def _success(run_id: str, end: ev.RunCompleted, output: bytes) -> bytes:
    members = [
        (b"success", encoding.dumps(end.success)),
        (b"runId", encoding.dumps(run_id)),
        (b"status", b'"completed"'),
        (b"output", output),
    ]
    if not end.success:
        failure = {"code": "block_failed", "message": end.error or "The run failed."}
        members.append((b"error", encoding.dumps(failure)))
    members.append((b"usage", encoding.dumps(end.usage)))
    return joined(members)


def _failure(run_id: str, status: str, error: dict[str, str], usage: t.Mapping[str, t.Any]) -> bytes:
    return encoding.dumps(
        {"success": False, "runId": run_id, "status": status, "error": error, "usage": usage}
    )

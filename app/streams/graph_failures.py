"""What a turn that came to no answer is called on the graph surface: in the frame ``error``, and as an HTTP status.

Law of this room: pure, one table; ``retryable`` says that the same message may well succeed a little later.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from app import events as ev

#: Codes of failures that pass.
_PASSING = frozenset(
    {
        "provider_bad_stream",
        "provider_idle",
        "provider_overloaded",
        "provider_rate_limited",
        "provider_unavailable",
        "worker_lost",
    }
)
#: Codes of the model's side without its prefix, and of time that ran out inside of the run.
_MODEL = frozenset({"context_length_exceeded", "content_filtered"})
_TIME = frozenset({"block_timeout", "workflow_timeout"})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a turn came to no answer.

    :ivar code: stable. :ivar retryable: the same message may well succeed a little later.
    :ivar status: of the JSON answer.
    """

    code: str
    message: str
    retryable: bool
    status: int

    def body(self) -> dict[str, t.Any]:
        """The data of the frame."""
        return {"code": self.code, "message": self.message, "retryable": self.retryable}


def failure_of(event: ev.Terminal) -> Failure:
    """What an end that is no completion is called."""
    if isinstance(event, ev.RunFailed):
        return Failure(event.code, event.message, event.code in _PASSING, _status(event.code))
    if isinstance(event, ev.RunTimedOut):
        return Failure("timed_out", ev.TIMEOUT_TEXT, True, 504)
    assert isinstance(event, ev.RunCancelled)
    shutdown = event.cause == "server_shutdown"
    # A stop is somebody's wish, not a fault: it is in conflict with that of the caller who waits.
    return Failure("cancelled", ev.cancel_text(event.cause), shutdown, 503 if shutdown else 409)


def _status(code: str) -> int:
    if code.startswith("provider_") or code in _MODEL:
        return 502
    return 504 if code in _TIME else 500

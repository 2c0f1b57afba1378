"""The JSON answer of a caller who waits (contract 3.4).

Law of this room: once a run id exists the answer is 200 and a failure is in band.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from app import encoding
from app import events as ev
from app.errors import RunError
from app.streams.final import output_bytes
from app.streams.rights import Rights

if t.TYPE_CHECKING:
    from app.streams.final import Selection


class Waiter:
    """A subscriber that keeps only the end of the run.

    :param selections: what the caller selected; None for the run's output.
    :param rights: what the caller may see of tool payloads.
    """

    def __init__(self, run_id: str, selections: Sequence[Selection] | None, rights: Rights) -> None:
        self._run_id = run_id
        self._selections = selections
        self._rights = rights
        self._terminal: ev.Terminal | None = None

    def deliver(self, envelope: ev.Envelope) -> None:
        """See ``app.engine.emitter.Subscriber``."""
        if isinstance(envelope.event, ev.Terminal):
            self._terminal = envelope.event

    def flush(self) -> None:
        """See ``app.engine.emitter.Subscriber``."""

    def body(self) -> bytes:
        """The answer as JSON; to be asked for once the run is done."""
        event = self._terminal
        if isinstance(event, ev.RunCompleted):
            try:
                output = output_bytes(event, self._selections, self._rights)
            except RunError as error:
                return self._failure("failed", {"code": error.code, "message": error.message}, event.usage)
            return self._success(event, output)
        if isinstance(event, ev.RunFailed):
            failure = {"code": event.code, "message": event.message}
            if event.block is not None:
                failure["blockId"] = event.block
            return self._failure("failed", failure, event.usage)
        if isinstance(event, ev.RunTimedOut):
            failure = {"code": "timed_out", "message": ev.TIMEOUT_TEXT}
            return self._failure("timed_out", failure, event.usage)
        if isinstance(event, ev.RunCancelled):
            failure = {"code": "cancelled", "message": ev.cancel_text(event.cause)}
            return self._failure("cancelled", failure, event.usage)
        raise RuntimeError(f"run {self._run_id} is done without a terminal event")

    def _success(self, event: ev.RunCompleted, output: bytes) -> bytes:
        members = [
            (b"success", encoding.dumps(event.success)),
            (b"runId", encoding.dumps(self._run_id)),
            (b"status", b'"completed"'),
            (b"output", output),
        ]
        if not event.success:
            failure = {"code": "block_failed", "message": event.error or "The run failed."}
            members.append((b"error", encoding.dumps(failure)))
        members.append((b"usage", encoding.dumps(event.usage)))
        # Joined by hand: the output may be megabytes and is encoded once, for its size and for the wire.
        return b"{%b}" % b",".join(b'"%b":%b' % member for member in members)

    def _failure(self, status: str, error: dict[str, str], usage: t.Mapping[str, t.Any]) -> bytes:
        return encoding.dumps(
            {"success": False, "runId": self._run_id, "status": status, "error": error, "usage": usage}
        )

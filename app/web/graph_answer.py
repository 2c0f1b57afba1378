"""The JSON answer of the graph surface: a reader that keeps what the last frame of the stream would say.

Law of this room: it listens to the same projection as a stream, so that both are the same bytes. A turn that came to
no answer has a status of its own here, for nothing was sent yet.
"""

from __future__ import annotations

import typing as t

from flask import Response

from app.events import Envelope
from app.streams.graph_events import GraphEvents
from app.streams.graph_failures import Failure
from app.streams.replay import Replay
from app.web import waiting
from app.web.http import json_response, request_id

if t.TYPE_CHECKING:
    from app.engine.run import Run
    from app.engine.run_log import RunLog

#: Seconds after which who was told to come back may do so.
_AGAIN_S = "1"


class Listener:
    """Waits for the end of a turn. The emitter's ``Subscriber`` protocol.

    :param projection: of the caller.
    """

    def __init__(self, projection: GraphEvents, run_id: str) -> None:
        self._projection = projection
        self._run_id = run_id

    def deliver(self, envelope: Envelope) -> None:
        """Hear it."""
        self._projection.frames(envelope)

    def flush(self) -> None:
        """Nothing is sent before the end."""

    def catch_up(self, run: Run, after: int) -> None:
        """Hear what a run has said before, and count as a reader of what follows.

        :param after: number of the last event before it went on.
        """
        run.add_reader(self)
        self.hear(run.log, after)
        run.follow(self)

    def hear(self, log: RunLog, after: int) -> None:
        """Hear what a log has; see :meth:`catch_up`."""
        replay = Replay(0, after)
        while replay.cursor < log.last:
            replay.next(self._projection, log)

    def answer(self, run: Run) -> Response:
        """The answer, once there is one. A caller who leaves counts as a reader who has left."""
        if not waiting.waited(run, self):
            return waiting.nobody()
        return self.heard(run.request.thread_id)

    def heard(self, thread_id: str | None) -> Response:
        """The answer by what was heard."""
        found = self._projection
        if found.failure is not None:
            response = self._failed(found.failure)
        elif found.response is not None:
            response = Response(found.response, content_type="application/json")
        else:
            response = goes_on(self._run_id, thread_id)
        response.headers["X-Run-Id"] = self._run_id
        return response

    def _failed(self, failure: Failure) -> Response:
        error = {**failure.body(), "requestId": request_id()}
        response = json_response({"error": error, "run_id": self._run_id}, failure.status)
        if failure.status == 503:
            response.headers["Retry-After"] = _AGAIN_S
        return response


def goes_on(run_id: str, thread_id: str | None) -> Response:
    """202: the turn goes on without this caller, who may look for it."""
    where = f"/api/runs/{run_id}"
    body = {
        "thread_id": thread_id or "",
        "run_id": run_id,
        "status": "running",
        "status_url": where,
        "events_url": f"{where}/events?protocol=graph",
    }
    response = json_response(body, 202)
    response.headers["X-Run-Id"] = run_id
    return response

"""Where the frames of ``studio run`` come from: this process, or a server.

Law of this room: both speak agent events, as bytes; neither knows how they are shown. A source puts
what it reads on a queue and None at the end, so that an interrupt is one more thing to read.
"""

from __future__ import annotations

import http.client
import typing as t
from urllib.parse import quote

from gevent.queue import SimpleQueue

from app.cli.remote import Server, refusal
from app.engine.scope import spawn_service
from app.events import RunPaused
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.replay import Replay
from app.streams.rights import Rights

if t.TYPE_CHECKING:
    from app.engine.catalog import Runnable
    from app.engine.run import Run
    from app.engine.services import Services
    from app.events import Envelope
    from app.workflows.compiled import CompiledWorkflow

Queue: t.TypeAlias = "SimpleQueue[t.Any]"

#: Who answered in a terminal, for the record.
BY = "cli"
_ALL = Rights(thinking=False, tools=True, payloads=True)


class Source(t.Protocol):
    """One run. ``run_id`` is known once :meth:`start` returned."""

    run_id: str
    #: It is a server's.
    remote: bool

    def start(self, queue: Queue) -> bool:
        """Begin; bytes go on the queue as they come, None when the stream is over.

        :returns: False when nothing follows here: another process goes on with the run.
        """

    def stop(self) -> None:
        """Ask the run to end; its last frames still come."""

    def asked(self) -> list[dict[str, t.Any]]:
        """What the run, which is paused, asks people; as the API says it, oldest first."""

    def resume(self, answer: dict[str, t.Any], queue: Queue) -> bool:
        """Answer with a body as of ``POST /api/runs/{id}/resume``; what follows goes on the queue as at the start.

        :returns: False when another process goes on with the run, and nothing follows here.
        :raises ApiError: the answer was refused.
        """


class _QueueReader:
    """A subscriber that hands one reader's bytes to whoever prints them."""

    def __init__(self, projection: AgentEvents, queue: Queue) -> None:
        self.projection = projection
        self._queue = queue

    def deliver(self, envelope: Envelope) -> None:
        self.take(self.projection.frames(envelope))

    def take(self, frames: bytes) -> None:
        """Hand on what the projection gave."""
        if frames:
            self._queue.put(frames)
        if self.projection.done:
            self._queue.put(None)

    def flush(self) -> None:
        """Nothing waits here."""


class Stored:
    """A run of this store that was answered, inside this process, by the server's own engine and projection."""

    remote = False

    def __init__(self, services: Services, run_id: str, rights: Rights = _ALL) -> None:
        self._services = services
        self._rights = rights
        self._run: Run | None = None
        self.run_id = run_id

    def start(self, queue: Queue) -> bool:
        """See :class:`Source`."""
        return self.go_on(queue)

    def _reader(self, queue: Queue, workflow: CompiledWorkflow) -> _QueueReader:
        options = AgentEventsOptions(
            run_id=self.run_id,
            negotiated=True,
            separator=False,
            rights=self._rights,
            answer_blocks=workflow.answer_agents(),
        )
        return _QueueReader(AgentEvents(options), queue)

    def stop(self) -> None:
        """See :class:`Source`."""
        if self._run is not None:
            self._run.cancel("stop_requested")

    def asked(self) -> list[dict[str, t.Any]]:
        """See :class:`Source`."""
        from app.web import answers

        rows = self._services.store.decisions.open_of_run(self.run_id)
        return [answers.body_of(row) for row in rows]

    def resume(self, answer: dict[str, t.Any], queue: Queue) -> bool:
        """See :class:`Source`."""
        from app.schemas.answers import ResumeBody, load_answer
        from app.web import answers

        store, body = self._services.store, load_answer(ResumeBody, answer)
        row = answers.open_decision(store, self.run_id, body.pause_id)
        answers.check(row, body)
        answers.give(store, row, body, BY)
        return self.go_on(queue)

    def go_on(self, queue: Queue) -> bool:
        """Go on with the run, which was answered; as :meth:`resume`."""
        run = self._services.runs.go_on(self.run_id)
        if run is None:
            return False
        self._run = run
        paused = [envelope.seq for envelope in run.log if isinstance(envelope.event, RunPaused)]
        reader, replay = self._reader(queue, run.request.workflow), Replay(0, max(paused, default=0))
        while replay.cursor < run.log.last:  # without a switch, so that nothing comes in between
            reader.take(replay.next(reader.projection, run.log))
        run.attach(reader)
        return True

    def wait(self) -> None:
        """Return once the run's record is stored."""
        if self._run is not None:
            self._run.done.wait()


class Local(Stored):
    """A new run inside this process."""

    def __init__(
        self, services: Services, found: Runnable, run_input: t.Any, *, thinking: bool, tools: bool
    ) -> None:
        super().__init__(services, services.clock.new_id("run"), Rights(thinking, tools, payloads=True))
        self._found = found
        self._input = run_input

    def start(self, queue: Queue) -> bool:
        """See :class:`Source`."""
        from app.engine.registry import RunRequest

        workflow = self._found.workflow
        request = RunRequest(
            run_id=self.run_id,
            workflow_id=self._found.workflow_id,
            version=self._found.version,
            workflow=workflow,
            input=self._input,
            timeout_s=workflow.settings.timeout_s,
            on_disconnect=workflow.settings.on_disconnect,
            show_thinking=self._rights.thinking,
            origin={
                "surface": "cli",
                "negotiated": True,
                "separator": False,
                "includeThinking": self._rights.thinking,
                "includeToolCalls": self._rights.tools,
            },
        )
        self._run = self._services.runs.start(request, (self._reader(queue, workflow),))
        return True


class Remote:
    """A run on a server, over HTTP."""

    remote = True

    def __init__(
        self, server: Server, workflow_id: str, run_input: t.Any, *, thinking: bool, tools: bool
    ) -> None:
        self._server = server
        self._path = f"/api/workflows/{quote(workflow_id, safe='')}/execute"
        self._body: dict[str, t.Any] = {"input": run_input, "stream": True}
        if thinking:
            self._body["includeThinking"] = True
        if tools:
            self._body["includeToolCalls"] = True
        self.run_id = ""

    def start(self, queue: Queue) -> bool:
        """See :class:`Source`.

        :raises ApiError: the server's own refusal.
        :raises StudioError: it cannot be reached.
        """
        self.run_id = self._follow(self._path, self._body, queue).headers.get("X-Run-Id", "")
        return True

    def stop(self) -> None:
        """See :class:`Source`."""
        spawn_service(self._cancel)

    def asked(self) -> list[dict[str, t.Any]]:
        """See :class:`Source`."""
        path = f"/api/decisions?status=open&runId={quote(self.run_id, safe='')}"
        return list(reversed(self._server.ask("GET", path)["items"]))

    def resume(self, answer: dict[str, t.Any], queue: Queue) -> bool:
        """See :class:`Source`."""
        self._follow(f"/api/runs/{quote(self.run_id, safe='')}/resume", answer, queue)
        return True

    def _follow(self, path: str, body: t.Any, queue: Queue) -> http.client.HTTPResponse:
        response = self._server.send("POST", path, body)
        if response.status != 200:
            raise refusal(response)
        spawn_service(self._read, response, queue)
        return response

    def _cancel(self) -> None:
        self._server.send("POST", f"/api/runs/{quote(self.run_id, safe='')}/cancel", {}).read()

    @staticmethod
    def _read(response: http.client.HTTPResponse, queue: Queue) -> None:
        try:
            while piece := response.read1(65536):
                queue.put(piece)
        except (OSError, http.client.HTTPException):
            pass  # cut: whoever reads the queue has seen no terminal frame and says so
        finally:
            queue.put(None)

"""Where the frames of ``studio run`` come from: this process, or a server.

Law of this room: both speak agent events, as bytes; neither knows how they are shown. A source puts
what it reads on a queue and None at the end, so that an interrupt is one more thing to read.
"""

from __future__ import annotations

import http.client
import typing as t
from urllib.parse import quote, urlsplit

from gevent.queue import SimpleQueue

from app import encoding
from app.engine.scope import spawn_service
from app.errors import ApiError, Problem, StudioError
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.rights import Rights
from app.web.negotiation import HEADER_LINE

if t.TYPE_CHECKING:
    from app.engine.run import Run
    from app.engine.services import Services
    from app.events import Envelope
    from app.web.catalog import Runnable

Queue: t.TypeAlias = "SimpleQueue[t.Any]"

_CONNECT_S = 10.0


class Source(t.Protocol):
    """One run. ``run_id`` is known once :meth:`start` returned."""

    run_id: str

    def start(self, queue: Queue) -> None:
        """Begin; bytes go on the queue as they come, None when the stream is over."""

    def stop(self) -> None:
        """Ask the run to end; its last frames still come."""


class _QueueReader:
    """A subscriber that hands one reader's bytes to whoever prints them."""

    def __init__(self, projection: AgentEvents, queue: Queue) -> None:
        self._projection = projection
        self._queue = queue

    def deliver(self, envelope: Envelope) -> None:
        frames = self._projection.frames(envelope)
        if frames:
            self._queue.put(frames)
        if self._projection.done:
            self._queue.put(None)

    def flush(self) -> None:
        """Nothing waits here."""


class Local:
    """A run inside this process, by the server's own engine and projection."""

    def __init__(
        self, services: Services, found: Runnable, run_input: t.Any, *, thinking: bool, tools: bool
    ) -> None:
        self._services = services
        self._found = found
        self._input = run_input
        self._rights = Rights(thinking, tools, payloads=True)
        self._run: Run | None = None
        self.run_id = services.clock.new_id("run")

    def start(self, queue: Queue) -> None:
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
        )
        options = AgentEventsOptions(
            run_id=self.run_id,
            negotiated=True,
            separator=False,
            rights=self._rights,
            answer_blocks=workflow.answer_agents(),
        )
        reader = _QueueReader(AgentEvents(options), queue)
        self._run = self._services.runs.start(request, (reader,))

    def stop(self) -> None:
        """See :class:`Source`."""
        if self._run is not None:
            self._run.cancel("stop_requested")

    def wait(self) -> None:
        """Return once the run's record is stored."""
        if self._run is not None:
            self._run.done.wait()


class Remote:
    """A run on a server, over HTTP.

    :param url: ``STUDIO_URL``; a path in it is kept.
    :param key: ``STUDIO_API_KEY``, or empty for a public workflow.
    """

    def __init__(
        self, url: str, key: str, workflow_id: str, run_input: t.Any, *, thinking: bool, tools: bool
    ) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            problem = Problem(
                "STUDIO_URL", f"'{url}' is no http or https address, such as http://127.0.0.1:8000"
            )
            raise ApiError(400, "validation_failed", problem.message, [problem])
        self._parts = parts
        self._key = key
        self._path = f"/api/workflows/{quote(workflow_id, safe='')}/execute"
        self._body: dict[str, t.Any] = {"input": run_input, "stream": True}
        if thinking:
            self._body["includeThinking"] = True
        if tools:
            self._body["includeToolCalls"] = True
        self.run_id = ""

    def start(self, queue: Queue) -> None:
        """See :class:`Source`.

        :raises ApiError: the server's own refusal.
        :raises StudioError: it cannot be reached.
        """
        response = self._send(self._path, self._body)
        if response.status != 200:
            raise _refusal(response)
        self.run_id = response.headers.get("X-Run-Id", "")
        spawn_service(self._read, response, queue)

    def stop(self) -> None:
        """See :class:`Source`."""
        spawn_service(self._cancel)

    def _cancel(self) -> None:
        self._send(f"/api/runs/{quote(self.run_id, safe='')}/cancel", {}).read()

    def _send(self, path: str, body: t.Any) -> http.client.HTTPResponse:
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        host = t.cast(str, self._parts.hostname)
        connection = kind(host, self._parts.port, timeout=_CONNECT_S)
        name, _, value = HEADER_LINE.partition(": ")
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", name: value}
        if self._key:
            headers["X-API-Key"] = self._key
        try:
            connection.connect()
            connection.sock.settimeout(None)  # a model may think for as long as the run may last
            connection.request("POST", self._parts.path.rstrip("/") + path, encoding.dumps(body), headers)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            address = f"{self._parts.scheme}://{self._parts.netloc.rpartition('@')[2]}"
            message = f"No answer from {address} (STUDIO_URL): {error}. Is the server running? studio serve"
            raise StudioError("unreachable", message) from None

    @staticmethod
    def _read(response: http.client.HTTPResponse, queue: Queue) -> None:
        try:
            while piece := response.read1(65536):
                queue.put(piece)
        except (OSError, http.client.HTTPException):
            pass  # cut: whoever reads the queue has seen no terminal frame and says so
        finally:
            queue.put(None)


def _refusal(response: http.client.HTTPResponse) -> ApiError:
    try:
        error = encoding.loads(response.read())["error"]
        details = [Problem(d["path"], d["message"]) for d in error.get("details", ())]
        return ApiError(response.status, error["code"], error["message"], details)
    except (ValueError, KeyError, TypeError, http.client.HTTPException):
        message = f"The server answered {response.status} {response.reason} and no error of ours."
        return ApiError(response.status, "unreachable", f"{message} Does STUDIO_URL point at a Studio?")

"""The spans of one run, made of its events: the run, its blocks, who speaks in them, model calls, tools.

Law of this room: every parent is named, since a greenlet knows no current span. What is not told by the stream, a span
does not tell either; without :class:`Content` there is no text in it, and never a word or a figure of a single voter
in a secret vote. A span begins and ends when its events say.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode

from app import events as ev
from app.engine import settle
from app.engine.observe import blocks, calls, first, names
from app.engine.observe.places import Places

if t.TYPE_CHECKING:
    from app.engine.observe.tracing import Tracing
    from app.engine.run import Run
    from plugins.spec.families import ResolvedEmbedding, ResolvedModel
    from providers.spec import ModelRequest

_MS = 1_000_000


class Opened:
    """A span that has not ended. ``began``: epoch ms. ``context`` is what its children are given."""

    __slots__ = ("began", "context", "span", "type")

    def __init__(self, span: trace.Span, began: int, type: str = "") -> None:
        self.span = span
        self.began = began
        self.type = type
        self.context = trace.set_span_in_context(span, Context())


class RunSpans:
    """See the module.

    :ivar recording: whether the sampler wants this run.
    """

    def __init__(self, tracing: Tracing, run: Run) -> None:
        self.content = tracing.content
        if self.content is not None and run.redaction is not None:
            self.content = self.content.within(run.redaction)
        self._tracer = tracing.tracer
        self._run = run
        self.now_ms = run.services.clock.now_ms
        self._places = Places(run.request.workflow)
        #: What every span says, so that each is found by it.
        self._common = {"studio.run.id": run.id}
        if run.request.thread_id is not None:
            self._common[names.CONVERSATION] = run.request.thread_id
        self._root = Opened(first.span(tracing, run, self._common, self.content), self.now_ms())
        self._blocks: dict[str, Opened] = {}
        self._speakers: dict[str, Opened] = {}
        self._tools: dict[tuple[str, str], Opened] = {}
        self._calls: dict[str, calls.CallSpan] = {}
        self._over = False
        self.recording = self._root.span.is_recording()

    # -- for the observer --------------------------------------------------------------------

    def deliver(self, envelope: ev.Envelope) -> None:
        """Take an event."""
        handle = _HANDLERS.get(type(envelope.event))
        if handle is not None and not self._over:
            handle(self, envelope.ts, envelope.event)

    def model_call(
        self, block: str, model: ResolvedModel | ResolvedEmbedding, request: ModelRequest | None
    ) -> calls.CallSpan:
        """An attempt at a model call begins; one that follows a failed attempt goes on in its span."""
        ts, name = self.now_ms(), f"{model.family.id}/{model.model}"
        call = self._calls.get(block)
        if call is not None and call.failed and call.model == name:
            return call.again(ts)
        self._end_call(block)
        at = self._speaker(block, ts)
        made = calls.begin(self, at, block, model, request, ts)
        self._calls[block] = made
        return made

    def close(self) -> None:
        """The run leaves this process without an end: end what is open."""
        if not self._over:
            ts, why = self.now_ms(), self._run.scope.cause or "handed_over"
            self._end_all(ts, why)
            self._root.span.set_attribute("studio.run.status", why)
            self._root.span.end(ts * _MS)
            self._over = True

    # -- spans -------------------------------------------------------------------------------

    def start(
        self,
        parent: Opened,
        name: str,
        ts: int,
        attributes: dict[str, t.Any],
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> trace.Span:
        """A span under another one, and not before it: instants in events are older than the event, and in a part of
        a run that goes on those of earlier parts are told.
        """
        attributes.update(self._common)
        ts = max(ts, parent.began)
        return self._tracer.start_span(name, parent.context, kind, attributes, start_time=ts * _MS)

    def _block(self, path: str, ts: int) -> Opened:
        """The span of a block; one that has begun before this part of the run is gone on with in a span of its own."""
        found = self._blocks.get(path)
        if found is None:
            state = self._run.state.blocks.get(path)
            kind, name = ("", path) if state is None else (state.type, state.name)
            found = self._open_block(
                ts, ev.BlockStarted(path, kind, name, 1 if state is None else state.execution)
            )
            found.span.set_attribute("studio.resumed", True)
        return found

    def _open_block(self, ts: int, event: ev.BlockStarted) -> Opened:
        parent = self._around(event.block, ts)
        config = self._places.config(event.block)
        name, attributes = blocks.begun(event, config)
        opened = Opened(self.start(parent, name, ts, attributes), ts, event.type)
        self._blocks[event.block] = opened
        return opened

    def _around(self, path: str, ts: int) -> Opened:
        """The span of what runs the block at ``path``."""
        for outer in self._places.around(path):
            state = self._run.state.blocks.get(outer)
            if outer in self._blocks or (state is not None and state.status == "running"):
                return self._block(outer, ts)
        return self._root

    def _speaker(self, block: str, ts: int) -> Opened:
        """What a model call or a tool of a block stands under: who speaks in it, else the block."""
        found = self._speakers.get(block)
        if found is not None:
            return found
        opened = self._block(block, ts)
        state = self._run.state.blocks.get(block)
        if state is not None and state.step is not None:  # it began before this part of the run
            return self._open_step(block, opened, state.step, ts)
        if opened.type not in blocks.COMPOSITES:
            return opened
        return self._open_speaker(block, opened, "invoke_agent", {}, ts)

    def _open_step(self, block: str, parent: Opened, step: ev.SequenceStep, ts: int) -> Opened:
        attributes = {names.AGENT: step.name, "studio.agent.index": step.index}
        return self._open_speaker(block, parent, f"invoke_agent {step.name}", attributes, ts)

    def _open_speaker(
        self, block: str, parent: Opened, name: str, attributes: dict[str, t.Any], ts: int
    ) -> Opened:
        attributes = {names.OPERATION: "invoke_agent", "studio.block.id": block, **attributes}
        made = self._speakers[block] = Opened(self.start(parent, name, ts, attributes), ts)
        return made

    def _end_speaker(self, block: str, ts: int, name: str | None = None, status: str = "executed") -> None:
        self._end_call(block)
        found = self._speakers.pop(block, None)
        if found is None:
            return
        if name is not None:
            found.span.update_name(f"invoke_agent {name}")
            found.span.set_attribute(names.AGENT, name)
        _end(found.span, ts, status)

    def _end_call(self, block: str) -> None:
        call = self._calls.pop(block, None)
        if call is not None:
            call.give_up()

    def _end_all(self, ts: int, status: str) -> None:
        """End every span but the run's, the inner ones first."""
        for block in [*self._speakers, *self._calls]:
            self._end_speaker(block, ts, status=status)
        for opened in [*self._tools.values(), *reversed(self._blocks.values())]:
            _end(opened.span, ts, status)
        self._tools.clear()
        self._blocks.clear()

    def failed(self, span: trace.Span, code: str, message: str | None) -> None:
        """A span's work failed. Without content only its code is told: a message may quote what was said."""
        span.set_attribute(names.ERROR, code)
        told = code if self.content is None or not message else self.content.text(message)
        span.set_status(Status(StatusCode.ERROR, told))

    # -- one method per event ----------------------------------------------------------------

    def _block_started(self, ts: int, event: ev.BlockStarted) -> None:
        self._open_block(ts, event)

    def _child_started(self, ts: int, event: ev.ChildStarted) -> None:
        span = self._block(event.block, ts).span
        span.update_name(f"invoke_workflow {event.workflow_id}")
        span.set_attribute(names.OPERATION, "invoke_workflow")
        span.set_attribute("studio.child.workflow.id", event.workflow_id)
        if event.version is not None:
            span.set_attribute("studio.child.workflow.version", event.version)

    def _block_finished(self, ts: int, event: ev.BlockFinished) -> None:
        if event.status == "skipped":
            span = self._around(event.block, ts).span
            span.add_event("block_skipped", {"studio.block.id": event.block}, ts * _MS)
            return
        opened = self._block(event.block, ts)
        stopped = event.code == "cancelled"
        status = "cancelled" if stopped else event.status
        self._end_speaker(event.block, ts, status=status)
        blocks.ended(opened.span, opened.type, event, self.content, ts * _MS)
        if event.status == "failed" and not stopped:
            self.failed(opened.span, event.code or "block_failed", event.message)
        del self._blocks[event.block]
        _end(opened.span, ts, status)

    def _tool_executing(self, ts: int, event: ev.ToolExecuting) -> None:
        attributes = {
            names.OPERATION: "execute_tool",
            names.TOOL: event.name,
            names.CALL_ID: event.id,
            "studio.block.id": event.block,
        }
        parent = self._speaker(event.block, ts)
        span = self.start(parent, f"execute_tool {event.name}", event.at, attributes)
        self._tools[event.block, event.id] = Opened(span, parent.began)

    def _tool_finished(self, ts: int, event: ev.ToolFinished) -> None:
        opened = self._tools.pop((event.block, event.id), None)
        if opened is None:
            opened = self._not_seen(ts, event)
        span = opened.span
        if self.content is not None:
            if event.arguments is not None:
                span.set_attribute(names.ARGUMENTS, self.content.value(event.arguments))
            span.set_attribute(names.RESULT, self.content.value(event.result))
        if event.status == "error":
            self.failed(span, "tool_error", None)
        _end(span, max(event.at, opened.began), event.status)

    def _not_seen(self, ts: int, event: ev.ToolFinished) -> Opened:
        """The span of a call whose begin was not seen: it could not be made, or an earlier part of the run made it.

        The name of one that could not be made is what the model wrote, so it may be anything.
        """
        state = self._run.state.blocks.get(event.block)
        call = None if state is None else state.calls.get(event.id)
        ran = call is not None and call.executing
        attributes: dict[str, t.Any] = {
            names.OPERATION: "execute_tool",
            names.CALL_ID: event.id,
            "studio.block.id": event.block,
            "studio.tool.executed": ran,
        }
        known = ran or self.content is not None or event.name in self._run.services.plugins.tools
        name = f"execute_tool {event.name}" if known else "execute_tool"
        if known:
            attributes[names.TOOL] = event.name
        parent = self._speaker(event.block, ts)
        return Opened(self.start(parent, name, event.started_at, attributes), parent.began)

    def _turn_ended(self, ts: int, event: ev.TurnEnded) -> None:
        if event.reason == "fallback":
            self._end_call(event.block)

    def _model_call_failed(self, ts: int, event: ev.ModelCallFailed) -> None:
        found = self._speakers.get(event.block) or self._blocks.get(event.block)
        if found is not None:
            attributes: dict[str, t.Any] = {names.REQUEST_MODEL: event.model, names.ERROR: event.code}
            if event.status is not None:
                attributes["http.response.status_code"] = event.status
            attributes["studio.attempt"] = event.attempt
            found.span.add_event("model_call_failed", attributes, ts * _MS)

    def _iteration(self, ts: int, event: ev.LoopIteration) -> None:
        if event.path == "loop":
            self._note(ts, event.block, "iteration", {"studio.iteration": event.iteration})

    def _route(self, ts: int, event: ev.RouteChosen) -> None:
        span = self._block(event.block, ts).span
        span.set_attribute("studio.route", event.route)
        if self.content is not None and event.reason:
            span.set_attribute("studio.route.reason", self.content.text(event.reason))

    def _step(self, ts: int, event: ev.SequenceStep) -> None:
        if event.phase == "start":
            self._open_step(event.block, self._block(event.block, ts), event, ts)
        else:
            self._end_speaker(event.block, ts)

    def _round(self, ts: int, event: ev.DebateRound) -> None:
        self._end_speaker(event.block, ts)
        self._note(ts, event.block, "debate_round", {"studio.round": event.round})

    def _said(self, ts: int, event: ev.AgentMessage) -> None:
        if self._block(event.block, ts).type in blocks.COMPOSITES:
            self._end_speaker(event.block, ts, event.sender)

    def _voted(self, ts: int, event: ev.VoteCast) -> None:
        if event.sender is not None:  # nobody's in a secret vote: there nobody is seen to speak
            self._end_speaker(event.block, ts, event.sender)

    def _asked(self, ts: int, event: ev.DecisionRequested) -> None:
        attributes: dict[str, t.Any] = {"studio.decision.id": event.pause_id}
        if isinstance(kind := event.review.get("kind"), str):
            attributes["studio.decision.kind"] = kind
        if event.call is not None:
            attributes[names.CALL_ID] = event.call
        self._note(ts, event.block, "decision_requested", attributes)

    def _decided(self, ts: int, event: ev.DecisionSettled) -> None:
        attributes = {"studio.decision.id": event.pause_id, "studio.decision": event.decision}
        self._note(ts, event.block, "decision_settled", attributes)

    def _paused(self, ts: int, event: ev.RunPaused) -> None:
        self._end_all(ts, "paused")
        self._root.span.set_attribute("studio.run.status", "paused")
        self._root.span.set_attribute("studio.decisions", [pause for pause, _ in event.pauses])
        self._finish(ts, event.usage)

    def _resumed(self, ts: int, event: ev.RunResumed) -> None:
        self._root.span.set_attribute("studio.resumed", True)
        if event.human_wait_ms is not None:
            self._root.span.set_attribute("studio.human_wait_ms", event.human_wait_ms)

    def _terminal(self, ts: int, event: ev.Terminal) -> None:
        status, cause = settle.status_of(event), settle.cause_of(event)
        self._end_all(ts, "cancelled" if status == "cancelled" else "failed")
        span = self._root.span
        span.set_attribute("studio.run.status", status)
        if cause is not None:
            span.set_attribute("studio.run.cause", cause)
        if isinstance(event, ev.RunFailed):
            self.failed(span, event.code, event.message)
        elif isinstance(event, ev.RunTimedOut):
            self.failed(span, "execution_timeout", None)
        elif isinstance(event, ev.RunCompleted):
            span.set_attribute("studio.run.success", event.success)
            if self.content is not None:
                span.set_attribute("studio.run.output", self.content.value(event.output))
        self._finish(ts, settle.usage_of(event))

    def _note(self, ts: int, block: str, name: str, attributes: Mapping[str, t.Any]) -> None:
        self._block(block, ts).span.add_event(name, attributes, ts * _MS)

    def _finish(self, ts: int, usage: Mapping[str, t.Any]) -> None:
        """End the run's span, with its sums: under names of ours, so that nobody counts them twice."""
        span = self._root.span
        for name, value in usage.get("tokens", {}).items():
            span.set_attribute(f"studio.usage.{name}", value)
        if (cost := usage.get("cost")) is not None:
            span.set_attribute("studio.usage.cost", cost["total"])
        for name in ("activeMs", "queuedMs", "humanWaitMs"):
            if name in usage:
                span.set_attribute(f"studio.usage.{name}", usage[name])
        span.end(ts * _MS)
        self._over = True


def _end(span: trace.Span, ts: int, status: str) -> None:
    """End a span, and say how."""
    span.set_attribute("studio.status", status)
    span.end(ts * _MS)


_HANDLERS: Mapping[type, Callable[[RunSpans, int, t.Any], None]] = {
    ev.BlockStarted: RunSpans._block_started,
    ev.ChildStarted: RunSpans._child_started,
    ev.BlockFinished: RunSpans._block_finished,
    ev.ToolExecuting: RunSpans._tool_executing,
    ev.ToolFinished: RunSpans._tool_finished,
    ev.TurnEnded: RunSpans._turn_ended,
    ev.ModelCallFailed: RunSpans._model_call_failed,
    ev.LoopIteration: RunSpans._iteration,
    ev.RouteChosen: RunSpans._route,
    ev.SequenceStep: RunSpans._step,
    ev.DebateRound: RunSpans._round,
    ev.AgentMessage: RunSpans._said,
    ev.VoteCast: RunSpans._voted,
    ev.DecisionRequested: RunSpans._asked,
    ev.DecisionSettled: RunSpans._decided,
    ev.RunPaused: RunSpans._paused,
    ev.RunResumed: RunSpans._resumed,
    ev.RunCompleted: RunSpans._terminal,
    ev.RunFailed: RunSpans._terminal,
    ev.RunCancelled: RunSpans._terminal,
    ev.RunTimedOut: RunSpans._terminal,
}

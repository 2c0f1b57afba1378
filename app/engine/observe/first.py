"""The first span of a run, or of a part of it: a paused run that goes on, or one that another process takes up.

Law of this room: its ids follow from the run's id and from how often the run was taken up, so that each part can link
to the one before, which it has never seen.
"""

from __future__ import annotations

import hashlib
import typing as t

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.clock import trace_id_of
from app.engine.observe import names

if t.TYPE_CHECKING:
    from app.engine.observe.content import Content
    from app.engine.observe.tracing import Tracing
    from app.engine.run import Run

_MS = 1_000_000


def first_span_id(run_id: str, epoch: int) -> int:
    """The id of the first span of the part of a run that began when it was taken up for the ``epoch``-th time."""
    return (
        int.from_bytes(hashlib.sha256(f"{run_id}/{epoch}".encode("utf-8", "surrogatepass")).digest()[:8]) or 1
    )


def span(tracing: Tracing, run: Run, common: dict[str, str], content: Content | None) -> trace.Span:
    """The span of a run that begins or goes on. ``common``: what every span says. ``content`` writes down its input."""
    request, epoch = run.request, 1 if run.durable is None else run.durable.keeper.epoch
    attributes: dict[str, t.Any] = {
        names.OPERATION: "invoke_workflow",
        names.AGENT: request.workflow.name,
        **common,
        "studio.workflow.id": request.workflow_id,
    }
    if request.version is not None:
        attributes["studio.workflow.version"] = request.version
    if request.thread_id is not None:
        attributes["studio.thread.id"] = request.thread_id
    if request.origin is not None and "surface" in request.origin:
        attributes["studio.surface"] = str(request.origin["surface"])
    if content is not None and epoch == 1:
        attributes["studio.run.input"] = content.value(request.input)
    trace_id = trace_id_of(run.id)
    links = [
        link for link in (_caller(request.traceparent), _before(run.id, trace_id, epoch)) if link is not None
    ]
    name, start = f"invoke_workflow {request.workflow.name}", run.services.clock.now_ms() * _MS
    return tracing.first_span(trace_id, first_span_id(run.id, epoch), name, start, attributes, links)


def _caller(traceparent: str | None) -> trace.Link | None:
    """A link to the span of whoever sent the request. Not their child: the trace id follows from the run's id."""
    if not traceparent:
        return None
    context = TraceContextTextMapPropagator().extract({"traceparent": traceparent}, Context())
    found = trace.get_current_span(context).get_span_context()
    return trace.Link(found, {"studio.link": "caller"}) if found.is_valid else None


def _before(run_id: str, trace_id: str, epoch: int) -> trace.Link | None:
    """A link to the part before."""
    if epoch < 2:
        return None
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    found = trace.SpanContext(int(trace_id, 16), first_span_id(run_id, epoch - 1), True, flags)
    return trace.Link(found, {"studio.link": "before"})

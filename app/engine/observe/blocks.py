"""What the span of a block is called and says, by the block's type.

Law of this room: names come from the document, never from what a run was given.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from opentelemetry.trace import Span

from app import events as ev
from app.engine.observe import names
from app.engine.observe.content import Content
from app.state import plain
from app.workflows.template_syntax import is_template

#: Blocks in which one agent after the other speaks. In a secret vote nobody is seen to.
COMPOSITES = frozenset({"debate", "vote"})


def begun(event: ev.BlockStarted, config: t.Any) -> tuple[str, dict[str, t.Any]]:
    """Name and attributes of a block that begins."""
    attributes: dict[str, t.Any] = {
        "studio.block.id": event.block,
        "studio.block.type": event.type,
        "studio.block.name": event.name,
    }
    if event.execution > 1:
        attributes["studio.block.execution"] = event.execution
    if event.type == "agent":
        attributes[names.OPERATION] = "invoke_agent"
        attributes[names.AGENT] = event.name
        return f"invoke_agent {event.name}", attributes
    if event.type == "retrieve":
        attributes[names.OPERATION] = "retrieval"
        collection = getattr(config, "collection", None)
        if isinstance(collection, str) and not is_template(collection):
            attributes[names.DATA_SOURCE] = collection.strip()
        if isinstance(top_k := getattr(config, "top_k", None), int):
            attributes[names.TOP_K] = top_k
        return "retrieval", attributes
    return f"{event.type} {plain(event.block).rpartition('/')[2]}".strip(), attributes


def ended(span: Span, type: str, event: ev.BlockFinished, content: Content | None, at: int) -> None:
    """Say what a block came to, in numbers and verdicts. ``at``: nanoseconds."""
    output = event.output or {}
    if type == "retrieve" and isinstance(count := output.get("count"), int):
        span.set_attribute("studio.retrieval.count", count)
        if content is not None:
            span.set_attribute(names.QUERY, content.text(str(output.get("query", ""))))
            span.set_attribute(names.DOCUMENTS, content.documents(output.get("results", ())))
    elif type == "guardrail" and isinstance(passed := output.get("passed"), bool):
        span.set_attribute("studio.guardrail.passed", passed)
        for made in output.get("decisions", ()):
            span.add_event("check", _check(made, content), at)
    elif type == "agent" and isinstance(reason := output.get("finishReason"), str):
        span.set_attribute(names.FINISH_REASONS, [reason])


def _check(made: Mapping[str, t.Any], content: Content | None) -> dict[str, t.Any]:
    found: dict[str, t.Any] = {"studio.check": str(made.get("check"))}
    found["studio.check.verdict"] = (
        "skipped" if made.get("skipped") else "passed" if made.get("passed") else "failed"
    )
    if content is not None and made.get("reason"):
        found["studio.check.reason"] = content.text(str(made["reason"]))
    return found

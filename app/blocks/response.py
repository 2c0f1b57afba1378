"""The ``response`` block: says what the run's output is."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.agents.templates import render_value
from plugins.spec.blocks import BlockContext, BlockType


@dataclass(frozen=True, slots=True)
class ResponseConfig:
    """``status`` and ``headers`` are part of the block's output; the run's output is ``body``."""

    body: t.Any = field(
        default=None,
        metadata={
            "doc": "The run's output: any JSON with templates in its texts; a text that is one {{ expression }} keeps "
            "the expression's type. Left out: the output of the block before it, or of several by their ids.",
            "template": True,
        },
    )
    status: int = field(default=200, metadata={"doc": "A status for the caller.", "low": 100, "high": 599})
    headers: Mapping[str, str] = field(
        default_factory=dict, metadata={"doc": "Headers for the caller.", "template": True}
    )


def run(context: BlockContext, config: ResponseConfig) -> Mapping[str, t.Any]:
    """Render the body.

    :raises RunError: ``template_failed``.
    """
    variables = context.variables()
    if config.body is None:
        body = _before(context.predecessors, variables.get("blocks") or {})
    else:
        body = render_value(config.body, variables)
    return {"status": config.status, "headers": render_value(dict(config.headers), variables), "body": body}


def _before(predecessors: t.Sequence[str], outputs: Mapping[str, t.Any]) -> t.Any:
    if len(predecessors) == 1:
        return outputs.get(predecessors[0])
    return {block: outputs[block] for block in predecessors if block in outputs}


RESPONSE = BlockType(
    type_name="response",
    config=ResponseConfig,
    run=run,
    summary="Makes the run's output from a template.",
    handles=("", "error"),
    outputs=("status", "headers", "body"),
)

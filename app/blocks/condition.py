"""The ``condition`` block: goes on by ``true`` or by ``false``."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.agents.templates import evaluate
from app.agents.values import holds
from app.events import RouteChosen
from plugins.spec.blocks import BlockContext, BlockType


@dataclass(frozen=True, slots=True)
class ConditionConfig:
    """What is asked."""

    expression: str = field(
        metadata={
            "doc": "A Jinja2 expression, with or without its braces, e.g. `blocks.agent_1.content | length > 100`. A "
            "text counts as true unless it is empty or says false, no, off, none or 0.",
            "template": True,
            "expression": True,
        }
    )


def run(context: BlockContext, config: ConditionConfig) -> Mapping[str, t.Any]:
    """Evaluate and take the edge.

    :raises RunError: ``template_failed``.
    """
    result = holds(evaluate(config.expression, context.variables()))
    handle = "true" if result else "false"
    context.take(handle)
    context.emit(RouteChosen(context.block, handle))
    return {"result": result}


CONDITION = BlockType(
    type_name="condition",
    config=ConditionConfig,
    run=run,
    summary="Goes on by its true or its false edge.",
    handles=("true", "false", "error"),
    outputs=("result",),
)

"""The ``set`` block: values made from templates, for later blocks to read."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.agents.templates import render_value
from plugins.spec.blocks import BlockContext, BlockType


@dataclass(frozen=True, slots=True)
class SetConfig:
    """What is set."""

    values: Mapping[str, t.Any] = field(
        metadata={
            "doc": "Any JSON by name; texts are templates, and one that is one {{ expression }} keeps its type. Later "
            "blocks read them as `blocks.<id>.<name>`.",
            "template": True,
        }
    )


def run(context: BlockContext, config: SetConfig) -> Mapping[str, t.Any]:
    """Render the values.

    :raises RunError: ``template_failed``.
    """
    rendered: Mapping[str, t.Any] = render_value(dict(config.values), context.variables())
    return rendered


SET = BlockType(
    type_name="set",
    config=SetConfig,
    run=run,
    summary="Makes values from templates for later blocks.",
)

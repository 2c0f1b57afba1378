"""The ``start`` block: where a run begins, and its input under the block's own id."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from plugins.spec.blocks import BlockContext, BlockType


@dataclass(frozen=True, slots=True)
class StartConfig:
    """A start block has no settings of its own."""


def run(context: BlockContext, config: StartConfig) -> Mapping[str, t.Any]:
    """The run's input as it was sent; one that is no object is put under ``input``."""
    value = context.variables().get("input")
    return value if isinstance(value, Mapping) else {"input": value}


START = BlockType(
    type_name="start",
    config=StartConfig,
    run=run,
    summary="Begins the run; its output is the run's input.",
    handles=("",),
    entry=True,
)

"""The models that a workflow's blocks call.

Law of this room: what a config names; whether there is such a model is judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from app.schemas.paths import join
from app.workflows.compiled import CompiledBlock


def of_block(block: CompiledBlock) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The models a block calls, with their path inside its config."""
    model = getattr(block.config, "model", None)
    if isinstance(model, str) and model:
        yield ("model",), model
    for place, fallback in enumerate(getattr(block.config, "fallbacks", ())):
        yield ("fallbacks", place), fallback
    if block.type.uses is not None:
        for use in block.type.uses(block.config):
            if use.kind == "model":
                yield use.path, use.value


def of_blocks(blocks: Mapping[str, CompiledBlock]) -> Iterable[tuple[str, str]]:
    """(JSON path, model id) of every block that calls one."""
    return [
        (join("blocks", index, "config", *where), model)
        for index, block in enumerate(blocks.values())
        for where, model in of_block(block)
    ]

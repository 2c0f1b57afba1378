"""A few block types and models to compile documents with."""

from __future__ import annotations

import typing as t
from itertools import pairwise

from app.agents.config import AgentConfig
from app.blocks.response import RESPONSE
from app.blocks.start import START
from app.errors import Problem, ValidationFailed
from app.workflows.compiled import CompiledWorkflow
from app.workflows.validation import compile_document
from plugins.registry import UnknownFamily, UnknownModel
from plugins.spec.blocks import BlockType

AGENT = BlockType(
    "agent",
    AgentConfig,
    lambda context, config: {},
    "An agent.",
    outputs=("content", "toolCalls", "tokens"),
    answers=True,
)
TYPES = {block_type.type_name: block_type for block_type in (START, AGENT, RESPONSE)}
TOOLS = frozenset({"clock", "calculator"})


def check_model(model: str) -> str | None:
    family, _, name = model.partition("/")
    if family not in ("open", "closed"):
        raise UnknownFamily(f'There is no family "{family}".')
    if family == "closed" and name != "one":
        raise UnknownModel(f'closed has no model "{name}"; it has: one.')
    return None if name == "one" else f'open may not have "{name}"'


def compiled(document: t.Any, **kwargs: t.Any) -> CompiledWorkflow:
    return compile_document(document, TYPES, check_model, TOOLS, **kwargs)


def problems(document: t.Any, **kwargs: t.Any) -> list[Problem]:
    try:
        compiled(document, **kwargs)
    except ValidationFailed as failed:
        return list(failed.details)
    return []


def told(document: t.Any, **kwargs: t.Any) -> dict[str, str]:
    """Messages by path."""
    return {problem.path: problem.message for problem in problems(document, **kwargs)}


def agent(block: str = "a", **config: t.Any) -> dict[str, t.Any]:
    return {"id": block, "type": "agent", "config": {"model": "open/one", **config}}


def chain(*blocks: dict[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    """A document whose blocks follow one another."""
    edges = [{"source": a["id"], "target": b["id"]} for a, b in pairwise(blocks)]
    return {"name": "Test", "blocks": list(blocks), "edges": edges, **more}


START_BLOCK = {"id": "start", "type": "start"}

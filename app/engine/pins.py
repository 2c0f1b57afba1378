"""Where the next message of a thread enters. Pure.

Law of this room: an agent with ``capture`` keeps the thread from its answer on, until it calls ``release`` or a router
has chosen. Only blocks of the run's own document keep one, and none that a loop or branch runs.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from app.events import FlowChanged
from app.workflows.agent_rules import RELEASE
from app.workflows.compiled import AGENT, CompiledBlock, CompiledWorkflow

ROUTER = "router"


def entry(workflow: CompiledWorkflow, pinned: str | None) -> str | None:
    """The block at which a run of a thread enters; None for the start, also when what kept it is gone."""
    block = None if pinned is None else workflow.blocks.get(pinned)
    return block.id if block is not None and _captures(block) else None


def after(
    block: CompiledBlock, instance: str, output: Mapping[str, t.Any], pinned: str | None
) -> FlowChanged | None:
    """What the end of a block changes; None for nothing.

    :param pinned: where the next message would enter so far.
    """
    if block.type.type_name == ROUTER:
        following = None
    elif _captures(block) and instance == block.id:
        following = None if _released(output) else instance
    else:
        return None
    return FlowChanged(following) if following != pinned else None


def _captures(block: CompiledBlock) -> bool:
    return block.type.type_name == AGENT and bool(block.config.capture)


def _released(output: Mapping[str, t.Any]) -> bool:
    return any(
        call["name"] == RELEASE and call["status"] == "success" for call in output["toolCalls"]["list"]
    )

"""The agent block: a model, its tools, its answer.

Law of this room: a block formats, stores and requests nothing by itself; it hands its config to the
agent room and returns the output.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from app.agents.config import AgentConfig
from app.agents.driver import run_agent
from app.workflows.agent_rules import AGENT_OUTPUTS
from plugins.spec import BlockContext, BlockType


def _run(context: BlockContext, config: t.Any) -> Mapping[str, t.Any]:
    return run_agent(context, config)


AGENT = BlockType(
    type_name="agent",
    config=AgentConfig,
    run=_run,
    summary="Asks a model, runs the tools it asks for, and streams its answer.",
    outputs=AGENT_OUTPUTS,
    answers=True,
)

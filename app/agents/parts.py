"""An agent that is part of a block, with rows of its own in the block's journal.

Law of this room: a further attempt of the block does not ask again who has answered; who failed is asked anew.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from app.agents.config import AgentConfig
from app.agents.driver import run_agent
from plugins.spec import BlockContext


def run_part(
    inside: BlockContext, config: AgentConfig, prompt: str | None = None, told: str | None = None
) -> Mapping[str, t.Any]:
    """Run one agent to its answer; see :func:`app.agents.driver.run_agent`.

    :param inside: the block's context as the agent gets it; its ``journal`` is that of this part alone.
    """
    try:
        return run_agent(inside, config, prompt, told)
    except Exception:
        inside.journal.forget()
        raise

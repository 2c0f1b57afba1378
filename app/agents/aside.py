"""Asking a model something aside: nobody hears it speak, and what it used is counted all the same.

Law of this room: of a model that judges or chooses, only what it used is in the stream; its words are the block's to
hand on.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from app.agents.config import AgentConfig
from app.agents.parts import run_part
from app.events import UsageReported
from plugins.spec import BlockContext


class _Aside:
    """A block's context with journal rows of its own, and without a voice."""

    show_thinking = False

    def __init__(self, context: BlockContext, key: str) -> None:
        self._context = context
        self.journal = context.journal.part(key)

    def emit(self, event: t.Any) -> None:
        """Pass on what was used."""
        if isinstance(event, UsageReported):
            self._context.emit(event)

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._context, name)


def ask_aside(
    context: BlockContext, key: str, model: str, system: str, question: str, schema: Mapping[str, t.Any]
) -> Mapping[str, t.Any]:
    """Put one question to a model that answers with an object.

    :param key: tells this question apart from others of the same block.
    :param schema: JSON Schema of the answer.
    :raises BlockError: the model failed, or its answer is not of the schema.
    """
    config = AgentConfig(
        model=model, system=None, prompt="", response_format=dict(schema), temperature=0.0, files=[]
    )
    return run_part(t.cast(BlockContext, _Aside(context, key)), config, question, system)

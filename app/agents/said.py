"""What was said before a block, for blocks that look at it.

Law of this room: pure; of what ran before it, only text that stands.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from plugins.spec.blocks import BlockContext


def said_before(context: BlockContext) -> str | None:
    """The ``content`` (or ``text``) of the blocks before this one that ran, joined; None when none of them has any."""
    outputs: Mapping[str, t.Any] = context.variables()["blocks"]
    found = []
    for block in context.predecessors:
        output = outputs.get(block)
        if isinstance(output, Mapping):
            said = output.get("content", output.get("text"))
            found += [said] if isinstance(said, str) else []
    return "\n\n".join(found) if found else None

"""How much approval a tool's calls need when several have a say in it.

Law of this room: the stricter wins, so that nobody can ask for less than another does.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from plugins.spec import Tool
from plugins.spec.tools import Approval

#: From the mildest on.
_STRICTNESS: t.Sequence[Approval] = ("never", "ask_once", "always")


def with_approval(tool: Tool, asked: Approval) -> Tool:
    """The tool with the stricter of its own approval and ``asked``."""
    stricter = max(tool.approval, asked, key=_STRICTNESS.index)
    return tool if stricter == tool.approval else replace(tool, approval=stricter)

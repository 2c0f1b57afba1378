"""How much approval a tool's calls need when several have a say in it, and what a person's answer to one means.

Law of this room: the stricter wins, so that nobody can ask for less than another does. A call runs with exactly the
arguments a person saw, or with exactly those they put in their place; whatever is no approval runs nothing.
"""

from __future__ import annotations

import hashlib
import typing as t
from dataclasses import replace

from app import encoding
from plugins.spec import Tool
from plugins.spec.decisions import Answer, Ask
from plugins.spec.tools import Approval
from providers.spec import ToolCallReady

#: From the mildest on.
_STRICTNESS: t.Sequence[Approval] = ("never", "ask_once", "always")
_EXPIRED = "This call needs a person's approval, and nobody gave it in time. Nothing was run."
_REJECTED = "A person did not allow this call. Nothing was run."


def with_approval(tool: Tool, asked: Approval, deadline_s: float | None = None) -> Tool:
    """The tool with the stricter of its own approval and ``asked``, and the shorter of both deadlines."""
    stricter = max(tool.approval, asked, key=_STRICTNESS.index)
    known = [limit for limit in (tool.approval_deadline_s, deadline_s) if limit is not None]
    shorter = min(known, default=None)
    if (stricter, shorter) == (tool.approval, tool.approval_deadline_s):
        return tool
    return replace(tool, approval=stricter, approval_deadline_s=shorter)


def subject_of(tool: Tool) -> str:
    """What an approval for more than one call names: this very tool, whatever others are called."""
    return f"{tool.name}:{hashlib.sha256(f'{tool.origin or tool.name}'.encode()).hexdigest()[:32]}"


def ask_of(tool: Tool, call: ToolCallReady, turn: int) -> Ask:
    """The question about one call."""
    return Ask(
        call.id,
        "tool",
        turn,
        tool=tool.name,
        arguments=call.arguments or {},
        deadline_s=tool.approval_deadline_s,
        subject=subject_of(tool),
        parameters=tool.parameters,
    )


def lets_run(answer: Answer) -> bool:
    """Whether the call may run."""
    return answer.verdict in ("approve", "edit")


def changed(answer: Answer) -> dict[str, t.Any] | None:
    """The arguments that a person put in the place of the model's; None when they are as they were."""
    return dict(answer.arguments or {}) if answer.verdict == "edit" else None


def refusal(answer: Answer) -> str:
    """What the model is told of a call that was not allowed."""
    if answer.verdict == "expired":
        return _EXPIRED
    reason = (answer.reason or "").strip()
    return f"{_REJECTED} Their reason: {reason}" if reason else _REJECTED


def of_changed(arguments: t.Mapping[str, t.Any], content: str) -> str:
    """What the model is told of a call whose arguments a person has changed."""
    given = encoding.dumps(arguments).decode()
    return f"A person changed the arguments of this call before it ran, to {given}. Its result:\n{content}"

"""``acme_part``: reads one of Acme's part numbers, without asking anybody."""

from __future__ import annotations

import re
import typing as t

from studio_plugin import Tool, ToolContext, ToolFailed

_PART = re.compile(r"([A-Z]{2})-(\d{4})-(\d)")
_KINDS = {"AN": "anvil", "RO": "rocket skates", "DY": "dynamite"}


def _part(arguments: dict[str, t.Any], context: ToolContext) -> dict[str, str]:
    number = str(arguments["number"]).strip().upper()
    match = _PART.fullmatch(number)
    if match is None:
        raise ToolFailed(f"{number[:40]!r} is no part number; they look like AN-1234-6.")
    kind, digits, check = match.groups()
    expected = sum(map(int, digits)) % 10
    if kind not in _KINDS or int(check) != expected:
        raise ToolFailed(f"{number} does not exist; ask for the number again.")
    return {"number": number, "kind": _KINDS[kind], "model_year": f"20{digits[:2]}"}


PART = Tool(
    name="acme_part",
    description="What an Acme part number stands for, e.g. AN-1234-0.",
    parameters={
        "type": "object",
        "properties": {"number": {"type": "string", "description": "The number on the part."}},
        "required": ["number"],
        "additionalProperties": False,
    },
    run=_part,
    idempotent=True,
)

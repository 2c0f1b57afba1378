"""What the lines of a server mean, however wrong they are.

Law of this room: pure. A line that answers a request is an answer, if only one that cannot be used: whoever asked
would wait for all of their time otherwise.
"""

from __future__ import annotations

import json
import re

import mcp_types as types

from app import encoding

#: How a failure begins that stands for an answer nobody can read; the SDK's own begin so, too.
UNREADABLE = "Failed to parse"
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18})\b')


def message(line: bytes) -> types.JSONRPCMessage | None:
    """The message in a line; None when there is none."""
    try:
        return _read(line)
    except ValueError:
        pass
    try:
        # Knows what the strict reader does not: half of a pair, bytes that are no UTF-8, deep nesting.
        tree = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        numbers = set(_ID.findall(line)) if b'"jsonrpc"' in line and b'"method"' not in line else set()
        return _unreadable(int(numbers.pop())) if len(numbers) == 1 else None
    try:
        return _read(encoding.dumps(tree))
    except ValueError:
        answers = isinstance(tree, dict) and "jsonrpc" in tree and "method" not in tree
        number = tree.get("id") if answers else None
        return _unreadable(number) if isinstance(number, int) else None


def _read(line: bytes) -> types.JSONRPCMessage:
    return types.jsonrpc_message_adapter.validate_json(line, by_name=False)


def _unreadable(number: int) -> types.JSONRPCMessage:
    error = types.ErrorData(code=types.PARSE_ERROR, message=UNREADABLE)
    return types.JSONRPCError(jsonrpc="2.0", id=number, error=error)

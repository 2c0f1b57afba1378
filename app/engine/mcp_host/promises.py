"""What the tools of a server promise to answer, and whether they do.

Law of this room: pure. The SDK would judge answers itself, by patterns that may take for ever and hold up every other
server meanwhile; ours run on RE2.
"""

from __future__ import annotations

import typing as t

import mcp_types as types

from app.schemas.json_schema import Checker, check_schema, checker


class Promises:
    """The output schemas of one server."""

    def __init__(self) -> None:
        self._schemas: dict[str, t.Any] = {}
        self._checkers: dict[str, Checker] = {}

    def take(self, tool: types.Tool) -> None:
        """Take note of what a tool promises now."""
        self._schemas[tool.name] = tool.output_schema
        self._checkers.pop(tool.name, None)

    def broken(self, name: str, result: types.CallToolResult) -> str | None:
        """Where an answer is not as promised; None when it is, or nothing was promised.

        What is there is not said: it would be cut, and a part of a secret could not be masked.
        """
        schema = self._schemas.get(name)
        if schema is None or result.is_error or result.structured_content is None:
            return None
        known = self._checkers.get(name)
        if known is None:
            if check_schema(schema) is not None:
                self._schemas[name] = None  # what is no schema promises nothing
                return None
            known = self._checkers[name] = checker(schema)
        return (
            ", ".join(path or "its root" for path, _ in known.problems(result.structured_content)[:5]) or None
        )

"""What comes of a call, and what is said of what went wrong, as plain values.

Law of this room: pure. Texts of a server are handed on only where they answer a call; of what goes wrong around it
we say it in our own words, since an exception may quote an address or a header.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterable, Iterator

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from app.engine.mcp_host.lines import UNREADABLE
from app.engine.mcp_host.stdio import CANNOT_RUN, CannotStart, Ended
from app.net.guarded_transport import why_not
from app.schemas.json_schema import check_schema

#: Longest text or value of one answer, in bytes of JSON; the same as of HTTP tools.
MAX_RESULT = 2 * 1024 * 1024
#: Most tools of one server, and the longest list of them in bytes of JSON.
MAX_TOOLS = 1000
_NAME = re.compile(r"[A-Za-z0-9_$-]{1,40}")
_OPEN: t.Mapping[str, t.Any] = {"type": "object", "properties": {}}
#: How messages of the SDK begin that tell of a lost connection; servers use the same code for failures of their own.
_LOST = ("Connection closed", "SSE stream ")


class Failed(Exception):
    """A request came to nothing; the text is for the model and the log."""


class Refused(Failed):
    """The server says no, in words of its own."""

    def __init__(self, error: MCPError) -> None:
        super().__init__(error.message or f"The server gives the error code {error.code}.")
        self.code = error.code


def tool(found: types.Tool) -> dict[str, t.Any]:
    """A tool as the worker is told of it; ``problem`` says why its schema is another one than the server's."""
    hints = found.annotations
    schema, problem = _parameters(found.input_schema)
    return {
        "name": found.name,
        "description": found.description or found.title or "",
        "schema": schema,
        "problem": problem,
        "idempotent": bool(hints is not None and (hints.read_only_hint or hints.idempotent_hint)),
    }


def _parameters(schema: dict[str, t.Any]) -> tuple[t.Mapping[str, t.Any], str | None]:
    if schema.get("type", "object") == "object":
        schema = {"type": "object", "properties": {}, **schema}
    problem = check_schema(schema) or (None if schema.get("type") == "object" else "is no object")
    return (schema, None) if problem is None else (_OPEN, problem)


def answer(result: types.CallToolResult) -> dict[str, t.Any]:
    """The answer to a call: ``value`` where the server gives structured content, else ``text``.

    :raises Failed: the server says that the call failed.
    """
    text = "\n".join(filter(None, map(_text, result.content)))
    if result.is_error:
        raise Failed(text or "The tool failed and does not say why.")
    if result.structured_content is not None:
        return {"value": result.structured_content}
    return {"text": text}


def _text(part: types.ContentBlock) -> str:
    """A part of a result as text; what is no text is named, not shown."""
    if isinstance(part, types.TextContent):
        return part.text
    if isinstance(part, (types.ImageContent, types.AudioContent)):
        kind = "image" if isinstance(part, types.ImageContent) else "audio"
        return f"[{kind}: {part.mime_type}, {_size(part.data)} bytes, not shown]"
    if isinstance(part, types.ResourceLink):
        about = f", {part.description}" if part.description else ""
        return f"[resource: {part.name}, {part.uri}{about}]"
    inner = part.resource
    if isinstance(inner, types.TextResourceContents):
        return inner.text
    return (
        f"[resource: {inner.uri}, {inner.mime_type or 'unknown type'}, {_size(inner.blob)} bytes, not shown]"
    )


def _size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


def lost(error: MCPError) -> bool:
    """Whether the connection is gone, rather than that the server says no."""
    return error.code == types.CONNECTION_CLOSED and error.message.startswith(_LOST)


def reason(error: BaseException, status: int | None, ended: Ended | None) -> str:
    """Why a server cannot be used, to follow its name.

    :param status: the last HTTP status it sent, when that was no success. :param ended: when its program is gone.
    """
    found = list(causes(error))
    if status is not None and not any(why_not(e) for e in found):
        return f"answers with HTTP status {status}; check its url and headers"
    said = next((said for e in found if (said := _said(e)) is not None), None)
    return said or ("broke the connection off" if ended is None else _ended(ended.code))


def _said(error: BaseException) -> str | None:
    if isinstance(error, CannotStart):
        return f"cannot be started ({error}); check its command"
    if (why := why_not(error)) is not None:
        return why
    if isinstance(error, ValidationError):
        return f"does not answer as an MCP server ({violations(error)})"
    if isinstance(error, ValueError):
        return "has a url or a header that cannot be sent"
    if isinstance(error, TimeoutError):
        return "did not start in time"
    if isinstance(error, RuntimeError) and "protocol version" in str(error):
        return "speaks a version of the protocol that is not known here"
    if isinstance(error, MCPError) and not lost(error):
        return f"does not answer as an MCP server (code {error.code})"
    return None


def _ended(code: int | None) -> str:
    if code == CANNOT_RUN:
        return "cannot be started; check its command and see the log"
    return "ended" if code is None else f"ended with code {code}; see the log"


def plainly(error: BaseException) -> str:
    """An exception for the log, by what is at its bottom."""
    first = next(iter(causes(error)))
    said = violations(first) if isinstance(first, ValidationError) else str(first)
    if said.startswith(UNREADABLE):  # and goes on with a part of what was sent
        said = UNREADABLE
    return f"{type(first).__name__}: {said}"


def violations(error: ValidationError) -> str:
    """Where a message is not of the protocol. What is there is not said: a part of a secret could not be masked."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    said = "; ".join(f"{_place(one['loc'])}: {one['msg']}" for one in found[:3])
    return said if len(found) <= 3 else f"{said}; and {len(found) - 3} more"


def _place(path: Iterable[str | int]) -> str:
    """A path in a message; names in it that are the server's own choice may be words for a model."""
    return ".".join(part if _NAME.fullmatch(part) else "…" for part in map(str, path)) or "it"


def causes(error: BaseException) -> Iterator[BaseException]:
    """The exception with what it holds and what it came from, the innermost first."""
    for inner in getattr(error, "exceptions", ()):
        yield from causes(inner)
    if error.__cause__ is not None:
        yield from causes(error.__cause__)
    yield error

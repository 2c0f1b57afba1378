"""Small pieces of Markdown. Law of this room: text in, text out."""

from __future__ import annotations

import inspect
import re
import typing as t
from collections.abc import Iterable, Sequence

_ROLE = re.compile(r":[a-z:]+:`~?\.?([^`]+)`")
_DOUBLE = re.compile(r"``([^`]+)``")
#: Where the code says which agreement it keeps; readers of a page cannot look it up.
_AGREEMENT = re.compile(r" \(contract section [\d.]+\)")


def cell(value: t.Any) -> str:
    """One cell of a table: no line breaks, no bars."""
    return str(value).replace("|", "\\|").replace("\n", " ")


def table(head: Sequence[str], rows: Iterable[Sequence[t.Any]]) -> str:
    """A table; empty rows give an empty text."""
    lines = [f"| {' | '.join(cell(value) for value in row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", "|" + " --- |" * len(head), *lines])


def prose(docstring: str | None) -> str:
    """A docstring as Markdown: single back-quotes, no roles, parameter fields as a list."""
    text = _AGREEMENT.sub("", inspect.cleandoc(docstring or ""))
    text = _DOUBLE.sub(r"`\1`", _ROLE.sub(r"`\1`", text))
    text = re.sub(r"^:(?:param|ivar) (\w+): *", r"- `\1`: ", text, flags=re.MULTILINE)
    text = re.sub(r"^:returns?: *", "- returns ", text, flags=re.MULTILINE)
    return re.sub(r"^:raises ([\w.]+): *", r"- raises `\1`: ", text, flags=re.MULTILINE)


def annotation(value: t.Any) -> str:
    """A type as people read it: without module names."""
    text = value if isinstance(value, str) else getattr(value, "__name__", str(value))
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", str(text))


def code(text: str, language: str = "text") -> str:
    """A fenced block."""
    return f"```{language}\n{text.rstrip()}\n```"

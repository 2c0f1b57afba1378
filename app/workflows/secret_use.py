"""What a secret may be, and how templates use one.

Law of this room: a secret is named in the document and sent where the document says, never where the model or a
caller would have it sent.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from app import encoding
from app.errors import Problem
from app.redaction import values
from app.schemas.paths import join, shown
from app.workflows.template_syntax import TemplateRefused, inspect, is_template, strings_in

#: What a secret may be called.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
#: Bounds on a value, in characters. What is shorter could not be masked without masking half of any text.
SHORTEST, LONGEST = values.SHORTEST, 65_536
#: Addresses whose host the document fixes: written out, or a variable of the document up to the first slash.
_FIXED = re.compile(
    r"(?i)\s*(?:https?://[^/?#{}\s]+|\{\{\s*vars(?:\.\w+|\[(?:'\w+'|\"\w+\")\])+\s*\}\})(?:[/?#].*)?",
    re.DOTALL,
)


def problems(name: str, value: t.Any) -> list[Problem]:
    """What keeps ``value`` from being stored as the secret ``name``; never says the value."""
    found = []
    if not NAME.fullmatch(name):
        found.append(
            Problem("name", f"must have 1 to 64 letters, digits and _, no digit first; {shown(name)} has not")
        )
    if not isinstance(value, str):
        found.append(Problem("value", "must be a text"))
    elif not SHORTEST <= len(value) <= LONGEST:
        message = (
            f"must have {SHORTEST} to {LONGEST} characters; what is shorter cannot be kept out of answers"
        )
        found.append(Problem("value", message))
    elif value != value.strip():
        found.append(Problem("value", "begins or ends with white space; leave that out"))
    elif "\0" in value or encoding.clean_text(value) != value:
        found.append(Problem("value", "holds characters that no header or environment takes; leave them out"))
    return found


def names_in(value: t.Any) -> frozenset[str]:
    """The secrets that templates in a tree of values read; none of one that is refused."""
    return frozenset(name for _, source in strings_in(value) for name in names_of(source))


def names_of(source: str) -> frozenset[str]:
    """The secrets that one template reads."""
    if not is_template(source):
        return frozenset()
    try:
        return inspect(source).secrets
    except TemplateRefused:
        return frozenset()


def address_problems(url: t.Any, headers: t.Any, path: str) -> list[Problem]:
    """What is wrong with the address that headers with secrets are sent to.

    :param path: of the object that has both.
    """
    if not isinstance(url, str) or not isinstance(headers, Mapping) or not names_in(headers):
        return []
    if not is_template(url) or _FIXED.fullmatch(url):
        return []
    message = (
        "the host must be written out, or be one of vars, when a header uses secrets: else whoever fills it in is "
        "sent them"
    )
    return [Problem(join(path, "url"), message)]

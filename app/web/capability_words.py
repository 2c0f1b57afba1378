"""The capability table in words: what a column is called, what its values mean, how a figure is written.

Law of this room: pure text; every column of :data:`plugins.capabilities.COLUMNS` has its words, and a value that
is not known is a dash and never a guess.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from plugins.capabilities import source_of, switched_on

#: Where a long id may go on in the next line.
_BREAKS = re.compile(r"(?<=[/._:-])")

#: Not known.
DASH = "–"

#: What each column of a row is called.
LABELS: Mapping[str, str] = {
    "thinking": "Thinking",
    "thinkingControl": "Thinking levels",
    "thinkingSigned": "Signed thinking",
    "tools": "Live tools",
    "forcedToolChoice": "Forced tool",
    "forcedToolWithThinking": "Forced tool while it thinks",
    "structuredOutput": "Structured output",
    "inputs": "Inputs",
    "contextWindow": "Context",
    "maxOutput": "Longest answer",
    "price": "Price",
    "cachePrice": "Cached input, read / write",
    "usageInStream": "Usage in the stream",
    "notes": "Notes",
    "source": "Source",
    "sources": "Sources",
}

#: The page's columns, by the name they are sorted by.
HEADS = (
    ("model", "Model"),
    ("thinking", LABELS["thinking"]),
    ("tools", LABELS["tools"]),
    ("structured", LABELS["structuredOutput"]),
    ("inputs", LABELS["inputs"]),
    ("context", LABELS["contextWindow"]),
    ("output", LABELS["maxOutput"]),
    ("price", "USD per million in\u00a0/\u00a0out"),
    ("notes", "Notes and sources"),
)

#: What can be chosen in the page's order box.
DIRECTIONS = (
    ("", "by family"),
    ("model", "model, A to Z"),
    ("-model", "model, Z to A"),
    ("-context", "context, largest first"),
    ("context", "context, smallest first"),
    ("-output", "answer, longest first"),
    ("output", "answer, shortest first"),
    ("price", "price, lowest first"),
    ("-price", "price, highest first"),
    ("-thinking", "thinking, most shown first"),
    ("thinking", "thinking, least shown first"),
    ("-tools", "tools, most first"),
    ("tools", "tools, fewest first"),
    ("-structured", "structured output, native first"),
    ("structured", "structured output, none first"),
    ("-inputs", "inputs, most kinds first"),
    ("inputs", "inputs, fewest kinds first"),
)

FILTER_LABELS: Mapping[str, str] = {
    "thinking": LABELS["thinking"],
    "tools": LABELS["tools"],
    "structured": LABELS["structuredOutput"],
    "input": "Takes",
}

#: (column, its values with what they mean), for readers of the page.
MEANINGS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        LABELS["thinking"],
        (
            ("none", "the model does not think"),
            ("hidden", "it thinks, and the vendor shows nothing of it"),
            ("summary", "the vendor's summary is streamed"),
            ("full", "the thinking itself is streamed"),
            ("as_sent", "nothing is known of the server: whatever it sends is shown"),
        ),
    ),
    (
        LABELS["tools"],
        (
            ("none", "the model calls no tools"),
            ("serial", "one tool at a time, streamed"),
            ("parallel", "several at once, streamed"),
        ),
    ),
    (
        LABELS["structuredOutput"],
        (
            ("none", "a response format is refused"),
            ("tool", "the schema is told in the prompt, and the answer is checked against it"),
            ("native", "by the vendor's own schema mode"),
        ),
    ),
)


def figure(value: int | None) -> str:
    """A number of tokens, to the last one."""
    return DASH if value is None else f"{value:,}"


def short(value: int | None) -> str:
    """A number of tokens in three figures: 131072 is ``131K``, 1048576 is ``1.05M``."""
    if value is None or value < 1_000:
        return DASH if value is None else str(value)
    unit, size = ("M", 1_000_000) if value >= 999_500 else ("K", 1_000)
    return f"{value / size:.3g}{unit}"


def price(value: Mapping[str, t.Any] | None, first: str = "input", second: str = "output") -> str:
    """Two prices in USD per million tokens."""
    if value is None:
        return DASH
    if not value[first] and not value[second]:
        return "free"
    return f"{value[first]:g} / {value[second]:g}"


def yes(value: bool) -> str:
    """A flag."""
    return "yes" if value else "no"


def details(row: Mapping[str, t.Any]) -> list[tuple[str, str]]:
    """What the page's columns do not show of a row: (label, text) pairs."""
    more = [("Thinking", thinking_words(row))]
    for column in ("contextWindow", "maxOutput"):
        if row[column] is not None:
            more.append((LABELS[column], f"{figure(row[column])} tokens"))
    for column in ("thinkingSigned", "forcedToolChoice", "forcedToolWithThinking", "usageInStream"):
        more.append((LABELS[column], yes(row[column])))
    if row["cachePrice"] is not None:
        more.append((LABELS["cachePrice"], price(row["cachePrice"], "read", "write")))
    return more


def thinking_words(row: Mapping[str, t.Any]) -> str:
    """How thinking is switched on."""
    return "does not think" if row["thinking"] == "none" else switched_on(row["thinkingControl"])


def sources(row: Mapping[str, t.Any]) -> list[tuple[str, str]]:
    """Where the claims of a row come from: (source, what it states) pairs, the family's own first."""
    stated: dict[str, list[str]] = {row["source"]: []} if row["source"] else {}
    for column in LABELS:
        if column not in ("notes", "source", "sources") and row[column] is not None:
            stated.setdefault(source_of(row, column) or "not stated", []).append(LABELS[column])
    return [(source, ", ".join(labels)) for source, labels in stated.items() if labels]


def cells(row: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A row as the page draws it: texts, and for each column of :data:`HEADS` where its claim comes from."""
    return {
        "id": row["id"],
        "parts": _BREAKS.split(row["id"]),
        "labels": dict(HEADS),
        "title": row["title"],
        "thinking": row["thinking"],
        "levels": row["thinkingControl"],
        "tools": row["tools"],
        "structured": row["structuredOutput"],
        "inputs": row["inputs"],
        "context": short(row["contextWindow"]),
        "output": short(row["maxOutput"]),
        "price": price(row["price"]),
        "notes": row["notes"],
        "details": details(row),
        "sources": sources(row),
        "from": {
            "thinking": source_of(row, "thinking"),
            "tools": source_of(row, "tools"),
            "structured": source_of(row, "structuredOutput"),
            "inputs": source_of(row, "inputs"),
            "context": source_of(row, "contextWindow"),
            "output": source_of(row, "maxOutput"),
            "price": source_of(row, "price"),
        },
    }

"""What the assistant knows, and how it looks it up: the passages that share most words with the question."""

from __future__ import annotations

import re

PASSAGES = (
    "Holidays: every employee has thirty days of holiday a year. Ask for them two weeks ahead.",
    "Travel: trains are booked in second class. Flights need the agreement of your team lead.",
    "Equipment: a new laptop is ordered every four years. Broken ones are replaced the same week.",
    "Expenses: receipts are handed in within a month. The limit for a meal is forty euros.",
)

#: Words that say nothing about what is asked.
_LITTLE = re.compile(
    r"a|an|and|are|do|does|for|have|how|i|in|is|it|many|much|my|of|the|there|to|we|what|when|where"
)


def search(question: str, most: int = 2) -> list[str]:
    """The best passages; none when no word fits."""
    asked = _words(question)
    ranked = sorted(((len(asked & _words(passage)), passage) for passage in PASSAGES), reverse=True)
    return [passage for shared, passage in ranked[:most] if shared]


def _words(text: str) -> set[str]:
    return {word.rstrip("s") for word in re.findall(r"[a-z]+", text.lower()) if not _LITTLE.fullmatch(word)}

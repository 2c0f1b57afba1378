"""The terms a text is found by: one folding for what is stored and for what is asked, on every database.

Law of this room: pure, and part of what is stored: who changes what :func:`terms` gives has every document stored
anew. That is why words are stemmed by the Porter algorithm, whose authors have frozen it. A term is letters, digits
and marks, nothing else, so no query can say anything to a database but its terms.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

#: Longer words are cut; they are addresses, keys or encoded data.
MAX_TERM = 64
#: Most terms and characters of a query that are looked at.
MAX_QUERY_TERMS = 64
MAX_QUERY = 10_000

# Accents; points of Hebrew and Arabic, which most texts go without.
_DROPPED = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670]+"
)
# Marks are part of a word in the scripts of India and its neighbours; Python's \w lacks them.
_WORD = re.compile(
    r"(?:[^\W_]|[\u0900-\u0963\u0966-\u0e3a\u0e40-\u0e4e\u0eb0-\u0ece\u0f71-\u0f84\u102b-\u103e\u17b4-\u17d3])+"
)
# Scripts that put no blanks between words, and Hangul, whose words carry their endings.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
_STEMMED = re.compile(r"[a-z]{3,}")

_ENGLISH = """
a about above after again against all am an and any are aren as at be because been before being below
between both but by can cannot could couldn d did didn do does doesn doing don down during each few for from
further had hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn
it its itself let ll m me more most mustn my myself no nor not of off on once only or other ought our ours
ourselves out over own re s same shan she should shouldn so some such t than that the their theirs them
themselves then there these they this those through to too under until up ve very was wasn we were weren
what when where which while who whom why will with won would wouldn you your yours yourself yourselves
"""
#: English words that say nothing about what is asked (those of the Snowball project's list). Texts keep them.
STOP_WORDS = frozenset(_ENGLISH.split())


def terms(text: str, *, query: bool = False) -> Iterator[str]:
    """The terms of ``text``, in order, with repetitions.

    Of a script without blanks between words, a text has each character and each pair of neighbours; a ``query``
    only the pairs, and no stop words.
    """
    for word in _WORD.findall(_folded(text)):
        if query and word in STOP_WORDS:
            continue
        if word.isascii():
            yield (_stem(word) if _STEMMED.fullmatch(word) else word)[:MAX_TERM]
        else:
            yield from _parts(word, query)


def query_terms(query: str) -> tuple[str, ...]:
    """The different terms of a query, at most :data:`MAX_QUERY_TERMS`; none when it asks for nothing."""
    found: dict[str, None] = {}
    for term in terms(query[:MAX_QUERY], query=True):
        found[term] = None
        if len(found) == MAX_QUERY_TERMS:
            break
    return tuple(found)


def _folded(text: str) -> str:
    """Small letters without accents: forms that look alike become one."""
    if text.isascii():
        return text.lower()
    bare = _DROPPED.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFKC", bare.casefold())


def _parts(word: str, query: bool) -> Iterator[str]:
    end = 0
    for run in _UNSPACED.finditer(word):
        if run.start() > end:
            yield word[end : run.start()][:MAX_TERM]
        end = run.end()
        characters = run[0]
        if len(characters) == 1 or not query:
            yield from characters
        for first, second in pairwise(characters):
            yield first + second
    if end < len(word):
        yield word[end:][:MAX_TERM]


@lru_cache(50_000)
def _stem(word: str) -> str:
    """The Porter stem. A stemmer of its own for every word: it holds what it works on, and threads work at once."""
    from snowballstemmer import stemmer

    return str(stemmer("porter").stemWord(word))

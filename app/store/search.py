"""Finding chunks by words: BM25 on SQLite, full text search on PostgreSQL.

Law of this room: a query is a set of terms (:mod:`app.store.terms`), of which one is enough to be found and rare ones
count more. A search runs aside and sees only chunks of what a document is now.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from collections.abc import Iterable, Sequence

from sqlalchemy import Executable, text

from app.store.aside import Aside
from app.store.db import Backend
from app.store.terms import query_terms
from plugins.spec.blocks import Passage

#: Most chunks of one search.
MAX_RESULTS = 100
#: How many more the index is asked for than are wanted: while a document is replaced, some are of what it was.
_SPARE = 200
_ALL = 2**31 - 1

# The collection is a term among others, so that only its chunks are looked at; with weight 0 it does not count.
_SQLITE = """
SELECT c.document_id, d.source, d.title, c.starts, c.ends, c.text, -f.score
FROM (
    SELECT rowid AS id, bm25(chunk_index, 0.0, 1.0) AS score FROM chunk_index
    WHERE chunk_index MATCH :wanted ORDER BY score, id LIMIT :pool
) AS f
JOIN chunks AS c ON c.id = f.id
JOIN documents AS d ON d.id = c.document_id AND d.version = c.version
ORDER BY f.score, c.id LIMIT :most
"""

# ts_rank of one term grows with how often it is there, up to a bound, as BM25 does; what ts_rank does not know is how
# rare a term is, so each is weighed by BM25's measure of that, taken from a sample: the oldest and the newest chunks.
# Of a long query only the rarest terms count. 1: longer chunks count less.
_POSTGRESQL = """
WITH sample AS MATERIALIZED (
    (SELECT terms FROM chunks WHERE collection_id = :collection ORDER BY id LIMIT :sample)
    UNION ALL
    (SELECT terms FROM chunks WHERE collection_id = :collection ORDER BY id DESC LIMIT :sample)
),
weights AS MATERIALIZED (
    SELECT term, ln(1 + (total - found + 0.5) / (found + 0.5)) AS weight
    FROM (SELECT CAST(term AS tsquery) AS term FROM unnest(CAST(:terms AS text[])) AS term) AS asked,
        (SELECT count(*) AS total FROM sample) AS whole,
        LATERAL (SELECT count(*) AS found FROM sample WHERE terms @@ term) AS counted
    ORDER BY weight DESC LIMIT :rarest
)
SELECT c.document_id, d.source, d.title, c.starts, c.ends, c.text, f.score
FROM (
    SELECT c.id, (SELECT sum(weight * ts_rank(c.terms, term, 1)) FROM weights) AS score
    FROM chunks AS c JOIN documents AS d ON d.id = c.document_id AND d.version = c.version
    WHERE c.collection_id = :collection
        AND c.terms @@ (SELECT CAST(string_agg(CAST(term AS text), ' | ') AS tsquery) FROM weights)
    ORDER BY score DESC, c.id LIMIT :most
) AS f
JOIN chunks AS c ON c.id = f.id
JOIN documents AS d ON d.id = c.document_id
ORDER BY f.score DESC, c.id
"""
_SAMPLE = 1000
_RAREST = 16


class Search:
    """See the module."""

    def __init__(self, backend: Backend, aside: Aside) -> None:
        self._aside = aside
        self._sqlite = backend.name == "sqlite"
        self._find = backend.prepare(t.cast(Executable, text(_SQLITE if self._sqlite else _POSTGRESQL)))

    def words(self, collection_id: int, query: str, limit: int) -> list[Passage]:
        """The best ``limit`` chunks of a collection for the words of ``query``, best first.

        Of a query without words, or with stop words only, nothing.

        :raises StoreFailed: the database cannot be read.
        """
        wanted = query_terms(query)
        if not wanted:
            return []
        if not self._sqlite:
            quoted = [f"'{term}'" for term in wanted]
            values: dict[str, t.Any] = {"collection": collection_id, "terms": quoted, "most": limit}
            return self._passages({**values, "sample": _SAMPLE, "rarest": _RAREST})
        any_of = " OR ".join(f'"{term}"' for term in wanted)
        values = {"wanted": f'collection_id : "{collection_id}" AND terms : ({any_of})', "most": limit}
        found = self._passages({**values, "pool": limit + _SPARE})
        # Too few: as many are there, so asking for all costs as little; or a large document is being replaced.
        return found if len(found) == limit else self._passages({**values, "pool": _ALL})

    def _passages(self, values: dict[str, t.Any]) -> list[Passage]:
        return [Passage(*row) for row in self._aside.rows(self._find, values)]


def stored_terms(backend: Backend, terms: Iterable[str]) -> str:
    """What the column ``chunks.terms`` holds for these terms, in order."""
    if backend.name == "sqlite":
        return " ".join(terms)
    places: dict[str, list[int]] = defaultdict(list)
    for place, term in enumerate(terms, 1):
        places[term].append(place)
    return " ".join(f"'{term}':{_numbers(found)}" for term, found in places.items())


def _numbers(places: Sequence[int]) -> str:
    return ",".join(map(str, places))

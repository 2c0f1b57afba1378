"""Vectors of chunks: which model a collection has, what is missing, and the chunks nearest to a question.

Law of this room: vectors of one model only are compared, and a collection has one. They are kept with unit length. A
search sees every chunk of what documents are now: whoever asks makes the missing vectors first. What was read last
stays in memory, bounded, until a document of the collection changes.
"""

from __future__ import annotations

import json
import math
import sys
import typing as t
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from gevent.lock import BoundedSemaphore
from sqlalchemy import Executable, bindparam, select, text, update

from app.store import vector_index
from app.store.aside import Aside
from app.store.db import Backend, Link, Row
from app.store.errors import StoreConflict
from app.store.tables import collections
from app.store.vector_index import Page
from app.store.writer import Writer
from plugins.spec.blocks import Passage

#: Vectors that are read, compared or written at a time.
PAGE, BATCH = 2_048, 64

_CURRENT = "FROM documents AS d JOIN chunks AS c ON c.document_id = d.id AND c.version = d.version"
_MADE = "FROM chunks AS c JOIN chunk_vectors AS v ON v.chunk_id = c.id WHERE c.collection_id = :collection"
_TEXT = {
    "add": "INSERT INTO collections (name, created_at) VALUES (:collection, :at) ON CONFLICT (name) DO NOTHING",
    # Whatever is done to a document changes one of these: a new one has a later id. The last but one is how many
    # vectors there should be. Those that were made anew are known by the first of them.
    "state": """
        SELECT count(*), sum(claimed), sum(version), max(id), max(updated_at),
            sum(CASE WHEN version > 0 THEN chunks ELSE 0 END),
            (SELECT vector FROM chunk_vectors WHERE chunk_id = :first AND model = :model)
        FROM documents WHERE collection_id = :collection
    """,
    # Where pages begin and end: a list of all numbers would hold the hub up.
    "pages": f"""
        SELECT min(id), max(id) FROM (
            SELECT c.id, (row_number() OVER (ORDER BY c.id) - 1) / :size AS page {_CURRENT}
            WHERE d.collection_id = :collection
        ) AS numbered GROUP BY page ORDER BY page
    """,
    "missing": f"""
        SELECT c.id {_CURRENT} LEFT JOIN chunk_vectors AS v ON v.chunk_id = c.id AND v.model = :model
        WHERE d.collection_id = :collection AND v.chunk_id IS NULL ORDER BY c.id
    """,
    "read": f"""
        SELECT v.chunk_id, v.vector {_CURRENT} JOIN chunk_vectors AS v ON v.chunk_id = c.id AND v.model = :model
        WHERE c.id BETWEEN :first AND :last AND c.collection_id = :collection ORDER BY c.id
    """,
    "texts": "SELECT id, text FROM chunks WHERE id IN {ids} ORDER BY id",
    "passages": f"""
        SELECT c.id, c.document_id, d.source, d.title, c.starts, c.ends, c.text {_CURRENT} WHERE c.id IN {{ids}}
    """,
    # A chunk may be gone by now, and another process may have been quicker.
    "keep": """
        INSERT INTO chunk_vectors (chunk_id, model, dims, vector)
        SELECT id, :model, :dims, :vector FROM chunks WHERE id = :chunk
        ON CONFLICT (chunk_id, model) DO NOTHING
    """,
    "forget": f"""
        DELETE FROM chunk_vectors WHERE model = :model AND chunk_id IN (
            SELECT v.chunk_id {_MADE} AND v.model = :model LIMIT :most
        )
    """,
    "others": f"SELECT DISTINCT v.model {_MADE} AND v.model <> :model",
}


class ModelMissing(StoreConflict):
    """The collection has no embedding model, so no vectors to search by."""

    def __init__(self, collection: str) -> None:
        super().__init__(
            f"The collection '{collection[:64]}' has no vectors. "
            f"Run: studio documents embed {collection[:64]} FAMILY/MODEL"
        )
        self.code = "embedding_model_missing"


class ModelDiffers(StoreConflict):
    """The collection has another embedding model."""

    def __init__(self, collection: str, has: str, asked: str) -> None:
        super().__init__(
            f"The collection '{collection[:64]}' has vectors of {has}, which cannot be compared with those of {asked}. "
            f"Use {has}, or make all vectors anew: studio documents embed {collection[:64]} {asked}"
        )
        self.code = "embedding_model_differs"


class VectorsDiffer(StoreConflict):
    """The model makes vectors of another length than it did."""

    def __init__(self, collection: str, model: str) -> None:
        super().__init__(
            f"Vectors of {model} in the collection '{collection[:64]}' are not all of one length: the model behind the "
            f"name has changed. Make them anew: studio documents embed --again {collection[:64]} {model}"
        )
        self.code = "embeddings_differ"


@dataclass(frozen=True, slots=True)
class _Kept:
    """All vectors of a collection in memory, and the state of the documents that they are of, up to the first of the
    vectors. Where one is missing none are kept: nothing would tell that it has come.
    """

    state: Row
    pages: tuple[Page, ...]

    @property
    def first(self) -> int:
        """Whose the first vector is."""
        return int(self.pages[0].ids[0]) if self.pages else 0

    @property
    def size(self) -> int:
        return sum(page.size for page in self.pages)


class Vectors:
    """See the module. Every method waits, cooperatively; those that only read may stand inside a guarded wait.

    All raise StoreFailed when the database cannot be read or written.

    :param most_kept: bytes of vectors that stay in memory; a collection with more is read anew by each search.
    """

    def __init__(self, backend: Backend, writer: Writer, aside: Aside, most_kept: int) -> None:
        self._writer, self._aside, self._most_kept = writer, aside, most_kept
        ids = (
            "(SELECT CAST(value AS integer) FROM json_each(:ids))"
            if backend.name == "sqlite"
            else "(SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(:ids AS json)) AS value)"
        )
        named = collections.c.name == bindparam("collection")
        model = collections.c.embedding_model
        made: dict[str, Executable] = {
            name: t.cast(Executable, text(sql.format(ids=ids))) for name, sql in _TEXT.items()
        }
        made["model"] = select(model).where(named)
        made["set"] = update(collections).where(named).values(embedding_model=bindparam("model"))
        self._sql = {name: backend.prepare(statement) for name, statement in made.items()}
        self._kept: OrderedDict[tuple[int, str], _Kept] = OrderedDict()
        self._one_at_a_time = BoundedSemaphore(1)
        self._making: dict[tuple[int, str], BoundedSemaphore] = {}

    # -- The model of a collection -----------------------------------------------------------------

    def model(self, collection: str) -> str | None:
        """The embedding model of a collection; None when it has none, or is not there."""
        found = self._aside.rows(self._sql["model"], {"collection": collection})
        return found[0][0] if found else None

    def choose(self, collection: str, model: str, at: int, *, change: bool = False) -> None:
        """Make ``model`` that of a collection, which may be there only later.

        :param at: the time, should the collection be new.
        :param change: also in place of another; its vectors stay until :meth:`forget_others`.
        :raises ModelDiffers: it has another.
        """
        values = {"collection": collection, "model": model, "at": at}

        def job(link: Link) -> str | None:
            link.execute(self._sql["add"], values)
            ((has,),) = link.rows(self._sql["model"], values)
            if has is None or change:
                link.execute(self._sql["set"], values)
                return None
            return t.cast("str | None", has)

        has = self._writer.submit(job).wait()
        if has not in (None, model):
            raise ModelDiffers(collection, has, model)

    def forget(self, collection_id: int, model: str) -> None:
        """Drop the vectors that ``model`` made."""
        self._kept.pop((collection_id, model), None)
        values = {"collection": collection_id, "model": model, "most": BATCH}
        while self._writer.submit(lambda link: link.execute(self._sql["forget"], values)).wait() == BATCH:
            pass

    def forget_others(self, collection_id: int, model: str) -> None:
        """Drop the vectors of every other model."""
        found = self._aside.rows(self._sql["others"], {"collection": collection_id, "model": model})
        for (other,) in found:
            self.forget(collection_id, other)

    # -- Making them ---------------------------------------------------------------------------------

    def making(self, collection_id: int, model: str) -> BoundedSemaphore:
        """Held by whoever makes vectors of a collection, so that no one else of this process makes the same."""
        return self._making.setdefault((collection_id, model), BoundedSemaphore(1))

    def missing(self, collection_id: int, model: str) -> list[int]:
        """Chunks without a vector, by number."""
        if self._current(collection_id, model) is not None:
            return []
        values = {"collection": collection_id, "model": model}
        return [int(row[0]) for row in self._aside.rows(self._sql["missing"], values)]

    def texts(self, chunks: Sequence[int]) -> list[tuple[int, str]]:
        """Chunks with their texts; those that are gone are left out."""
        return [
            (int(number), str(words))
            for number, words in self._aside.rows(self._sql["texts"], _numbers(chunks))
        ]

    def keep(self, model: str, made: Sequence[tuple[int, array[float]]]) -> None:
        """Store what ``model`` made of chunks."""
        rows = [(chunk, len(vector), unit(vector)) for chunk, vector in made]

        def job(link: Link) -> None:
            for chunk, dims, vector in rows:
                values = {"chunk": chunk, "model": model, "dims": dims, "vector": vector}
                link.execute(self._sql["keep"], values)

        self._writer.submit(job).wait()

    # -- Searching -----------------------------------------------------------------------------------

    def search(
        self, collection_id: int, collection: str, model: str, vector: array[float], limit: int
    ) -> list[Passage]:
        """The ``limit`` chunks whose vectors are nearest to ``vector``, nearest first; the score is the cosine.

        :raises VectorsDiffer: they are not of one length.
        """
        wanted = unit(vector)
        try:
            if (kept := self._current(collection_id, model)) is None:
                with self._one_at_a_time:  # of many who come at once, one reads
                    if (kept := self._current(collection_id, model)) is None:
                        return self._quoted(self._read_and_search(collection_id, model, wanted, limit))
            return self._quoted(self._aside.run(partial(vector_index.nearest, kept.pages, wanted, limit)))
        except vector_index.Mixed:
            raise VectorsDiffer(collection, model) from None

    def kept_bytes(self) -> int:
        """How much of the memory is taken by vectors."""
        return sum(each.size for each in self._kept.values())

    def _read_and_search(
        self, collection_id: int, model: str, wanted: bytes, limit: int
    ) -> list[tuple[float, int]]:
        """Search while reading, and keep what was read if it is all and not too much."""
        before = self._state(collection_id, model, 0)[:-1]
        found: list[tuple[float, int]] = []
        pages: list[Page] = []
        size = count = 0
        for page in self._pages(collection_id, model):
            nearest = self._aside.run(partial(vector_index.nearest, (page,), wanted, limit))
            found = sorted([*found, *nearest], key=lambda entry: (-entry[0], entry[1]))[:limit]
            size += page.size
            count += len(page.ids)
            if size <= self._most_kept:
                pages.append(page)
            else:
                pages.clear()
        if 0 < size <= self._most_kept and count == before[-1]:
            first = pages[0].matrix[0].tobytes()
            self._remember((collection_id, model), _Kept((*before, first), tuple(pages)))
        return found

    def _pages(self, collection_id: int, model: str) -> Iterator[Page]:
        values = {"collection": collection_id, "model": model, "size": PAGE}
        for first, last in self._aside.rows(self._sql["pages"], values):
            rows = self._aside.rows(self._sql["read"], {**values, "first": first, "last": last})
            if rows:
                yield self._aside.run(partial(vector_index.page, t.cast(t.Any, rows)))

    def _remember(self, key: tuple[int, str], kept: _Kept) -> None:
        self._kept[key] = kept
        self._kept.move_to_end(key)
        total = self.kept_bytes()
        while total > self._most_kept:
            _, gone = self._kept.popitem(last=False)
            total -= gone.size

    def _current(self, collection_id: int, model: str) -> _Kept | None:
        """What is kept, when it is of what the documents are now."""
        kept = self._kept.get((collection_id, model))
        if kept is None or kept.state != self._state(collection_id, model, kept.first):
            return None
        if (collection_id, model) in self._kept:
            self._kept.move_to_end((collection_id, model))
        return kept

    def _state(self, collection_id: int, model: str, first: int) -> Row:
        values = {"collection": collection_id, "model": model, "first": first}
        (row,) = self._aside.rows(self._sql["state"], values)
        return tuple(row)

    def _quoted(self, found: Sequence[tuple[float, int]]) -> list[Passage]:
        rows = (
            self._aside.rows(self._sql["passages"], _numbers([number for _, number in found]))
            if found
            else []
        )
        by_number = {int(row[0]): row[1:] for row in rows}
        passages = []
        for score, number in found:
            if number in by_number:  # else it has been replaced since
                document_id, source, title, start, end, words = by_number[number]
                passages.append(Passage(document_id, source, title, start, end, words, score))
        return passages


def unit(vector: array[float]) -> bytes:
    """A vector with length 1, as it is stored; one of zeros stays one."""
    length = math.hypot(*vector)
    made = array("f", (value / length for value in vector)) if length else array("f", vector)
    if sys.byteorder == "big":
        made.byteswap()
    return made.tobytes()


def _numbers(numbers: Sequence[int]) -> dict[str, str]:
    return {"ids": json.dumps(list(numbers))}

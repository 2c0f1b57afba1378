"""Documents in collections, cut into chunks that can be searched.

Law of this room: a document is in its collection under its source, whole or not at all. Its chunks are written in
batches, so that nobody else's write waits for a book, under a version that no reader looks at before it is complete.
A collection is there while it has documents. Texts are stored without U+0000 and lone surrogates (U+FFFD stands for
each), and spans count characters of the stored text.
"""

from __future__ import annotations

import shlex
import typing as t
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from gevent import monkey

from app.clock import Clock
from app.store import document_statements as statements
from app.store.aside import Aside
from app.store.chunking import spans
from app.store.db import Backend, Link, Row, from_json, json_text, text
from app.store.errors import StoreConflict, StoreFailed
from app.store.search import Search, stored_terms
from app.store.terms import terms
from app.store.vectors import Vectors
from app.store.writer import Note, Writer
from plugins.spec.blocks import Passage

#: Chunks that one job of the writer inserts or removes: some milliseconds.
BATCH = 100
_FINISHED = ("version", "title", "media_type", "characters", "chunks", "created_at", "updated_at")
_NAMED = 20  # collections that an error names
_T = t.TypeVar("_T")
_let_others_run = monkey.get_original("time", "sleep")


class CollectionUnknown(StoreConflict):
    """There is no such collection. The message names some that there are.

    :ivar name: the collection, cut. It is all that who may not read documents should be told.
    """

    def __init__(self, name: str, names: Sequence[str]) -> None:
        there = f"there are {', '.join(names)}" if names else "there is none yet"
        self.name = name[:64]
        super().__init__(
            f"There is no collection '{self.name}'; {there}. Add documents to it: studio documents add "
            f"{shlex.quote(self.name)} FILE"
        )
        self.code = "collection_unknown"


class VersionConflict(StoreConflict):
    """The document is not the version the writer wants to change."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A document to store.

    :ivar source: where it comes from; its name inside the collection.
    """

    source: str
    text: str
    title: str | None = None
    media_type: str = "text/plain"
    metadata: dict[str, t.Any] | None = None


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """What is known about a document. ``version`` grows whenever it is replaced."""

    id: str
    collection: str
    source: str
    version: int
    title: str | None
    media_type: str
    metadata: dict[str, t.Any] | None
    characters: int
    chunks: int
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """A collection and how much is in it."""

    name: str
    documents: int
    chunks: int
    characters: int
    updated_at: int
    embedding_model: str | None = None


@dataclass(frozen=True, slots=True)
class _Claim:
    """The right to store one version of a document."""

    collection_id: int
    document_id: str
    number: int
    created_at: int
    expected: int | None


class Documents:
    """See the module. Every method waits, cooperatively, and none holds the hub up.

    All raise StoreFailed when the database cannot be read or written.

    :ivar vectors: of the chunks, and searching by them.
    """

    def __init__(self, backend: Backend, writer: Writer, aside: Aside, clock: Clock, most_kept: int) -> None:
        self._backend, self._writer, self._aside, self._clock = backend, writer, aside, clock
        self._sql = statements.prepare(backend)
        self._search = Search(backend, aside)
        self.vectors = Vectors(backend, writer, aside, most_kept)

    def put(
        self, collection: str, draft: Draft, expected: int | None = None, note: Note | None = None
    ) -> DocumentRow:
        """Store a document, in place of the one of the same source.

        :param expected: the version it may replace; 0: there must be none; None: any.
        :param note: of the change, given the row (:class:`app.store.audit.Audit`).
        :raises VersionConflict: there is another version.
        """
        source, title = str(text(draft.source)), text(draft.title)
        whole = str(text(draft.text))
        claim = self._claim(collection, source, expected)
        count = 0
        try:
            prepared = iter(self._aside.run(lambda: list(self._prepare(whole, claim))))
            while batch := list(islice(prepared, BATCH)):
                count += len(batch)
                self._insert(claim, batch)
            row = DocumentRow(
                claim.document_id,
                collection,
                source,
                claim.number,
                title,
                draft.media_type,
                draft.metadata,
                len(whole),
                count,
                claim.created_at,
                self._clock.now_ms(),
            )
            self._finish(claim, row, whole, note)
        except VersionConflict:
            self._sweep(claim.document_id, claim.number, claim.number)
            raise
        self._sweep(claim.document_id, 0, claim.number - 1)
        return row

    def beside(self, fn: t.Callable[[], _T]) -> _T:
        """The result of ``fn()``, computed beside the hub: for reading large files."""
        return self._aside.run(fn)

    def find(self, collection: str, source: str) -> DocumentRow | None:
        """The document of a source."""
        found = self._aside.rows(self._sql.find, {"collection": text(collection), "source": text(source)})
        return _row(found[0]) if found else None

    def get(self, document_id: str) -> DocumentRow | None:
        """A document, without its text."""
        found = self._aside.rows(self._sql.get, {"document": text(document_id)})
        return _row(found[0]) if found else None

    def read(self, document_id: str) -> tuple[DocumentRow, str] | None:
        """A document and its text."""
        found = self._aside.rows(self._sql.read, {"document": text(document_id)})
        return (_row(found[0][:-1]), str(found[0][-1])) if found else None

    def list(
        self, collection: str, after: str | None = None, limit: int = 50
    ) -> tuple[list[DocumentRow], str | None]:
        """Documents of a collection, oldest first.

        :param after: the id of the last one of the page before.
        :returns: at most ``limit`` rows, and the id after which the list goes on; None at its end.
        """
        values = {"collection": text(collection), "after": text(after or ""), "limit": limit + 1}
        found = self._aside.rows(self._sql.list, values)
        rows = [_row(row) for row in found[:limit]]
        return rows, rows[-1].id if len(found) > limit else None

    def collections(
        self, after: str | None = None, limit: int = 50
    ) -> tuple[t.List[CollectionRow], str | None]:  # noqa: UP006  # list is a method here
        """Collections by name, as :meth:`list` does it."""
        found = self._aside.rows(self._sql.collections, {"after": text(after or ""), "limit": limit + 1})
        rows = [
            CollectionRow(str(name), int(count), int(pieces), int(characters), int(at), model)
            for name, model, count, pieces, characters, at in found[:limit]
        ]
        return rows, rows[-1].name if len(found) > limit else None

    def remove(self, document_id: str, expected: int | None = None, note: Note | None = None) -> bool:
        """Remove a document with its chunks; False when there is none.

        :param note: of the change (:class:`app.store.audit.Audit`).
        :raises VersionConflict: it is not the version ``expected``.
        """
        this = {"document": text(document_id)}

        def hide(link: Link) -> int | None:
            found = link.rows(self._sql.lock, this)
            if not found or not found[0][0]:
                return None
            version, claimed = found[0]
            _compare(version, expected)
            link.execute(self._sql.hide, this)
            return int(claimed)

        claimed = self._writer.submit(hide, note=note).wait()
        if claimed is None:
            return False
        self._sweep(document_id, 0, claimed)
        self._writer.submit(lambda link: link.execute(self._sql.drop, {**this, "claimed": claimed})).wait()
        return True

    def search(self, collection: str, query: str, limit: int) -> t.List[Passage]:  # noqa: UP006
        """The best chunks for the words of ``query``, best first. May stand inside a guarded wait.

        :raises CollectionUnknown: there is no such collection.
        """
        return self._search.words(self.collection_id(collection), query, limit)

    def collection_id(self, name: str) -> int:
        """The number of a collection, the ``collection_id`` of its chunks.

        :raises CollectionUnknown: there is no such collection.
        """
        found = self._aside.rows(self._sql.collection, {"collection": text(name)})
        if not found:
            names = [row.name for row in self.collections(limit=_NAMED)[0]]
            raise CollectionUnknown(name, names)
        return int(found[0][0])

    # -- Storing -------------------------------------------------------------------------------------

    def _claim(self, collection: str, source: str, expected: int | None) -> _Claim:
        now = self._clock.now_ms()
        this = {"collection": collection, "source": source, "document": self._clock.new_id("doc"), "at": now}

        def job(link: Link) -> _Claim:
            link.execute(self._sql.add_collection, this)
            link.execute(self._sql.add_document, this)
            link.execute(self._sql.claim, this)
            collection_id, document_id, version, claimed, created_at = link.rows(self._sql.claimed, this)[0]
            _compare(version, expected)
            return _Claim(collection_id, document_id, claimed, created_at if version else now, expected)

        return t.cast(_Claim, self._writer.submit(job).wait())

    def _prepare(self, whole: str, claim: _Claim) -> Iterator[Row]:
        """The rows of the chunks. In a thread, which lets the hub run after each."""
        for position, (start, end) in enumerate(spans(whole)):
            piece = whole[start:end]
            found = stored_terms(self._backend, terms(piece))
            place = (claim.collection_id, claim.document_id, claim.number, position)
            yield (*place, start, end, piece, found)
            _let_others_run(0)

    def _insert(self, claim: _Claim, batch: Sequence[Row]) -> None:
        def job(link: Link) -> None:
            self._check(link, claim)
            link.insert(self._sql.insert, batch)

        self._writer.submit(job).wait()

    def _finish(self, claim: _Claim, row: DocumentRow, whole: str, note: Note | None) -> None:
        """Make the claimed version the one that is read. Of two writers at once, the later claim stays."""
        values = {f"new_{name}": getattr(row, name) for name in _FINISHED}
        values |= {"document": row.id, "new_metadata": json_text(row.metadata), "new_text": whole}

        def job(link: Link) -> DocumentRow:
            self._check(link, claim)
            link.execute(self._sql.finish, values)
            return row

        self._writer.submit(job, note=note).wait()

    def _check(self, link: Link, claim: _Claim) -> None:
        """Whether the claim is still good.

        :raises VersionConflict: it is not.
        """
        found = link.rows(self._sql.lock, {"document": claim.document_id})
        if not found:
            raise VersionConflict("The document was removed while it was being stored. Send it again.")
        version, _ = found[0]
        _compare(version, claim.expected)
        if version > claim.number:
            raise VersionConflict("A later version was stored meanwhile. Read it, then send yours again.")

    def _sweep(self, document_id: str, first: int, last: int) -> None:
        """Remove the chunks of versions ``first`` to ``last``."""
        values = {"document": document_id, "first": first, "last": last, "most": BATCH}
        while self._writer.submit(lambda link: link.execute(self._sql.sweep, values)).wait() == BATCH:
            pass


def _compare(version: int, expected: int | None) -> None:
    if expected is not None and version != expected:
        there = f"is at version {version}" if version else "is not there"
        raise VersionConflict(
            f"The document {there}, not at version {expected}. Read it, then send yours again."
        )


def _row(row: Row) -> DocumentRow:
    id_, collection, source, version, title, media_type, metadata, *numbers = row
    return DocumentRow(id_, collection, source, version, title, media_type, from_json(metadata), *numbers)


__all__ = [
    "CollectionRow",
    "CollectionUnknown",
    "DocumentRow",
    "Documents",
    "Draft",
    "StoreFailed",
    "VersionConflict",
]

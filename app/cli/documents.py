"""``studio documents add | list | show | remove | search | embed``.

Law of this room: a file is in its collection under the path it was given by, and adding it again replaces it. What
cannot be read is said of each file; the others are added.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from app.agents.document_files import (
    COLLECTION,
    COLLECTION_WORDS,
    MAX_SOURCE,
    MAX_TEXT,
    TooLong,
    Unreadable,
    media_type,
    read,
)
from app.cli.context import note, note_of, on_one_line, open_store, table
from app.cli.embedding import Vectors
from app.clock import rfc3339
from app.errors import Problem, ValidationFailed

if t.TYPE_CHECKING:
    from app.store import Store
    from app.store.documents import DocumentRow, Draft

_SHOWN = 300  # characters of a passage on a terminal
_PAGE = 500


def _collection(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not COLLECTION.fullmatch(value):
        raise click.BadParameter(COLLECTION_WORDS)
    return value


@contextmanager
def _store() -> Iterator[Store]:
    """The store; a collection that is not there is a mistake of whoever names it."""
    from app.store.documents import CollectionUnknown

    with open_store() as store:
        try:
            yield store
        except CollectionUnknown as unknown:
            raise ValidationFailed([Problem("", unknown.message)]) from None


@click.group()
def documents() -> None:
    """Keep documents that workflows can search."""


@documents.command()
@click.argument("collection", callback=_collection)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--title", help="Title of the document; default: what the file states. One file only.")
@click.option(
    "--embed",
    "model",
    metavar="FAMILY/MODEL",
    help="Make vectors of them, too, with this model; default: the collection's, if it has one.",
)
def add(collection: str, files: tuple[Path, ...], title: str | None, model: str | None) -> None:
    """Add FILES to a COLLECTION, in place of what was there under the same path.

    Text of any kind: plain, Markdown, HTML, JSON, CSV. A folder stands for the files in it, hidden ones left out.
    """
    from app.store.documents import VersionConflict

    found = list(_files(files))
    if title is not None and len(found) != 1:
        raise click.UsageError("--title is for one file.")
    problems = []
    with _store() as store:
        vectors = Vectors(store, collection, model, "--embed")
        for file in found:
            try:
                row = store.documents.put(collection, _draft(file, title), note=note_of(store, _told_put))
            except (Unreadable, OSError, VersionConflict) as error:
                problems.append(Problem(str(file), str(error)))
            else:
                click.echo(f"{row.id}\t{on_one_line(row.source)}\t{row.chunks}")
        if len(problems) < len(found):
            vectors.make()
    if problems:
        raise ValidationFailed(problems)


def _told_put(row: DocumentRow) -> tuple[t.Any, ...]:
    details = {"collection": row.collection, "version": row.version}
    return "document.put", f"document:{row.id}", details


def _files(given: t.Iterable[Path]) -> Iterator[Path]:
    for path in given:
        if not path.is_dir():
            yield path
            continue
        for file in sorted(path.rglob("*")):
            if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
                yield file


def _draft(file: Path, title: str | None) -> Draft:
    from app.store.documents import Draft

    source = file.as_posix()
    if len(source) > MAX_SOURCE:
        raise Unreadable(f"its path is over {MAX_SOURCE} characters. Add it from a folder nearer to it.")
    with file.open("rb") as opened:  # bounded: a pipe or a device has no size
        data = opened.read(4 * MAX_TEXT + 1)
    if len(data) > 4 * MAX_TEXT:
        raise TooLong
    text, stated, kind = read(data, media_type(file.name))
    return Draft(source, text, title or stated, kind)


@documents.command(name="list")
@click.argument("collection", callback=_collection, required=False)
def list_(collection: str | None) -> None:
    """List collections, or the documents of a COLLECTION."""
    with _store() as store:
        if collection is None:
            found = _all(lambda after: store.documents.collections(after, _PAGE))
            rows = [(c.name, c.documents, c.chunks, c.characters, rfc3339(c.updated_at)) for c in found]
            table(rows, ("COLLECTION", "DOCUMENTS", "CHUNKS", "CHARACTERS", "CHANGED"))
            return
        store.documents.collection_id(collection)
        listed = _all(lambda after: store.documents.list(collection, after, _PAGE))
        cells = [(d.id, d.source, d.title, d.chunks, d.characters, rfc3339(d.updated_at)) for d in listed]
    table(cells, ("ID", "SOURCE", "TITLE", "CHUNKS", "CHARACTERS", "CHANGED"))


_T = t.TypeVar("_T")


def _all(page: Callable[[str | None], tuple[list[_T], str | None]]) -> list[_T]:
    found: list[_T] = []
    after: str | None = None
    while True:
        rows, after = page(after)
        found += rows
        if after is None:
            return found


@documents.command()
@click.argument("id_or_source")
@click.option("--collection", callback=_collection, help="Where the source is looked for.")
def show(id_or_source: str, collection: str | None) -> None:
    """Print a document's text, as it is searched. Name it by its id, or by source and --collection."""
    with _store() as store:
        row = _named(store, id_or_source, collection)
        found = store.documents.read(row.id)
    click.echo(found[1] if found else "", nl=False)


@documents.command()
@click.argument("id_or_source")
@click.option("--collection", callback=_collection, help="Where the source is looked for.")
def remove(id_or_source: str, collection: str | None) -> None:
    """Remove a document. Name it by its id, or by source and --collection."""
    with _store() as store:
        row = _named(store, id_or_source, collection)
        details = {"collection": row.collection}
        store.documents.remove(row.id, note=note(store, "document.remove", f"document:{row.id}", details))


@documents.command()
@click.argument("collection", callback=_collection)
@click.argument("query")
@click.option("--top", type=click.IntRange(1, 100), default=5, show_default=True, help="Most passages.")
@click.option("--vectors", is_flag=True, help="Search by vectors, with the collection's embedding model.")
def search(collection: str, query: str, top: int, vectors: bool) -> None:
    """Find passages of a COLLECTION by the words of QUERY, as a retrieve block does."""
    with _store() as store:
        if vectors:
            store.documents.collection_id(collection)
            found = Vectors(store, collection, None, "").search(query, top)
        else:
            found = store.documents.search(collection, query, top)
    rows = [
        (f"{p.score:.3g}", f"{p.source}:{p.start}-{p.end}", " ".join(p.text.split())[:_SHOWN]) for p in found
    ]
    table(rows, ("SCORE", "WHERE", "TEXT"))


@documents.command()
@click.argument("collection", callback=_collection)
@click.argument("model", metavar="FAMILY/MODEL")
@click.option("--again", is_flag=True, help="Make all vectors anew, also those that are there.")
def embed(collection: str, model: str, again: bool) -> None:
    """Make vectors of a COLLECTION with a model; its searches by vectors use that one from then on.

    What is there by the same model stays. Vectors of another model are dropped once all new ones are made.
    """
    with _store() as store:
        store.documents.collection_id(collection)
        Vectors(store, collection, model, "FAMILY/MODEL", change=True).make(again=again)


def _named(store: Store, name: str, collection: str | None) -> DocumentRow:
    row = store.documents.get(name) if collection is None else store.documents.find(collection, name)
    if row is None:
        where = "" if collection is None else f" in '{collection}'"
        raise ValidationFailed(
            [Problem("", f"There is no document '{name}'{where}. See: studio documents list")]
        )
    return row

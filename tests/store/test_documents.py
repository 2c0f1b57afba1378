"""Documents: replaced whole, found by their words, cited by exact spans, on every database."""

from __future__ import annotations

import sqlite3
import typing as t

import gevent
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given
from hypothesis import settings as how
from hypothesis import strategies as st

from app.store import Store, StoreFailed
from app.store.db import Link
from app.store.documents import CollectionUnknown, Draft, VersionConflict
from app.store.sqlite import SlowQuery

PAGES = {
    "fox.txt": "The quick brown fox jumps over the lazy dog.",
    "cats.txt": "Cats sleep most of the day.\n\nA cat that hunts sleeps, too.",
    "städte.txt": "Die größte Stadt ist Köln.\n\n東京タワーは東京にあります。",
}


@pytest.fixture
def filled(store: Store) -> Store:
    for source, text in PAGES.items():
        store.documents.put("pages", Draft(source, text))
    return store


def sources(store: Store, query: str, collection: str = "pages") -> list[str]:
    return [passage.source for passage in store.documents.search(collection, query, 5)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Which foxes are quick?", ["fox.txt"]),
        ("what does a sleeping cat do", ["cats.txt"]),
        ("koln", ["städte.txt"]),
        ("東京", ["städte.txt"]),
        ("unheard of", []),
    ],
)
def test_questions_find_what_shares_their_words(filled: Store, query: str, found: list[str]) -> None:
    assert sources(filled, query) == found


def test_a_rare_word_counts_more_than_a_common_one(store: Store) -> None:
    for n in range(20):
        store.documents.put("many", Draft(f"{n}.txt", "A manual of engines, with pictures of engines."))
    store.documents.put("many", Draft("rare.txt", "A manual of ships, with a carburettor, and of the rest."))
    assert sources(store, "engine carburettor", "many")[0] == "rare.txt"


def test_spans_are_exact_in_what_was_stored(store: Store) -> None:
    text = "Ünï😀 \0 \ud800 one.\r\n\r\n" + "Many words follow here. " * 400 + "The needle 🪡 is here."
    made = store.documents.put("spans", Draft("a", text, title="T", metadata={"k": [1, None]}))
    row, stored = store.documents.read(made.id)
    assert row == made
    assert len(stored) == len(text) == row.characters
    assert stored == text.replace("\0", "\ufffd").replace("\ud800", "\ufffd")
    assert row.metadata == {"k": [1, None]}
    found = store.documents.search("spans", "needle words", 50)
    assert "needle" in found[0].text
    assert len(found) == row.chunks > 5
    for passage in found:
        assert stored[passage.start : passage.end] == passage.text
        assert (passage.document_id, passage.title) == (made.id, "T")
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)


def test_only_the_asked_collection_is_searched(filled: Store) -> None:
    filled.documents.put("other", Draft("fox.txt", "Another fox. 1 2 3 4 5 6 7 8 9"))
    assert [p.text for p in filled.documents.search("other", "fox", 9)] == ["Another fox. 1 2 3 4 5 6 7 8 9"]
    # The numbers of collections are terms of the index, not of its texts.
    for number in range(1, 4):
        assert sources(filled, str(number)) == []


def test_the_same_source_replaces(filled: Store) -> None:
    before = filled.documents.find("pages", "fox.txt")
    after = filled.documents.put("pages", Draft("fox.txt", "Now about owls."))
    assert (after.id, after.version, after.created_at) == (before.id, 2, before.created_at)
    assert sources(filled, "fox") == []
    assert sources(filled, "owl") == ["fox.txt"]
    assert len(filled.documents.list("pages")[0]) == 3


def test_a_blank_document_is_kept_and_never_found(store: Store) -> None:
    made = store.documents.put("blank", Draft("nothing", " \n"))
    assert made.chunks == 0
    assert store.documents.search("blank", "nothing", 5) == []


def test_expected_versions(store: Store) -> None:
    put = store.documents.put
    assert put("c", Draft("a", "1"), expected=0).version == 1
    for wrong in (0, 2):
        with pytest.raises(VersionConflict, match="is at version 1"):
            put("c", Draft("a", "2"), expected=wrong)
    made = put("c", Draft("a", "3"), expected=1)
    assert store.documents.read(made.id)[1] == "3"
    with pytest.raises(VersionConflict):
        store.documents.remove(made.id, expected=1)
    assert store.documents.remove(made.id, expected=made.version)
    with pytest.raises(VersionConflict, match="is not there"):
        put("c", Draft("a", "4"), expected=made.version)


def test_a_removed_document_is_gone_and_its_name_is_free(filled: Store) -> None:
    fox = filled.documents.find("pages", "fox.txt")
    assert filled.documents.remove(fox.id)
    assert not filled.documents.remove(fox.id)
    assert filled.documents.get(fox.id) is None
    assert sources(filled, "fox") == []
    again = filled.documents.put("pages", Draft("fox.txt", "A new fox."), expected=0)
    assert (again.version, sources(filled, "fox")) == (1, ["fox.txt"])
    assert again.id != fox.id


def test_an_unknown_collection_names_those_there_are(filled: Store) -> None:
    with pytest.raises(CollectionUnknown, match=r"studio documents add 'a b;c' FILE"):
        filled.documents.collection_id("a b;c")
    with pytest.raises(CollectionUnknown, match=r"'nope'; there are pages\. .*studio documents add nope"):
        filled.documents.search("nope", "fox", 5)
    for row in filled.documents.list("pages")[0]:
        filled.documents.remove(row.id)
    with pytest.raises(CollectionUnknown, match="there is none yet"):
        filled.documents.search("pages", "fox", 5)
    assert filled.documents.collections() == ([], None)


def test_pages_of_documents_and_collections(store: Store) -> None:
    made = [store.documents.put("many", Draft(f"{n}", "x")).id for n in range(5)]
    for name in ("b", "a", "c"):
        store.documents.put(name, Draft("x", "one two"))
    found, after = [], None
    while True:
        rows, after = store.documents.list("many", after, 2)
        found += [row.id for row in rows]
        if after is None:
            break
    assert found == sorted(made)
    first, after = store.documents.collections(None, 2)
    second, end = store.documents.collections(after, 2)
    assert [(row.name, row.documents, row.chunks) for row in first + second] == [
        ("a", 1, 1),
        ("b", 1, 1),
        ("c", 1, 1),
        ("many", 5, 5),
    ]
    assert end is None


def test_writers_at_once_leave_one_whole_document(store: Store) -> None:
    texts = [f"{name} word. " * 3000 for name in ("alpha", "beta", "gamma", "delta")]
    jobs = [gevent.spawn(store.documents.put, "race", Draft("one", text)) for text in texts]
    gevent.joinall(jobs)
    errors = [job.exception for job in jobs if job.exception is not None]
    assert all(isinstance(error, VersionConflict) for error in errors)
    row, text = store.documents.read(store.documents.find("race", "one").id)
    assert text in texts
    assert row.version == 4  # the last who came is never the one that is refused
    found = store.documents.search("race", "word", 100)
    assert len(found) == min(row.chunks, 100)
    assert {p.document_id for p in found} == {row.id}
    assert all(text[p.start : p.end] == p.text for p in found)
    assert _count(store, "chunks") == row.chunks


@pytest.mark.parametrize("step", ["_claim", "_insert"])
@pytest.mark.parametrize("known", [True, False], ids=["expected", "whatever is there"])
def test_a_document_that_goes_while_it_is_replaced_is_gone(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: str, known: bool
) -> None:
    made = store.documents.put("c", Draft("one", "old"))
    real = getattr(store.documents, step)

    def then_removed(*args: t.Any) -> t.Any:
        value = real(*args)
        store.documents.remove(made.id)
        return value

    monkeypatch.setattr(store.documents, step, then_removed)
    with pytest.raises(VersionConflict, match=r"removed while|is not there"):
        store.documents.put("c", Draft("one", "new words. " * 20_000), made.version if known else None)
    monkeypatch.undo()
    assert (_count(store, "documents"), _count(store, "chunks")) == (0, 0)
    assert store.documents.put("c", Draft("one", "new"), 0).version == 1


def test_who_is_overtaken_stores_nothing_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.documents.put("c", Draft("one", "old"))
    real = store.documents._insert
    stored: list[int] = []

    def overtaken(claim: t.Any, batch: t.Any) -> None:
        real(claim, batch)
        stored.append(claim.number)
        if claim.number == 2:
            store.documents.put("c", Draft("one", "newest"))

    monkeypatch.setattr(store.documents, "_insert", overtaken)
    with pytest.raises(VersionConflict, match="later version"):
        store.documents.put("c", Draft("one", "new words. " * 20_000))
    assert stored == [2, 3]
    assert _count(store, "chunks") == 1
    assert sources(store, "newest", "c") == ["one"]


def test_nothing_is_left_of_what_was_removed(filled: Store) -> None:
    for row in filled.documents.list("pages")[0]:
        filled.documents.put("pages", Draft(row.source, "Much more text. " * 500))
        filled.documents.remove(row.id)
    assert (_count(filled, "documents"), _count(filled, "chunks")) == (0, 0)


def _count(store: Store, table: str) -> int:
    return int(
        store._writer.submit(
            lambda link: link.raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        ).wait()
    )


def test_a_document_that_is_half_stored_is_not_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.documents.put("c", Draft("kept", "old owls"))
    real, batches = Link.insert, []

    def failing(link: Link, statement: object, rows: object) -> None:
        batches.append(rows)
        if len(batches) == 2:
            raise RuntimeError("no more room")
        real(link, statement, rows)

    monkeypatch.setattr(Link, "insert", failing)
    for collection in ("c", "d"):
        batches.clear()
        with pytest.raises(Exception, match="no more room"):
            store.documents.put(collection, Draft("kept", "new foxes. " * 20_000))
    monkeypatch.undo()
    with pytest.raises(CollectionUnknown):
        store.documents.search("d", "foxes", 5)
    assert (sources(store, "foxes", "c"), sources(store, "owls", "c")) == ([], ["kept"])
    for collection in ("c", "d"):
        store.documents.put(collection, Draft("kept", "new owls"))
    assert _count(store, "chunks") == 2


@how(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=400), query=st.text(max_size=80))
def test_no_query_and_no_text_is_an_error(filled: Store, text: str, query: str) -> None:
    made = filled.documents.put("any", Draft("x", text))
    stored = filled.documents.read(made.id)[1]
    for asked in (query, f'"{query}"', text, f"{query}*", f"terms:{query}", f"NEAR({query} a, 2)"):
        for passage in filled.documents.search("any", asked, 5):
            assert stored[passage.start : passage.end] == passage.text


@pytest.mark.parametrize(
    "query",
    [
        "'); DROP TABLE chunks; --",
        "collection_id:2 fox",
        'fox" OR "cat',
        "fox AND NOT cat",
        "^fox",
        "fox & !cat",
    ],
)
def test_signs_of_query_languages_mean_nothing(filled: Store, query: str) -> None:
    words = [s for s in ("fox.txt", "cats.txt") if s[:3] in query]
    assert set(sources(filled, query)) == set(words)


_ENDLESS = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "postgresql": "SELECT pg_sleep(60)",
}


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 10, 20, 100])
def test_who_leaves_a_search_leaves_nothing_behind(filled: Store, turns: int) -> None:
    backend = filled._backend
    endless = backend.prepare(sa.text(_ENDLESS[backend.name]))
    jobs = [gevent.spawn(filled._aside.rows, endless, {}) for _ in range(6)]
    for _ in range(turns):
        gevent.sleep(0.001)
    gevent.killall(jobs)
    assert all(isinstance(job.value, gevent.GreenletExit) for job in jobs)
    assert sources(filled, "fox") == ["fox.txt"]


def test_a_search_that_is_left_is_ended(sqlite_settings, open_store) -> None:
    store = open_store(sqlite_settings)
    store.documents.put("c", Draft("a", "words"))
    query = SlowQuery(store._backend, _ENDLESS["sqlite"], (), 1.0)
    ended = []

    def rows() -> list[object]:
        try:
            return query.rows()
        except StoreFailed as error:
            ended.append(error.__cause__)
            raise

    job = gevent.spawn(store._aside.run, rows, query.stop)
    while query._raw is None:
        gevent.sleep(0.001)
    job.kill()
    while not ended:
        gevent.sleep(0.001)
    assert isinstance(ended[0], sqlite3.OperationalError)
    assert sources(store, "words", "c") == ["a"]

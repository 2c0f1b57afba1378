"""Vectors of chunks: one model a collection, exact neighbours, never of a document that was, on every database."""

from __future__ import annotations

import math
import typing as t
from array import array
from collections.abc import Callable

import gevent
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as how
from hypothesis import strategies as st

from app.config import Settings
from app.store import Store, vectors
from app.store.documents import Draft
from app.store.vectors import ModelDiffers, VectorsDiffer

MODEL = "scripted/bag-of-words"


def put(store: Store, source: str, text: str) -> None:
    """One document of the collection ``pages``, which is short enough for one chunk."""
    store.documents.put("pages", Draft(source, text))


def embed(store: Store, of: t.Callable[[str], t.Sequence[float]], model: str = MODEL) -> int:
    """Make what is missing; how many it were."""
    made, number = store.documents.vectors, store.documents.collection_id("pages")
    missing = made.missing(number, model)
    made.keep(model, [(chunk, array("f", of(text))) for chunk, text in made.texts(missing)])
    return len(missing)


def search(
    store: Store, vector: t.Sequence[float], limit: int = 5, model: str = MODEL
) -> list[tuple[str, float]]:
    """Sources and scores."""
    number = store.documents.collection_id("pages")
    found = store.documents.vectors.search(number, "pages", model, array("f", vector), limit)
    return [(passage.source, round(passage.score, 4)) for passage in found]


def along(text: str) -> tuple[float, float]:
    """A vector that points where the text says, in degrees, and is as long as it is."""
    angle = math.radians(float(text))
    return math.cos(angle) * 7, math.sin(angle) * 7


def test_the_nearest_come_first_with_their_cosine(store: Store) -> None:
    for degrees in (0, 30, 60, 90, 180):
        put(store, f"at {degrees}", str(degrees))
    assert embed(store, along) == 5
    assert search(store, (2.0, 0.0)) == [
        ("at 0", 1.0), ("at 30", 0.866), ("at 60", 0.5), ("at 90", 0.0), ("at 180", -1.0),
    ]  # fmt: skip
    assert search(store, (0.0, 1.0), 2) == [("at 90", 1.0), ("at 60", 0.866)]


def test_passages_are_quoted_with_their_place(store: Store) -> None:
    store.documents.put("pages", Draft("a", "45", title="Title"))
    embed(store, along)
    number = store.documents.collection_id("pages")
    (found,) = store.documents.vectors.search(number, "pages", MODEL, array("f", (1, 1)), 3)
    assert (found.source, found.title, found.text, found.start, found.end) == ("a", "Title", "45", 0, 2)
    assert found.document_id.startswith("doc_")


def test_a_changed_document_is_found_as_it_is_now(store: Store) -> None:
    put(store, "moves", "0")
    put(store, "stays", "90")
    embed(store, along)
    assert search(store, (1, 0), 1) == [("moves", 1.0)]
    put(store, "moves", "180")
    assert embed(store, along) == 1
    assert search(store, (1, 0)) == [("stays", 0.0), ("moves", -1.0)]
    found = store.documents.find("pages", "moves")
    assert found is not None
    store.documents.remove(found.id)
    assert search(store, (1, 0)) == [("stays", 0.0)]
    put(store, "new", "0")
    assert embed(store, along) == 1
    assert search(store, (1, 0), 1) == [("new", 1.0)]


def test_another_process_sees_the_change(
    store: Store, settings: Settings, open_store: Callable[..., Store]
) -> None:
    other = open_store(settings)
    put(store, "a", "0")
    embed(store, along)
    assert search(other, (1, 0)) == [("a", 1.0)]
    put(store, "b", "10")
    embed(store, along)
    assert search(other, (1, 0)) == [("a", 1.0), ("b", 0.9848)]
    store.documents.vectors.forget(store.documents.collection_id("pages"), MODEL)
    embed(store, lambda text: along("90"))
    assert search(other, (1, 0)) == [("a", 0.0), ("b", 0.0)]


def test_vectors_go_with_their_chunks(store: Store) -> None:
    put(store, "a", "0")
    embed(store, along)
    number = store.documents.collection_id("pages")
    (row,) = store.documents.list("pages")[0]
    store.documents.remove(row.id)
    put(store, "b", "0")
    assert store.documents.vectors.missing(number, MODEL) != []
    assert search(store, (1, 0)) == []


def test_a_search_before_all_vectors_are_made_hides_none_of_them(store: Store) -> None:
    put(store, "early", "0")
    embed(store, along)
    put(store, "late", "10")
    for _ in range(2):
        assert search(store, (1, 0)) == [("early", 1.0)]
    assert embed(store, along) == 1
    for _ in range(2):
        assert search(store, (1, 0)) == [("early", 1.0), ("late", 0.9848)]
    assert store.documents.vectors.kept_bytes() == 32


def test_a_document_that_comes_while_vectors_are_read_is_found_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "early", "0")
    embed(store, along)
    read = store.documents.vectors._pages

    def meanwhile(*ids: t.Any) -> t.Any:
        monkeypatch.undo()
        put(store, "late", "10")
        return read(*ids)

    monkeypatch.setattr(store.documents.vectors, "_pages", meanwhile)
    assert search(store, (1, 0)) == [("early", 1.0)]
    assert embed(store, along) == 1
    assert search(store, (1, 0)) == [("early", 1.0), ("late", 0.9848)]


def test_a_chunk_that_is_gone_keeps_no_vector(store: Store) -> None:
    store.documents.vectors.keep(MODEL, [(12345, array("f", (1, 0)))])
    put(store, "a", "0")
    assert search(store, (1, 0)) == []


def test_the_first_vector_of_a_chunk_stays(store: Store) -> None:
    put(store, "a", "0")
    made, number = store.documents.vectors, store.documents.collection_id("pages")
    (chunk,) = made.missing(number, MODEL)
    made.keep(MODEL, [(chunk, array("f", (1, 0)))])
    made.keep(MODEL, [(chunk, array("f", (0, 1)))])
    assert search(store, (1, 0)) == [("a", 1.0)]


def test_a_vector_of_zeros_is_like_nothing(store: Store) -> None:
    put(store, "a", "0")
    embed(store, lambda text: (0.0, 0.0))
    assert search(store, (1, 0)) == [("a", 0.0)]


class TestTheModel:
    def test_a_collection_has_one(self, store: Store) -> None:
        made = store.documents.vectors
        assert made.model("pages") is None
        made.choose("pages", "openai/a", 1)
        made.choose("pages", "openai/a", 2)
        assert made.model("pages") == "openai/a"
        with pytest.raises(ModelDiffers) as caught:
            made.choose("pages", "openai/b", 3)
        assert "openai/a" in caught.value.message
        assert "studio documents embed pages openai/b" in caught.value.message
        assert made.model("pages") == "openai/a"

    def test_it_is_changed_once_the_new_vectors_are_there(self, store: Store) -> None:
        put(store, "a", "0")
        made, number = store.documents.vectors, store.documents.collection_id("pages")
        made.choose("pages", "x/one", 1)
        embed(store, along, "x/one")
        embed(store, lambda text: along("90"), "x/two")
        assert search(store, (1, 0), model="x/one") == [("a", 1.0)]
        made.choose("pages", "x/two", 1, change=True)
        made.forget_others(number, "x/two")
        assert made.missing(number, "x/one") != []
        assert search(store, (1, 0), model="x/two") == [("a", 0.0)]

    def test_vectors_of_another_length_are_told(self, store: Store) -> None:
        put(store, "a", "0")
        embed(store, along)
        with pytest.raises(VectorsDiffer, match="embed --again pages"):
            search(store, (1, 0, 0))
        search(store, (1, 0))  # and those are in memory now
        with pytest.raises(VectorsDiffer):
            search(store, (1, 0, 0))
        put(store, "b", "0")
        embed(store, lambda text: (1.0,))
        with pytest.raises(VectorsDiffer):
            search(store, (1, 0))


class TestMemory:
    def test_what_is_too_much_is_read_anew(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(vectors, "PAGE", 2)
        monkeypatch.setattr(store.documents.vectors, "_most_kept", 64)
        for degrees in range(0, 50, 10):
            put(store, f"at {degrees}", str(degrees))
        embed(store, along)
        for _ in range(2):
            assert search(store, (1, 0), 2) == [("at 0", 1.0), ("at 10", 0.9848)]
        assert store.documents.vectors.kept_bytes() == 0

    def test_what_is_kept_is_bounded(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        put(store, "a", "0")
        monkeypatch.setattr(store.documents.vectors, "_most_kept", 40)
        for model in ("x/one", "x/two", "x/three"):  # 16 bytes each
            embed(store, along, model)
            assert search(store, (1, 0), model=model) == [("a", 1.0)]
        assert store.documents.vectors.kept_bytes() == 32

    def test_many_at_once_read_once(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        put(store, "a", "0")
        embed(store, along)
        reads: list[int] = []
        read = vectors.Vectors._pages
        monkeypatch.setattr(vectors.Vectors, "_pages", lambda self, *ids: reads.append(1) or read(self, *ids))
        found = [gevent.spawn(search, store, (1, 0)) for _ in range(8)]
        gevent.joinall(found)
        assert [job.value for job in found] == [[("a", 1.0)]] * 8
        assert len(reads) == 1


NUMBERS = st.floats(-1, 1, width=32)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=40),
    st.tuples(NUMBERS, NUMBERS, NUMBERS),
    st.integers(1, 12),
    st.integers(1, 7),
)
@how(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_exactly_the_nearest_are_found(
    made: list[tuple[float, ...]], asked: tuple[float, ...], limit: int, size: int
) -> None:
    from app.store import vector_index

    rows = [(number, vectors.unit(array("f", each))) for number, each in enumerate(made)]
    pages = [vector_index.page(rows[at : at + size]) for at in range(0, len(rows), size)]
    found = vector_index.nearest(pages, vectors.unit(array("f", asked)), limit)
    assert len(found) == min(limit, len(rows))
    assert found == sorted(found, key=lambda entry: (-entry[0], entry[1]))
    length = math.hypot(*asked) or 1.0
    scores = [
        sum(a * b for a, b in zip(each, asked, strict=True)) / ((math.hypot(*each) or 1.0) * length)
        for each in made
    ]
    best = sorted(scores, reverse=True)[: len(found)]
    assert [score for score, _ in found] == pytest.approx(best, abs=1e-5)
    assert all(scores[number] == pytest.approx(score, abs=1e-5) for score, number in found)

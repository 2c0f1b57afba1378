"""Making a collection's vectors beside any run: what is refused at once, what a failure leaves, changing the model."""

from __future__ import annotations

import typing as t
from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gevent
import pytest

from app.agents.vector_search import TooManyMissing
from app.engine import embedding
from app.engine.services import Services
from app.store.documents import CollectionUnknown, Draft
from app.store.vectors import ModelDiffers
from plugins.connections import NotConfigured, RegistryError
from plugins.spec import Embeddings
from providers.spec import Embedded, EmbeddingRequest, ProviderError, Usage
from tests.support.engine import services

SCRIPTED = "scripted/bag-of-words"


class Wire:
    """Counts texts, fails when it is told to."""

    name = "counting"

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.fails_at = 0

    def embed(self, request: EmbeddingRequest, connection: t.Any, waits: t.Any) -> Embedded:
        self.asked.append(tuple(request.texts))
        gevent.sleep(0)
        if len(self.asked) == self.fails_at:
            raise ProviderError("provider_auth", "The provider refused the credentials.")
        return Embedded(tuple(array("f", (1.0, len(text))) for text in request.texts), Usage(input=10))


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with services(tmp_path) as opened:
        for number in range(5):
            opened.store.documents.put("help", Draft(f"{number}.txt", f"text {number}"))
        yield opened


@pytest.fixture
def wire(made: Services, monkeypatch: pytest.MonkeyPatch) -> Wire:
    """Behind ``ollama/…``, two texts a call, a dollar a million tokens."""
    counting = Wire()
    facts = Embeddings(wire=counting, batch=2, price=1.0)
    family = replace(made.plugins.families["ollama"], embeddings=facts)
    monkeypatch.setitem(made.plugins.families, "ollama", family)
    return counting


def test_all_that_is_missing_is_made_in_batches_and_counted(made: Services, wire: Wire) -> None:
    seen: list[tuple[int, int]] = []
    assert embedding.accept(made, "help", "ollama/m") == "ollama/m"
    found = embedding.fill(made, "help", "ollama/m", told=lambda done, of: seen.append((done, of)))
    assert found == embedding.Made("ollama/m", 5, 30, pytest.approx(30 / 1e6))
    assert wire.asked == [("text 0", "text 1"), ("text 2", "text 3"), ("text 4",)]
    assert seen == [(5, 5)]
    assert embedding.fill(made, "help", "ollama/m").vectors == 0
    made.store.documents.put("help", Draft("5.txt", "text 5"))
    assert embedding.fill(made, "help", "ollama/m").vectors == 1


def test_without_a_model_nothing_is_made(made: Services) -> None:
    assert embedding.accept(made, "help", None) is None
    embedding.accept(made, "help", SCRIPTED)
    assert embedding.accept(made, "help", None) == SCRIPTED


def test_a_collection_that_is_still_to_come_has_its_model(made: Services) -> None:
    assert embedding.accept(made, "new", SCRIPTED) == SCRIPTED
    made.store.documents.put("new", Draft("a", "words"))
    assert embedding.accept(made, "new", None) == SCRIPTED
    assert embedding.fill(made, "new", SCRIPTED).vectors == 1


def test_what_is_refused_leaves_nothing(made: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(NotConfigured):
        embedding.accept(made, "help", "openai/text-embedding-3-small")
    with pytest.raises(RegistryError):
        embedding.accept(made, "help", "anthropic/claude-sonnet-5")
    assert made.store.documents.vectors.model("help") is None
    embedding.accept(made, "help", SCRIPTED)
    with pytest.raises(ModelDiffers):
        embedding.accept(made, "help", "ollama/m")
    with pytest.raises(CollectionUnknown):
        embedding.fill(made, "hlep", SCRIPTED)


def test_a_failure_keeps_what_was_made(made: Services, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.agents.vector_search.BATCH", 2)
    wire.fails_at = 2
    with pytest.raises(ProviderError):
        embedding.fill(made, "help", "ollama/m")
    assert embedding.fill(made, "help", "ollama/m").vectors == 3


def test_another_model_takes_over_when_it_is_through(
    made: Services, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedding.accept(made, "help", SCRIPTED)
    embedding.fill(made, "help", SCRIPTED)
    assert embedding.accept(made, "help", "ollama/m", change=True) == "ollama/m"
    wire.fails_at = 1
    with pytest.raises(ProviderError):
        embedding.fill(made, "help", "ollama/m", change=True)
    vectors, number = made.store.documents.vectors, made.store.documents.collection_id("help")
    assert vectors.model("help") == SCRIPTED
    assert vectors.missing(number, SCRIPTED) == []
    embedding.fill(made, "help", "ollama/m", change=True)
    assert vectors.model("help") == "ollama/m"
    assert len(vectors.missing(number, SCRIPTED)) == 5


def test_who_makes_vectors_while_the_model_changes_does_not_change_it_back(
    made: Services, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedding.accept(made, "help", "ollama/m")
    real = wire.embed

    def changed_meanwhile(*args: t.Any) -> Embedded:
        monkeypatch.undo()
        embedding.fill(made, "help", SCRIPTED, change=True)
        return real(*args)

    monkeypatch.setattr(wire, "embed", changed_meanwhile)
    embedding.fill(made, "help", "ollama/m")
    vectors, number = made.store.documents.vectors, made.store.documents.collection_id("help")
    assert vectors.model("help") == SCRIPTED
    assert vectors.missing(number, SCRIPTED) == []
    assert len(vectors.missing(number, "ollama/m")) == 5  # nothing is left of them


def test_of_many_at_once_one_makes_them(made: Services, wire: Wire) -> None:
    jobs = [gevent.spawn(embedding.fill, made, "help", "ollama/m") for _ in range(6)]
    assert sorted(job.get(timeout=20).vectors for job in jobs) == [0, 0, 0, 0, 0, 5]
    assert sorted(text for texts in wire.asked for text in texts) == [f"text {n}" for n in range(5)]


def test_whoever_fails_lets_the_next_one_try(made: Services, wire: Wire) -> None:
    wire.fails_at = 1
    jobs = [gevent.spawn(embedding.fill, made, "help", "ollama/m") for _ in range(3)]
    gevent.joinall(jobs)
    assert [type(job.exception) for job in jobs].count(ProviderError) == 1
    assert sorted(job.value.vectors for job in jobs if job.value is not None) == [0, 5]


def test_no_more_is_made_than_whoever_waits_can_wait_for(made: Services, wire: Wire) -> None:
    with pytest.raises(TooManyMissing, match="5 passages") as refused:
        embedding.fill(made, "help", "ollama/m", most=4)
    assert (refused.value.code, wire.asked) == ("embeddings_missing", [])
    assert embedding.fill(made, "help", "ollama/m", most=5).vectors == 5


def test_again_makes_all_anew(made: Services, wire: Wire) -> None:
    embedding.fill(made, "help", "ollama/m")
    assert embedding.fill(made, "help", "ollama/m", again=True).vectors == 5

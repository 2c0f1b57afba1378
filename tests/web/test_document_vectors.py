"""``/api/documents`` with vectors: made as documents come, searched, and refused before anything is stored."""

from __future__ import annotations

import json
import typing as t

import pytest

from app.store.documents import Draft
from tests.providers.raw_server import Peer, raw_server
from tests.web.conftest import Studio, assert_error

SCRIPTED = "scripted/bag-of-words"
FOX = {"collection": "pages", "source": "fox.txt", "text": "The quick brown fox jumps over the lazy dog."}
CAT = {"collection": "pages", "source": "cat.txt", "text": "Cats sleep most of the day."}


def send(studio: Studio, body: t.Any) -> t.Any:
    """Store a document."""
    return studio.client.post("/api/documents", json=body, headers={"X-API-Key": studio.keys["admin"]})


def found(studio: Studio, query: str) -> list[str]:
    """The sources that a search by vectors gives, best first."""
    answer = studio.get(f"/api/documents/search?collection=pages&mode=embedding&query={query}")
    assert answer.status_code == 200
    return [item["source"] for item in answer.get_json()["items"]]


def test_the_first_document_chooses_the_model_and_all_get_vectors(studio: Studio) -> None:
    assert send(studio, {**FOX, "embeddingModel": SCRIPTED}).status_code == 201
    assert send(studio, CAT).status_code == 201
    vectors = studio.store.documents.vectors
    assert vectors.missing(studio.store.documents.collection_id("pages"), SCRIPTED) == []
    (collection,) = studio.get("/api/documents/collections").get_json()["items"]
    assert collection["embeddingModel"] == SCRIPTED
    assert found(studio, "when+do+cats+sleep") == ["cat.txt", "fox.txt"]
    assert found(studio, "") == []


@pytest.mark.parametrize(
    ("model", "code", "says"),
    [
        ("anthropic/claude-sonnet-5", "validation_failed", "makes no embeddings"),
        ("openai/text-embedding-3-small", "provider_not_configured", "OPENAI_API_KEY"),
        ("nobody/x", "validation_failed", "unknown family"),
        ("", "validation_failed", "<family>/<model>"),
    ],
)
def test_a_model_that_cannot_be_used_stores_nothing(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, model: str, code: str, says: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    error = assert_error(send(studio, {**FOX, "embeddingModel": model}), 400, code)
    assert error["details"][0]["path"] == "embeddingModel"
    assert says in error["details"][0]["message"]
    assert studio.get("/api/documents/collections").get_json() == {"items": []}


def test_another_model_is_a_conflict(studio: Studio) -> None:
    send(studio, {**FOX, "embeddingModel": SCRIPTED})
    error = assert_error(
        send(studio, {**CAT, "embeddingModel": "ollama/nomic-embed-text"}), 409, "embedding_model_differs"
    )
    assert SCRIPTED in error["message"]
    assert len(studio.get("/api/documents?collection=pages").get_json()["items"]) == 1


def test_a_collection_without_a_model_is_not_searched_by_vectors(studio: Studio) -> None:
    send(studio, FOX)
    path = "/api/documents/search?collection=pages&query=fox&mode="
    assert_error(studio.get(f"{path}embedding"), 409, "embedding_model_missing")
    assert_error(studio.get(f"{path}vectors"), 400, "validation_failed")
    assert_error(
        studio.get("/api/documents/search?collection=none&query=fox&mode=embedding"),
        404,
        "collection_unknown",
    )


def test_a_vendor_that_fails_leaves_the_document(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"error": {"message": "secret words", "code": "invalid_api_key"}}).encode()

    def refuse(peer: Peer) -> None:
        while peer.request():
            peer.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    with raw_server(refuse) as address:
        monkeypatch.setenv("OPENAI_API_KEY", "key-1")
        monkeypatch.setenv("OPENAI_API_BASE", f"http://{address}/v1")
        error = assert_error(
            send(studio, {**FOX, "embeddingModel": "openai/text-embedding-3-small"}), 502, "provider_auth"
        )
    assert "The document is stored" in error["message"]
    assert "secret words" not in json.dumps(error)
    assert len(studio.get("/api/documents?collection=pages").get_json()["items"]) == 1


def test_a_search_makes_few_vectors_and_refuses_to_make_many(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(studio, {**FOX, "embeddingModel": SCRIPTED})
    documents = studio.store.documents
    for number in range(3):
        documents.put("pages", Draft(f"{number}", "New words."))
    monkeypatch.setattr("app.web.embedding.MOST_ON_DEMAND", 2)
    answer = studio.get("/api/documents/search?collection=pages&mode=embedding&query=new")
    error = assert_error(answer, 409, "embeddings_missing", says="3 passages of the collection 'pages'")
    assert f"studio documents embed pages {SCRIPTED}" in error["message"]
    monkeypatch.setattr("app.web.embedding.MOST_ON_DEMAND", 3)
    assert found(studio, "new")[:3] == ["0", "1", "2"]


def test_documents_that_go_while_they_get_vectors_are_no_failure(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = studio.store.documents
    real = documents.put

    def removed_at_once(*args: t.Any) -> t.Any:
        row = real(*args)
        documents.remove(row.id)
        return row

    monkeypatch.setattr(documents, "put", removed_at_once)
    assert send(studio, {**FOX, "embeddingModel": SCRIPTED}).status_code == 201

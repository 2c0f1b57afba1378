"""What is answered about secrets and documents.

Law of this room: see :mod:`app.schemas.shapes`.
"""

from __future__ import annotations

import typing as t
from typing import Annotated, NotRequired, TypedDict

from app.schemas.shapes.common import Count, Cursor, Instant, Page


class Secret(TypedDict):
    """A stored secret, without its value."""

    name: str
    createdAt: Instant
    updatedAt: Instant


class SecretList(TypedDict):
    """All secrets, by name."""

    items: list[Secret]


class SecretBody(TypedDict):
    """A secret to store."""

    value: Annotated[str, {"doc": "What it is; never given out again.", "nonempty": True}]


class Document(TypedDict):
    """A document, without its text."""

    id: str
    collection: str
    source: str
    version: Annotated[int, {"low": 1}]
    title: NotRequired[str]
    mediaType: str
    metadata: NotRequired[Annotated[dict[str, t.Any], {}]]
    characters: Count
    chunks: Annotated[int, {"doc": "Passages it was cut into.", "low": 0}]
    createdAt: Instant
    updatedAt: Instant


class DocumentWithText(Document):
    """A document with its text."""

    text: str


class DocumentList(TypedDict):
    """Documents, oldest first."""

    items: list[Document]
    nextCursor: NotRequired[Cursor]


class DocumentQuery(Page):
    """Which documents are listed."""

    collection: Annotated[str, {"doc": "The collection.", "nonempty": True}]
    source: NotRequired[Annotated[str, {"doc": "The one document of this source."}]]


class Collection(TypedDict):
    """A collection, and how much is in it."""

    name: str
    embeddingModel: NotRequired[Annotated[str, {"doc": "Makes vectors of its passages."}]]
    documents: Count
    chunks: Count
    characters: Count
    updatedAt: Instant


class CollectionList(TypedDict):
    """Collections, by name."""

    items: list[Collection]
    nextCursor: NotRequired[Cursor]


class Passage(TypedDict):
    """A passage of a document that fits a query."""

    text: str
    source: str
    title: NotRequired[str]
    documentId: str
    start: Annotated[int, {"doc": "Its first character in the document.", "low": 0}]
    end: Count
    score: float


class PassageList(TypedDict):
    """Passages, best first."""

    items: list[Passage]


class PassageQuery(TypedDict):
    """What is searched for."""

    collection: Annotated[str, {"doc": "Where.", "nonempty": True}]
    query: Annotated[str, {"doc": "What for."}]
    topK: NotRequired[
        Annotated[int, {"doc": "How many passages at most.", "low": 1, "high": 50, "default": 5}]
    ]
    mode: NotRequired[
        Annotated[t.Literal["text", "embedding"], {"doc": "By words, or by vectors.", "default": "text"}]
    ]

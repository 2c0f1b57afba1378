"""Documents and their search.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

from app.schemas.document_body import DocumentBody
from app.schemas.openapi.operation import Answer, Operation
from app.schemas.shapes.common import Page
from app.schemas.shapes.kept import (
    CollectionList,
    Document,
    DocumentList,
    DocumentQuery,
    DocumentWithText,
    PassageList,
    PassageQuery,
)

_PAGE = "documents.md#over-http"
_CHANGED = {412: ("precondition_failed",), 428: ("precondition_required",)}
_VECTORS = ("embedding_model_differs", "embedding_model_missing", "embeddings_missing", "embeddings_differ")
_VENDOR = (
    "provider_auth",
    "provider_bad_request",
    "provider_bad_stream",
    "provider_idle",
    "provider_overloaded",
    "provider_rate_limited",
    "provider_unavailable",
)

ROUTES = (
    Operation(
        route="GET /api/documents",
        id="listDocuments",
        does="List the documents of a collection",
        tag="Documents",
        page=_PAGE,
        query=DocumentQuery,
        answers={
            200: Answer(
                says="A page of documents, oldest first.",
                shape=DocumentList,
                links={"document": ("getDocument", {"document_id": "$response.body#/items/0/id"})},
            )
        },
        errors={404: ("collection_unknown",)},
    ),
    Operation(
        route="POST /api/documents",
        id="storeDocument",
        does="Store a document, or replace one",
        tag="Documents",
        page=_PAGE,
        says="One that is there already is replaced only with its `ETag` in `If-Match`.",
        headers=("If-Match",),
        body=DocumentBody,
        example={"collection": "manuals", "source": "pump.md", "text": "# Pump\n\nPrime it first."},
        answers={
            200: Answer(
                says="It has replaced the version before.", shape=Document, headers=("ETag", "Location")
            ),
            201: Answer(
                says="Its source is new.",
                shape=Document,
                headers=("ETag", "Location"),
                links={"document": ("getDocument", {"document_id": "$response.body#/id"})},
            ),
        },
        errors={
            **_CHANGED,
            400: ("provider_not_configured",),
            409: _VECTORS,
            502: _VENDOR,
        },
    ),
    Operation(
        route="GET /api/documents/collections",
        id="listCollections",
        does="List collections",
        tag="Documents",
        page=_PAGE,
        query=Page,
        answers={200: Answer(says="A page of collections, by name.", shape=CollectionList)},
    ),
    Operation(
        route="GET /api/documents/search",
        id="searchDocuments",
        does="Search a collection",
        tag="Documents",
        page=_PAGE,
        says="By words, or by vectors.",
        query=PassageQuery,
        answers={200: Answer(says="Passages, best first.", shape=PassageList)},
        errors={
            400: ("provider_not_configured",),
            404: ("collection_unknown",),
            409: _VECTORS,
            502: _VENDOR,
        },
    ),
    Operation(
        route="GET /api/documents/<document_id>",
        id="getDocument",
        does="Read a document with its text",
        tag="Documents",
        page=_PAGE,
        headers=("If-None-Match",),
        answers={
            200: Answer(says="The document.", shape=DocumentWithText, headers=("ETag",)),
            304: Answer(says="It is as the caller has it.", headers=("ETag",)),
        },
        errors={404: ("not_found",)},
    ),
    Operation(
        route="DELETE /api/documents/<document_id>",
        id="removeDocument",
        does="Remove a document",
        tag="Documents",
        page=_PAGE,
        says="Takes no body, and the document's `ETag` in `If-Match`.",
        headers=("If-Match",),
        answers={204: Answer(says="It is gone.")},
        errors={**_CHANGED, 404: ("not_found",)},
    ),
)

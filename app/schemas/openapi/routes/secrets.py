"""Secrets.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

from app.schemas.openapi.operation import Answer, Operation
from app.schemas.shapes.kept import Secret, SecretBody, SecretList

ROUTES = (
    Operation(
        route="GET /api/secrets",
        id="listSecrets",
        does="List stored secrets",
        tag="Secrets",
        page="secrets.md",
        says="Names and times; no value is ever given out.",
        answers={200: Answer(says="All secrets, by name.", shape=SecretList)},
    ),
    Operation(
        route="PUT /api/secrets/<secret_name>",
        id="storeSecret",
        does="Store a secret",
        tag="Secrets",
        page="secrets.md#the-api",
        says="A second one of the same name replaces the first.",
        body=SecretBody,
        example={"value": "a password"},
        answers={
            200: Answer(says="It has replaced the one before.", shape=Secret),
            201: Answer(says="The name is new.", shape=Secret),
        },
        errors={404: ("not_found",), 409: ("store_conflict",), 503: ("secrets_locked",)},
    ),
    Operation(
        route="DELETE /api/secrets/<secret_name>",
        id="removeSecret",
        does="Remove a secret",
        tag="Secrets",
        page="secrets.md#the-api",
        says="Takes no body.",
        answers={204: Answer(says="It is gone.")},
        errors={404: ("not_found",)},
    ),
)

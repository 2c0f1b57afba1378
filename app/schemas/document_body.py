"""The body of ``POST /api/documents``.

Law of this room: as for :mod:`app.schemas.requests`.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from app import encoding
from app.errors import Problem, ValidationFailed
from app.schemas import derive
from app.schemas.paths import in_document_order

#: Most bytes of a document's metadata, as JSON.
MAX_METADATA = 16 * 1024


@dataclass(frozen=True, slots=True)
class DocumentBody:
    """A document: its text, or a file's bytes, and what it is called."""

    collection: str = dataclasses.field(metadata={"doc": "The collection it belongs to."})
    source: str = dataclasses.field(
        metadata={"doc": "Its name in the collection, such as a path or an address.", "nonempty": True}
    )
    text: str | None = dataclasses.field(default=None, metadata={"doc": "What it says."})
    data: str | None = dataclasses.field(
        default=None, metadata={"doc": "The bytes of a file in base64, instead of a text."}
    )
    media_type: str = dataclasses.field(
        default="text/plain",
        metadata={
            "key": "mediaType",
            "doc": "What text or data is: text of any kind, application/json.",
            "most": 200,
        },
    )
    title: str | None = dataclasses.field(
        default=None, metadata={"doc": "Default: what the document states.", "most": 500}
    )
    metadata: Mapping[str, t.Any] | None = dataclasses.field(
        default=None, metadata={"doc": "An object that is kept with it."}
    )
    embedding_model: str | None = dataclasses.field(
        default=None,
        metadata={
            "key": "embeddingModel",
            "doc": "Makes vectors of it, as `<family>/<model>`. Default: the collection's, if it has one.",
            "most": 300,
        },
    )

    def content(self) -> str | bytes:
        """What is to be read."""
        return _bytes(self.data) if self.text is None and self.data is not None else self.text or ""


def _bytes(data: str) -> bytes:
    """What base64 stands for, on one line or, as many programs write it, on many."""
    return base64.b64decode("".join(data.split()), validate=True)


def load_document(
    body: Mapping[str, t.Any], collection: t.Callable[[str], str | None], most: int
) -> DocumentBody:
    """The body of a request for a new document.

    :param collection: what is wrong with a collection's name. :param most: characters of a source.
    :raises ValidationFailed: 400 with every problem.
    """
    parsed, problems = derive.load(DocumentBody, body, null_unset=False)
    if body.get("text") is not None and body.get("data") is not None:
        problems.append(Problem("data", "text and data exclude each other; send one of them"))
    if body.get("text") is None and body.get("data") is None:
        problems.append(Problem("text", "is missing; send text, or data in base64"))
    if parsed is not None:
        problems += _rest(parsed, collection, most)
    if parsed is None or problems:
        raise ValidationFailed(in_document_order(body, problems))
    return parsed


def _rest(parsed: DocumentBody, collection: t.Callable[[str], str | None], most: int) -> t.Iterator[Problem]:
    if (problem := collection(parsed.collection)) is not None:
        yield Problem("collection", problem)
    if len(parsed.source) > most:
        yield Problem("source", f"has {len(parsed.source)} characters; at most {most}")
    if parsed.data is not None:
        try:
            _bytes(parsed.data)
        except (binascii.Error, ValueError) as error:
            yield Problem("data", f"is no base64: {error}; encode the file's bytes in base64")
    if parsed.metadata is not None and len(encoding.dumps(parsed.metadata)) > MAX_METADATA:
        yield Problem("metadata", f"has more than {MAX_METADATA // 1024} KiB as JSON; keep less with it")

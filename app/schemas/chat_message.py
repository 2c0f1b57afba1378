"""The body of ``POST /api/chat/{slug}``: what a visitor says (contract section 8).

Law of this room: strict, as for all bodies. A file comes with its bytes and is what its bytes say: nothing is fetched
for a visitor.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.errors import Problem, ValidationFailed
from app.schemas import derive
from app.schemas.paths import in_document_order

#: Most characters of a message.
MAX_INPUT = 1_000_000


@dataclass(frozen=True, slots=True)
class ChatFile:
    """A file that comes with a message."""

    name: str = dataclasses.field(metadata={"doc": "What it is called.", "nonempty": True, "most": 255})
    data: str = dataclasses.field(metadata={"doc": "Its bytes: in base64, or as a `data:` URL."})
    type: str | None = dataclasses.field(
        default=None, metadata={"doc": "Its media type; what its bytes say goes before it.", "most": 255}
    )
    size: int | None = dataclasses.field(
        default=None, metadata={"doc": "How many bytes it has, to be checked.", "low": 0}
    )


@dataclass(frozen=True, slots=True)
class ChatMessageBody:
    """A visitor's message."""

    input: str = dataclasses.field(
        default="", metadata={"doc": "What the visitor says; may be left out with files.", "most": MAX_INPUT}
    )
    conversation_id: str | None = dataclasses.field(
        default=None,
        metadata={
            "key": "conversationId",
            "doc": "The visitor's name for the conversation; without it a new one begins.",
            "nonempty": True,
            "most": 255,
        },
    )
    files: Sequence[ChatFile] = dataclasses.field(default=(), metadata={"doc": "Files.", "most": 15})
    password: str | None = dataclasses.field(
        default=None, metadata={"doc": "Of a chat that asks for one.", "most": 4096}
    )
    email: str | None = dataclasses.field(
        default=None, metadata={"doc": "Of who signs in by e-mail.", "most": 320}
    )


def load_message(body: Mapping[str, t.Any]) -> ChatMessageBody:
    """A visitor's message.

    :raises ValidationFailed: 400 with every problem.
    """
    parsed, problems = derive.load(ChatMessageBody, body)
    if parsed is not None and not parsed.input.strip() and not parsed.files:
        problems.append(Problem("input", "is required; say something, or send files"))
    if parsed is None or problems:
        raise ValidationFailed(in_document_order(body, problems))
    return parsed

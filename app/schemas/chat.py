"""Bodies of ``POST /chat`` and ``POST /chat/resume`` (contract section 6).

Law of this room: strict, as for all bodies.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.errors import Problem, ValidationFailed
from app.schemas import derive
from app.schemas.answers import MAX_REASON
from app.schemas.paths import in_document_order

#: Most messages of one request.
MOST_MESSAGES = 1000
#: A language as RFC 5646 names it, such as ``de-AT``: it goes into prompts, so it is nothing longer.
_LOCALE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8}){0,6}")


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of the conversation."""

    role: t.Literal["user", "assistant", "system"] = dataclasses.field(metadata={"doc": "Who says it."})
    content: str = dataclasses.field(metadata={"doc": "What is said."})


@dataclass(frozen=True, slots=True)
class ChatBody:
    """Body of ``POST /chat``."""

    messages: Sequence[ChatMessage] = dataclasses.field(
        metadata={"doc": "The conversation so far, oldest first; the last one of the user is answered."}
    )
    locale: str | None = dataclasses.field(
        default=None, metadata={"doc": "The language of the user, such as `en` or `de-AT`."}
    )
    thread_id: str | None = dataclasses.field(
        default=None, metadata={"doc": "The thread to continue; without it a new one is made.", "most": 255}
    )
    workflow: str | None = dataclasses.field(
        default=None,
        metadata={
            "doc": "Id of the workflow that answers; default: the server's.",
            "nonempty": True,
            "most": 255,
        },
    )

    @property
    def message(self) -> str:
        """What the user said last."""
        return next(message.content for message in reversed(self.messages) if message.role == "user")

    def input(self) -> dict[str, t.Any]:
        """What the run gets."""
        given: dict[str, t.Any] = {
            "message": self.message,
            "messages": [{"role": m.role, "content": m.content} for m in self.messages],
        }
        return given if self.locale is None else {**given, "locale": self.locale}


def load_chat(body: Mapping[str, t.Any]) -> ChatBody:
    """The body of a turn.

    :raises ValidationFailed: 400 with every problem.
    """
    parsed, problems = derive.load(ChatBody, body, null_unset=False)
    if parsed is not None:
        problems += _problems(parsed)
    if parsed is None or problems:
        raise ValidationFailed(in_document_order(body, problems))
    return parsed


def _problems(body: ChatBody) -> t.Iterator[Problem]:
    if len(body.messages) > MOST_MESSAGES:
        yield Problem("messages", f"must have at most {MOST_MESSAGES}; leave out the oldest")
    if not any(message.role == "user" for message in body.messages):
        yield Problem(
            "messages", 'must have a message of the user, such as {"role": "user", "content": "Hello"}'
        )
    elif not body.message.strip():
        place = max(n for n, message in enumerate(body.messages) if message.role == "user")
        yield Problem(f"messages[{place}].content", "the user's last message must not be empty")
    if body.locale is not None and not _LOCALE.fullmatch(body.locale):
        yield Problem("locale", "must be a language such as en or de-AT")


@dataclass(frozen=True, slots=True)
class ChatResumeBody:
    """Body of ``POST /chat/resume``."""

    thread_id: str = dataclasses.field(metadata={"doc": "The thread whose turn waits.", "most": 255})
    decision: t.Literal["approve", "edit", "reject"] = dataclasses.field(metadata={"doc": "The decision."})
    edited_text: str | None = dataclasses.field(
        default=None, metadata={"doc": "With `edit`, of a text: what is said in its place."}
    )
    pause_id: str | None = dataclasses.field(
        default=None,
        metadata={"doc": "Which question is answered; needed when several are open.", "most": 255},
    )
    reason: str | None = dataclasses.field(
        default=None,
        metadata={"doc": "Why. Of a call that is rejected, the model is told.", "most": MAX_REASON},
    )
    edited_arguments: Mapping[str, t.Any] | None = dataclasses.field(
        default=None, metadata={"doc": "With `edit`, of a call: what it is made with instead."}
    )
    remember: bool = dataclasses.field(
        default=False,
        metadata={"doc": "With `approve` or `edit`, of a call: approve its tool for the rest of the thread."},
    )


def load_chat_resume(body: Mapping[str, t.Any]) -> ChatResumeBody:
    """The body of an answer. What fits the question is judged where that is known.

    :raises ValidationFailed: 400 with every problem.
    """
    parsed, problems = derive.load(ChatResumeBody, body, null_unset=False)
    if parsed is None:
        raise ValidationFailed(in_document_order(body, problems))
    return parsed

"""Bodies of the management API: versions and keys (contract section 9).

Law of this room: as for :mod:`app.schemas.requests`. A change names what it changes; null takes a limit away.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import Problem, ValidationFailed
from app.schemas import derive
from app.schemas.limits import BudgetLimit, RateLimit
from app.schemas.paths import in_document_order

MAX_NAME, MAX_DESCRIPTION = 255, 10_000
Scope = t.Literal["run", "read", "admin"]


@dataclass(frozen=True, slots=True)
class DeployBody:
    """Body of ``POST /api/workflows/{id}/deploy``."""

    name: str | None = dataclasses.field(
        default=None,
        metadata={"doc": "What the version is called.", "nonempty": True, "line": True, "most": MAX_NAME},
    )
    description: str | None = dataclasses.field(
        default=None, metadata={"doc": "What is new in it.", "most": MAX_DESCRIPTION}
    )


@dataclass(frozen=True, slots=True)
class RollbackBody:
    """Body of ``POST /api/workflows/{id}/rollback``."""

    version: int | None = dataclasses.field(
        default=None,
        metadata={
            "doc": "The version that becomes live. Default: the one before the live one.",
            "low": 1,
            "high": 2**31 - 1,
        },
    )
    draft: bool = dataclasses.field(
        default=False,
        metadata={"doc": "The draft becomes what that version says, too. Needs If-Match."},
    )


@dataclass(frozen=True, slots=True)
class KeyBody:
    """Body of ``POST /api/keys``."""

    name: str = dataclasses.field(
        metadata={"doc": "What the key is for.", "nonempty": True, "line": True, "most": MAX_NAME}
    )
    scopes: tuple[Scope, ...] = dataclasses.field(
        default=("run",),
        metadata={"doc": "What it may do; admin holds the others.", "most": 3},
    )
    expires_at: str | None = dataclasses.field(
        default=None,
        metadata={"key": "expiresAt", "doc": "When it ends to be valid (RFC 3339). Default: never."},
    )
    rate_limit: RateLimit | None = dataclasses.field(
        default=None, metadata={"key": "rateLimit", "doc": "How many runs it may start."}
    )
    budget: BudgetLimit | None = dataclasses.field(
        default=None, metadata={"doc": "How much its runs may use."}
    )


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """Body of ``PATCH /api/keys/{id}``. What is left out stays; null takes away."""

    name: str | None = dataclasses.field(
        default=None,
        metadata={"doc": "What the key is for.", "nonempty": True, "line": True, "most": MAX_NAME},
    )
    expires_at: str | None = dataclasses.field(
        default=None, metadata={"key": "expiresAt", "doc": "When it ends to be valid; null: never."}
    )
    rate_limit: RateLimit | None = dataclasses.field(
        default=None,
        metadata={"key": "rateLimit", "doc": "How many runs it may start; null: as the settings say."},
    )
    budget: BudgetLimit | None = dataclasses.field(
        default=None, metadata={"doc": "How much its runs may use; null: no budget."}
    )


_Body = t.TypeVar("_Body")


def load(
    kind: type[_Body],
    body: Mapping[str, t.Any],
    judge: t.Callable[[_Body], t.Iterable[Problem]] = lambda parsed: (),
) -> _Body:
    """The body of a request.

    :param judge: what else is wrong with one of the right shape.
    :raises ValidationFailed: 400 with every problem.
    """
    parsed, problems = derive.load(kind, body, null_unset=False)
    if parsed is not None:
        problems = [*problems, *judge(parsed)]
    if parsed is None or problems:
        raise ValidationFailed(in_document_order(body, problems))
    return parsed

"""Every error a client can meet, with its stable code.

::

    StudioError                 code, message; the base of all that is shown
    ├── ApiError                an HTTP answer before the first byte (status, details, headers)
    │   └── ValidationFailed    400 validation_failed / not_supported with one detail per problem
    └── RunError                a failure inside a run: becomes the terminal event or a block's error
        └── BlockError          the same, raised by a block; names the block

Law of this room: ``message`` names the thing and the cure, is ours, and never carries vendor text,
secrets or a traceback. ``code`` is lower_snake and never changes once released.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong with an input.

    ``path`` is a JSON path such as ``blocks[1].config.model``; ``message`` carries the cure.
    """

    path: str
    message: str


class StudioError(Exception):
    """Base of every error with a code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ApiError(StudioError):
    """An HTTP error body (contract section 11).

    :param status: HTTP status, 4xx or 5xx.
    :param details: one entry per problem, in document order.
    :param headers: extra response headers, e.g. ``Retry-After`` (seconds).
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Sequence[Problem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code, message)
        self.status = status
        self.details = tuple(details)
        self.headers = dict(headers or {})


class ValidationFailed(ApiError):
    """400 with everything that is wrong at once.

    :ivar warnings: what else may be a mistake, for whoever shows both.
    """

    def __init__(
        self,
        details: Sequence[Problem],
        message: str | None = None,
        code: t.Literal["validation_failed", "not_supported"] = "validation_failed",
        warnings: Sequence[Problem] = (),
    ) -> None:
        if message is None:
            first = details[0]
            more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
            message = f"{first.path}: {first.message}{more}" if first.path else f"{first.message}{more}"
        super().__init__(400, code, message, details)
        self.warnings = tuple(warnings)


class RunError(StudioError):
    """A failure inside a run.

    :param detail: text for operators (vendor's own words), masked before it is stored; never on the wire.
    :param model: the ``<family>/<model>`` whose call failed; stored as ``detail`` is.
    """

    def __init__(self, code: str, message: str, *, detail: str = "", model: str = "") -> None:
        super().__init__(code, message)
        self.detail = detail
        self.model = model


class BlockError(RunError):
    """A block failed; ``block`` is its instance path, set by the runner when the raiser did not know it.

    :param output: what templates behind its ``error`` edge may read of it, beside ``error`` and ``code``.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        detail: str = "",
        model: str = "",
        block: str | None = None,
        output: Mapping[str, t.Any] | None = None,
    ) -> None:
        super().__init__(code, message, detail=detail, model=model)
        self.block = block
        self.output = output or {}

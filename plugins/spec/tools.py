"""What a tool is."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from providers.spec import Waits


def _no_secrets() -> Mapping[str, str]:
    return {}


def _system_now_ms() -> int:
    return time.time_ns() // 1_000_000


#: Whether a person has to allow a tool's calls.
Approval = t.Literal["never", "always", "ask_once"]


class ToolFailed(Exception):
    """A tool says no: the call ends ``error`` and the model is told the message. The run goes on."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a running tool may use. ``waits`` guards its blocking steps; ``timeout_s`` bounds the call in seconds.

    ``run_id`` and ``call_id`` identify the call. ``variables`` is what templates of this block see
    (``input``, ``blocks``, ``vars``). ``now_ms`` is the run's clock in epoch milliseconds. ``secrets()`` are the
    stored secrets by name: never put one into a result or an error; one that is not stored raises ``BlockError``.
    """

    waits: Waits
    run_id: str
    call_id: str
    timeout_s: float
    variables: Mapping[str, t.Any] = field(default_factory=dict)
    now_ms: Callable[[], int] = _system_now_ms
    secrets: Callable[[], Mapping[str, str]] = _no_secrets


@dataclass(frozen=True, slots=True)
class Tool:
    """A callable the model may ask for.

    :ivar parameters: JSON Schema of type object; arguments are checked against it before ``run``.
    :ivar run: ``run(arguments, context)``; returns any JSON-able value, raises :class:`ToolFailed` to say no.
    :ivar runs: ``greenlet`` (cooperative: only waits inside ``context.waits.wait()``) or ``thread``
        (blocking or CPU work; runs in the tool pool, a late result is dropped).
    :ivar idempotent: may run again after a crash whose outcome is unknown.
    :ivar approval: whether a person has to allow its calls: ``never``, ``always``, or ``ask_once``. A document may ask
        for more than the tool does, not for less. Where nobody can be asked such calls do not run.
    :ivar approval_deadline_s: seconds after which a call that nobody has allowed is given up; None waits for ever.
    :ivar origin: what it is beside its name, where its name does not tell (a definition in a document, an MCP server):
        what a person allows for the rest of a thread is this very tool, and no other of the same name.
    """

    name: str
    description: str
    parameters: Mapping[str, t.Any]
    run: Callable[[dict[str, t.Any], ToolContext], t.Any]
    runs: t.Literal["greenlet", "thread"] = "greenlet"
    idempotent: bool = False
    approval: Approval = "never"
    approval_deadline_s: float | None = None
    origin: str = ""

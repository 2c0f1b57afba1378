"""What a run is started with.

Law of this room: values alone; what may be started is judged before.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from app.engine.budgets import Budget
from app.redaction.policy import Policy
from app.store.threads import ThreadRow
from app.workflows.compiled import CompiledWorkflow
from app.workflows.selectors import Selection


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything a run is started with.

    :ivar timeout_s: the run's deadline in seconds.
    :ivar on_disconnect: ``cancel`` or ``continue`` when the last reader has gone for ``disconnect_grace_s``.
    :ivar show_thinking: someone may see thinking, so the vendor is asked for it.
    :ivar thread: the thread it has entered; None outside of any.
    :ivar selections: what its starter selected of the outputs; None: nothing was selected.
    :ivar draft: it is run by those who build it: what each block is given is told.
    :ivar stop_after: id of the block with whose end it ends; None: it ends with its last.
    :ivar public: its starter has no key: errors and the end are told as to a visitor.
    :ivar redact: the policy of what it was deployed as; those of its agents and of the workflow hold beside it.
    :ivar budgets: what it may use, and of whose; see :mod:`app.engine.budgets`.
    :ivar traceparent: the header of this name that the request came with.
    :ivar origin: the surface it came in on (``surface``) and what was agreed there, JSON: a resume goes on in it.
    """

    run_id: str
    workflow_id: str
    version: int | None
    workflow: CompiledWorkflow
    input: t.Any
    timeout_s: float
    key_id: str | None = None
    conversation_id: str | None = None
    on_disconnect: str = "cancel"
    disconnect_grace_s: float = 0.0
    show_thinking: bool = False
    thread: ThreadRow | None = None
    selections: tuple[Selection, ...] | None = None
    traceparent: str | None = None
    origin: Mapping[str, t.Any] | None = None
    public: bool = False
    redact: Policy | None = None
    budgets: tuple[Budget, ...] = ()
    draft: bool = False
    stop_after: str | None = None

    @property
    def thread_id(self) -> str | None:
        """The id of its thread."""
        return None if self.thread is None else self.thread.id

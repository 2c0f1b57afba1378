"""What a durable run writes down, and what it goes on with: values.

Law of this room: no statement here. ``value`` and log batches are bytes that the engine made and the store never reads.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class StepRow(t.NamedTuple):
    """A step as it is stored. Key: ``(path, execution, turn, key)``.

    :ivar kind: see :data:`plugins.spec.journal.StepKind`. :ivar state: see :data:`plugins.spec.journal.StepState`.
    :ivar input_hash: of what went in. :ivar value: msgpack; None before there is one.
    :ivar position: its place in the order of first writing in the run, from 0. A row that is written again keeps the
        one it had.
    """

    path: str
    execution: int
    turn: int
    key: str
    kind: str
    state: str
    input_hash: str | None
    value: bytes | None
    position: int


class Forgotten(t.NamedTuple):
    """The steps of one part of an execution, which are dropped.

    :ivar parts: those of its parts too: every path that begins with ``path`` and ``/``, of the same execution.
    """

    path: str
    execution: int
    parts: bool = False


class LogBatch(t.NamedTuple):
    """Envelopes ``first`` to ``last`` of a run's log, as the engine encodes them."""

    first: int
    last: int
    data: bytes


#: Of what is stored of a question: what people are shown is without it.
PARAMETERS: t.Final = "parameters"
#: That in its run something is masked: what a person answers beside the decision itself is then shown to nobody.
REDACTED: t.Final = "redacted"
_HIDDEN = frozenset({PARAMETERS, REDACTED})


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A decision: one question to a person.

    :ivar id: ``dec_…``, everywhere the pause id. :ivar workflow_id, key_id, thread_id: those of its run.
    :ivar path, execution, turn, key: what it belongs to; one decision per run and key.
    :ivar node: the block's name on the graph and run surfaces.
    :ivar review: what the person is shown; :data:`PARAMETERS` of a call, :data:`REDACTED`.
    :ivar input_hash: of what was asked about.
    :ivar subject: what can be approved for the rest of the thread; None: nothing can.
    :ivar state: ``open``, ``answered``, ``expired``, ``cancelled`` (nobody waits for it any more).
    :ivar answer: as it was given to :meth:`app.store.decisions.Decisions.answer`.
    :ivar answered_by: who, for the record. :ivar answered_at: when it was accepted or found expired.
    :ivar taken_at: when the run took note of it, or ended without.
    """

    id: str
    run_id: str
    workflow_id: str
    path: str
    execution: int
    turn: int
    key: str
    node: str
    review: Mapping[str, t.Any]
    input_hash: str
    created_at: int
    thread_id: str | None = None
    key_id: str | None = None
    subject: str | None = None
    expires_at: int | None = None
    state: str = "open"
    answer: Mapping[str, t.Any] | None = None
    answered_by: str | None = None
    answered_at: int | None = None
    taken_at: int | None = None

    @property
    def shown(self) -> dict[str, t.Any]:
        """What the person is shown."""
        return {name: value for name, value in self.review.items() if name not in _HIDDEN}

    @property
    def told(self) -> dict[str, t.Any]:
        """Of the answer, what may be shown."""
        given = dict(self.answer or {})
        if not self.review.get(REDACTED):
            return given
        return {name: given[name] for name in ("decision", "remember") if name in given}

    @property
    def parameters(self) -> Mapping[str, t.Any] | None:
        """The JSON Schema that arguments have to fit, of a call where it is known."""
        found = self.review.get(PARAMETERS)
        return found if isinstance(found, Mapping) else None


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing of the run moves before somebody has decided.

    :ivar paused_at: epoch ms. :ivar row: the run so far, as for :meth:`app.store.runs.Runs.finished`; of it
        :data:`app.store.run_rows.PAUSE` is stored.
    :ivar blocks: its block log so far. :ivar usages: its model calls so far. Both replace what an earlier pause stored.
    """

    paused_at: int
    row: Mapping[str, t.Any]
    blocks: Sequence[Mapping[str, t.Any]] = ()
    usages: Sequence[Mapping[str, t.Any]] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that a durable run wrote and said up to one moment. Committed whole or not at all.

    :ivar steps: inserted, or put in place of the row of the same key. :ivar forgotten: dropped before that.
    :ivar log: what was said since the last checkpoint. :ivar asks: new decisions; one that is there already is kept.
    :ivar taken: ids of decisions whose answers the run has taken note of.
    :ivar withdrawn: ids of decisions that nobody waits for any more; those that are open are cancelled, answered ones
        count as taken.
    :ivar seq_reserved: numbers up to this one may be used before the next checkpoint; None leaves it. Never lowered.
    :ivar human_wait_ms: what the run has waited for people in all; also says that the wait since ``paused_at`` is in
        it. None leaves both.
    :ivar pause: the run pauses: nobody's, status ``paused``. :ivar release: it is handed over: nobody's, still
        ``running``.
    """

    steps: Sequence[StepRow] = ()
    forgotten: Sequence[Forgotten] = ()
    log: LogBatch | None = None
    asks: Sequence[DecisionRow] = ()
    taken: Sequence[str] = ()
    withdrawn: Sequence[str] = ()
    seq_reserved: int | None = None
    human_wait_ms: int | None = None
    pause: Pause | None = None
    release: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A run that this process carries from now on, and all it goes on with.

    :ivar owner: whose it is now. :ivar epoch: of every write from now on.
    :ivar started: how it was started. :ivar documents: what it runs; both as :meth:`Durable.begin` got them, None when
        they are lost.
    :ivar steps: its journal, in order of first writing. :ivar logs: what it said, in order.
    :ivar decisions: all of it, oldest first.
    :ivar row: the run's columns, as they are after the claim.
    :ivar paused_at: since when it has waited; None when it did not, or when the wait is counted already
        (:attr:`Checkpoint.human_wait_ms`). Still set when an earlier claim died before its first checkpoint.
    :ivar clean: it was paused or handed over, so ``logs`` end with the last that it said. Otherwise its process died,
        and numbers up to ``seq_reserved`` may have been used.
    """

    owner: str
    epoch: int
    started: Mapping[str, t.Any] | None
    documents: Mapping[str, t.Any] | None
    steps: Sequence[StepRow]
    logs: Sequence[LogBatch]
    decisions: Sequence[DecisionRow]
    row: Mapping[str, t.Any]
    paused_at: int | None
    seq_reserved: int
    clean: bool

"""Asking people: questions stored before they are shown, answers taken up wherever they came in.

Law of this room: the row of a decision is the truth. A question that was asked before, by this process or another, is
found again by what it belongs to and never asked twice; one that would ask something else there fails the run. An
answer that the run has learnt of is told and noted at once, whether or not somebody waits for it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from gevent.event import Event

from app import encoding
from app import events as ev
from app.agents import hashes
from app.engine import approvals
from app.engine.redaction import FAILED
from app.engine.scope import Cancelled
from app.errors import RunError
from app.store.checkpoints import PARAMETERS, REDACTED, DecisionRow
from plugins.spec.decisions import Answer, Ask, Verdict

if t.TYPE_CHECKING:
    from app.engine.context import RunningBlock
    from app.engine.durable import DurableRun
    from app.engine.run import Run

#: Who answered what was approved for the thread before.
BY_THREAD: t.Final = "thread"
#: Of a review, what comes from the document.
_NOT_MASKED = frozenset({"kind", PARAMETERS})
#: Path, execution, turn and key.
_Place = tuple[str, int, int, str]


class _Waiter:
    """A block that waits for an answer to any of some questions."""

    __slots__ = ("ids", "woken")

    def __init__(self, ids: Collection[str]) -> None:
        self.ids = frozenset(ids)
        self.woken = Event()


class People:
    """The questions of one run.

    :ivar closed: the run pauses or ends: nobody is woken any more.
    """

    def __init__(self, run: Run, durable: DurableRun) -> None:
        self._run = run
        self._durable = durable
        self._rows: dict[_Place, DecisionRow] = {}
        self._told: set[str] = set()
        self._waiters: list[_Waiter] = []
        self.closed = False

    def restore(self, rows: Iterable[DecisionRow], told: Iterable[str]) -> None:
        """Take over what an earlier process asked, and which of it was told."""
        self._rows = {_place(row): row for row in rows}
        self._told = set(told)

    @property
    def waits(self) -> bool:
        """Whether an answer may still come."""
        return any(row.state == "open" for row in self._rows.values())

    def catch_up(self) -> None:
        """Tell of answers that came while no process carried the run."""
        for row in self._rows.values():
            self._settle(row)

    def deliver(self, row: DecisionRow) -> None:
        """A question was answered, or its time is up; wakes who waits for it. Never switches."""
        if self.closed or self._durable.leaving:
            return  # whoever goes on finds it in the store
        known = self._rows.get(_place(row))
        if known is None or known.id != row.id or known.state != "open" or row.answered_at is None:
            return
        self._rows[_place(row)] = row
        self._settle(row)
        self._run.emitter.flush()
        for waiter in self._waiters:
            if row.id in waiter.ids and not waiter.woken.is_set():
                waiter.woken.set()
                self._durable.motion.ask(-1)

    def withdraw(self, block: str) -> None:
        """A block has ended, or was cut off: nobody waits for what it asked."""
        left = [row for place, row in self._rows.items() if place[0] == block and row.state == "open"]
        for row in left:
            self._rows[_place(row)] = replace(row, state="cancelled")
            self._durable.keeper.withdrew(row.id)

    # -- from blocks ---------------------------------------------------------------------------

    def decide(self, block: RunningBlock, asks: Sequence[Ask]) -> Sequence[Answer]:
        """See :meth:`plugins.spec.BlockContext.decide`."""
        approved = [ask for ask in asks if self._approved(block, ask)]
        new = [row for ask in asks if ask not in approved and (row := self._new(block, ask)) is not None]
        if new:
            self._ask(new)
        answers = [Answer(ask.key, "approve", self._now(), by=BY_THREAD) for ask in approved]
        rows = [self._rows[_at(block, ask)] for ask in asks if ask not in approved]
        self._tell(rows)
        while True:
            rows = [self._rows[_place(row)] for row in rows]
            answers += [answer_of(row) for row in rows if row.answered_at is not None]
            if answers and self._durable.halt is None:  # else it was stopped before, and nothing goes on
                break
            self._wait(block, [row.id for row in rows])
        for row in rows:
            self._remember(row)
        return answers

    def _approved(self, block: RunningBlock, ask: Ask) -> bool:
        """Whether it was approved for the thread before anybody was asked. A question that stands already is answered
        by that, unless a person was first: then what they said counts.
        """
        if not ask.subject or not approvals.approved(self._run, ask.subject):
            return False
        known = self._rows.get(_at(block, ask))
        if known is not None:
            self._by_thread(known)
        return known is None

    def _by_thread(self, row: DecisionRow) -> None:
        if row.state == "open":
            store = self._run.services.store.decisions
            _, settled = store.answer(row.id, {"decision": "approve"}, BY_THREAD)
            if settled is not None:
                self.deliver(settled)

    def _new(self, block: RunningBlock, ask: Ask) -> DecisionRow | None:
        """The row of a question that was not asked before.

        :raises RunError: ``journal_mismatch``.
        """
        place = _at(block, ask)
        review = {**review_of(ask), **({PARAMETERS: ask.parameters} if ask.parameters else {})}
        made = hashes.of(review)
        known = self._rows.get(place)
        if known is not None:
            hashes.check(known.input_hash, f"the question {ask.key} of {block.name}", made)
            return None
        request, now = self._run.request, self._now()
        return DecisionRow(
            self._run.services.clock.new_id("dec"),
            self._run.id,
            request.workflow_id,
            *place,
            block.block,
            self._shown(block, t.cast("dict[str, t.Any]", encoding.plain(review))),
            made,
            now,
            request.thread_id,
            request.key_id,
            ask.subject,
            None if ask.deadline_s is None else now + round(ask.deadline_s * 1000),
        )

    def _shown(self, block: RunningBlock, review: dict[str, t.Any]) -> Mapping[str, t.Any]:
        """What is stored and shown of a question: masked, where the run is; what then runs is in the journal."""
        redaction = self._run.redaction
        if redaction is None:
            return review
        tool = review.get("kind") == "tool"
        masked = (redaction.tools if tool else redaction.answer)(
            {name: value for name, value in review.items() if name not in _NOT_MASKED}, block.block
        )
        if redaction.broken:
            raise Cancelled(FAILED)
        return {**{name: masked.get(name, value) for name, value in review.items()}, REDACTED: True}

    def _ask(self, rows: Sequence[DecisionRow]) -> None:
        """Store questions; they are shown only then."""
        ticket = self._durable.keeper.save(asks=rows)
        if ticket is None:
            raise RunError("approval_unavailable", "Nobody can be asked while the server's store is closed.")
        try:
            stand: Sequence[DecisionRow] = ticket.wait()
        finally:
            self._durable.keeper.reap()
        for row in stand:
            self._rows.setdefault(_place(row), row)

    def _tell(self, rows: Sequence[DecisionRow]) -> None:
        new = [row for row in rows if row.id not in self._told]
        for row in new:
            self._told.add(row.id)
            call = row.key if row.review.get("kind") == "tool" else None
            self._run.emitter.emit(ev.DecisionRequested(row.path, row.id, row.shown, call, row.expires_at))
            self._settle(row)
        if new:
            self._durable.keeper.changed()
            self._run.emitter.flush()

    def _wait(self, block: RunningBlock, ids: Collection[str]) -> None:
        waiter = _Waiter(ids)
        self._waiters.append(waiter)
        self._durable.motion.ask(1)
        try:
            with block.scope.held(), block.scope.wait():
                waiter.woken.wait()
        finally:
            self._waiters.remove(waiter)
            if not waiter.woken.is_set():
                self._durable.motion.ask(-1)

    def _settle(self, row: DecisionRow) -> None:
        """Tell of an answer, once, and note it."""
        if row.answered_at is None or row.id not in self._run.state.decisions:
            return
        answer = answer_of(row)
        self._run.emitter.emit(
            ev.DecisionSettled(row.path, row.id, answer.verdict, row.answered_at, answer.by, answer.reason)
        )
        self._durable.keeper.took(row.id)

    def _remember(self, row: DecisionRow) -> None:
        """Approve what was approved for the thread, and with it what is asked about the same."""
        if row.subject is None or row.answered_at is None or row.answered_by == BY_THREAD:
            return
        answer = answer_of(row)
        if not answer.remember or answer.verdict not in ("approve", "edit"):
            return
        approvals.approve(self._run, row.subject)
        for other in list(self._rows.values()):
            if other.subject == row.subject:
                self._by_thread(other)

    def _now(self) -> int:
        return self._run.services.clock.now_ms()


def review_of(ask: Ask) -> dict[str, t.Any]:
    """What a person is shown (contract section 6, ``review``)."""
    shown: dict[str, t.Any] = {"kind": ask.kind}
    if ask.draft is not None:
        shown["draft"] = ask.draft
    if ask.tool is not None:
        shown |= {"tool": ask.tool, "arguments": ask.arguments or {}}
    shown["reasons"] = list(ask.reasons)
    if ask.prompt is not None:
        shown["prompt"] = ask.prompt
    if ask.show:
        shown["show"] = dict(ask.show)
    return shown


def answer_of(row: DecisionRow) -> Answer:
    """The answer in a row that is answered or expired: ``{decision, text?, arguments?, reason?, remember?}``."""
    said = row.answer or {}
    verdict: Verdict = said.get("decision", "expired")
    return Answer(
        row.key,
        verdict,
        row.answered_at or 0,
        said.get("text"),
        said.get("arguments"),
        said.get("reason"),
        bool(said.get("remember")),
        row.answered_by,
    )


def _place(row: DecisionRow) -> _Place:
    return row.path, row.execution, row.turn, row.key


def _at(block: RunningBlock, ask: Ask) -> _Place:
    return block.block, block.execution, ask.turn, ask.key

"""What durable runs are made of: which runs are, what is kept of them, who of them moves, how their time counts."""

from __future__ import annotations

import datetime as dt
import typing as t
from collections.abc import Iterator
from dataclasses import replace

import gevent
import pytest
from hypothesis import given, settings

from app import encoding
from app import events as ev
from app.agents import hashes
from app.engine import envelopes, motion
from app.engine.checkpoints import NEAR, RESERVE, Keeper
from app.engine.durable_journal import DurableJournal
from app.engine.motion import Motion
from app.engine.recompiled import compiled, documents_of, workflow_of
from app.engine.scope import Cancelled, RunScope
from app.engine.services import Services
from app.errors import RunError
from app.store.checkpoints import Checkpoint
from app.store.errors import StaleOwner, StoreFailed
from app.workflows.compiled import Pinned
from plugins.hookspecs import hookimpl
from plugins.spec import Tool
from tests.engine.flows import document
from tests.streams.generate import runs
from tests.support.engine import agent, services


class Held:
    """Brings a tool whose calls a person has to allow."""

    @hookimpl
    def tools(self) -> list[Tool]:
        """See ``plugins.hookspecs``."""
        schema = {"type": "object", "properties": {}}
        return [Tool("pay", "Pays.", schema, lambda arguments, context: "paid", approval="always")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with services(tmp_path_factory.mktemp("durable"), plugins=(Held(),)) as opened:
        yield opened


# -- which runs are ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("doc", "durable"),
    [
        (agent("local/smollm2-135m"), False),
        ({**agent("local/smollm2-135m"), "settings": {"durable": True}}, True),
        (agent("scripted/echo", tools=["clock"]), False),
        (agent("scripted/echo", tools=["pay"]), True),
        (agent("scripted/echo", tools=[{"name": "pay"}]), True),
        (agent("scripted/echo", tools=[{"name": "clock", "approval": "ask_once"}]), True),
        (agent("scripted/echo", tools=[{"name": "clock", "approval": "never"}]), False),
        (document([("ask", "approval", {"prompt": "Go?"})], "start > ask"), True),
        (document([("call", "tool", {"tool": "pay"})], "start > call"), True),
        (document([("call", "tool", {"tool": "clock"})], "start > call"), False),
        (
            document(
                [("row", "sequential", {"agents": [{"model": "scripted/echo", "tools": ["pay"]}]})],
                "start > row",
            ),
            True,
        ),
    ],
)
def test_what_makes_a_run_durable(made: Services, doc: dict[str, t.Any], durable: bool) -> None:
    assert compiled(doc, made.plugins).durable is durable


def test_a_child_that_asks_makes_its_parent_durable_and_both_come_back(made: Services) -> None:
    asks = compiled(document([("ask", "approval", {"prompt": "Go?"})], "start > ask"), made.plugins)
    parent = compiled(document([("run", "workflow", {"workflow": "wf_c"})], "start > run"), made.plugins)
    assert not parent.durable
    whole = replace(parent, children={"run": Pinned("wf_c", 3, asks)})
    assert whole.durable
    again = workflow_of(encoding.loads(encoding.dumps(documents_of(whole))), made.compiler)
    assert again.durable
    assert (again.document, again.children["run"].version) == (whole.document, 3)
    assert again.children["run"].workflow.document == asks.document


# -- what is kept of what was said -----------------------------------------------------------------------


@settings(max_examples=60)
@given(runs())
def test_a_log_comes_back_as_it_was_told(scenario: t.Any) -> None:
    back = envelopes.unpacked(envelopes.packed(scenario.envelopes))
    assert [encoding.dumps(e) for e in back] == [encoding.dumps(e) for e in scenario.envelopes]
    assert [type(e.event) for e in back] == [type(e.event) for e in scenario.envelopes]


@pytest.mark.parametrize(
    "output",
    [
        {"n": 2**70},
        {"at": dt.date(2026, 1, 2)},
        {"text": "\ud83d"},
        {"nan": float("nan")},
        {"bytes": b"\xff"},
        {1: "a key that is no text"},
        {"deep": {2: [{"x": (1, 2)}]}},
    ],
)
def test_what_no_format_holds_comes_back_in_its_one_form(output: t.Any) -> None:
    told = ev.Envelope(1, 5, ev.BlockFinished("a", "executed", output))
    (back,) = envelopes.unpacked(envelopes.packed([told]))
    assert encoding.dumps(back) == encoding.dumps(told)


# -- the journal -----------------------------------------------------------------------------------------


def test_what_could_not_be_stored_is_stored_again_unless_it_was_dropped() -> None:
    journal = DurableJournal(lambda: None)
    journal.write("a", 1, 0, "x", "chosen", "done", 1)
    journal.write("a/part", 1, 0, "y", "chosen", "done", 2)
    lost = journal.take()
    assert not journal.dirty
    journal.forget("a/part", 1)
    journal.write("a", 1, 0, "x", "chosen", "done", 3)
    journal.write("a", 1, 0, "z", "chosen", "done", 4)
    journal.give_back(lost)
    again = journal.take()
    assert [(row.path, row.key, row.position) for row in again.steps] == [("a", "x", 0), ("a", "z", 2)]
    assert [gone.path for gone in again.forgotten] == ["a/part"]
    copy = DurableJournal(lambda: None)
    copy.restore(again.steps)
    assert [(step.key, step.value) for step in copy.of("a", 1)] == [("x", 3), ("z", 4)]
    assert not copy.dirty


def test_rows_that_are_dropped_and_written_anew_are_stored_after_that() -> None:
    journal = DurableJournal(lambda: None)
    journal.write("a", 1, 0, "x", "chosen", "done", 1)
    journal.take()
    journal.forget("a", 1)
    lost = journal.take()
    journal.write("a", 1, 0, "x", "chosen", "done", 2)
    journal.take()  # stored, while what is dropped was not
    journal.give_back(lost)
    again = journal.take()
    assert [gone.path for gone in again.forgotten] == ["a"]
    assert [row.key for row in again.steps] == ["x"]


def test_a_row_of_another_step_is_never_taken_for_this_one() -> None:
    journal = DurableJournal(lambda: None)
    journal.write("a", 1, 0, "call", "chosen", "started", None, hashes.of("pay", 1))
    journal.write(
        "a", 1, 0, "call", "chosen", "done", None, hashes.of("pay", 2)
    )  # this process knows what it does
    copy = DurableJournal(lambda: None)
    copy.restore(journal.take().steps)
    with pytest.raises(RunError) as caught:
        copy.write("a", 1, 0, "call", "chosen", "done", None, hashes.of("pay", 3))
    assert caught.value.code == "journal_mismatch"


# -- checkpoints -----------------------------------------------------------------------------------------


class Tickets:
    """A store that keeps what it is given when it is told to."""

    def __init__(self) -> None:
        self.saved: list[Checkpoint] = []
        self.outcomes: list[Exception | None] = []

    def save(self, run_id: str, owner: str, epoch: int, checkpoint: Checkpoint) -> t.Any:
        self.saved.append(checkpoint)
        return _Ticket(self, len(self.saved) - 1)


class _Ticket:
    def __init__(self, store: Tickets, place: int) -> None:
        self._store, self._place = store, place

    @property
    def done(self) -> bool:
        return len(self._store.outcomes) > self._place

    def wait(self) -> t.Any:
        outcome = self._store.outcomes[self._place]
        if outcome is not None:
            raise outcome
        return []


def keeper() -> tuple[Keeper, Tickets, list[str]]:
    store, lost = Tickets(), []
    return (
        Keeper(t.cast(t.Any, store), "run_1", "own_1", 1, RESERVE, lambda: lost.append("lost")),
        store,
        lost,
    )


def said(seq: int) -> ev.Envelope:
    return ev.Envelope(seq, seq, ev.TextDelta("a", 0, "x", True))


def test_what_is_written_and_told_in_one_turn_is_one_checkpoint() -> None:
    keeps, store, _ = keeper()
    keeps.journal.write("a", 1, 0, "x", "chosen", "done", 1)
    keeps.deliver(said(1))
    keeps.journal.write("a", 1, 0, "y", "chosen", "done", 2)
    keeps.deliver(said(2))
    keeps.took("dec_1")
    gevent.sleep(0)
    (only,) = store.saved
    assert [row.key for row in only.steps] == ["x", "y"]
    assert only.log is not None
    assert (only.log.first, only.log.last, only.taken) == (1, 2, ["dec_1"])


def test_numbers_are_reserved_before_they_are_used() -> None:
    keeps, store, _ = keeper()
    for seq in range(1, 3 * RESERVE):
        keeps.deliver(said(seq))
        assert keeps.reserved >= seq + NEAR
    reserved = [each.seq_reserved for each in store.saved]
    assert reserved == [2 * RESERVE, 3 * RESERVE, 4 * RESERVE]
    assert all(
        not each.steps and each.log is None for each in store.saved
    )  # no cut: something may be half told


def test_what_could_not_be_stored_comes_with_the_next_checkpoint() -> None:
    keeps, store, lost = keeper()
    keeps.journal.write("a", 1, 0, "x", "chosen", "done", 1)
    keeps.deliver(said(1))
    gevent.sleep(0)
    store.outcomes.append(StoreFailed("busy"))
    keeps.deliver(said(2))
    keeps.journal.write("a", 1, 0, "y", "chosen", "done", 2)
    gevent.sleep(0)
    logs = [each.log for each in store.saved[1:] if each.log is not None]
    assert [(log.first, log.last) for log in logs] == [(1, 1), (2, 2)]
    assert sorted(row.key for row in store.saved[-1].steps) == ["x", "y"]
    assert not lost


def test_a_run_that_has_changed_hands_stores_nothing_more() -> None:
    keeps, store, lost = keeper()
    keeps.journal.write("a", 1, 0, "x", "chosen", "done", 1)
    gevent.sleep(0)
    store.outcomes.append(StaleOwner("run_1"))
    with pytest.raises(StaleOwner):
        keeps.commit()
    keeps.journal.write("a", 1, 0, "y", "chosen", "done", 2)
    gevent.sleep(0)
    assert (len(store.saved), lost, keeps.save()) == (1, ["lost"], None)


# -- who moves -------------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(motion, "QUIET_S", 0.001)


def _settled(told: list[bool], times: int = 0) -> None:
    """Let as much time pass as is needed to say that nothing moves, and until it was said so often."""
    for _ in range(20):
        gevent.sleep(0.001)
    with gevent.Timeout(20):
        while len(told) < times:
            gevent.sleep(0.001)


def test_quiet_is_told_once_nobody_moves_and_people_are_waited_for(quick: None) -> None:
    told: list[bool] = []
    moves = Motion(lambda: told.append(True))
    moves.step(2)
    moves.ask(1)
    _settled(told)
    assert not told  # one still moves
    moves.step(-1)
    _settled(told, 1)
    assert told == [True]
    moves.ask(-1)
    _settled(told)
    assert (told, moves.still) == ([True], False)


def test_nothing_is_told_of_a_run_that_only_takes_a_step(quick: None) -> None:
    told: list[bool] = []
    moves = Motion(lambda: told.append(True))
    moves.step(1)
    moves.ask(1)
    moves.step(1)
    for _ in range(50):  # one block ends and the next begins
        moves.step(-1)
        gevent.sleep(0)
        moves.step(1)
    assert not told
    moves.close()
    moves.step(-1)
    _settled(told)
    assert not told


def test_jobs_move_in_the_place_of_who_waits_for_them_also_when_some_never_begin(quick: None) -> None:
    moves = Motion(lambda: None)
    moves.step(1)
    with moves.aside(3) as ended:
        moves.ask(1)
        ended()
        assert moves.still is False  # one is left
        moves.ask(-1)
    moves.ask(1)
    stands = moves.still
    moves.ask(-1)
    moves.close()
    assert stands


# -- time ------------------------------------------------------------------------------------------------


def test_no_time_passes_for_a_block_while_a_person_is_waited_for_in_it() -> None:
    with RunScope() as run, run.child() as block:
        block.deadline(0.02, "block_timeout")
        with block.held(), block.child() as call, call.held():
            gevent.sleep(0.05)
        assert block.cause is None
        with pytest.raises(Cancelled) as caught:
            block.sleep(60)
        assert caught.value.cause == "block_timeout"


def test_time_passes_for_a_run_in_which_others_move() -> None:
    with RunScope() as run, run.child() as block:
        run.deadline(0.02, "execution_timeout")
        with pytest.raises(Cancelled) as caught, block.held():
            block.sleep(60)
        assert caught.value.cause == "execution_timeout"


def test_a_deadline_that_was_held_as_a_whole_goes_on_where_it_stood() -> None:
    with RunScope() as run:
        run.deadline(0.02, "execution_timeout")
        with run.held(whole=True):
            gevent.sleep(0.05)
        assert run.cause is None
        with pytest.raises(Cancelled):
            run.sleep(60)

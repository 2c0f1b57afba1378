"""Moments at the edges of a durable run: before it is stored, and while its pause is being stored."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import gevent
import gevent.event
import pytest
from gevent import monkey

from app import events as ev
from app.engine import registry
from app.engine.checkpoints import Keeper
from app.engine.run import Run
from app.engine.services import Services
from app.store.errors import StoreFailed
from plugins.hookspecs import hookimpl
from plugins.spec import Tool, ToolContext, ToolFailed
from tests.engine.durable_runs import Story, carry_on, killed_at, lose_owner
from tests.support.engine import Recorder, services, start
from tests.support.graphs import graph

DURABLE = {**graph([("z", "set", {"values": {"x": 1}})], "start > z"), "settings": {"durable": True}}
ASKS = graph(
    [("ask", "approval", {"prompt": "Go?", "draft": "x"}), ("z", "set", {"values": {"x": 1}})],
    "start > ask",
    "ask -approved> z",
)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with services(tmp_path) as opened:
        yield opened


@contextmanager
def writing_held(made: Services) -> Iterator[None]:
    """While open, the store's thread writes nothing."""
    free = monkey.get_original("threading", "Event")()
    made.store._writer.submit(lambda link: free.wait(20))
    try:
        yield
    finally:
        free.set()


def until(condition: t.Callable[[], t.Any]) -> None:
    with gevent.Timeout(20):
        while not condition():
            gevent.sleep(0.001)


def pausing(made: Services) -> t.Callable[[], tuple[Run, Recorder]]:
    """A run that asks; what is given waits until it is about to store its pause."""
    run, recorder = start(made, ASKS)
    until(lambda: made.store.decisions.open_of_run(run.id) and recorder.of(ev.DecisionRequested))

    def about() -> tuple[Run, Recorder]:
        assert run.durable is not None
        until(lambda: run.durable and run.durable.leaving)
        return run, recorder

    return about


def test_nobody_has_a_durable_run_that_is_not_stored(made: Services) -> None:
    """Whoever was told of it finds it, though the process ends right then."""
    with writing_held(made):  # nothing behind it is written
        begun = gevent.spawn(start, made, DURABLE)
        for _ in range(10):
            gevent.sleep(0.005)
            assert not begun.ready()
            assert len(made.runs) == 0
    run, _ = t.cast("tuple[t.Any, t.Any]", begun.get(timeout=20))
    assert made.store.runs.status(run.id) is not None
    assert run.done.wait(20)


def test_an_answer_that_comes_while_a_pause_is_stored_is_for_whoever_goes_on(made: Services) -> None:
    """Here nothing can be told any more: it would be lost."""
    about = pausing(made)
    with writing_held(made):
        run, recorder = about()
        assert run.durable is not None
        (row,) = made.store.decisions.open_of_run(run.id)
        now = made.clock.now_ms()
        answered = replace(row, state="answered", answer={"decision": "approve"}, answered_at=now)
        run.durable.people.deliver(answered)
    assert run.done.wait(20)
    assert isinstance(recorder.envelopes[-1].event, ev.RunPaused)
    assert run.emitter.late == 0
    assert made.store.runs.status(run.id) == "paused"


def test_a_server_that_ends_while_a_pause_cannot_be_stored_hands_the_run_over(
    made: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not end with its server."""
    save = made.store.durable.save

    def no_pauses(run_id: str, owner: str, epoch: int, checkpoint: t.Any) -> t.Any:
        if checkpoint.pause is None:
            return save(run_id, owner, epoch, checkpoint)
        return made.store._writer.submit(fail)

    def fail(link: t.Any) -> None:
        raise StoreFailed("The database takes no pauses.")

    about = pausing(made)
    with writing_held(made):
        monkeypatch.setattr(made.store.durable, "save", no_pauses)
        run, recorder = about()
        leaves = gevent.spawn(made.runs.drain, 20)
        gevent.sleep(0)
    assert leaves.get(timeout=20)
    row = made.store.runs.get(run.id)
    assert row is not None
    assert (row["status"], row["owner_id"]) == ("running", None)
    assert not [e for e in recorder.envelopes if isinstance(e.event, ev.Terminal)]
    assert made.store.durable.claimable(50, 35.0) == [run.id]


def test_whoever_waits_for_a_run_to_leave_learns_that_it_stays(
    made: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pause could not be stored: an answer is for the run that goes on here."""
    save, failed = made.store.durable.save, []

    def fail(link: t.Any) -> None:
        failed.append(link)
        raise StoreFailed("The database takes no pauses.")

    def one_pause_fails(run_id: str, owner: str, epoch: int, checkpoint: t.Any) -> t.Any:
        if checkpoint.pause is None or failed:
            return save(run_id, owner, epoch, checkpoint)
        return made.store._writer.submit(fail)

    about = pausing(made)
    with writing_held(made):
        monkeypatch.setattr(made.store.durable, "save", one_pause_fails)
        run, _ = about()
        taker = gevent.spawn(made.runs.go_on, run.id)
        gevent.sleep(0)
        assert not taker.ready()
    assert taker.get(timeout=20) is run
    assert run.done.wait(20)  # its next pause is stored
    assert made.store.runs.status(run.id) == "paused"


def test_what_a_block_asked_that_was_cut_off_is_no_reason_for_a_pause(made: Services) -> None:
    """Whoever answered it would be told that nothing waits for it."""
    cut = graph(
        [
            ("all", "loop", {"kind": "for", "times": 1}),
            ("lost", "approval", {"prompt": "Go?", "draft": "x"}),
            ("first", "approval", {"prompt": "Go?", "draft": "x"}),
            ("bad", "set", {"values": {"x": "{{ 1 / 0 }}"}}),
            ("after", "approval", {"prompt": "Go?", "draft": "x"}),
        ],
        "start > all",
        "all -loop> lost",
        "all -loop> first",
        "first -approved> bad",
        "all -error> after",
    )
    run, _ = start(made, cut)
    until(lambda: len(made.store.decisions.open_of_run(run.id)) == 2)
    asked = {row.path: row.id for row in made.store.decisions.open_of_run(run.id)}
    made.store.decisions.answer(asked["first"], {"decision": "approve"}, "test")
    gone_on = made.runs.go_on(run.id)
    assert gone_on is not None
    assert gone_on.done.wait(20)
    assert gone_on.paused is not None
    (left,) = made.store.decisions.open_of_run(run.id)
    assert left.path == "after"
    assert list(gone_on.paused.pauses) == [(left.id, "after")]
    assert gone_on.durable is not None
    assert {row.path: row.state for row in made.store.decisions.of_run(run.id)} == {
        "lost": "cancelled",
        "first": "answered",
        "after": "open",
    }


def test_no_pause_is_stored_without_what_came_before_it(
    made: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process would go on from a run with a hole in it."""
    save, failed = made.store.durable.save, []

    def fail(link: t.Any) -> None:
        failed.append(link)
        raise StoreFailed("The database takes nothing.")

    def one_fails(run_id: str, owner: str, epoch: int, checkpoint: t.Any) -> t.Any:
        if checkpoint.pause is not None or failed:
            return save(run_id, owner, epoch, checkpoint)
        return made.store._writer.submit(fail)

    about = pausing(made)
    with writing_held(made):
        monkeypatch.setattr(made.store.durable, "save", one_fails)
        run, recorder = about()
    until(lambda: failed and run.durable and not run.durable.leaving)
    assert made.store.runs.status(run.id) == "running"
    assert run.done.wait(20)  # its next pause is stored
    assert run.paused is not None
    assert made.store.runs.status(run.id) == "paused"
    assert [e.seq for e in Story(run.id).stored(made)] == [e.seq for e in recorder.envelopes]


def taken_up(made: Services) -> Keeper:
    """What keeps a run that was paused and that this process carries from now on."""
    run, _ = pausing(made)()
    assert run.done.wait(20)
    claim = made.store.durable.claim(run.id, made.store.owner_id, asked=True)
    assert claim is not None
    return Keeper(made.store.durable, run.id, claim.owner, claim.epoch, claim.seq_reserved, lambda: None)


def test_numbers_whose_reservation_could_not_be_stored_are_reserved_with_what_is_stored_next(
    made: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have been told: a process that goes on after this one must not use them again."""

    def fail(link: t.Any) -> None:
        raise StoreFailed("The database takes nothing.")

    keeper = taken_up(made)
    before = keeper.reserved
    with monkeypatch.context() as patch:
        patch.setattr(made.store.durable, "save", lambda *_: made.store._writer.submit(fail))
        keeper.deliver(ev.Envelope(before, made.clock.now_ms(), ev.RunResumed(None)))
        with pytest.raises(StoreFailed):
            keeper.wait()
    ticket = keeper.save()
    assert ticket is not None
    ticket.wait()
    row = made.store.runs.get(keeper._run_id)
    assert row is not None
    assert row["seq_reserved"] == keeper.reserved > before


def test_nothing_that_may_not_be_repeated_begins_when_the_store_is_closed(made: Services) -> None:
    keeper = taken_up(made)
    keeper.journal.write("ask", 1, 0, "call", "tool", "started")
    made.store._writer.close()
    with pytest.raises(StoreFailed):
        keeper.commit()


def test_a_run_that_was_taken_and_could_not_be_begun_is_begun_later(
    made: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else may take it while this process lives."""

    def fail(link: t.Any) -> None:
        raise StoreFailed("The database takes nothing.")

    run, _ = pausing(made)()
    assert run.done.wait(20)
    (row,) = made.store.decisions.open_of_run(run.id)
    made.store.decisions.answer(row.id, {"decision": "approve"}, "test")
    with monkeypatch.context() as patch:
        patch.setattr(made.store.durable, "save", lambda *_: made.store._writer.submit(fail))
        with pytest.raises(StoreFailed):
            made.runs.go_on(run.id)
    assert made.store.runs.status(run.id) == "running"
    assert made.store.durable.claimable(50, 35.0) == []
    made.runs._carrier.sweep()
    until(lambda: made.store.runs.status(run.id) == "completed")


def test_the_stored_log_of_a_run_goes_when_it_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the database would keep what every durable run has ever said."""
    monkeypatch.setattr(registry, "LOGS_S", 0.01)
    with services(tmp_path, {"STUDIO_RUN_LOG_S": "0"}) as made:
        paused, _ = start(made, ASKS)
        run, _ = start(made, DURABLE)
        assert run.done.wait(20)
        assert paused.done.wait(20)
        assert made.store.durable.log(run.id)
        made.runs.open(carry_on=True)
        until(lambda: not made.store.durable.log(run.id))
        assert made.store.runs.status(run.id) == "completed"
        assert made.store.durable.log(paused.id)  # it goes on from there


class Tools:
    """Brings a tool that takes its time, and one that fails once the other is at work.

    :ivar made: calls of the slow one.
    """

    def __init__(self) -> None:
        self.made = 0

    @hookimpl
    def tools(self) -> list[Tool]:
        """See ``plugins.hookspecs``."""
        schema = {"type": "object", "properties": {}}
        return [Tool("slow", "Waits.", schema, self._slow), Tool("fails", "Fails.", schema, self._fails)]

    def _slow(self, arguments: dict[str, t.Any], context: ToolContext) -> str:
        self.made += 1
        with context.waits.wait():
            gevent.event.Event().wait()
        return "never"

    def _fails(self, arguments: dict[str, t.Any], context: ToolContext) -> str:
        while not self.made:
            gevent.sleep(0)
        raise ToolFailed("It is broken.")


def test_a_branch_that_was_cut_off_does_not_run_again_wherever_the_process_dies(tmp_path: Path) -> None:
    """One branch fails and ends the other; what ended it comes back, and it does not."""
    document = graph(
        [
            ("p", "parallel", {"branches": ["one", "two"]}),
            ("a", "tool", {"tool": "slow"}),
            ("b", "tool", {"tool": "fails"}),
            ("bad", "set", {"values": {"x": 1}}),
        ],
        "start > p",
        "p -branch:one> a",
        "p -branch:two> b",
        "p -error> bad",
    )
    brings = Tools()
    with services(tmp_path, plugins=(brings,)) as made:
        switch, switches = 0, 1
        while switch < switches:
            switch, brings.made = switch + 1, 0
            run, recorder = start(made, {**document, "settings": {"durable": True}})
            story = Story(run.id, [recorder])
            switches = max(switches, killed_at(run, switch))
            if run.ending is None:
                lose_owner(made, run)
                found = carry_on(made, run.id)
                assert found is not None
                story.parts.append(found[1])
                assert found[0].done.wait(20)
            assert brings.made <= 1, f"switch {switch}"
            assert story.faults(made) == []
            begun = [e.event.block for e in story.stored(made) if isinstance(e.event, ev.BlockStarted)]
            assert begun.count("a") == 1, f"switch {switch}"
            assert made.store.runs.status(run.id) == "completed"
    assert switches > 20

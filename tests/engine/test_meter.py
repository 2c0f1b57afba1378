"""The meter of a run: whatever its calls use, in whichever process, a budget that is exceeded ends a run at once."""

from __future__ import annotations

import itertools
import math
import typing as t
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import gevent
import pytest
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st

from app.clock import SteppingClock
from app.config import Settings
from app.engine.budgets import Budget, period_of, resets_at_ms, restored, stored
from app.engine.meters import Meter
from app.engine.scope import Cancelled, RunScope
from app.events import UsageReported
from app.store import Store, StoreFailed
from plugins.spec.budget import Amount
from tests.support import databases

_IDS = itertools.count()


@pytest.fixture(scope="module", params=databases.KINDS)
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Store]]:
    """Two stores of one database, as two workers have them."""
    made = Settings(data_dir=tmp_path_factory.mktemp("meter"))
    with ExitStack() as stack:
        if request.param != "sqlite":
            address = stack.enter_context(databases.postgresql(migrated=True))
            made = replace(made, database_url=databases.with_driver(address))
        databases.ready(made)
        stores = [Store(made), Store(made)]
        yield stores
        for store in stores:
            store.close()


def used(tokens: int, cost: float | None = 0.0) -> UsageReported:
    return UsageReported("a", "m", {"input": tokens - tokens // 3, "output": tokens // 3}, cost)


def replace_block(report: UsageReported, block: str) -> UsageReported:
    return UsageReported(block, report.model, report.tokens, report.cost)


def meter(store: Store, *held: Budget, **more: t.Any) -> Meter:
    return Meter(held, store.spending, RunScope(), SteppingClock(step_ms=0), **more)


#: Who uses what, in order: which of two workers, which of two runs there, tokens, money.
_USES = st.lists(
    st.tuples(
        st.integers(0, 1), st.integers(0, 1), st.integers(0, 60), st.sampled_from([None, 0.0, 0.125, 0.5])
    ),
    max_size=16,
)


@how(max_examples=60)
@given(uses=_USES, tokens=st.integers(1, 200), cost=st.sampled_from([None, 0.25, 1.0]))
def test_runs_go_on_exactly_as_long_as_all_is_within(two, uses, tokens, cost):
    """A run ends with the report that exceeds its own budget, or the one that it shares; no other one does."""
    number = next(_IDS)
    shared = Budget(f"key:{number}", "day", tokens, cost)
    own = Budget(f"workflow:{number}", "run", tokens // 2 + 1)
    runs = {(w, r): meter(two[w], own, shared) for w in (0, 1) for r in (0, 1)}
    total, money, mine = 0, 0.0, dict.fromkeys(runs, 0)
    for worker, run, amount, price in uses:
        now = runs[worker, run]
        if now._scope.cause is not None:
            continue
        now.used(used(amount, price))
        total, money, mine[worker, run] = (
            total + amount,
            money + (price or 0.0),
            mine[worker, run] + amount,
        )
        ends = mine[worker, run] > tokens // 2 + 1 or total > tokens or (cost is not None and money > cost)
        if ends:
            with pytest.raises(Cancelled, match="budget_exceeded"):
                now.check()
            assert now.over in (own, shared)
        else:
            now.check()
    found = two[0].spending.read(shared.subject, period_of(shared, SteppingClock(step_ms=0).now_ms()))
    assert found.tokens == total
    assert math.isclose(found.cost, money, abs_tol=1e-9)
    for key, one in runs.items():
        if one._scope.cause is None and (shared.used_up_by(found) or own.tokens == mine[key]):
            with pytest.raises(Cancelled):
                one.left()
        elif one._scope.cause is None:
            assert one.left().tokens == min(tokens - total, own.tokens - mine[key])


def test_a_run_that_waits_is_ended_when_the_total_comes_back(two):
    """Nobody asks the meter: what another branch of the run uses ends the wait of this one."""
    held = Budget(f"chat:{next(_IDS)}", "month", tokens=10)
    scope = RunScope()
    mine = Meter((held,), two[0].spending, scope, SteppingClock(step_ms=0))
    ended: list[str] = []

    def wait() -> None:
        try:
            with scope.wait():
                gevent.sleep(30)
        except Cancelled as cancelled:
            ended.append(cancelled.cause)

    waiting = gevent.spawn(wait)
    gevent.sleep(0)
    mine.used(used(11))
    waiting.join(20)
    assert ended == ["budget_exceeded"]


def test_what_cannot_be_stored_ends_no_run(two, monkeypatch, caplog):
    """And the budget of the run itself holds all the same."""

    def fails(*_: object) -> t.NoReturn:
        raise StoreFailed("The database is gone.")

    monkeypatch.setattr(type(two[0].spending), "add", fails)
    mine = meter(two[0], Budget("key:x", "day", tokens=10), Budget("workflow:x", "run", tokens=20))
    mine.used(used(15))
    mine.check()
    assert "could not be stored" in caplog.text
    mine.used(used(15))
    with pytest.raises(Cancelled):
        mine.check()


def test_a_resumed_run_begins_with_what_it_had_used(two):
    mine = meter(two[0], Budget("workflow:x", "run", tokens=100), usages=[used(40), used(30)])
    assert mine.left() == (30, None)
    mine.used(used(31))
    with pytest.raises(Cancelled):
        mine.check()


def test_what_was_exceeded_in_an_earlier_process_ends_it_here(two):
    mine = meter(two[0], Budget("workflow:x", "run", tokens=100), usages=[used(110)])
    with pytest.raises(Cancelled, match="budget_exceeded"):
        mine.check()


def test_a_workflow_inside_is_ended_alone_and_counts_in_what_is_around_it(two):
    """Each hears only of its own blocks; who has the least left says how much that is."""
    around = meter(two[0], Budget("workflow:x", "run", tokens=100))
    scope = RunScope()
    inner = Meter(
        (Budget("workflow:y", "run", tokens=60),),
        two[0].spending,
        scope,
        SteppingClock(step_ms=0),
        path="a/",
        outer=around,
    )

    def report(block: str, tokens: int) -> None:
        for each in (around, inner):
            each.used(replace_block(used(tokens), block))

    some = Amount(1, 0.0)
    report("ab", 30)
    report("a/b", 10)
    assert (around.left().tokens, inner.left().tokens) == (60, 50)
    by_its_own = inner.hold(some, some)
    report("c", 20)
    assert inner.left().tokens == 40, "of what is around it"
    by_the_other = inner.hold(some, some)
    assert by_its_own is not None
    assert by_the_other is not None
    for held, (over_inside, over_around) in ((by_its_own, (True, False)), (by_the_other, (True, True))):
        held.release()
        with pytest.raises(Cancelled):
            held.exceed("tokens")
        assert (inner.over is not None, around.over is not None) == (over_inside, over_around)


def test_a_count_that_is_not_there_is_nothing(two):
    mine = meter(two[0], Budget("workflow:x", "run", tokens=100, cost=1.0))
    mine.used(UsageReported("a", "m", {}, None))
    mine.used(UsageReported("a", "m", {"input": 4}, None))
    mine.used(UsageReported("a", "m", {"input": 4, "output": 2, "total": 9}, 0.25))
    assert mine.left() == (100 - 13, 0.75)


@given(
    budgets=st.lists(
        st.builds(
            Budget,
            st.text(max_size=8),
            st.sampled_from(["run", "day", "month"]),
            st.none() | st.integers(1),
            st.none() | st.floats(0.001, 1e9),
        ),
        max_size=3,
    )
)
def test_budgets_come_back_as_they_were(budgets):
    assert restored(stored(budgets)) == tuple(budgets)


@pytest.mark.parametrize(
    ("now", "day", "month"),
    [
        ("2026-11-30T23:59:59.999", ("2026-11-30", 1), ("2026-11", 1)),
        ("2026-12-31T00:00:00.000", ("2026-12-31", 86_400_000), ("2026-12", 86_400_000)),
        ("2028-02-28T12:00:00.000", ("2028-02-28", 43_200_000), ("2028-02", 36 * 3_600_000)),
    ],
)
def test_periods_are_of_utc(now, day, month):
    from datetime import datetime

    ms = round(datetime.fromisoformat(f"{now}+00:00").timestamp() * 1000)
    for period, (name, left) in (("day", day), ("month", month)):
        budget = Budget("key:x", t.cast(t.Any, period), 1)
        assert (period_of(budget, ms), resets_at_ms(budget, ms) - ms) == (name, left)

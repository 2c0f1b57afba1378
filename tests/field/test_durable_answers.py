"""Two servers on one database: runs that one of them began are answered, raced for, changed and handed over.

HITL-01 and HITL-03 between processes, on both databases; what is counted as time that people took.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import gevent
import pytest
from sqlalchemy import text

from tests.field.durable import Case, Place, place_of, reply
from tests.field.rig import until
from tests.support import databases, sse

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Two servers on one SQLite file."""
    with place_of(tmp_path_factory.mktemp("answers"), 2, STUDIO_METRICS="true") as made:
        yield made


def edit(place: Place, sql: str, **values: t.Any) -> None:
    """Change what is stored, as nobody of the program would."""
    engine = place.server.store._backend.engine
    with engine.begin() as link:
        assert link.execute(text(sql), values).rowcount == 1


# -- three calls of one batch ------------------------------------------------------------------

ANSWERS: dict[str, dict[str, t.Any]] = {
    "pay": {"decision": "edit", "arguments": {"sum": 7}},
    "drop": {"decision": "reject", "reason": "Keep it."},
    "send": {"decision": "approve"},
}
ORDERS = tuple(permutations(ANSWERS))


def answered_in_order(it: Case, order: tuple[str, ...], *, paused_between: bool) -> None:
    """Each question is answered through the other server than the one before it."""
    tools = [it.tool(word, approval="always") for word in ANSWERS]
    it.begin([("a", "agent", it.agent("a", tools=tools))], "start > a", on_disconnect="continue")
    it.plans("a", *((word, {"sum": number}) for number, word in enumerate(ANSWERS)))
    it.first.rest()
    asked = {row["review"]["tool"].rpartition("-")[2]: row for row in it.asks(3)}
    assert [asked[word]["review"]["arguments"] for word in ANSWERS] == [{"sum": n} for n in range(3)]
    it.follow()
    for number, word in enumerate(order):
        server = it.place.servers[number % 2]
        it.answer(asked[word]["id"], server, **ANSWERS[word])
        if paused_between and word != "drop":
            it.works(word)
        if paused_between and word != order[-1]:
            until(lambda: it.place.server.store.runs.status(it.first.run_id) == "paused", "it pauses again")
    if not paused_between:
        it.works("send"), it.works("pay")
    call = it.model("a")
    told = {m["tool_call_id"]: m["content"] for m in call.body["messages"] if m["role"] == "tool"}
    assert list(told) == ["c0", "c1", "c2"]
    assert '{"sum":7}' in told["c0"]
    assert told["c0"].endswith("\nfine")
    assert told["c1"].endswith("Their reason: Keep it.")
    assert told["c2"] == "fine"
    reply(call, "All settled.")
    record = it.record("completed")
    assert it.counts() == {"a": 2, "pay": 1, "send": 1}
    made = {word: [call.body for call in it.place.desk.seen[f"{it.name}-{word}"]] for word in ANSWERS}
    assert made == {"pay": [{"sum": 7}], "drop": [], "send": [{"sum": 2}]}
    listed = [(c["id"], c["status"], c["arguments"]) for c in record["toolCalls"]["a"]["list"]]
    assert listed == [("c0", "success", {"sum": 7}), ("c1", "error", {"sum": 1}), ("c2", "success", {"sum": 2})]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_each_of_three_calls_gets_its_own_answer(place: Place, order: tuple[str, ...]) -> None:
    number = ORDERS.index(order)
    answered_in_order(Case(place, f"order_{number}"), order, paused_between=number % 2 == 0)


@pytest.mark.parametrize("paused_between", [True, False])
def test_each_of_three_calls_gets_its_own_answer_on_postgresql(
    postgresql: Place, paused_between: bool
) -> None:
    it = Case(postgresql, f"order_{paused_between}")
    answered_in_order(it, ORDERS[-1], paused_between=paused_between)


# -- races -------------------------------------------------------------------------------------


def raced_for(place: Place) -> None:
    """Every run is answered through both servers at once."""
    cases = [Case(place, f"race_{number}") for number in range(20)]
    for it in cases:
        it.begin(
            [("ask", "approval", {"prompt": "Go?", "draft": "x"}), ("t", "tool", {"tool": it.tool("do")})],
            "start > ask",
            "ask -approved> t",
        )
    asked = {it.name: it.asks()[0]["id"] for it in cases}
    for it in cases:
        it.status("paused")

    def answer(it: Case, server: int) -> int:
        path = f"/api/decisions/{asked[it.name]}"
        return place.servers[server].call("POST", path, body={"decision": "approve"})[0]

    given = [gevent.spawn(answer, it, server) for it in cases for server in (0, 1)]
    for it in cases:
        it.works("do")
    statuses = [each.get(timeout=20) for each in given]
    for number, it in enumerate(cases):
        assert sorted(statuses[2 * number : 2 * number + 2]) == [200, 409]
        it.record("completed")
        assert it.counts() == {"do": 1}
        it.first.stream.close()


def test_of_two_processes_one_goes_on(place: Place) -> None:
    raced_for(place)


def test_of_two_processes_one_goes_on_on_postgresql(postgresql: Place) -> None:
    raced_for(postgresql)


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Two servers on one PostgreSQL."""
    folder = tmp_path_factory.mktemp("postgresql")
    with (
        databases.postgresql(migrated=True) as address,
        place_of(folder, 2, STUDIO_DATABASE_URL=address) as made,
    ):
        yield made

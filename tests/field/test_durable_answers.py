"""Two servers on one database: runs that one of them began are answered, raced for, changed and handed over.

HITL-01 and HITL-03 between processes, on both databases; what is counted as time that people took.
"""

from __future__ import annotations

import json
import sqlite3
import typing as t
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import permutations

import gevent
import pytest

from app import events as ev
from app.engine.envelopes import unpacked
from tests.field.durable import Case, Place, place_of, reply
from tests.field.rig import until
from tests.field.stages import Following
from tests.field.test_reconnect import Reader, attach
from tests.support import databases, sse
from tests.support.graphs import graph

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Two servers on one SQLite file."""
    with place_of(tmp_path_factory.mktemp("answers"), 2, STUDIO_METRICS="true") as made:
        yield made


@contextmanager
def stored(place: Place) -> Iterator[sqlite3.Connection]:
    """The database, to be changed as nobody of the program would."""
    with closing(sqlite3.connect(place.folder / "studio.db", timeout=20)) as link, link:
        yield link


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
    assert listed == [
        ("c0", "success", {"sum": 7}),
        ("c1", "error", {"sum": 1}),
        ("c2", "success", {"sum": 2}),
    ]


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


def test_who_waits_at_a_pause_keeps_the_run_though_the_answerer_leaves(place: Place) -> None:
    it = Case(place, "leaves")
    it.begin(
        [("ask", "approval", {"prompt": "Go?", "draft": "x"}), ("a", "agent", it.agent("a"))],
        "start > ask",
        "ask -approved> a",
    )
    it.first.rest()
    (asked,) = it.asks()
    it.status("paused")
    it.follow()
    it.answer(asked["id"], decision="approve").stream.close()
    call = it.model("a")
    call.text("Still ")
    it.later.upto("Still ")
    reply(call, "here.")
    it.end(lost=False)


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
    statuses = [each.get(timeout=60) for each in given]
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


# -- changed while paused ------------------------------------------------------------------------


def swapped(document: dict[str, t.Any]) -> None:
    """What is second comes first."""
    document["edges"] = [
        {"source": "start", "target": "u"},
        {"source": "u", "target": "t"},
        {"source": "t", "target": "a"},
    ]


def other_arguments(document: dict[str, t.Any]) -> None:
    """Of a tool that has run."""
    _config(document, "t")["arguments"] = {"n": 100}


def other_tool(document: dict[str, t.Any]) -> None:
    """The one that is asked about takes the place of another."""
    first, second = _config(document, "a")["tools"]
    first["http"], second["http"] = second["http"], first["http"]


def other_prompt(document: dict[str, t.Any]) -> None:
    """Of the agent that waits."""
    _config(document, "a")["prompt"] = "stop"


def _config(document: dict[str, t.Any], name: str) -> t.Any:
    return next(block["config"] for block in document["blocks"] if block["id"] == name)


@pytest.mark.parametrize("change", [swapped, other_arguments, other_tool, other_prompt])
def test_what_was_changed_while_a_run_was_paused_fails_it_loudly(
    place: Place, change: t.Callable[[dict[str, t.Any]], None]
) -> None:
    """No step is given the result of another, nothing runs, and the thread is free."""
    it = Case(place, change.__name__)
    tools = [it.tool("send", approval="always"), it.tool("note")]
    run = it.begin(
        [
            ("t", "tool", {"tool": it.tool("first"), "arguments": {"n": 1}}),
            ("u", "tool", {"tool": it.tool("second"), "arguments": {"n": 2}}),
            ("a", "agent", it.agent("a", tools=tools)),
        ],
        "start > t",
        "t > u",
        "u > a",
    )
    it.works("first"), it.works("second")
    it.plans("a", ("send", {}))
    it.first.rest()
    (asked,) = it.asks()
    with stored(place) as link:
        sql = "SELECT documents FROM durable_runs WHERE run_id = ?"
        documents = json.loads(link.execute(sql, [run]).fetchone()[0])
        change(documents["document"])
        sql = "UPDATE durable_runs SET documents = ? WHERE run_id = ?"
        link.execute(sql, [json.dumps(documents), run])
    told = it.answer(asked["id"], place.servers[1], decision="approve").rest()
    assert (told[-2][1]["event"], told[-2][1]["code"]) == ("error", "journal_mismatch")
    record = it.status("failed")
    assert record["error"]["code"] == "journal_mismatch"
    assert all(block["status"] != "running" for block in record["blocks"])
    assert [call["status"] for call in record["toolCalls"]["a"]["list"]] == ["error"]
    assert it.counts() == {"first": 1, "second": 1, "a": 1}
    it.first = it.again(place.servers[1])
    it.works("first"), it.works("second")
    it.says("a", "Again.")
    assert it.first.rest()[-2][1]["data"]["status"] == "completed"


# -- time that people took -----------------------------------------------------------------------


def test_time_that_people_take_is_told_alike_everywhere_and_is_no_time_of_the_run(place: Place) -> None:
    """They take an hour; the run may take a minute."""
    it = Case(place, "slow_people")
    run = it.begin(
        [
            ("a", "agent", it.agent("a")),
            ("ask", "approval", {"prompt": "Send it?"}),
            ("b", "agent", it.agent("b")),
        ],
        "start > a",
        "a > ask",
        "ask -approved> b",
        timeout_s=60,
    )
    it.says("a", "Dear all")
    it.first.rest()
    (asked,) = it.asks()
    it.status("paused")
    before = waited_in_all(place)
    with stored(place) as link:
        sql = ", ".join(
            f"{name} = {name} - {60 * MINUTE_MS}" for name in ("created_at", "started_at", "paused_at")
        )
        link.execute(f"UPDATE runs SET {sql} WHERE id = ?", [run])
    goes_on = it.answer(asked["id"], place.servers[1], decision="approve")
    it.says("b", "Sent.")
    end = goes_on.rest()[-2][1]["data"]
    record = it.record("completed")
    waited = record["humanWaitMs"]
    assert 60 * MINUTE_MS <= waited < 61 * MINUTE_MS
    assert end["usage"] == record["usage"]
    assert end["usage"]["humanWaitMs"] == waited
    assert record["activeMs"] == record["usage"]["activeMs"] < MINUTE_MS
    events = [e for batch in place.server.store.durable.log(run) for e in unpacked(batch.data)]
    (resumed,) = [e.event for e in events if isinstance(e.event, ev.RunResumed)]
    assert resumed.human_wait_ms == waited
    assert waited_in_all(place) - before == pytest.approx(waited / 1000)


def waited_in_all(place: Place) -> float:
    """Seconds that people took, in the metrics of all servers."""
    total = 0.0
    for server in place.servers:
        status, _, body = sse.request(
            server.studio.port, "GET", "/metrics", headers={"X-API-Key": server.studio.key}
        )
        assert status == 200
        for line in body.decode().splitlines():
            if line.startswith("studio_human_wait_seconds_sum"):
                total += float(line.rpartition(" ")[2])
    return total


# -- handed over ---------------------------------------------------------------------------------


def test_a_server_that_ends_hands_its_runs_over(place: Place) -> None:
    """SIGTERM in the middle of a turn: clients are told to come back, and have the whole text once.

    The last test here: one of the two servers is gone afterwards.
    """
    it, other = Case(place, "over"), Case(place, "over_too")
    leaving = place.servers.pop()
    it.place = Place(place.folder, place.models, place.desk, servers=[leaving])
    it.begin([("a", "agent", it.agent("a", tools=[it.tool("note")]))], "start > a")
    it.plans("a", ("note", {}))
    it.works("note")
    it.model("a").text("Half")
    it.first.upto("Half")
    document = {**graph([("a", "agent", other.agent("a"))], "start > a"), "settings": {"durable": True}}
    follows = Following(leaving, leaving.deploy(document), message="hi")
    other.model("a").text("Half")
    assert leaving.studio.process is not None
    leaving.studio.process.terminate()
    told = it.first.rest()
    assert told[-1] == (None, {"event": "detached", "retryMs": 1000})
    assert it.first.stream._parser.retry == 1000
    rest = follows.rest()
    assert (rest[-1]["type"], rest[-1]["data"]) == ("detached", {"retry_ms": 1000})
    assert leaving.studio.process.wait(60) == 0
    it.place = place
    it.follow()
    last = f"{follows.run_id}:{rest[-1]['seq']}"
    later = Reader(attach(place.server, follows.run_id, "protocol=runs", last=last))
    reply(it.model("a"), "All of it")
    reply(other.model("a"), "Whole")
    record = it.end(lost=False)
    assert it.standing() == {"a": record["output"]["content"]} == {"a": "All of it"}
    assert record["humanWaitMs"] == 0
    assert it.counts() == {"a": 3, "note": 1}
    events = [*follows.seen[:-1], *(value for _, value in later.rest())]
    said = [e["data"]["content"] for e in events if e["type"] in ("chat_chunk", "agent_message")]
    assert said == ["Whole"]
    assert [e["type"] for e in events if e["type"] in ("done", "detached")] == ["done"]
    assert later.told[0][1]["type"] == "thread"
    numbers = [e["seq"] for e in events]
    assert numbers == sorted(numbers)

"""A server is killed, and its durable runs go on: HITL-07, and what must be shown of kill -9.

Each case is a run that comes to a point, loses its process there, and goes on in another. All of them lose it at once:
as the worker dies and its master starts another, and as the whole server dies and is started again.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from tests.field import faults
from tests.field.durable import Case, Place, Steps, place_of, reply
from tests.field.durable_cases import CASES, SET


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place_of(tmp_path_factory.mktemp("durable")) as made:
        yield made


@pytest.fixture(scope="module", params=["worker", "server"])
def survivors(request: pytest.FixtureRequest, place: Place) -> dict[str, Steps]:
    """All cases, brought to their points; then the process dies."""
    begun = {}
    for case in CASES:
        steps = case(Case(place, f"{request.param}_{case.__name__}"))
        next(steps)
        begun[case.__name__] = steps
    place.kill_worker() if request.param == "worker" else place.kill_server()
    return begun


@pytest.mark.parametrize("name", [case.__name__ for case in CASES])
def test_a_run_whose_process_is_killed_goes_on(survivors: dict[str, Steps], name: str) -> None:
    with pytest.raises(StopIteration):
        next(survivors[name])


# -- exact moments -----------------------------------------------------------------------------


@pytest.mark.parametrize("point", faults.POINTS)
def test_a_process_that_dies_around_a_pause_changes_nothing(place: Place, point: str) -> None:
    """The same question stands, is answered once, and its call is made once, as it was shown."""
    it = Case(place, f"at_{point}")
    tools = [it.tool("send", approval="always"), it.tool("note")]
    run = it.begin([("a", "agent", it.agent("a", tools=tools))], "start > a")
    place.arm(point, run)
    it.plans("a", ("note", {}))
    it.works("note")
    it.plans("a", ("send", {"n": 1}))
    answered = point in ("answered", "claimed")
    if not answered:
        place.died(point)
        it.cut()
    (asked,) = it.asks()
    it.status("paused")
    assert it.asks() == [asked]
    assert asked["review"]["arguments"] == {"n": 1}
    said = {"decision": "edit", "arguments": {"n": 2}}
    path = f"/api/decisions/{asked['id']}"
    if answered:
        assert it.first.rest()[-2][1]["data"]["status"] == "paused"
        with pytest.raises((OSError, http.client.HTTPException)):
            place.server.call("POST", path, body=said)
        place.died(point)
        status, body = place.server.call("POST", path, body=said)
        assert (status, body["error"]["code"]) == (409, "already_answered")
        it.follow()
    else:
        it.follow()
        while it.later.next() != "[DONE]":
            pass
        assert it.later.told[-2][1]["data"]["resume"]["pauseId"] == asked["id"]
        it.first.told += it.later.told
        it.follow()
        assert place.server.call("POST", path, body=said)[0] == 200
    assert it.works("send").body == {"n": 2}
    it.says("a", "Done.")
    record = it.end(lost=point == "claimed")
    assert [c["arguments"] for c in record["toolCalls"]["a"]["list"]] == [{}, {"n": 2}]
    assert record["output"]["content"] == it.standing()["a"] == "Done."
    assert record["humanWaitMs"] >= 0
    assert it.counts() == {"a": 3, "note": 1, "send": 1}


def test_an_answer_is_remembered_once_whenever_the_process_dies(place: Place) -> None:
    """Also between the memory and the journal, for the agent's third time in its loop."""
    it = Case(place, "remembers")
    agent = it.agent("a", memory={"type": "conversation"}, prompt="{{ loop.index }}")
    run = it.begin(
        [("l", "loop", {"kind": "for", "times": 3}), ("a", "agent", agent), ("z", "set", SET)],
        "start > l",
        "l -loop> a",
        "a > l",
        "l -exit> z",
    )
    it.says("a", "Same."), it.says("a", "Same.")
    call = it.model("a")
    place.arm(faults.REMEMBERED, run)
    reply(call, "Same.")
    place.died(faults.REMEMBERED)
    it.cut()
    record = it.record("completed")
    status, body = place.server.call("GET", f"/api/threads/{record['threadId']}/memory")
    assert status == 200
    assert [(item["message"], item["answer"]) for item in body["items"]] == [
        (str(number), "Same.") for number in (2, 1, 0)
    ]
    assert it.counts() == {"a": 3}


def test_a_stop_that_was_accepted_lands_though_the_process_dies(place: Place) -> None:
    """In a turn, and in a call that waits for a person; neither model nor tool is asked anything more."""
    memory = {"type": "conversation"}
    for number, waits in enumerate((False, True)):
        it = Case(place, f"stopped_{number}")
        agent = it.agent("a", tools=[it.tool("send", approval="always")], memory=memory)
        run = it.begin([("a", "agent", agent), ("z", "set", SET)], "start > a", "a > z")
        if waits:
            it.plans("a", ("send", {}))
            it.first.rest()
            it.status("paused")
        else:
            it.model("a").text("Half")
        place.arm(faults.ENDING, run)
        status, body = place.server.call("POST", f"/api/runs/{run}/cancel", body={})
        assert (status, body["outcome"]) == (202, "accepted")
        place.died(faults.ENDING)
        record = it.status("cancelled")
        assert record["cause"] == "stop_requested"
        assert {block["status"] for block in record["blocks"]} == {"executed", "failed"}
        assert it.decisions() == []
        assert it.counts() == {"a": 1}
        _, body = place.server.call("GET", f"/api/threads/{record['threadId']}/memory")
        assert [(item["message"], "answer" in item) for item in body["items"]] == [("go", False)]
        it.first.stream.close()

"""Tool calls that wait for people, in this process and after it; and the threads they are in."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import gevent
import pytest

from app import events as ev
from app.engine.registry import Run
from app.store.checkpoints import DecisionRow
from tests.engine.flows import document
from tests.engine.office import MODEL, Office, agent, asks_for, cleared, held, offices, results, says
from tests.support.vendor import Call


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with offices(tmp_path_factory.mktemp("office")) as made:
        yield made


@pytest.fixture
def office(opened: Office) -> Iterator[Office]:
    with cleared(opened) as made:
        yield made


# -- calls ---------------------------------------------------------------------------------------


def test_calls_wait_for_people_one_by_one_and_the_others_for_nobody(office: Office) -> None:
    """Three answers in three processes, out of order; each call is made once, with what was shown or put instead."""
    run, recorder = office.start(
        agent(held("pay"), held("fixed", result="secret", description="d"), "look", "careful")
    )
    asks_for(office.next_call(), ("pay", 1), ("look", 2), ("careful", 3), ("fixed", 4))
    asked = office.asked(run)
    assert asked.keys() == {"pay 1", "careful 3", "fixed 4"}
    assert office.desk.ran == [("look", {"n": 2})]
    first = {event.name: event.id for event in recorder.of(ev.ToolStarted)}
    told = {event.call: event.pause_id for event in recorder.of(ev.DecisionRequested)}
    assert told == {first[row.review["tool"]]: row.id for row in asked.values()}
    run = office.answer(asked["fixed 4"], "reject", reason="not today")
    assert office.asked(run).keys() == {"pay 1", "careful 3"}
    run = office.answer(asked["careful 3"], "edit", arguments={"n": 30})
    assert office.asked(run).keys() == {"pay 1"}
    run = office.answer(asked["pay 1"], "approve")
    second = office.next_call()
    assert results(second) == [
        "pay 1",
        "look 2",
        'A person changed the arguments of this call before it ran, to {"n":30}. Its result:\ncareful 30',
        "A person did not allow this call. Nothing was run. Their reason: not today",
    ]
    says(second, "Done.")
    output = office.output(run)
    assert output["content"] == "Done."
    assert office.desk.ran == [("look", {"n": 2}), ("careful", {"n": 30}), ("pay", {"n": 1})]
    listed = {call["name"]: call for call in output["toolCalls"]["list"]}
    assert {name: call["id"] for name, call in listed.items()} == first
    assert listed["careful"]["arguments"] == {"n": 30}
    assert [listed[name]["status"] for name in ("pay", "look", "careful", "fixed")] == [
        "success",
        "success",
        "success",
        "error",
    ]
    events = office.stream(run)
    assert [e.decision for e in events if isinstance(e, ev.DecisionSettled)] == ["reject", "edit", "approve"]
    for kind in (ev.ToolStarted, ev.ToolFinished):
        assert sorted(e.id for e in events if isinstance(e, kind)) == sorted(first.values())


def test_an_answer_that_comes_while_others_run_is_taken_up_at_once(office: Office) -> None:
    office.desk.hold = gevent.event.Event()
    run, _ = office.start(agent(held("careful"), "look"))
    asks_for(office.next_call(), ("look", 1), ("careful", 2))
    assert office.desk.begun.wait(20)
    decisions = office.made.store.decisions
    while not (rows := decisions.open_of_run(run.id)):
        gevent.sleep(0.01)
    decisions.answer(rows[0].id, {"decision": "approve"}, "key_7")
    assert office.made.runs.go_on(run.id) is run
    while len(office.desk.ran) < 2:
        gevent.sleep(0.01)
    assert not run.done.is_set()
    office.desk.hold.set()
    second = office.next_call()
    assert results(second) == ["look 1", "careful 2"]
    says(second, "Done.")
    assert office.output(run)["content"] == "Done."
    assert run.paused is None


def test_a_document_may_ask_for_more_approval_than_a_tool_and_not_for_less(office: Office) -> None:
    run, _ = office.start(agent({"name": "careful", "approval": "never"}))
    asks_for(office.next_call(), ("careful", 1))
    run = office.answer(office.asked(run)["careful 1"], "reject")
    says(office.next_call(), "So be it.")
    assert office.output(run)["content"] == "So be it."
    assert office.desk.ran == []


def test_a_call_that_was_turned_down_is_not_forced_again(office: Office) -> None:
    run, _ = office.start(agent(held("pay"), tool_choice="pay"))
    call = office.next_call()
    assert call.body["tool_choice"] == {"type": "function", "function": {"name": "pay"}}
    asks_for(call, ("pay", 1))
    run = office.answer(office.asked(run)["pay 1"], "reject")
    call = office.next_call()
    assert call.body.get("tool_choice", "auto") == "auto"
    says(call, "So be it.")
    assert office.output(run)["content"] == "So be it."


def test_nobody_is_asked_about_a_call_that_is_wrong(office: Office) -> None:
    run, _ = office.start(agent(held("pay")))
    asks_for(office.next_call(), ("pay", t.cast(int, "many")))
    second = office.next_call()
    assert [result.split(".")[0] for result in results(second)] == ["Invalid arguments"]
    says(second, "Sorry.")
    office.output(run)
    assert office.made.store.decisions.of_run(run.id) == []


def test_a_deadline_ends_the_wait_for_a_call(office: Office) -> None:
    run, _ = office.start(agent(held("pay", approval_deadline_s=0.001)))
    asks_for(office.next_call(), ("pay", 1))
    assert run.done.wait(20)
    assert office.made.store.decisions.expire(office.made.clock.now_ms() + 10)
    going = office.made.runs.go_on(run.id)
    assert going is not None
    second = office.next_call()
    assert results(second) == [
        "This call needs a person's approval, and nobody gave it in time. Nothing was run."
    ]
    says(second, "Too late.")
    assert office.output(going)["content"] == "Too late."


def test_agents_inside_of_a_block_ask_by_the_ids_they_were_shown_with(office: Office) -> None:
    one = {"model": MODEL, "tools": [held("pay")]}
    doc = document([("s", "sequential", {"agents": [one, {**one, "name": "bob"}]})], "start > s")
    run, _ = office.start(doc)
    for n in (1, 2):
        asks_for(office.next_call(), ("pay", n))
        (row,) = office.asked(run).values()
        assert row.review["arguments"] == {"n": n}
        assert row.key in [e.id for e in office.stream(run) if isinstance(e, ev.ToolStarted)]
        run = office.answer(row, "approve")
        second = office.next_call()
        assert results(second) == [f"pay {n}"]
        says(second, f"paid {n}")
    assert office.output(run)["content"] == "paid 2"
    steps = [(e.index, e.phase) for e in office.stream(run) if isinstance(e, ev.SequenceStep)]
    assert steps == [(0, "start"), (0, "end"), (1, "start"), (1, "end")]
    assert office.desk.ran == [("pay", {"n": 1}), ("pay", {"n": 2})]


def test_a_loop_whose_body_asks_goes_on_where_it_stood(office: Office) -> None:
    """What steers it was taken down: the value that its condition reads has changed by then."""
    doc = document(
        [
            ("l", "loop", {"kind": "while", "condition": "loop.index < 2 and blocks.t.result != 'pay 9'"}),
            ("t", "tool", {"tool": held("pay"), "arguments": {"n": "{{ loop.index + 8 }}"}}),
        ],
        "start > l",
        "l -loop> t",
        "t > l",
    )
    run, _ = office.start(doc)
    for n in (8, 9):
        asked = office.asked(run)
        assert asked.keys() == {f"pay {n}"}
        run = office.answer(asked[f"pay {n}"], "approve")
    output = office.output(run)
    assert (output["iterations"], [r["result"] for r in output["results"]]) == (2, ["pay 8", "pay 9"])
    iterations = [(e.iteration, e.path) for e in office.stream(run) if isinstance(e, ev.LoopIteration)]
    assert iterations == [(1, "loop"), (2, "loop"), (2, "exit")]


def test_a_loop_goes_through_the_items_that_it_began_with(office: Office) -> None:
    doc = document(
        [
            ("l", "loop", {"kind": "for_each", "items": "{{ [1, 2, 9 if blocks.t.result else 3] }}"}),
            ("t", "tool", {"tool": held("pay"), "arguments": {"n": "{{ loop.item }}"}}),
        ],
        "start > l",
        "l -loop> t",
        "t > l",
    )
    run, _ = office.start(doc)
    for n in (1, 2, 3):
        run = office.answer(office.asked(run)[f"pay {n}"], "approve")
    assert [result["result"] for result in office.output(run)["results"]] == ["pay 1", "pay 2", "pay 3"]


# -- threads -------------------------------------------------------------------------------------


def in_thread(office: Office, thread: str | None) -> dict[str, t.Any]:
    """Options of a run that enters a thread; a new one when there is none."""
    run_id = office.made.clock.new_id("run")
    threads = office.made.store.threads
    if thread is None:
        entered = threads.open("wf_test", "key_1", run_id)
    else:
        found = threads.enter(thread, "wf_test", "key_1", run_id)
        assert found is not None
        assert found.run_id == run_id
        entered = found
    return {"run_id": run_id, "thread": entered, "key_id": entered.key_id}


def test_what_was_approved_for_a_thread_is_not_asked_again_in_it(office: Office) -> None:
    doc = agent(held("pay"), held("look", "ask_once"))
    options = in_thread(office, None)
    run, _ = office.start(doc, **options)
    asks_for(office.next_call(), ("pay", 1), ("look", 2))
    asked = office.asked(run)
    run = office.answer(asked["pay 1"], "approve", remember=True)
    run = office.answer(office.asked(run)["look 2"], "approve")
    says(office.next_call(), "Once.")
    office.output(run)
    run, _ = office.start(doc, **in_thread(office, options["thread"].id))
    asks_for(office.next_call(), ("pay", 3), ("look", 4))
    second = office.next_call()
    assert results(second) == ["pay 3", "look 4"]
    says(second, "Twice.")
    assert office.output(run)["content"] == "Twice."
    other, _ = office.start(
        agent(held("pay", result="other"), "look"), **in_thread(office, options["thread"].id)
    )
    asks_for(office.next_call(), ("pay", 5))
    assert office.asked(other).keys() == {"pay 5"}, "another tool of that name"
    assert office.made.runs.stop(other.id)
    gone = office.made.runs.get(other.id)
    assert gone is None or gone.done.wait(20)


def two_agents() -> dict[str, t.Any]:
    """Two agents side by side, whose calls of one tool are held."""
    config = {"model": MODEL, "tools": [held("pay")]}
    return document([("a", "agent", config), ("b", "agent", config)], "start > a", "start > b")


def both_ask(office: Office) -> tuple[Run, DecisionRow, DecisionRow]:
    """A run in a thread that has paused, and what it asks: whether to pay 1, and to pay 2."""
    run, _ = office.start(two_agents(), **in_thread(office, None))
    for n in (1, 2):
        asks_for(office.next_call(), ("pay", n))
    asked = office.asked(run)
    return run, asked["pay 1"], asked["pay 2"]


def test_what_is_approved_for_the_thread_answers_what_was_asked_about_it(office: Office) -> None:
    _, one, two = both_ask(office)
    run = office.answer(one, "edit", arguments={"n": 10}, remember=True)
    for _ in range(2):
        says(office.next_call(), "Paid.")
    office.output(run)
    assert sorted(office.desk.ran, key=str) == [("pay", {"n": 10}), ("pay", {"n": 2})]
    stored = office.made.store.decisions.of_run(run.id)
    assert {(row.id, row.state, row.answered_by) for row in stored} == {
        (one.id, "answered", "key_7"),
        (two.id, "answered", "thread"),
    }
    settled = [event for event in office.stream(run) if isinstance(event, ev.DecisionSettled)]
    assert {(event.pause_id, event.decision) for event in settled} == {(one.id, "edit"), (two.id, "approve")}


def test_what_a_person_said_about_a_call_goes_before_what_was_approved_for_the_thread(office: Office) -> None:
    """Both answers come before anybody takes the run up."""
    _, one, two = both_ask(office)
    assert office.made.store.decisions.answer(two.id, {"decision": "reject"}, "key_8")[0]
    run = office.answer(one, "approve", remember=True)
    for _ in range(2):
        says(office.next_call(), "So be it.")
    office.output(run)
    assert office.desk.ran == [("pay", {"n": 1})]


def remembered(call: Call) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in call.body["messages"] if m["role"] in ("user", "assistant")]


def test_a_pause_leaves_nothing_in_the_memory_and_the_answer_one_exchange(office: Office) -> None:
    doc = agent(held("pay"), memory="conversation")
    options = in_thread(office, None)
    run, _ = office.start(doc, "first", **options)
    asks_for(office.next_call(), ("pay", 1))
    row = office.asked(run)["pay 1"]
    memories = office.made.store.memories
    assert memories.read(options["thread"].id, "a", 10, 10_000) == []
    run = office.answer(row, "approve")
    says(office.next_call(), "Paid.")
    office.output(run)
    run, _ = office.start(doc, "second", **in_thread(office, options["thread"].id))
    call = office.next_call()
    assert remembered(call) == [("user", "first"), ("assistant", "Paid."), ("user", "second")]
    says(call, "Fine.")
    office.output(run)


def test_a_memory_that_lasts_as_long_as_the_run_lasts_through_a_pause(office: Office) -> None:
    doc = document(
        [
            ("l", "loop", {"kind": "for", "times": 2}),
            ("a", "agent", {"model": MODEL, "memory": "conversation", "prompt": "turn {{ loop.index }}"}),
            ("r", "approval", {"prompt": "On?", "when": "loop.index == 0"}),
        ],
        "start > l",
        "l -loop> a",
        "a > r",
        "r -approved> l",
    )
    run, _ = office.start(doc)
    says(office.next_call(), "First.")
    run = office.answer(office.asked(run)["answer"], "approve")
    call = office.next_call()
    assert remembered(call) == [("user", "turn 0"), ("assistant", "First."), ("user", "turn 1")]
    says(call, "Second.")
    output = office.output(run)
    assert [result["content"] for result in output["results"]] == ["First.", "Second."]


def test_a_thread_goes_on_after_a_run_that_was_stopped_while_it_waited(office: Office) -> None:
    """Field case AFTERMATH-01: no call without a result is sent to the model, ever."""
    doc = agent(held("pay"), memory="conversation")
    options = in_thread(office, None)
    run, _ = office.start(doc, "first", **options)
    asks_for(office.next_call(), ("pay", 1))
    office.asked(run)
    assert office.made.runs.stop(run.id)
    stopped = office.made.runs.get(run.id)
    assert stopped is None or stopped.done.wait(20)
    run, _ = office.start(doc, "hello", **in_thread(office, options["thread"].id))
    call = office.next_call()
    assert all("tool_calls" not in message for message in call.body["messages"])
    assert remembered(call)[-1] == ("user", "hello")
    says(call, "Hello.")
    assert office.output(run)["content"] == "Hello."
    assert office.desk.ran == []

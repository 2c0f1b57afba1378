"""``interrupt()`` behind pause and resume: in one process, and in another with what the checkpointer kept."""

from __future__ import annotations

import sqlite3
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import gevent
import gevent.event
import pytest

pytest.importorskip("langgraph", reason="needs the extra langgraph, which make test installs")

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from app import events as ev
from app.engine import motion
from plugins.langgraph_app import GraphApp
from tests.engine.durable_runs import PATIENCE_S, carry_on, die, lose_owner
from tests.support import graphs_of_langgraph as graphs
from tests.support.langgraph_runs import Served, Told, outline, serve


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Served]]:
    with serve(tmp_path_factory.mktemp("graphs")) as make, pytest.MonkeyPatch.context() as patch:
        patch.setattr(motion, "QUIET_S", 0.001)
        yield make


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[Callable[[], SqliteSaver]]:
    """Makes a checkpointer on one file, as each process has its own."""
    opened: list[sqlite3.Connection] = []

    def make() -> SqliteSaver:
        opened.append(sqlite3.connect(tmp_path / "checkpoints.db", check_same_thread=False))
        return SqliteSaver(opened[-1])

    yield make
    for connection in opened:
        connection.close()


def asked(app: Served, told: Told) -> list[t.Any]:
    """The open questions of a paused run."""
    return list(app.services.store.decisions.open_of_run(told.run.id))


def answer(app: Served, row: t.Any, **said: t.Any) -> None:
    won, _ = app.services.store.decisions.answer(row.id, said, "somebody")
    assert won


def go_on(app: Served, told: Told) -> Told:
    """The run, taken up again, at its next pause or its end."""
    found = carry_on(app.services, told.run.id)
    assert found is not None
    again = Told(*found)
    assert again.run.done.wait(PATIENCE_S), outline(again)
    return again


def test_a_run_pauses_and_goes_on_with_the_answer(served: Callable[..., Served]) -> None:
    log: list[t.Any] = []
    value = {"prompt": "May we?", "draft": "Yes.", "reasons": ["no source"], "sources": 0}
    app = served(graphs.reviewed(value, log, checkpointer=InMemorySaver()))
    paused = app.run("?")
    assert outline(paused)[1:] == [
        "BlockStarted draft",
        "BlockFinished draft executed",
        "BlockStarted review",
        "DecisionRequested review",
        "RunPaused",
    ]
    (row,) = asked(app, paused)
    assert row.review == {
        "kind": "answer",
        "draft": "Yes.",
        "reasons": ["no source"],
        "prompt": "May we?",
        "show": {"sources": 0},
    }
    answer(app, row, decision="edit", text="No.")
    ended = go_on(app, paused)
    assert outline(ended) == [
        "RunResumed",
        "DecisionSettled review edit",
        "TextDelta review 0 'answer: No.'",
        "TurnEnded review 0 final",
        "AnswerSettled review 'answer: No.'",
        "BlockFinished review executed",
        "RunCompleted",
    ]
    assert log == ["draft", "No."]
    assert ended.end.output["content"] == "answer: No."


@pytest.mark.parametrize(
    ("said", "given"),
    [
        ({"decision": "approve"}, True),
        ({"decision": "reject", "reason": "too short"}, False),
        ({"decision": "edit", "text": "better"}, "better"),
        ({"decision": "edit", "arguments": {"a": 1}}, {"a": 1}),
    ],
)
def test_what_interrupt_returns(served: Callable[..., Served], said: dict[str, t.Any], given: t.Any) -> None:
    log: list[t.Any] = []
    graph = graphs.reviewed("How old?", log, checkpointer=InMemorySaver())
    app = served(graph)
    paused = app.run("?")
    (row,) = asked(app, paused)
    assert row.review == {"kind": "answer", "reasons": [], "prompt": "How old?"}
    answer(app, row, **said)
    go_on(app, paused)
    full = served(GraphApp(graph, resume="full"))
    paused = full.run("?")
    answer(full, asked(full, paused)[0], **said)
    go_on(full, paused)
    own = served(GraphApp(graph, resume=lambda value, answer: [value, answer.verdict]))
    paused = own.run("?")
    answer(own, asked(own, paused)[0], **said)
    go_on(own, paused)
    names = {"decision": None, "text": None, "arguments": None, "reason": None}
    assert [one for one in log if one != "draft"] == [
        given,
        {**names, **said},
        ["How old?", said["decision"]],
    ]


def test_it_goes_on_in_another_process_with_a_checkpointer_that_lasts(
    served: Callable[..., Served], saver: Callable[[], SqliteSaver]
) -> None:
    log: list[t.Any] = []
    app = served(graphs.reviewed({"draft": "Yes."}, log, checkpointer=saver()))
    paused = app.run("?")
    again = served(graphs.reviewed({"draft": "Yes."}, log, checkpointer=saver()))
    answer(again, asked(again, paused)[0], decision="approve")
    ended = go_on(again, paused)
    assert log == ["draft", True]  # what had ended did not run again
    assert outline(ended)[-2:] == ["BlockFinished review executed", "RunCompleted"]
    assert [line for line in outline(ended) if "BlockStarted" in line] == []


def test_one_in_memory_says_that_its_checkpoints_are_lost(served: Callable[..., Served]) -> None:
    paused = served(graphs.reviewed("?", checkpointer=InMemorySaver())).run("?")
    again = served(graphs.reviewed("?", checkpointer=InMemorySaver()))
    answer(again, asked(again, paused)[0], decision="approve")
    ended = go_on(again, paused)
    assert outline(ended)[-2:] == ["BlockFinished review failed", "RunFailed checkpoint_lost"]
    assert "keeps checkpoints in memory; compile the graph with a durable one" in ended.end.message


def test_several_interrupts_get_their_own_answers(
    served: Callable[..., Served], saver: Callable[[], SqliteSaver]
) -> None:
    """Answered in another order than asked, by processes that each see one answer; what was done is not done twice."""
    log: list[t.Any] = []

    def graph() -> t.Any:
        def plain(state: t.Any) -> dict[str, t.Any]:
            log.append("plain")
            return {}

        def one(state: t.Any) -> dict[str, t.Any]:
            return {"seen": [f"one {interrupt('first?')}"]}

        def two(state: t.Any) -> dict[str, t.Any]:
            return {"seen": [f"two {interrupt('second?')}"]}

        return graphs.nodes(one, two, plain, together=True, checkpointer=saver())

    app = served(graph())
    paused = app.run("?")
    rows = {row.review["prompt"]: row for row in asked(app, paused)}
    assert set(rows) == {"first?", "second?"}
    answer(app, rows["second?"], decision="edit", text="B")
    app = served(graph())
    paused = go_on(app, paused)
    assert outline(paused)[-1] == "RunPaused"
    assert [event.block for event in paused.of(ev.DecisionSettled)] == ["two"]
    answer(app, rows["first?"], decision="edit", text="A")
    ended = go_on(served(graph()), paused)
    assert ended.end.output["seen"] == ["one A", "two B"]
    assert log == ["plain"]


def test_interrupts_of_one_node_come_one_after_the_other(served: Callable[..., Served]) -> None:
    def twice(state: t.Any) -> dict[str, t.Any]:
        return {"seen": [interrupt("first?"), interrupt("second?")]}

    app = served(graphs.nodes(twice, checkpointer=InMemorySaver()))
    told = app.run("?")
    for text in ("A", "B"):
        (row,) = asked(app, told)
        answer(app, row, decision="edit", text=text)
        told = go_on(app, told)
    assert told.end.output["seen"] == ["A", "B"]


def test_an_interrupt_inside_of_a_graph_is_asked_by_its_own_node(
    served: Callable[..., Served], saver: Callable[[], SqliteSaver]
) -> None:
    def graph() -> t.Any:
        def inner(state: t.Any) -> dict[str, t.Any]:
            return {"messages": [AIMessage(str(interrupt("?")))]}

        outer = StateGraph(graphs.State)
        outer.add_node("around", graphs.nodes(inner))
        outer.add_edge(START, "around")
        return outer.compile(checkpointer=saver())

    app = served(graph())
    paused = app.run("?")
    (row,) = asked(app, paused)
    assert row.node == "around/inner"
    answer(app, row, decision="edit", text="from below")
    ended = go_on(served(graph()), paused)
    assert ended.end.output["content"] == "from below"
    assert [line for line in outline(ended) if line.startswith("Block")] == [
        "BlockFinished around/inner executed",
        "BlockFinished around executed",
    ]


def test_several_of_one_node_that_ask_keep_their_places(
    served: Callable[..., Served], saver: Callable[[], SqliteSaver]
) -> None:
    def graph() -> t.Any:
        def work(given: t.Any) -> dict[str, t.Any]:
            n = given["n"]
            return {"seen": [f"{n}:{interrupt(f'{n}?') if n != 1 else 'alone'}"]}

        return graphs.fanned(work, checkpointer=saver())

    app = served(graph())
    paused = app.run("?")
    rows = {row.review["prompt"]: row for row in asked(app, paused)}
    assert {prompt: row.node for prompt, row in rows.items()} == {"0?": "work[0]", "2?": "work[2]"}
    answer(app, rows["2?"], decision="edit", text="two")
    answer(app, rows["0?"], decision="edit", text="none")
    ended = go_on(served(graph()), paused)
    assert ended.end.output["seen"] == ["0:none", "1:alone", "2:two", "join"]
    assert sorted(event.block for event in ended.of(ev.BlockFinished)) == ["join", "work[0]", "work[2]"]


def _tool_review(saver: t.Any, shape: str) -> t.Any:
    """A tool that asks before it runs, in one of the shapes that libraries use."""
    from langchain_core.tools import tool

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        request = {"name": "pay", "args": {"amount": amount}, "description": "Pay?"}
        if shape == "langchain":
            said = interrupt({"action_requests": [request], "review_configs": []})["decisions"][0]
            amount = said.get("edited_action", {}).get("args", {"amount": amount})["amount"]
        else:
            asked = {
                "action_request": {"action": "pay", "args": {"amount": amount}},
                "config": {"allow_respond": True},
                "description": "Pay?",
            }
            said = interrupt([asked])[0]
            amount = said["args"]["args"]["amount"] if said["type"] == "edit" else amount
        return f"{said['type']} {amount}"

    chat = graphs.Chat(scripts=[graphs.calls(("c1", "pay", '{"amount": 5}')), graphs.words("Done.")])
    return graphs.with_tools(chat, [pay], checkpointer=saver)


@pytest.mark.parametrize("shape", ["langchain", "inbox"])
def test_the_review_of_a_call(served: Callable[..., Served], shape: str) -> None:
    app = served(_tool_review(InMemorySaver(), shape))
    paused = app.run("?")
    (row,) = asked(app, paused)
    assert row.review == {
        "kind": "tool",
        "tool": "pay",
        "arguments": {"amount": 5},
        "reasons": [],
        "prompt": "Pay?",
    }
    answer(app, row, decision="edit", arguments={"amount": 3})
    ended = go_on(app, paused)
    (finished,) = ended.of(ev.ToolFinished)
    assert (finished.id, finished.status, finished.result) == ("c1", "success", "edit 3")
    assert [*paused.of(ev.ToolStarted), *ended.of(ev.ToolStarted)] == paused.of(
        ev.ToolStarted
    )  # announced once
    assert ended.end.output["content"] == "Done."


def test_what_was_said_before_an_interrupt_is_taken_back_when_it_is_said_again(
    served: Callable[..., Served],
) -> None:
    chat = graphs.Chat(scripts=[graphs.words("a draft"), graphs.words("a second draft")])

    def write(state: t.Any) -> dict[str, t.Any]:
        draft = chat.invoke(state["messages"])
        interrupt({"draft": draft.text})
        return {"messages": [draft]}

    app = served(graphs.nodes(write, checkpointer=InMemorySaver()))
    paused = app.run("?")
    (row,) = asked(app, paused)
    assert row.review["draft"] == "a draft"
    answer(app, row, decision="approve")
    ended = go_on(app, paused)
    assert outline(ended)[:2] == ["RunResumed", "TurnEnded write 0 intermediate resumed"]
    assert ended.end.output["content"] == "a second draft"


def test_a_graph_that_asks_something_else_after_a_pause_fails_loudly(
    served: Callable[..., Served], saver: Callable[[], SqliteSaver]
) -> None:
    app = served(graphs.reviewed("first?", checkpointer=saver()))
    paused = app.run("?")
    renamed = graphs.nodes(_other, checkpointer=saver())
    again = served(renamed)
    answer(again, asked(again, paused)[0], decision="approve")
    ended = go_on(again, paused)
    assert isinstance(ended.end, ev.RunFailed)
    assert ended.end.code == "journal_mismatch"


def _other(state: t.Any) -> dict[str, t.Any]:
    return {}


def test_without_a_checkpointer_nobody_can_be_asked(served: Callable[..., Served]) -> None:
    told = served(graphs.reviewed("?")).run("?")
    assert outline(told)[-2:] == ["BlockFinished review failed", "RunFailed approval_unavailable review"]
    assert "compile it with a checkpointer" in told.end.message


def test_with_durability_switched_off_nobody_can_be_asked(served: Callable[..., Served]) -> None:
    told = served(GraphApp(graphs.reviewed("?", checkpointer=InMemorySaver()), durable=False)).run("?")
    assert outline(told)[-1] == "RunFailed approval_unavailable"


@pytest.mark.parametrize("when", ["BlockStarted slow", "BlockFinished quick executed", "BlockStarted quick"])
def test_a_run_whose_process_dies_goes_on_from_its_checkpoint(
    served: Callable[..., Served], saver: Callable[[], SqliteSaver], when: str
) -> None:
    """Killed before, in and after a node: nothing that was told to have ended runs again, each has one end."""
    ran: list[str] = []

    def graph() -> t.Any:
        def quick(state: t.Any) -> dict[str, t.Any]:
            ran.append("quick")
            return {"seen": ["quick"]}

        def slow(state: t.Any) -> dict[str, t.Any]:
            ran.append("slow")
            return {"messages": [AIMessage("done")]}

        return graphs.nodes(quick, slow, checkpointer=saver())

    app = served(graph())
    told = app.start("?")
    deliver = told.recorder.deliver

    def dying(envelope: t.Any) -> None:
        deliver(envelope)
        if outline(told)[-1] == when:
            die(told.run)

    told.recorder.deliver = dying  # type: ignore[method-assign]
    lose_owner(app.services, told.run)
    app = served(graph())
    ended = go_on(app, told)
    assert isinstance(ended.end, ev.RunCompleted), outline(ended)
    assert ended.end.output["content"] == "done"
    assert ended.end.output["seen"] == ["quick"]
    told_of = ended.run.state.blocks.values()
    assert [(block.block, block.status, block.execution) for block in told_of] == [
        ("quick", "executed", 1),
        ("slow", "executed", 1),
    ]
    assert ran == ["quick", "slow"]


def test_a_run_that_is_stopped_while_it_is_paused_ends(served: Callable[..., Served]) -> None:
    app = served(graphs.reviewed("?", checkpointer=InMemorySaver()))
    paused = app.run("?")
    assert app.services.runs.stop(paused.run.id)
    row = app.services.store.runs.get(paused.run.id)
    assert row is not None
    assert row["status"] in ("cancelled", "running")


def test_a_run_that_is_handed_over_goes_on_elsewhere(
    served: Callable[..., Served], saver: Callable[[], SqliteSaver]
) -> None:
    """As by a server that is asked to stop: what was cut off runs again, and its words are taken back."""
    held, chats = gevent.event.Event(), []

    def graph(hold: t.Any) -> t.Any:
        chats.append(graphs.Chat(scripts=[graphs.words("one two")], hold=hold))

        def before(state: t.Any) -> dict[str, t.Any]:
            return {"seen": ["before"]}

        def write(state: t.Any) -> dict[str, t.Any]:
            return {"messages": [chats[-1].invoke(state["messages"])]}

        return graphs.nodes(before, write, checkpointer=saver())

    pieces: list[None] = []

    def hold() -> None:
        pieces.append(None)
        if len(pieces) == 2:
            while not told.of(ev.TextDelta):
                gevent.sleep(0)
            held.set()
            gevent.sleep(1000)

    app = served(graph(hold))
    told = app.start("?")
    assert held.wait(PATIENCE_S)
    assert told.run.hand_over()
    assert told.run.done.wait(PATIENCE_S)
    ended = go_on(served(graph(None)), told)
    assert outline(ended)[:2] == ["RunResumed", "TurnEnded write 0 intermediate resumed"]
    assert ended.end.output["content"] == "one two"
    assert [(line.block, line.execution) for line in ended.of(ev.BlockFinished)] == [("write", 1)]
    assert ended.end.output["seen"] == ["before"]


def test_a_thread_goes_on_after_a_run_of_it_was_stopped(
    served: Callable[..., Served], saver: Callable[[], SqliteSaver]
) -> None:
    reached = gevent.event.Event()

    def slow(state: t.Any) -> dict[str, t.Any]:
        if state["messages"][-1].content == "first":
            reached.set()
            gevent.sleep(1000)
        return {"messages": [AIMessage(f"{len(state['messages'])} so far")]}

    app = served(graphs.nodes(slow, checkpointer=saver()))
    thread = app.thread()
    told = app.start("first", thread)
    assert reached.wait(PATIENCE_S)
    told.run.cancel("stop_requested")
    assert told.run.done.wait(PATIENCE_S)
    assert app.run("second", thread).end.output["content"] == "2 so far"

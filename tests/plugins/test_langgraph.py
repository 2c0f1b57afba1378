"""What a graph streams, as a run's events: their order, their pairs, one end for each execution of a node."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

import gevent
import pytest

pytest.importorskip("langgraph", reason="needs the extra langgraph, which make test installs")

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig, RunnableParallel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, RetryPolicy
from langsmith.utils import tracing_is_enabled

from app import events as ev
from plugins.langgraph_app import GraphApp
from tests.support import graphs_of_langgraph as graphs
from tests.support.langgraph_runs import Served, outline, serve

MODEL = {"model_name": "m-1"}
USAGE = {
    "input_tokens": 5,
    "output_tokens": 7,
    "total_tokens": 12,
    "input_token_details": {"cache_read": 2},
    "output_token_details": {"reasoning": 3},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[t.Callable[..., Served]]:
    with serve(tmp_path_factory.mktemp("graphs")) as make:
        yield make


def test_one_node_that_answers(served: t.Callable[..., Served]) -> None:
    chat = graphs.Chat(
        scripts=[
            [
                graphs.thinks("so"),
                *graphs.words("It is three.", usage_metadata=USAGE, response_metadata=MODEL),
            ]
        ]
    )
    app = served(graphs.answering(chat))
    run = app.run("What is it?")
    assert outline(run) == [
        "RunStarted",
        "BlockStarted answer",
        "ThinkingDelta answer 0 'so'",
        "TextDelta answer 0 'It'",
        "TextDelta answer 0 ' is'",
        "TextDelta answer 0 ' three.'",
        "UsageReported answer",
        "TurnEnded answer 0 final",
        "AnswerSettled answer 'It is three.'",
        "BlockFinished answer executed",
        "RunCompleted",
    ]
    assert chat.calls[0][0].content == "What is it?"
    end = run.end
    assert end.output["content"] == "It is three."
    assert end.output["messages"] == [
        {"role": "user", "content": "What is it?"},
        {"role": "assistant", "content": "It is three."},
    ]
    assert end.outputs["answer"]["content"] == "It is three."
    (used,) = run.of(ev.UsageReported)
    assert used.model == "m-1"
    counts = {"input": 5, "output": 7, "total": 12, "cacheRead": 2, "reasoning": 3}
    assert used.tokens == counts
    assert end.usage["tokens"] == counts


def test_tools_pair_up_and_the_turn_that_asked_for_them_is_taken_back(
    served: t.Callable[..., Served],
) -> None:
    chat = graphs.Chat(
        scripts=[
            [
                *graphs.words("Let me see."),
                *graphs.calls(("c1", "add", '{"a": 1, "b": 2}'), ("c2", "fail", "{}")),
            ],
            graphs.words("It is three."),
        ]
    )
    run = served(graphs.with_tools(chat)).run("1 + 2?")
    told = outline(run)
    turn = told.index("TurnEnded agent 0 intermediate tool_turn")
    assert told[turn - 3 : turn] == [
        "TextDelta agent 0 'Let'",
        "TextDelta agent 0 ' me'",
        "TextDelta agent 0 ' see.'",
    ]
    for call, status in (("c1", "success"), ("c2", "error")):
        name = "add" if call == "c1" else "fail"
        start, end = (
            told.index(f"ToolStarted tools {call} {name}"),
            told.index(f"ToolFinished tools {call} {status}"),
        )
        assert told.index("BlockStarted tools") < start < end < told.index("BlockFinished tools executed")
    finished = {event.id: event for event in run.of(ev.ToolFinished)}
    assert (finished["c1"].arguments, finished["c1"].result) == ({"a": 1, "b": 2}, "3")
    assert finished["c2"].result == "It failed."
    assert [line for line in told if "agent" in line and line.startswith("Block")] == [
        "BlockStarted agent",
        "BlockFinished agent executed",
        "BlockStarted agent 2",
        "BlockFinished agent executed 2",
    ]
    # It may run again until the run ends, so only then is its answer final; and no payload is in any output.
    assert told[-2:] == ["AnswerSettled agent 'It is three.'", "RunCompleted"]
    assert "secret" not in json.dumps([run.end.output, run.end.outputs])
    assert "Let me see." not in json.dumps([run.end.output, run.end.outputs])


def test_nodes_of_a_graph_in_a_graph_are_told_by_path(served: t.Callable[..., Served]) -> None:
    app = served(graphs.nested(graphs.Chat(scripts=[graphs.words("Found it.")])))
    assert [info.id for info in app.workflow.infos()] == [
        "plan",
        "research",
        "research/search",
        "research/write",
    ]
    assert app.workflow.answer_agents() == ("research", "research/write")
    assert app.workflow.exits() == ("research",)
    assert outline(app.run("?"))[1:] == [
        "BlockStarted plan",
        "BlockFinished plan executed",
        "BlockStarted research",
        "BlockStarted research/search",
        "BlockFinished research/search executed",
        "BlockStarted research/write",
        "TextDelta research/write 0 'Found'",
        "TextDelta research/write 0 ' it.'",
        "TurnEnded research/write 0 final",
        "AnswerSettled research/write 'Found it.'",
        "BlockFinished research/write executed",
        "BlockFinished research executed",
        "RunCompleted",
    ]


def test_the_topology_is_that_of_the_graph(served: t.Callable[..., Served]) -> None:
    """What ``get_graph(xray=True)`` draws, with the node around a graph kept."""
    graph = graphs.nested(graphs.Chat(scripts=[[]]))
    drawn = {name.replace(":", "/") for name in graph.get_graph(xray=True).nodes} - {"__start__", "__end__"}
    workflow = served(graph).workflow
    assert set(workflow.blocks) == drawn | {"research"}
    assert {(edge.source, edge.target) for edge in workflow.edges} == {
        ("plan", "research"),
        ("research", "research/search"),
        ("research/search", "research/write"),
    }


def test_several_of_one_node_at_once_have_an_index(served: t.Callable[..., Served]) -> None:
    run = served(graphs.fanned(lambda given: {"seen": [str(given["n"])]})).run("?")
    told = outline(run)
    assert [line for line in told if "work" in line] == [
        "BlockStarted work[0]",
        "BlockStarted work[1]",
        "BlockStarted work[2]",
        *sorted(line for line in told if "BlockFinished work" in line),
    ]
    assert run.end.output["seen"] == ["0", "1", "2", "join"]
    assert told.index("BlockStarted join") > max(
        told.index(f"BlockFinished work[{n}] executed") for n in range(3)
    )


def test_messages_of_one_node_that_come_at_once_are_told_one_after_the_other(
    served: t.Callable[..., Served],
) -> None:
    """Two models that speak at the same time: the second one's words wait for the end of the first's."""
    chats = [
        graphs.Chat(scripts=[graphs.words(text)], hold=lambda: gevent.sleep(0.001))
        for text in ("a b c", "x y z")
    ]

    def both(state: t.Any) -> dict[str, t.Any]:
        made = RunnableParallel(one=chats[0], two=chats[1]).invoke(state["messages"])
        return {"messages": [made["two"]]}

    run = served(graphs.nodes(both)).run("?")
    turns: dict[int, str] = {}
    for event in run.of(ev.TextDelta):
        turns[event.turn] = turns.get(event.turn, "") + event.text
    assert sorted(turns.values()) == ["a b c", "x y z"]
    assert [(event.turn, event.kind) for event in run.of(ev.TurnEnded)] == [(0, "intermediate"), (1, "final")]


def test_a_node_that_fails_is_at_fault_and_its_words_stay_in_the_record(
    served: t.Callable[..., Served],
) -> None:
    def broken(state: t.Any) -> dict[str, t.Any]:
        raise ValueError("the reason")

    run = served(graphs.nodes(graphs_ok, broken)).run("?")
    assert outline(run)[-2:] == ["BlockFinished broken failed", "RunFailed node_failed broken"]
    assert run.end.message == "The node broken failed; see the server's log."
    assert run.record["error"]["detail"] == "ValueError: the reason"
    assert "the reason" not in str(run.of(ev.BlockFinished))


def graphs_ok(state: t.Any) -> dict[str, t.Any]:
    """Does nothing."""
    return {}


def test_a_failure_inside_of_a_graph_is_told_where_it_happened(served: t.Callable[..., Served]) -> None:
    def broken(state: t.Any) -> dict[str, t.Any]:
        raise ValueError("x")

    def around(state: t.Any) -> dict[str, t.Any]:
        return dict(inner.invoke(state))

    inner = graphs.nodes(broken)
    told = outline(served(graphs.nodes(around)).run("?"))
    assert told[-4:] == [
        "BlockStarted around/broken",
        "BlockFinished around/broken failed",
        "BlockFinished around failed",
        "RunFailed node_failed around/broken",
    ]


def test_a_node_that_is_tried_again_has_one_end(served: t.Callable[..., Served]) -> None:
    tries: list[int] = []

    def shaky(state: t.Any) -> dict[str, t.Any]:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return {"messages": [AIMessage("at last")]}

    graph = StateGraph(graphs.State)
    graph.add_node(
        "shaky", shaky, retry_policy=RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=3)
    )
    graph.add_edge(START, "shaky")
    told = outline(served(graph.compile()).run("?"))
    assert [line for line in told if line.startswith("Block")] == [
        "BlockStarted shaky",
        "BlockFinished shaky executed",
    ]
    assert len(tries) == 3


def test_a_graph_that_goes_round_for_ever_says_what_to_raise(served: t.Callable[..., Served]) -> None:
    def again(state: t.Any) -> Command[t.Literal["again"]]:
        return Command(goto="again")

    run = served(GraphApp(graphs.nodes(again), config={"recursion_limit": 4})).run("?")
    assert run.end.code == "recursion_limit"
    assert "its recursion limit of 4" in run.end.message
    assert [event.execution for event in run.of(ev.BlockStarted)] == [1, 2, 3, 4]


def test_a_conversation_goes_on_in_the_checkpointer(served: t.Callable[..., Served]) -> None:
    chat = graphs.Chat(scripts=[graphs.words("One."), graphs.words("Two.")])
    app = served(GraphApp(graphs.answering(chat, checkpointer=InMemorySaver()), durable=False))
    thread = app.thread()
    app.run({"message": "first"}, thread=thread)
    second = app.run(
        {"message": "second", "messages": [{"role": "user", "content": "not again"}]}, thread=thread
    )
    assert [message.content for message in chat.calls[1]] == ["first", "One.", "second"]
    assert second.end.output["messages"] == [
        {"role": "user", "content": "second"},
        {"role": "assistant", "content": "Two."},
    ]


def test_a_run_outside_of_any_thread_leaves_no_checkpoints(served: t.Callable[..., Served]) -> None:
    saver = InMemorySaver()
    chat = graphs.Chat(scripts=[graphs.words("One.")])
    served(GraphApp(graphs.answering(chat, checkpointer=saver), durable=False)).run("?")
    assert list(saver.list(None)) == []


def test_input_and_output_can_be_made_by_functions(served: t.Callable[..., Served]) -> None:
    class Plain(t.TypedDict):
        question: str
        answer: str

    graph = StateGraph(Plain)
    graph.add_node("reply", lambda state: {"answer": state["question"].upper()})
    graph.add_edge(START, "reply")
    compiled = graph.compile()
    app = GraphApp(compiled, input=lambda given: {"question": given["message"]}, output="answer")
    assert served(app).run({"message": "hi"}).end.output == {
        "content": "HI",
        "question": "hi",
        "answer": "HI",
    }
    assert served(GraphApp(compiled)).run({"question": "as is"}).end.output == {
        "question": "as is",
        "answer": "AS IS",
    }
    made = GraphApp(compiled, output=lambda state: {"only": state["answer"]})
    assert served(made).run({"question": "x"}).end.output == {"only": "X"}


def test_named_nodes_answer(served: t.Callable[..., Served]) -> None:
    chat = graphs.Chat(scripts=[graphs.words("The answer.")])

    def write(state: t.Any) -> dict[str, t.Any]:
        return {"messages": [chat.invoke(state["messages"])]}

    def store(state: t.Any) -> dict[str, t.Any]:
        return {"seen": ["stored"]}

    graph = graphs.nodes(write, store)
    assert served(GraphApp(graph, answers=["write"])).workflow.answer_agents() == ("write",)
    # Without: the last node answers, with what was said before it.
    app = served(graph)
    assert app.workflow.answer_agents() == ("store",)
    assert "AnswerSettled store 'The answer.'" in outline(app.run("?"))


def test_nothing_is_traced_unless_the_user_asks_for_it(served: t.Callable[..., Served]) -> None:
    assert not tracing_is_enabled()
    seen: list[t.Any] = []

    def look(state: t.Any, config: RunnableConfig) -> dict[str, t.Any]:
        seen.extend(t.cast("t.Any", config["callbacks"]).handlers)
        return {}

    served(graphs.nodes(look)).run("?")
    assert seen
    assert not [handler for handler in seen if "LangChainTracer" in type(handler).__name__]


def test_a_reader_who_falls_behind_slows_the_model_down(served: t.Callable[..., Served]) -> None:
    """The gate is asked where the model is read, so that nothing piles up between the two."""
    read: list[int] = []
    chat = graphs.Chat(scripts=[graphs.words(" ".join("abcdefgh"))])

    def hold() -> None:
        read.append(len(read))
        if len(read) == 3:
            told.run.gate.shut()

    chat.hold = hold
    app = served(graphs.answering(chat))
    told = app.start("?")
    for _ in range(50):
        gevent.sleep(0)
    assert len(read) == 3
    told.run.gate.open()
    assert told.run.done.wait(10)
    assert told.end.output["content"] == "a b c d e f g h"

"""The graph: ``STUDIO_LANGGRAPH_APPS=assistant=langgraph_assistant.graph:app`` serves it as ``langgraph:assistant``.

What is found in the handbook is answered at once, word by word. Without a passage, what the model drafts waits for a
person, who approves, edits or rejects it.
"""

from __future__ import annotations

import ast
import operator
import os
import typing as t
from collections.abc import Callable, Mapping

from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from langgraph_assistant.handbook import search
from langgraph_assistant.model import QuotingModel
from studio_plugin import GraphApp

_OPERATORS: Mapping[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class State(MessagesState):
    """The conversation, and what was found for its last question."""

    passages: list[str]


@tool
def calculator(expression: str) -> str:
    """Work out a sum, such as 12 * 7."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError(f"{expression} is no sum of numbers")

    return f"{value(ast.parse(expression, mode='eval').body):g}"


model = QuotingModel().bind_tools([calculator])


def check(state: State) -> Command[t.Literal["retrieve", "refuse"]]:
    """Refuse what no assistant should do."""
    question = str(state["messages"][-1].content)
    return Command(goto="refuse" if "ignore your instructions" in question.lower() else "retrieve")


def refuse(state: State) -> dict[str, t.Any]:
    """Say no."""
    return {"messages": [AIMessage("I can only help with questions about the handbook.")]}


def retrieve(state: State) -> dict[str, t.Any]:
    """Look it up."""
    return {"passages": search(str(state["messages"][-1].content))}


def known(state: State) -> str:
    """Whether the assistant may answer by itself."""
    question = str(state["messages"][-1].content)
    return "answer" if state["passages"] or any(sign in question for sign in "+*/") else "draft"


def answer(state: State) -> dict[str, t.Any]:
    """Answer from the passages, with the calculator where it helps."""
    return {"messages": [model.invoke([_system(state), *state["messages"]])]}


def calls(state: State) -> str:
    """Whether the model wants its tool."""
    return "tools" if state["messages"][-1].tool_calls else END


def draft(state: State) -> dict[str, t.Any]:
    """Suggest an answer that nothing in the handbook supports."""
    return {"messages": [model.invoke([_system(state), *state["messages"]])]}


def review(state: State) -> dict[str, t.Any]:
    """Ask a person; the draft is replaced by what they say."""
    suggested = state["messages"][-1]
    said = interrupt(
        {
            "prompt": "May we answer this?",
            "draft": suggested.text,
            "reasons": ["The handbook says nothing about it."],
        }
    )
    if said is False:
        said = "Nobody here can answer that."
    return {"messages": [AIMessage(suggested.text if said is True else said, id=suggested.id)]}


def _system(state: State) -> SystemMessage:
    passages = "\n".join(f"[{place}] {passage}" for place, passage in enumerate(state["passages"], 1))
    return SystemMessage(f"Answer from these passages and name the one you use.\n{passages}")


def _checkpointer() -> t.Any:
    """In a file, so that a review outlives the server, where one is named."""
    path = os.environ.get("LANGGRAPH_ASSISTANT_DB")
    if not path:
        return InMemorySaver()
    import sqlite3

    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver(sqlite3.connect(path, check_same_thread=False))


def build() -> t.Any:
    """The compiled graph."""
    graph = StateGraph(State)
    for node in (check, refuse, retrieve, answer, draft, review):
        graph.add_node(node.__name__, node)
    graph.add_node("tools", ToolNode([calculator]))
    graph.add_edge(START, "check")
    graph.add_conditional_edges("retrieve", known, ["answer", "draft"])
    graph.add_conditional_edges("answer", calls, ["tools", END])
    graph.add_edge("tools", "answer")
    graph.add_edge("draft", "review")
    graph.add_edge("refuse", END)
    graph.add_edge("review", END)
    return graph.compile(checkpointer=_checkpointer())


def app() -> GraphApp:
    """What Studio serves; called once, when a worker starts."""
    return GraphApp(build(), title="Handbook assistant", timeout_s=120)

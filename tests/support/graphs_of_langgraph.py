"""Graphs of LangGraph for tests, with a model that streams what it is told to and never leaves the machine.

Law of this room: every graph is made by a function, so that no test meets another one's checkpoints.
"""

from __future__ import annotations

import operator
import time
import typing as t
from collections.abc import Callable, Iterator, Sequence

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Send, interrupt
from pydantic import Field


class State(MessagesState):
    """Messages, and a list that nodes add to."""

    seen: t.Annotated[list[str], operator.add]


class Chat(BaseChatModel):
    """Streams one script per call: the first one, then the next, the last one again and again.

    :ivar hold: called before each piece, in the greenlet of the node.
    """

    scripts: list[list[AIMessageChunk]]
    calls: list[list[BaseMessage]] = Field(default_factory=list)
    hold: Callable[[], None] | None = None

    @property
    def _llm_type(self) -> str:
        return "test-chat"

    def bind_tools(self, tools: t.Any, **kwargs: t.Any) -> t.Any:
        """It calls what its script says."""
        return self

    def _generate(
        self, messages: t.Any, stop: t.Any = None, run_manager: t.Any = None, **kwargs: t.Any
    ) -> ChatResult:
        raise AssertionError("it only streams")

    def _stream(
        self, messages: t.Any, stop: t.Any = None, run_manager: t.Any = None, **kwargs: t.Any
    ) -> Iterator[ChatGenerationChunk]:
        script = self.scripts[min(len(self.calls), len(self.scripts) - 1)]
        self.calls.append(messages)
        for piece in script:
            if self.hold is not None:
                self.hold()
            yield ChatGenerationChunk(message=piece.model_copy(deep=True))


def words(text: str, **more: t.Any) -> list[AIMessageChunk]:
    """A text word by word; the last piece has ``more``, such as ``usage_metadata``."""
    parts = text.split(" ")
    pieces = [AIMessageChunk(part if place == 0 else f" {part}") for place, part in enumerate(parts)]
    return [*pieces, AIMessageChunk("", **more)] if more else pieces


def thinks(text: str) -> AIMessageChunk:
    """A piece of thinking."""
    return AIMessageChunk([{"type": "thinking", "thinking": text}])


def calls(*named: tuple[str, str, str]) -> list[AIMessageChunk]:
    """Calls of tools, in pieces: (id, name, arguments as JSON)."""
    pieces = []
    for index, (call, name, arguments) in enumerate(named):
        for id_, name_, part in ((call, name, arguments[:3]), (None, None, arguments[3:])):
            chunk = {"name": name_, "args": part, "id": id_, "index": index}
            pieces.append(AIMessageChunk("", tool_call_chunks=[chunk]))
    return pieces


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("the secret reason")


def answering(chat: Chat, **compiled: t.Any) -> t.Any:
    """One node that answers."""
    graph = StateGraph(State)
    graph.add_node("answer", lambda state: {"messages": [chat.invoke(state["messages"])]})
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(**compiled)


def with_tools(chat: Chat, tools: Sequence[t.Any] = (add, fail), **compiled: t.Any) -> t.Any:
    """The usual agent: a model and its tools, until it answers."""
    graph = StateGraph(State)
    graph.add_node("agent", lambda state: {"messages": [chat.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools, handle_tool_errors="It failed."))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph.compile(**compiled)


def fanned(work: Callable[[t.Any], t.Any], many: int = 3, **compiled: t.Any) -> t.Any:
    """One node sends several to the next, and a third one joins them."""
    graph = StateGraph(State)
    graph.add_node("split", lambda state: {})
    graph.add_node("work", work)
    graph.add_node("join", lambda state: {"seen": ["join"]})
    graph.add_edge(START, "split")
    graph.add_conditional_edges(
        "split", lambda state: [Send("work", {"n": n}) for n in range(many)], ["work"]
    )
    graph.add_edge("work", "join")
    graph.add_edge("join", END)
    return graph.compile(**compiled)


def nested(chat: Chat, **compiled: t.Any) -> t.Any:
    """A graph in a graph: the inner one's last node answers."""
    inner = StateGraph(State)
    inner.add_node("search", lambda state: {"seen": ["search"]})
    inner.add_node("write", lambda state: {"messages": [chat.invoke(state["messages"])]})
    inner.add_edge(START, "search")
    inner.add_edge("search", "write")
    inner.add_edge("write", END)
    graph = StateGraph(State)
    graph.add_node("plan", lambda state: {"seen": ["plan"]})
    graph.add_node("research", inner.compile())
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "research")
    graph.add_edge("research", END)
    return graph.compile(**compiled)


def nodes(*functions: Callable[[t.Any], t.Any], together: bool = False, **compiled: t.Any) -> t.Any:
    """Nodes named as their functions, one after the other, or all at once."""
    graph = StateGraph(State)
    before = START
    for function in functions:
        graph.add_node(function.__name__, function)
        graph.add_edge(before, function.__name__)
        before = START if together else function.__name__
    return graph.compile(**compiled)


def reviewed(value: t.Any, log: list[t.Any] | None = None, **compiled: t.Any) -> t.Any:
    """A draft, a person's word on it, the answer."""

    def review(state: State) -> dict[str, t.Any]:
        answer = interrupt(value)
        if log is not None:
            log.append(answer)
        return {"messages": [AIMessage(f"answer: {answer}")]}

    def draft(state: State) -> dict[str, t.Any]:
        if log is not None:
            log.append("draft")
        return {"seen": ["draft"]}

    return nodes(draft, review, **compiled)


def sleeping(state: State) -> dict[str, t.Any]:
    """Sleeps for longer than any test."""
    time.sleep(1000)
    return {}


def sleeper() -> t.Any:
    """A graph that a stop alone ends."""
    return nodes(sleeping)

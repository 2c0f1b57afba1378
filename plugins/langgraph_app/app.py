"""What may be said of a graph beside the graph itself. Imports nothing of langgraph, so that any module may."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from plugins.spec.decisions import Answer


class AppProblem(Exception):
    """A graph cannot be served. ``app``: its name. The message names the thing and the cure."""

    def __init__(self, app: str, message: str) -> None:
        super().__init__(message)
        self.app = app


@dataclass(frozen=True, slots=True)
class GraphApp:
    """A compiled graph with what Studio should know of it. A bare compiled graph is served with the defaults.

    :ivar graph: what ``StateGraph.compile()`` or ``@entrypoint`` gives.
    :ivar title: one line for people; default: its name in the configuration.
    :ivar answers: names of the nodes whose messages are the answer, in a subgraph ``node/inner``; default: those with
        which the graph may end.
    :ivar input: makes the graph's input of what the caller sent; default: ``{message}`` becomes a user's message
        of graphs that have ``messages``, anything else is given as it is.
    :ivar output: the key of the state that is the answer's text, or what makes the run's output of the final state;
        default: the text of the last message, with the other keys.
    :ivar resume: what ``interrupt()`` returns of an answer: ``plain`` (approved: True, or the edited text or arguments;
        rejected: False), ``full`` (``{"decision", "text", "arguments", "reason"}``), or what makes it of the
        interrupt's value and the answer. Requests of LangGraph's and LangChain's own review get theirs either way.
    :ivar config: further keys of the ``config`` that the graph is run with, such as ``recursion_limit``.
    :ivar context: the graph's static ``context``.
    :ivar durable: whether runs are stored as they go, so that they can pause for people and outlive the server;
        default: when the graph has a checkpointer.
    :ivar timeout_s: as of a document's settings, like those that follow.
    """

    graph: t.Any
    title: str = ""
    answers: Sequence[str] | None = None
    input: Callable[[t.Any], t.Any] | None = None
    output: str | Callable[[t.Any], Mapping[str, t.Any] | str] | None = None
    resume: t.Literal["plain", "full"] | Callable[[t.Any, Answer], t.Any] = "plain"
    config: Mapping[str, t.Any] = field(default_factory=dict)
    context: t.Any = None
    durable: bool | None = None
    timeout_s: float = 300
    on_disconnect: t.Literal["cancel", "continue"] = "cancel"
    disconnect_grace_s: float = 0.0
    public: bool = False

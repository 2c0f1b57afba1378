"""Workflows that something else than a document makes: graphs of another library, served like any other.

A runner says what its graph looks like and runs it; the engine turns what it reports into run events and holds their
order. ``plugins/langgraph_app`` is the one in the tree.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plugins.spec.decisions import Answer, Ask
from providers.spec import Waits


@dataclass(frozen=True, slots=True)
class RunnerNode:
    """A node of a graph.

    :ivar id: 1 to 64 letters, digits, ``_`` or ``-``; in a graph inside of another ``<node>/<id>``.
    :ivar name: as people call it. :ivar type: ``node``, or ``subgraph`` for one that runs a graph of its own.
    :ivar ends: the graph it is in may end with it. :ivar answers: what it says is the run's answer; any node may speak.
    :ivar repeats: it may run more than once in a run.
    """

    id: str
    name: str
    type: str = "node"
    ends: bool = False
    answers: bool = False
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class RunnerEdge:
    """A way from one node to another of the same graph. ``label``: of a conditional one, how it is called."""

    source: str
    target: str
    conditional: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class RunnerGraph:
    """What a runner's graph looks like.

    :ivar nodes: those of a subgraph right behind the node that runs it. :ivar entries: where a run may begin.
    """

    nodes: Sequence[RunnerNode]
    edges: Sequence[RunnerEdge]
    entries: Sequence[str]


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """As ``settings`` of a document.

    :ivar durable: a run may ask people, so what it tells is stored, and it goes on after a restart.
    """

    timeout_s: float = 300
    on_disconnect: t.Literal["cancel", "continue"] = "cancel"
    disconnect_grace_s: float = 0.0
    public: bool = False
    durable: bool = False


class RunnerFailed(Exception):
    """A run cannot go on.

    :ivar code: stable lower_snake. :ivar message: names the thing and the cure. :ivar detail: for the record alone.
    :ivar node: the instance at fault, if one is.
    """

    def __init__(self, code: str, message: str, *, node: str | None = None, detail: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.node = node
        self.detail = detail


class NodeRun(t.Protocol):
    """One execution of a node. What it is told becomes events at once; none of its methods switches greenlets."""

    @property
    def path(self) -> str:
        """The instance: the node's id, with ``[index]`` where several run at once."""

    @property
    def open(self) -> bool:
        """Whether it has not ended yet."""

    def text(self, message: str, text: str) -> None:
        """A piece of what the model says in the message of this id. A new message takes the place of the last one."""

    def thinking(self, message: str, text: str, redacted: bool = False) -> None:
        """A piece of what the model thinks. ``redacted``: it is withheld, and there is no text."""

    def ended(self, message: str, calls_tools: bool) -> None:
        """A message is whole. ``calls_tools``: it asks for tools, so its text is no answer."""

    def tool_started(self, call: str, name: str, arguments: t.Any) -> None:
        """A tool is called. A call that was announced before a pause is not announced again."""

    def tool_finished(
        self, call: str, status: t.Literal["success", "error", "cancelled"], result: t.Any
    ) -> None:
        """A call has ended; one that is not open is ignored."""

    def usage(self, model: str, tokens: Mapping[str, int]) -> None:
        """What a model call used, by ``input``, ``output``, ``total``, ``cacheRead``, ``cacheWrite``, ``reasoning``."""

    def finished(self, output: Mapping[str, t.Any]) -> None:
        """It has ended well. ``content`` is added: what its last message said."""

    def failed(self, code: str, message: str) -> None:
        """It has failed, or was cut off by the failure of another."""


class RunnerContext(t.Protocol):
    """The door between a runner and the engine.

    :ivar run_id: id of the run. :ivar thread_id: of the conversation, the same in every run of it; the run's own id
        outside of any. :ivar in_thread: whether it is in one.
    :ivar input: as the caller sent it.
    :ivar resumed: it was begun before: it has paused since, or its process has gone.
    :ivar waits: guards every blocking step.
    """

    run_id: str
    thread_id: str
    in_thread: bool
    input: t.Any
    resumed: bool

    @property
    def waits(self) -> Waits:
        """See the class."""

    def adopt(self, inside: t.Callable[[t.Any], bool]) -> None:
        """Let the greenlet this is called from be interrupted wherever it blocks, as long as ``inside(greenlet)``.

        For greenlets of another library, which has no waits of ours.

        :raises BaseException: the run has been cancelled already.
        """

    def start(self, node: str, within: NodeRun | None = None, several: bool = False) -> NodeRun:
        """A node begins. One that was begun before a pause, or before its process was lost, goes on instead.

        :param within: the execution of the node whose graph it is in. :param several: it may be one of several at
            once; its instance then ends in ``[index]``.
        """

    def open_nodes(self) -> Sequence[NodeRun]:
        """Those begun and not finished, in order; after a pause those of before it."""

    def flush(self) -> None:
        """Hand what was told to the readers; call once per batch."""

    def recall(self, key: str) -> t.Any:
        """What was noted under a key, in this run, also before a pause; None: nothing."""

    def note(self, key: str, value: t.Any) -> None:
        """Note a value of JSON that steers what happens next, in the same moment in which what it is about is told."""

    def commit(self) -> None:
        """Wait until what was noted, and told before it, is stored; at once where the run is not durable. Never inside
        a wait.
        """

    def decide(self, asks: Sequence[tuple[NodeRun, Ask]]) -> Mapping[str, Answer]:
        """Put questions to people and wait until all of them are answered, by the key of each.

        Nothing else of the run may be going on. The run pauses, and goes on from :meth:`WorkflowRunner.run`, maybe in
        another process; then the same questions give their answers.

        :raises Exception: nobody can be asked in this run, or the stored question asks something else.
        """


@t.runtime_checkable
class WorkflowRunner(t.Protocol):
    """A workflow that is run by other means than blocks.

    :ivar id: how it is addressed, ``<kind>:<name>``, such as ``langgraph:support``; no stored workflow has a colon.
    :ivar title: one line for people. :ivar settings: as of a document.
    """

    id: str
    title: str
    settings: RunnerSettings

    def topology(self) -> RunnerGraph:
        """The graph, always the same; asked when the app is made, and when it is first run."""

    def run(self, context: RunnerContext) -> Mapping[str, t.Any]:
        """Run it to its end, in a greenlet of its own; with ``context.resumed`` from where it stands.

        :returns: the run's output.
        :raises RunnerFailed: it cannot go on. Anything else is an internal error.
        """

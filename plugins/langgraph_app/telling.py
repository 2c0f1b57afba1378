"""What a graph streams, told as nodes and what they say.

Law of this room: one place knows which task is which node. A task that is no node of the graph (a ``@task``, a graph
made at run time) counts as part of the node around it.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from plugins.langgraph_app import messages as m
from plugins.langgraph_app.interrupts import Pending
from plugins.langgraph_app.topology import Named, Nodes
from plugins.langgraph_app.watching import Watcher
from plugins.spec.runners import NodeRun, RunnerContext

#: How langgraph marks one of several tasks that were sent to a node.
PUSH = "__pregel_push"


@dataclass(frozen=True, slots=True)
class Ended:
    """A task that the checkpointer knows to have ended. ``home``: the node whose graph it is in."""

    id: str
    name: str
    home: str
    several: bool
    result: t.Any


def _end_note(task: str) -> str:
    """The key of the note that a task's end was told."""
    return f"ended {task}"


def _node_id(path: str) -> str:
    """Of which node an instance is."""
    return re.sub(r"\[\d+\]", "", path)


class _Message:
    """A message of a model that is being told."""

    __slots__ = ("calls", "model", "tokens")

    def __init__(self) -> None:
        self.calls = False
        self.model = ""
        self.tokens: dict[str, int] = {}


class _Task:
    """A task of the graph. ``named`` None: it is part of the node around it."""

    __slots__ = ("given", "named", "node")

    def __init__(self, node: NodeRun, named: Named | None, given: t.Any) -> None:
        self.node = node
        self.named = named
        self.given = given


class Telling:
    """Of one run.

    :ivar values: the newest state of the graph. :ivar failed: the first node that failed, with its error.
    :ivar interrupts: what waits for an answer, by its id, with the node that asks.
    """

    def __init__(self, context: RunnerContext, nodes: Nodes, watcher: Watcher, messages: str) -> None:
        self._context = context
        self._nodes = nodes
        self._watcher = watcher
        self._key = messages
        self._tasks: dict[str, _Task] = {}
        self._done: set[str] = set()
        self._messages: dict[str, _Message] = {}
        self._calls: dict[str, NodeRun] = {}
        #: Calls that raised, until it is known what the model is told of them.
        self._raised: dict[str, NodeRun] = {}
        self.values: t.Any = None
        self.failed: tuple[NodeRun, BaseException] | None = None
        self.interrupts: dict[str, tuple[NodeRun, Pending]] = {}

    def take(self, place: Sequence[str], mode: str, data: t.Any) -> None:
        """One part of the stream."""
        if mode == "messages":
            self._message(*data)
        elif mode == "tasks":
            self._task(place, data)
        elif mode == "tools":
            self._tool(data)
        elif mode == "values" and not place:
            self.values = data

    def finish(self) -> None:
        """The graph has ended: so have nodes that were left by a command to a graph around theirs."""
        for node in reversed(self._context.open_nodes()):
            node.finished({})

    # -- tasks -------------------------------------------------------------------------------

    def resumed(self, ended: Iterable[Ended]) -> None:
        """The graph goes on. It names the tasks of its step anew, also those that have ended.

        :param ended: these; what of them the process that ran them could not tell any more is told now.
        """
        self.interrupts = {}
        for each in ended:
            self._done.add(each.id)
            if self._context.recall(_end_note(each.id)) is None:
                self._catch_up(each)

    def _catch_up(self, ended: Ended) -> None:
        named = self._nodes.get(ended.home, ended.name)
        around = [node for node in self._context.open_nodes() if _node_id(node.path) == ended.home]
        if named is not None and (around or not ended.home):
            node = self._context.start(named.node.id, around[0] if around else None, ended.several)
            self._finished(_Task(node, named, None), named, ended.id, ended.result)

    def _task(self, place: Sequence[str], data: Mapping[str, t.Any]) -> None:
        if "input" in data:
            if data["id"] not in self._done:
                self._begins(place, data)
        elif (task := self._tasks.get(data["id"])) is not None:
            self._ends(task, data)

    def _begins(self, place: Sequence[str], data: Mapping[str, t.Any]) -> None:
        around = self._around(place)
        home = "" if around is None or around.named is None else around.named.node.id
        named = self._nodes.get(home, data["name"]) if not place or around is not None else None
        if named is None:
            if around is not None:
                self._tasks[data["id"]] = _Task(around.node, None, None)
            return
        several = PUSH in data["triggers"]
        node = self._context.start(named.node.id, None if around is None else around.node, several)
        self._tasks[data["id"]] = _Task(node, named, data["input"])

    def _ends(self, task: _Task, data: Mapping[str, t.Any]) -> None:
        for call in [call for call, node in self._raised.items() if node.path == task.node.path]:
            self._raised.pop(call).tool_finished(call, "error", "It failed.")
        if data["interrupts"]:
            for each in data["interrupts"]:
                # The innermost task tells of it first.
                self.interrupts.setdefault(each["id"], (task.node, Pending(each["id"], each["value"])))
            return
        error = data["error"]
        if isinstance(error, BaseException):
            if self.failed is None or self.failed[1] is not error:
                self.failed = (task.node, error)
            if task.named is not None:
                task.node.failed("node_failed", f"{task.named.name} failed; see the server's log.")
            return
        if task.named is None:
            return
        self._finished(task, task.named, data["id"], data["result"])

    def _finished(self, task: _Task, named: Named, task_id: str, result: t.Any) -> None:
        self._done.add(task_id)
        for node in reversed(self._context.open_nodes()):
            if node.path.startswith(f"{task.node.path}/"):
                node.finished({})
        task.node.finished(self._output(task, named, result))
        self._context.note(_end_note(task_id), True)
        self._context.commit()

    def _output(self, task: _Task, named: Named, result: t.Any) -> dict[str, t.Any]:
        output = m.plain(result)
        output = dict(output) if isinstance(output, Mapping) else {"result": output}
        if named.node.type == "subgraph":  # what it gives, its nodes have said
            return output
        said = m.answer_in(result.get(self._key)) if isinstance(result, Mapping) else None
        if said is None and named.last and isinstance(task.given, Mapping):
            said = m.answer_in(task.given.get(self._key))  # nothing comes after it: that is the run's answer
        return output if said is None else {"content": said, **output}

    def _around(self, place: Sequence[str]) -> _Task | None:
        """The task of a graph inside of which something happens: the innermost one that is known."""
        for segment in reversed(place):
            if (task := self._tasks.get(segment.rpartition(":")[2])) is not None:
                return task
        return None

    # -- what models say ---------------------------------------------------------------------

    def _message(self, message: t.Any, metadata: Mapping[str, t.Any]) -> None:
        task = self._around(str(metadata.get("langgraph_checkpoint_ns", "")).split("|"))
        if task is None:
            return
        if not m.is_ai(message):
            if (node := self._raised.pop(getattr(message, "tool_call_id", ""), None)) is not None:
                node.tool_finished(message.tool_call_id, "error", m.plain(message.content))
            return
        known = self._messages.get(message.id)
        if known is None:
            known = self._messages[message.id] = _Message()
        for kind, text in m.pieces(message):
            if kind == "text":
                task.node.text(message.id, text)
            else:
                task.node.thinking(message.id, text, kind == "redacted")
        known.calls = known.calls or m.calls_tools(message)
        self._count(known, message, metadata)
        if message.type == "ai" or getattr(message, "chunk_position", None) == "last":
            self._ended(task.node, message.id, known)

    def _count(self, known: _Message, message: t.Any, metadata: Mapping[str, t.Any]) -> None:
        if usage := getattr(message, "usage_metadata", None):
            for name, count in m.tokens_of(usage).items():
                known.tokens[name] = known.tokens.get(name, 0) + count
        about = getattr(message, "response_metadata", None) or {}
        model = about.get("model_name") or about.get("model")  # the vendor's own name, in its last piece
        if model is None and not known.model:
            model = metadata.get("ls_model_name") or "unknown"
        if model is not None:
            vendor = metadata.get("ls_provider")
            known.model = f"{vendor}/{model}" if vendor else str(model)

    def _ended(self, node: NodeRun, message: str, known: _Message) -> None:
        node.ended(message, known.calls)
        if known.tokens:
            node.usage(known.model, known.tokens)
        del self._messages[message]

    # -- tools -------------------------------------------------------------------------------

    def _tool(self, data: Mapping[str, t.Any]) -> None:
        call, event = data["tool_call_id"], data["event"]
        if event == "tool-started":
            task = self._around(self._watcher.place_of(call).split("|"))
            if task is not None:
                self._calls[call] = task.node
                task.node.tool_started(call, data["tool_name"], m.plain(data.get("input") or {}))
        elif (node := self._calls.get(call)) is not None:
            if event == "tool-finished":
                output = data["output"]
                failed = getattr(output, "status", "success") == "error"
                node.tool_finished(call, "error" if failed else "success", _result(output))
            elif event == "tool-error":
                self._raised[call] = node


def _result(output: t.Any) -> t.Any:
    """What a tool gave: the content of its message, or what it returned."""
    content = getattr(output, "content", None)
    return m.plain(output if content is None else content)

"""Runs one graph: its input, its stream, its interrupts, its output.

Law of this room: the graph's own checkpointer knows where a run stands, and nothing else does; what people were asked
is in the run's journal. Which of a thread's checkpoints are this run's, its id in their metadata says.
"""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Iterator, Mapping

from langgraph.errors import GraphRecursionError
from langgraph.types import Command

from plugins.langgraph_app import messages as m
from plugins.langgraph_app.app import GraphApp
from plugins.langgraph_app.interrupts import Pending
from plugins.langgraph_app.telling import PUSH, Ended, Telling
from plugins.langgraph_app.topology import Nodes
from plugins.langgraph_app.watching import Watcher
from plugins.spec.decisions import Ask
from plugins.spec.runners import NodeRun, RunnerContext, RunnerFailed, RunnerGraph, RunnerSettings

log = logging.getLogger("studio.langgraph")

_MODES = ["tasks", "messages", "tools", "values"]
_MESSAGES = "messages"
_RUN = "studio_run"
#: Keys of notes: the graph was begun; what was asked, {interrupt id: instance}.
_BEGUN, _ASKED = "begun", "asked"


class LangGraphRunner:
    """See :class:`plugins.spec.runners.WorkflowRunner`."""

    def __init__(self, name: str, app: GraphApp) -> None:
        self.id = f"langgraph:{name}"
        self.title = app.title or name
        self._app = app
        self._nodes = Nodes(app.graph, app.answers)
        self._keys = _input_keys(app.graph)
        kept = bool(app.graph.checkpointer)
        self.settings = RunnerSettings(
            timeout_s=app.timeout_s,
            on_disconnect=app.on_disconnect,
            disconnect_grace_s=app.disconnect_grace_s,
            public=app.public,
            durable=kept if app.durable is None else app.durable and kept,
        )

    def topology(self) -> RunnerGraph:
        """See the protocol."""
        return self._nodes.graph()

    def run(self, context: RunnerContext) -> Mapping[str, t.Any]:
        """See the protocol."""
        return _Run(self._app, self._nodes, self._keys, context, self.settings.durable).run()


class _Run:
    """One run of a graph, or one part of it between two pauses."""

    def __init__(
        self, app: GraphApp, nodes: Nodes, keys: frozenset[str], context: RunnerContext, durable: bool
    ) -> None:
        self._app = app
        self._graph = app.graph
        self._keys = keys
        self._context = context
        self._nodes = nodes
        self._durable = durable
        self._watcher = Watcher(context)
        self._telling = Telling(context, nodes, self._watcher, _MESSAGES)
        given = dict(app.config)
        self._config = {
            **given,
            "configurable": {**given.get("configurable", {}), "thread_id": context.thread_id},
            "metadata": {**given.get("metadata", {}), _RUN: context.run_id},
            "callbacks": [*given.get("callbacks", ()), self._watcher],
        }

    def run(self) -> Mapping[str, t.Any]:
        """To its end, or until it pauses."""
        kept = bool(self._graph.checkpointer)
        given = self._left() if self._context.resumed else self._input()
        self._context.note(_BEGUN, True)
        while True:
            if given is not _ASK:
                self._stream(given)
            if not kept:
                self._check_unasked()
            asked = self._pending() if kept else None
            if asked is None:
                break
            given = self._resumed(asked)
        self._telling.finish()
        if kept and not self._context.in_thread:
            self._graph.checkpointer.delete_thread(self._context.thread_id)
        return self._output()

    # -- input and output --------------------------------------------------------------------

    def _input(self) -> t.Any:
        given = self._context.input
        if self._app.input is not None:
            return self._app.input(given)
        if _MESSAGES not in self._keys:
            return given
        if isinstance(given, str):
            given = {"message": given}
        if not isinstance(given, Mapping):
            return given
        rest = {key: value for key, value in given.items() if key in self._keys}
        # The checkpointer remembers the conversation: only what is new goes in.
        new = isinstance(given.get("message"), str) and (
            _MESSAGES not in given or (self._graph.checkpointer and self._context.in_thread)
        )
        return {**rest, _MESSAGES: [("user", given["message"])]} if new else rest

    def _output(self) -> Mapping[str, t.Any]:
        values, how = self._telling.values, self._app.output
        if callable(how):
            made = how(values)
            return {"content": made} if isinstance(made, str) else m.plain(made)
        known = values if isinstance(values, Mapping) else {"result": values}
        output = {key: m.plain(value) for key, value in known.items() if not key.startswith("__")}
        if how is not None:
            found = known.get(how)
            return {"content": found if isinstance(found, str) else m.plain(found), **output}
        messages = known.get(_MESSAGES)
        if not isinstance(messages, list):
            return output
        output[_MESSAGES] = m.plain(_since_question(messages))
        said = next(
            (m.text_of(one) for one in reversed(messages) if m.is_ai(one) and not m.calls_tools(one)), None
        )
        return output if said is None else {"content": said, **output}

    # -- the stream --------------------------------------------------------------------------

    def _stream(self, given: t.Any) -> None:
        """Run the graph until it ends or waits, telling what it streams."""
        telling, context = self._telling, self._context
        try:
            for place, mode, data in self._parts(given):
                telling.take(place, mode, data)
                context.flush()
        except GraphRecursionError as error:
            limit = self._config.get("recursion_limit")
            raise RunnerFailed(
                "recursion_limit",
                f"The graph did not end within its recursion limit{f' of {limit}' if limit else ''}; raise "
                "recursion_limit in the config of its GraphApp, or see why it goes round.",
                detail=str(error),
            ) from error
        except Exception as error:
            raise self._failure(error) from error

    def _parts(self, given: t.Any) -> Iterator[tuple[tuple[str, ...], str, t.Any]]:
        options: dict[str, t.Any] = {"context": self._app.context} if self._app.context is not None else {}
        if self._durable:
            options["durability"] = "sync"  # what was told to have ended does not run again after a crash
        stream = self._graph.stream(
            given,
            self._config,
            stream_mode=_MODES,
            subgraphs=True,
            output_keys=self._graph.output_channels,
            **options,
        )
        try:
            while True:
                with self._context.waits.wait():
                    part = next(stream, None)
                if part is None:
                    return
                yield part
        finally:
            stream.close()

    def _failure(self, error: Exception) -> RunnerFailed:
        node = None if self._telling.failed is None else self._telling.failed[0].path
        log.error(
            "run %s: the graph failed%s", self._context.run_id, f" at {node}" if node else "", exc_info=error
        )
        what = f"The node {node}" if node else "The graph"
        return RunnerFailed(
            "node_failed" if node else "graph_failed",
            f"{what} failed; see the server's log.",
            node=node,
            detail=f"{type(error).__name__}: {error}",
        )

    # -- people ------------------------------------------------------------------------------

    def _check_unasked(self) -> None:
        """A graph without a checkpointer cannot wait.

        :raises RunnerFailed: it has asked somebody.
        """
        if not self._telling.interrupts:
            return
        node, _ = next(iter(self._telling.interrupts.values()))
        raise RunnerFailed(
            "approval_unavailable",
            f"The node {node.path} asks a person, and its graph cannot wait: compile it with a checkpointer.",
            node=node.path,
        )

    def _pending(self) -> list[tuple[NodeRun, Pending]] | None:
        """What waits for people now, with the nodes that ask; None: the graph has ended.

        :raises RunnerFailed: it stands still for another reason, or others ask than are known.
        """
        state = self._graph.get_state(self._config)
        if not state.next:
            return None
        told = self._telling.interrupts
        if not told and state.interrupts:
            told = self._known({each.id: each.value for each in state.interrupts})
        waiting = [told[each.id] for each in state.interrupts if each.id in told]
        if not waiting or len(waiting) != len(state.interrupts):
            raise _mismatch()
        self._context.note(_ASKED, {pending.id: node.path for node, pending in waiting})
        return waiting

    def _known(self, values: Mapping[str, t.Any]) -> dict[str, tuple[NodeRun, Pending]]:
        """What was asked before the process that asked was left."""
        nodes = {node.path: node for node in self._context.open_nodes()}
        asked: Mapping[str, str] = self._context.recall(_ASKED) or {}
        return {
            each: (nodes[asked[each]], Pending(each, value))
            for each, value in values.items()
            if asked.get(each) in nodes
        }

    def _resumed(self, waiting: list[tuple[NodeRun, Pending]]) -> t.Any:
        """Ask, and what the graph goes on with once all have been answered."""
        asks: list[tuple[NodeRun, Ask]] = [(node, ask) for node, pending in waiting for ask in pending.asks()]
        answers = self._context.decide(asks)
        values = {pending.id: pending.resume(answers, self._app.resume) for _, pending in waiting}
        self._telling.resumed(self._ended_tasks())
        return Command(resume=values)

    # -- going on ----------------------------------------------------------------------------

    def _left(self) -> t.Any:
        """What a run that was told in part goes on with.

        :raises RunnerFailed: nobody knows where it stands.
        """
        checkpointer = self._graph.checkpointer
        state = self._graph.get_state(self._config) if checkpointer else None
        ours = state is not None and (state.metadata or {}).get(_RUN) == self._context.run_id
        if not ours and self._context.recall(_BEGUN) is None:
            return self._input()
        if not ours:
            raise RunnerFailed(
                "checkpoint_lost",
                "The checkpointer of this graph does not know the run any more"
                + (
                    ", since it keeps checkpoints in memory; compile the graph with a durable one, such as SqliteSaver."
                    if type(checkpointer).__name__ in ("InMemorySaver", "MemorySaver")
                    else "; was its database lost?"
                ),
            )
        assert state is not None
        self._telling.values = state.values
        if state.interrupts:
            return _ASK
        self._telling.resumed(self._ended_tasks())
        return None

    def _ended_tasks(self) -> Iterator[Ended]:
        """Tasks of the step in which the graph stands that have ended, those of graphs inside of it included."""
        left: list[tuple[str, t.Any]] = [("", self._graph.get_state(self._config, subgraphs=True))]
        while left:
            home, state = left.pop()
            for task in state.tasks:
                if task.result is not None:
                    yield Ended(task.id, task.name, home, task.path[0] == PUSH, task.result)
                named = self._nodes.get(home, task.name)
                if named is not None and hasattr(task.state, "tasks"):
                    left.append((named.node.id, task.state))


def _input_keys(graph: t.Any) -> frozenset[str]:
    """The keys of a graph's input; none where it is one value. Its JSON schema would ask more of its types."""
    builder = getattr(graph, "builder", None)
    schemas = getattr(builder, "schemas", {})
    known = schemas.get(getattr(builder, "input_schema", None)) or graph.input_channels
    return frozenset() if isinstance(known, str) else frozenset(known)


#: In place of an input: the graph waits for people already.
_ASK: t.Any = object()


def _mismatch() -> RunnerFailed:
    return RunnerFailed(
        "journal_mismatch",
        "The graph waits for other answers than those that people were asked for; it has changed, or its checkpoints "
        "were. Start anew.",
    )


def _since_question(messages: list[t.Any]) -> list[t.Any]:
    """The messages of this turn: from the last one of the user on."""
    for place in range(len(messages) - 1, -1, -1):
        if getattr(messages[place], "type", "") == "human":
            return messages[place:]
    return messages

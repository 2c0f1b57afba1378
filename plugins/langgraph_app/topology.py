"""The graph as Studio knows it: one graph per level, those inside of nodes by path.

It has what ``get_graph(xray=True)`` draws, level by level: there, a node that runs a graph is replaced by that graph's
nodes. Here it stays, since its own code runs too and may call models.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from plugins.spec.runners import RunnerEdge, RunnerGraph, RunnerNode

_START, _END = "__start__", "__end__"
_MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Named:
    """A node with its name in the graph's own words, in a subgraph ``node/inner``."""

    name: str
    node: RunnerNode
    #: The graph ends when it has run: there is no other way on.
    last: bool


class Nodes:
    """The nodes of a graph and of those inside of it.

    :param answers: names of those that answer; None: those with which the whole may end.
    """

    def __init__(self, graph: t.Any, answers: Sequence[str] | None = None) -> None:
        self._answers = answers
        self._found: dict[tuple[str, str], Named] = {}
        self._edges: list[RunnerEdge] = []
        self._entries: list[str] = []
        self._level(graph, "", "", True, False, 0)

    def graph(self) -> RunnerGraph:
        """What the runner says of it."""
        return RunnerGraph([named.node for named in self.named()], self._edges, self._entries)

    def named(self) -> Sequence[Named]:
        """All of them."""
        return tuple(self._found.values())

    def get(self, home: str, name: str) -> Named | None:
        """A node by the id of the node whose graph it is in (the empty text: none) and its name."""
        return self._found.get((home, name))

    def _level(self, graph: t.Any, home: str, prefix: str, ends: bool, repeats: bool, depth: int) -> None:
        """:param ends: the whole may end with this graph. :param repeats: it may run several times."""
        drawn = graph.get_graph()
        inner = dict(graph.get_subgraphs()) if depth < _MAX_DEPTH else {}
        names = [name for name in drawn.nodes if name not in (_START, _END)]
        ways = _ways(drawn)
        ids = dict(zip(names, _ids(names), strict=True))
        self._draw(drawn, home, ids)
        for name in names:
            targets = ways.get(name, ())
            last = not targets or set(targets) == {_END}
            node = RunnerNode(
                id=f"{home}/{ids[name]}" if home else ids[name],
                name=name,
                type="subgraph" if name in inner else "node",
                ends=last or _END in targets,
                repeats=repeats or name in _reached(ways, name),
            )
            label = f"{prefix}{name}"
            answers = ends and node.ends if self._answers is None else label in self._answers
            self._found[home, name] = Named(label, replace(node, answers=answers), last and ends)
            if name in inner:
                self._level(inner[name], node.id, f"{label}/", ends and node.ends, node.repeats, depth + 1)

    def _draw(self, drawn: t.Any, home: str, ids: dict[str, str]) -> None:
        def path(name: str) -> str:
            return f"{home}/{ids[name]}" if home else ids[name]

        for edge in drawn.edges:
            if edge.source == _START:
                self._entries += [path(edge.target)] if edge.target in ids else []
            elif edge.source in ids and edge.target in ids:
                label = (
                    str(edge.data) if edge.conditional and edge.data not in (None, edge.target, _END) else ""
                )
                made = RunnerEdge(path(edge.source), path(edge.target), edge.conditional, label)
                if made not in self._edges:
                    self._edges.append(made)


def _ways(drawn: t.Any) -> dict[str, list[str]]:
    ways: dict[str, list[str]] = {}
    for edge in drawn.edges:
        ways.setdefault(edge.source, []).append(edge.target)
    return ways


def _reached(ways: dict[str, list[str]], start: str) -> set[str]:
    """What can run after a node."""
    found: set[str] = set()
    left = list(ways.get(start, ()))
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += ways.get(name, ())
    return found


def _ids(names: Sequence[str]) -> Iterator[str]:
    """Ids of nodes: their names, where these are ids already."""
    taken: set[str] = set()
    for name in names:
        base = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:60] or "node"
        found, more = base, 1
        while found in taken:
            more += 1
            found = f"{base}_{more}"
        taken.add(found)
        yield found

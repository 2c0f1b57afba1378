"""The graph of a runner as a compiled workflow: surfaces, selectors and readers' rights know its nodes as blocks.

Law of this room: nothing of it is ever scheduled; the runner runs it. Nodes of a graph inside of another one are the
body of the node that runs it, under paths (``research/search``).
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from app.workflows.compiled import CompiledBlock, CompiledWorkflow, Edge, Region, WorkflowSettings
from plugins.spec.blocks import BlockType
from plugins.spec.runners import RunnerEdge, RunnerGraph, RunnerNode, WorkflowRunner

#: The handle behind which the graph of a subgraph hangs.
INSIDE = "graph"
#: The handle of a node by which its graph ends.
_END = "end"


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    """In place of a node's config.

    :ivar ways: the handles by which it goes on. :ivar repeats: it may run again. :ivar answers: what it says is the
        run's answer.
    """

    ways: tuple[str, ...] = ()
    repeats: bool = False
    answers: bool = False


def compile_runner(runner: WorkflowRunner) -> CompiledWorkflow:
    """What the engine and the surfaces know of a runner's workflow."""
    graph, given = runner.topology(), runner.settings
    into = (Edge(_home(node), INSIDE, node) for node in graph.entries if _home(node))
    edges = (*(_edge(edge) for edge in graph.edges), *into)
    outgoing, incoming = _by(edges, "source"), _by(edges, "target")
    bodies = {node.id for node in graph.nodes if any(_home(n.id) == node.id for n in graph.nodes)}
    blocks = {node.id: _block(node, outgoing.get(node.id, ()), node.id in bodies) for node in graph.nodes}
    regions: dict[tuple[str, str] | None, Region] = {None: _region(graph, "", edges)}
    inside = {}
    for body in bodies:
        regions[body, INSIDE] = _region(graph, body, edges)
        inside[body, INSIDE] = frozenset(n.id for n in graph.nodes if n.id.startswith(f"{body}/"))
    return CompiledWorkflow(
        name=runner.title,
        document={"name": runner.title, "runner": runner.id},
        blocks=blocks,
        edges=edges,
        incoming=incoming,
        outgoing=outgoing,
        entry=graph.entries[0],
        variables={},
        settings=WorkflowSettings(
            timeout_s=given.timeout_s,
            on_disconnect=given.on_disconnect,
            disconnect_grace_s=given.disconnect_grace_s,
            durable=given.durable,
            public=given.public,
        ),
        inside=inside,
        regions=regions,
        runner=runner,
    )


def _home(node: str) -> str:
    return node.rpartition("/")[0]


def _edge(edge: RunnerEdge) -> Edge:
    handle = f"route:{edge.label or edge.target.rpartition('/')[2]}" if edge.conditional else ""
    return Edge(edge.source, handle, edge.target)


def _by(edges: tuple[Edge, ...], end: t.Literal["source", "target"]) -> dict[str, tuple[Edge, ...]]:
    found: dict[str, tuple[Edge, ...]] = {}
    for edge in edges:
        found[getattr(edge, end)] = (*found.get(getattr(edge, end), ()), edge)
    return found


def _block(node: RunnerNode, edges: tuple[Edge, ...], runs_others: bool) -> CompiledBlock:
    ways = tuple(dict.fromkeys(edge.handle for edge in edges if edge.handle != INSIDE))
    config = RunnerConfig(ways + ((_END,) if node.ends or not ways else ()), node.repeats, node.answers)
    bodies = (INSIDE,) if runs_others else ()
    return CompiledBlock(node.id, _kind(node.type), node.name, config, bodies=bodies)


def _kind(name: str) -> BlockType:
    return BlockType(
        type_name=name,
        config=RunnerConfig,
        run=_never,
        summary="A node of a graph.",
        handles=(),
        answers=True,
        named=lambda config: t.cast("tuple[str, ...]", config.ways),
    )


def _never(context: t.Any, config: t.Any) -> t.NoReturn:
    raise AssertionError("nodes are run by their runner")


def _region(graph: RunnerGraph, home: str, edges: tuple[Edge, ...]) -> Region:
    members = tuple(node.id for node in graph.nodes if _home(node.id) == home)
    own = tuple(edge for edge in edges if edge.source in members and edge.handle != INSIDE)
    entries = tuple(node for node in graph.entries if _home(node) == home)
    return Region(members, _by(own, "target"), _by(own, "source"), entries)

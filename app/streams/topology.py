"""The compiled graph as a page draws it (contract section 6): every block of the workflow, and nothing else.

Law of this room: made once from the compiled workflow; the frame ``graph_topology`` and ``GET /graph/topology`` are the
same bytes. Blocks in the bodies of loops and branches are nodes like any other. What a block runs of another workflow
is not: that is one node here, and a graph of its own.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from app.encoding import dumps
from app.events import BlockInfo
from app.state import plain
from app.streams.rights import Rights
from app.workflows.compiled import CompiledWorkflow
from app.workflows.runner_graph import INSIDE, RunnerConfig

#: Handles by which a block goes on whatever it came to.
_ALWAYS = ("", "exit", INSIDE)
_LOOP = "loop"


@dataclass(frozen=True, slots=True)
class Topology:
    """A graph.

    :ivar data: the body of the frame. :ivar types: of its nodes, by id, in document order.
    :ivar repeated: the nodes that a loop runs.
    """

    data: bytes
    types: Mapping[str, str]
    repeated: frozenset[str] = field(default_factory=frozenset)

    def node(self, block: str) -> str:
        """The node that stands for a block instance: its own, or the one in which it runs; else its name."""
        name = plain(block)
        while name and name not in self.types:
            name = name.rpartition("/")[0]
        return name or block

    def shows(self, block: str) -> bool:
        """Whether a block instance is a node, and not only inside of one."""
        return plain(block) in self.types


def topology(workflow: CompiledWorkflow, rights: Rights) -> Topology:
    """The graph of a workflow as this reader may see it: to visitors each node is labelled by its id."""
    bodies = {body: inside for body, inside in workflow.inside.items() if inside}
    flags: dict[str, t.Any] = {"entry": workflow.entry, "exits": list(workflow.exits())}
    if asking := [block.id for block in workflow.blocks.values() if block.asks]:
        flags["pauses"] = asking
    if bodies:
        flags["bodies"] = [
            {"node": block, "handle": handle, "nodes": [name for name in workflow.blocks if name in inside]}
            for (block, handle), inside in bodies.items()
        ]
    edges = [(edge.source, edge.handle, edge.target) for edge in workflow.edges]
    infos = workflow.infos()
    if rights.public:
        infos = tuple(replace(info, name=info.id) for info in infos)
    return _made(infos, edges, flags, frozenset(_repeated(workflow)))


def _repeated(workflow: CompiledWorkflow) -> Iterator[str]:
    for (block, _), inside in workflow.inside.items():
        if workflow.blocks[block].type.type_name == _LOOP:
            yield from inside
    for each in workflow.blocks.values():
        if isinstance(each.config, RunnerConfig) and each.config.repeats:
            yield each.id


def outline(blocks: Iterable[BlockInfo], edges: Iterable[tuple[str, str, str]]) -> Topology:
    """The graph of a workflow that is not stored any more, as far as its run tells it."""
    nodes = [info for info in blocks if "/" not in info.id and plain(info.id) == info.id]
    drawn = list(edges)
    reached, left = {target for _, _, target in drawn}, {source for source, _, _ in drawn}
    entry = next((info.id for info in nodes if info.type == "start" or info.id not in reached), "")
    return _made(nodes, drawn, {"entry": entry, "exits": [n.id for n in nodes if n.id not in left]})


def _made(
    blocks: Iterable[BlockInfo],
    edges: Iterable[tuple[str, str, str]],
    flags: Mapping[str, t.Any],
    repeated: frozenset[str] = frozenset(),
) -> Topology:
    nodes = [{"id": info.id, "type": info.type, "label": info.name} for info in blocks]
    body = {"nodes": nodes, "edges": [_edge(*edge) for edge in edges], "flags": flags}
    return Topology(dumps(body), {node["id"]: node["type"] for node in nodes}, repeated)


def _edge(source: str, handle: str, target: str) -> dict[str, t.Any]:
    """``label``: the handle as people name it. ``conditional``: it may not be taken."""
    edge: dict[str, t.Any] = {"source": source, "target": target}
    if handle:
        edge["label"] = handle.partition(":")[2] or handle
    if handle not in _ALWAYS and not handle.startswith("branch:"):
        edge["conditional"] = True
    return edge

"""Bodies: which blocks a loop or a parallel block runs, apart from the rest of the graph. Pure.

Law of this room: a block lies in the body behind a handle of a container when no path reaches it but through that
handle (the handle's edges dominate it). A region is the graph of one body, or of what lies in none (the root); the
scheduler works on one region at a time and never sees the edge that leads back to a container.

An edge from a body to a block outside of it, which only a parallel block may have, is kept as an edge of the
container with a handle of its own (:func:`leaving`): it is taken when the body's block took it, and known when the
container has ended, so that whatever joins branches waits for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from app.workflows.compiled import CompiledWorkflow, Edge, Region
from app.workflows.graph import grouped

#: A body: the container's id and the handle its first blocks hang on.
Body = tuple[str, str]


def leaving(source: str, handle: str) -> str:
    """The handle under which a container carries on an edge that leaves its body."""
    return f"{source}:{handle}"


def bodies(
    entry: str, edges: Iterable[Edge], containers: Mapping[str, Iterable[str]]
) -> dict[Body, frozenset[str]]:
    """The blocks of each body, nested bodies included.

    :param entry: where a run begins. :param containers: by id, the handles behind which a body lies.
    """
    edges = tuple(edges)
    found: dict[Body, frozenset[str]] = {}
    for container, handles in containers.items():
        for handle in handles:
            heads = [e.target for e in edges if e.source == container and e.handle == handle]
            rest = [e for e in edges if not (e.source == container and e.handle == handle)]
            elsewhere = _reached([entry], rest)
            # From the heads on, but not through the container again: its exit leads out of the body.
            inner = [e for e in edges if e.source != container]
            found[container, handle] = frozenset(_reached(heads, inner)) - elsewhere - {container}
    return found


def back_edges(edges: Iterable[Edge], inside: Mapping[Body, frozenset[str]]) -> set[Edge]:
    """The edges that lead from a body back to its container: the only legal cycles."""
    return {
        edge
        for edge in edges
        if any(container == edge.target and edge.source in body for (container, _), body in inside.items())
    }


def home(block: str, inside: Mapping[Body, frozenset[str]]) -> Body | None:
    """The innermost body a block lies in; None for the root."""
    around = [body for body, blocks in inside.items() if block in blocks]
    return min(around, key=lambda body: len(inside[body])) if around else None


def regions(
    blocks: Iterable[str], edges: Iterable[Edge], entry: str, inside: Mapping[Body, frozenset[str]]
) -> dict[Body | None, Region]:
    """The region of each body, and the root's under None."""
    order = tuple(blocks)
    homes = {block: home(block, inside) for block in order}
    back = back_edges(edges, inside)
    within: dict[Body | None, list[Edge]] = {}
    leaves: dict[Body, list[Edge]] = {}
    heads: dict[Body | None, list[str]] = {None: [entry]}
    for edge in edges:
        body = (edge.source, edge.handle)
        if edge in back:
            continue
        if body in inside and edge.target in inside[body]:
            heads.setdefault(body, []).append(edge.target)
            continue
        carried = _carried(edge, homes, leaves)
        within.setdefault(homes[carried.source], []).append(carried)
    return {
        body: _region(
            order,
            homes,
            body,
            within.get(body, []),
            heads.get(body, []),
            leaves.get(body, []) if body else [],
        )
        for body in (None, *inside)
    }


def _carried(edge: Edge, homes: Mapping[str, Body | None], leaves: dict[Body, list[Edge]]) -> Edge:
    """``edge`` as it looks from the region of its target: each body that it leaves hands it on to its container."""
    while (body := homes[edge.source]) is not None and not _holds(body, edge.target, homes):
        if edge not in leaves.setdefault(body, []):
            leaves[body].append(edge)
        edge = Edge(body[0], leaving(edge.source, edge.handle), edge.target)
    return edge


def _holds(body: Body, block: str, homes: Mapping[str, Body | None]) -> bool:
    at: Body | None = homes[block]
    while at is not None and at != body:
        at = homes[at[0]]
    return at == body


def _region(
    order: Iterable[str],
    homes: Mapping[str, Body | None],
    body: Body | None,
    edges: list[Edge],
    heads: list[str],
    leaves: list[Edge],
) -> Region:
    unique = tuple(dict.fromkeys(edges))
    return Region(
        tuple(block for block in order if homes[block] == body),
        grouped(unique, lambda edge: edge.target),
        grouped(unique, lambda edge: edge.source),
        tuple(dict.fromkeys(heads)),
        tuple(leaves),
    )


def _reached(start: Iterable[str], edges: Iterable[Edge]) -> set[str]:
    outgoing = grouped(edges, lambda edge: edge.source)
    reached = set(start)
    stack = list(reached)
    while stack:
        for edge in outgoing.get(stack.pop(), ()):
            if edge.target not in reached:
                reached.add(edge.target)
                stack.append(edge.target)
    return reached


def wanted(workflow: CompiledWorkflow, last: str | None) -> Region:
    """Of a workflow's own blocks those that a run needs which is over with the end of ``last``; None: all of them."""
    if last is None:
        return workflow.root
    while (around := workflow.home(last)) is not None:
        last = around
    return upto(workflow.root, last)


def upto(region: Region, block: str) -> Region:
    """Of a region what leads to a block, and that block itself."""
    kept, behind = {block}, [block]
    while behind:
        for edge in region.incoming.get(behind.pop(), ()):
            if edge.source not in kept:
                kept.add(edge.source)
                behind.append(edge.source)
    edges = [
        edge for found in region.outgoing.values() for edge in found if {edge.source, edge.target} <= kept
    ]
    return Region(
        tuple(name for name in region.blocks if name in kept),
        grouped(edges, lambda edge: edge.target),
        grouped(edges, lambda edge: edge.source),
        tuple(name for name in region.entries if name in kept),
        region.leaves,
    )

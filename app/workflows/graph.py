"""Rules on how blocks hang together: one entry, everything reachable, no cycle. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from app.errors import Problem
from app.schemas.paths import join
from app.workflows.compiled import Edge
from plugins.spec.blocks import BlockType


def grouped(edges: Iterable[Edge], key: Callable[[Edge], str]) -> dict[str, tuple[Edge, ...]]:
    """Edges by ``key``, each group in document order."""
    groups: dict[str, list[Edge]] = {}
    for edge in edges:
        groups.setdefault(key(edge), []).append(edge)
    return {name: tuple(group) for name, group in groups.items()}


def check(
    places: Mapping[str, str],
    types: Mapping[str, BlockType | None],
    edges: Mapping[str, Edge],
    leading_back: Callable[[str, Iterable[Edge]], Collection[Edge]] = lambda entry, edges: (),
) -> tuple[str | None, list[Problem]]:
    """The entry block and what is wrong with the graph.

    :param places: JSON path of each block by id. :param types: None for a type nobody knows.
    :param edges: by JSON path; none of them dangles.
    :param leading_back: the edges by which loops' bodies return to them: the only legal cycles.
    """
    problems = []
    entry, more = _entry(places, types, edges)
    back = leading_back(entry, edges.values()) if entry is not None else ()
    cycle = _cycle(types, {path: edge for path, edge in edges.items() if edge not in back})
    if cycle:
        path, loop = cycle
        ring = " → ".join(loop)
        problems.append(Problem(path, f"closes a cycle ({ring}); {_way_back(types[loop[-1]], loop[-1])}"))
    problems += more
    if entry is not None:
        reached = _reachable(entry, edges.values())
        for block, path in places.items():
            if block not in reached:
                problems.append(
                    Problem(
                        path, f'"{block}" cannot be reached from "{entry}"; add an edge to it or remove it'
                    )
                )
    return entry, problems


def _way_back(kind: BlockType | None, block: str) -> str:
    """Which edges may lead back to a block."""
    if kind is None or not kind.returns:
        return "edges may lead back only in a loop block"
    handles = " or ".join(kind.returns)
    return f'edges may lead back to "{block}" only from blocks that no way leads to but its handle {handles}'


def _entry(
    places: Mapping[str, str], types: Mapping[str, BlockType | None], edges: Mapping[str, Edge]
) -> tuple[str | None, list[Problem]]:
    starts = [block for block in places if (kind := types[block]) is not None and kind.entry]
    if starts:
        problems = [
            Problem(
                join(places[block], "type"), f'"{starts[0]}" starts the run already; a workflow has one entry'
            )
            for block in starts[1:]
        ]
        for path, edge in edges.items():
            if edge.target in starts:
                message = f'"{edge.target}" starts the run; no edge may lead to it'
                problems.append(Problem(join(path, "target"), message))
        return starts[0], problems
    targets = {edge.target for edge in edges.values()}
    roots = [block for block in places if block not in targets]
    if len(roots) == 1:
        return roots[0], []
    if not roots:
        return None, [
            Problem("blocks", "there is no entry: every block has an edge into it. Add a start block")
        ]
    names = ", ".join(f'"{root}"' for root in roots[:10])
    cure = "add a start block with edges to those that shall run, or connect them"
    return None, [Problem("blocks", f"a workflow has one entry, but nothing leads to {names}; {cure}")]


def _reachable(entry: str, edges: Iterable[Edge]) -> set[str]:
    outgoing = grouped(edges, lambda edge: edge.source)
    reached = {entry}
    stack = [entry]
    while stack:
        for edge in outgoing.get(stack.pop(), ()):
            if edge.target not in reached:
                reached.add(edge.target)
                stack.append(edge.target)
    return reached


def _cycle(blocks: Iterable[str], edges: Mapping[str, Edge]) -> tuple[str, list[str]] | None:
    """The path of an edge that closes a cycle, and the ids around it; None when there is none."""
    outgoing: dict[str, list[tuple[str, str]]] = {}
    for path, edge in edges.items():
        outgoing.setdefault(edge.source, []).append((path, edge.target))
    done: set[str] = set()
    for root in blocks:
        trail: dict[str, int] = {}
        stack = [(root, iter(outgoing.get(root, ())))] if root not in done else []
        while stack:
            block, rest = stack[-1]
            trail.setdefault(block, len(trail))
            step = next(rest, None)
            if step is None:
                stack.pop()
                trail.pop(block)
                done.add(block)
            elif step[1] in trail:
                around = list(trail)
                return step[0], [*around[around.index(step[1]) :], step[1]]
            elif step[1] not in done:
                stack.append((step[1], iter(outgoing.get(step[1], ()))))
    return None

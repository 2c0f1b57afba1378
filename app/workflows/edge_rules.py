"""Rules on edges and what hangs on them: handles, bodies, where a run may enter. Pure.

Law of this room: each rule is one function from what was compiled to its problems, as JSON path and cure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from app.errors import Problem
from app.schemas.paths import did_you_mean, join, shown
from app.workflows.compiled import CompiledBlock, Edge
from plugins.spec.blocks import BlockType


def handle(edge: Edge, block_type: BlockType | None, path: str) -> Iterator[Problem]:
    """A handle that the source's type does not have."""
    if block_type is None or edge.handle in block_type.handles:
        return
    if any(handle.endswith(":") and edge.handle.startswith(handle) for handle in block_type.handles):
        return  # which names there are depends on the config: see named_handles
    named = [f"{name}<name>" if name.endswith(":") else name for name in block_type.handles if name]
    plain = "; leave it out for the plain edge" if "" in block_type.handles else ""
    near = did_you_mean(edge.handle, named)
    subject = f"{shown(edge.handle)} is no handle" if edge.handle else "is required: there is no plain edge"
    yield Problem(path, f"{subject} of the type {block_type.type_name}{plain}. {near}".rstrip())


def named_handles(edges: Mapping[str, Edge], blocks: Sequence[CompiledBlock]) -> Iterator[Problem]:
    """Handles that depend on a config, such as a router's routes: those it does not name are never taken."""
    named = {b.id: (b.type, b.type.named(b.config)) for b in blocks if b.type.named is not None}
    for path, edge in edges.items():
        if edge.source not in named:
            continue
        kind, handles = named[edge.source]
        if edge.handle in handles or not (":" in edge.handle or edge.handle in kind.returns):
            continue
        near = did_you_mean(edge.handle, handles)
        yield Problem(
            join(path, "source_handle"),
            f"{shown(edge.handle)} is not named by {edge.source}'s config. {near}",
        )


def needed_handles(edges: Mapping[str, Edge], blocks: Sequence[CompiledBlock | None]) -> Iterator[Problem]:
    """Handles that a config cannot do without an edge for."""
    there = {(edge.source, edge.handle) for edge in edges.values()}
    for index, block in enumerate(blocks):
        if block is None:
            continue
        needs = block.type.needs(block.config) if block.type.needs is not None else ()
        for handle in needs:
            if (block.id, handle) not in there:
                cure = f"add an edge from it with source_handle {handle}"
                yield Problem(join("blocks", index), f'"{block.id}" leads nowhere by {handle}; {cure}')
        if block.on_error == "continue" and block.onward is None and (block.id, "error") not in there:
            yield Problem(
                join("blocks", index, "config", "on_error"),
                f"a {block.type.type_name} that failed has not chosen a way to continue by; add an edge from it with "
                "source_handle error instead",
            )


def bodies(
    inside: Mapping[tuple[str, str], frozenset[str]],
    types: Mapping[str, BlockType | None],
    edges: Mapping[str, Edge],
) -> Iterator[Problem]:
    """A body that returns to its container has blocks, and no other way out."""
    places = {edge.source: path for path, edge in edges.items()}
    for (container, handle), body in inside.items():
        kind = types[container]
        if kind is None or handle not in kind.returns:
            continue
        if not body:
            where = places.get(container, "blocks")
            yield Problem(
                where,
                f'"{container}" has no body; add an edge with source_handle {handle} to its first block',
            )
        for path, edge in edges.items():
            if edge.source in body and edge.target not in body and edge.target != container:
                message = f'leaves the body of "{container}"; lead back to it, and go on from its exit'
                yield Problem(join(path, "target"), message)


def captures(
    inside: Mapping[tuple[str, str], frozenset[str]], blocks: Sequence[CompiledBlock | None]
) -> Iterator[Problem]:
    """A run enters at a block that keeps its thread, and no run can enter inside a loop or branch."""
    bodies = frozenset().union(*inside.values())
    for index, block in enumerate(blocks):
        if block is not None and block.id in bodies and getattr(block.config, "capture", False):
            path = join("blocks", index, "config", "capture")
            yield Problem(
                path, "only an agent outside of loops and branches can keep the thread; leave it out"
            )

"""The scheduler: which blocks of a region start, which are skipped, when the region is over. Pure.

Law of this room: one function over region and rows; no greenlets, clock, network or store. A block is ready when all
its incoming edges are taken or dead and one is taken; it is skipped when all are dead, so dead paths propagate and
joins never hang. The way into a region counts as taken. A loop or parallel block is one block here; what it runs is a
region of its own.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping

import msgspec

from app.workflows.compiled import Region

BlockOutcome = t.Literal["running", "executed", "failed", "skipped"]


class BlockRow(msgspec.Struct, frozen=True):
    """What is known of a block. ``handles``: those its end took (``""``, ``error``, ``true``, ``branch:a`` …).
    ``output``: that of one that was executed.
    """

    outcome: BlockOutcome
    handles: frozenset[str] = frozenset()
    output: t.Any = None


class Start(msgspec.Struct, frozen=True):
    """Run this block now."""

    block: str


class Skip(msgspec.Struct, frozen=True):
    """No path leads to this block any more."""

    block: str


class Finished(msgspec.Struct, frozen=True):
    """Nothing is left to run. ``last``: the blocks reached last, in document order; their outputs are the region's."""

    last: tuple[str, ...]


Action = Start | Skip | Finished


def next_steps(
    region: Region, rows: Mapping[str, BlockRow], among: Collection[str] | None = None
) -> list[Action]:
    """What to do next, in document order; empty while blocks run and nothing else is ready.

    :param among: blocks with a way to them that has become known since this was asked last; None: look at all.
    """
    actions: list[Action] = []
    if among is None:
        among = region.blocks
    elif len(among) > 1:
        among = sorted(among, key=region.blocks.index)
    for block in among:
        if block in rows:
            continue
        states = [_edge_state(rows, edge.source, edge.handle) for edge in region.incoming.get(block, ())]
        if None in states:
            continue
        if True in states or block in region.entries:
            actions.append(Start(block))
        else:
            actions.append(Skip(block))
    if len(rows) == len(region.blocks) and all(row.outcome != "running" for row in rows.values()):
        return [Finished(_last_reached(region, rows))]
    return actions


def taken(rows: Mapping[str, BlockRow], source: str, handle: str) -> bool:
    """Whether a settled region took this edge."""
    return _edge_state(rows, source, handle) is True


def _edge_state(rows: Mapping[str, BlockRow], source: str, handle: str) -> bool | None:
    """True taken, False dead, None not known yet."""
    row = rows.get(source)
    if row is None or row.outcome == "running":
        return None
    return row.outcome != "skipped" and handle in row.handles


def _last_reached(region: Region, rows: Mapping[str, BlockRow]) -> tuple[str, ...]:
    last = []
    for block in region.blocks:
        if rows[block].outcome != "executed":
            continue
        edges = region.outgoing.get(block, ())
        if not any(_edge_state(rows, block, e.handle) and rows[e.target].outcome != "skipped" for e in edges):
            last.append(block)
    return tuple(last)

"""The scheduler: which blocks start, which are skipped, when the run is over. Pure.

Law of this room: one function over document and rows; no greenlets, clock, network or store. A block
is ready when all its incoming edges are taken or dead and one is taken; it is skipped when all are
dead, so dead paths propagate and joins never hang.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

import msgspec

from app.workflows.compiled import CompiledWorkflow

BlockOutcome = t.Literal["running", "executed", "failed", "skipped"]


class BlockRow(msgspec.Struct, frozen=True):
    """What is known of a block. ``handle``: the source handle its end took (``""``, ``error``, ``true`` …)."""

    outcome: BlockOutcome
    handle: str = ""


class Start(msgspec.Struct, frozen=True):
    """Run this block now."""

    block: str


class Skip(msgspec.Struct, frozen=True):
    """No path leads to this block any more."""

    block: str


class Finished(msgspec.Struct, frozen=True):
    """Nothing is left to run. ``last``: the blocks reached last, in document order; their outputs are the run's."""

    last: tuple[str, ...]


Action = Start | Skip | Finished


def next_steps(workflow: CompiledWorkflow, rows: Mapping[str, BlockRow]) -> list[Action]:
    """What to do next, in document order; empty while blocks run and nothing else is ready."""
    actions: list[Action] = []
    unsettled = False
    for block in workflow.blocks:
        row = rows.get(block)
        if row is not None:
            unsettled = unsettled or row.outcome == "running"
            continue
        unsettled = True
        states = [_edge_state(rows, edge.source, edge.handle) for edge in workflow.incoming.get(block, ())]
        if None in states:
            continue
        if block == workflow.entry or True in states:
            actions.append(Start(block))
        else:
            actions.append(Skip(block))
    if not unsettled:
        return [Finished(_last_reached(workflow, rows))]
    return actions


def _edge_state(rows: Mapping[str, BlockRow], source: str, handle: str) -> bool | None:
    """True taken, False dead, None not known yet."""
    row = rows.get(source)
    if row is None or row.outcome == "running":
        return None
    return row.outcome != "skipped" and row.handle == handle


def _last_reached(workflow: CompiledWorkflow, rows: Mapping[str, BlockRow]) -> tuple[str, ...]:
    last = []
    for block in workflow.blocks:
        if rows[block].outcome != "executed":
            continue
        edges = workflow.outgoing.get(block, ())
        if not any(_edge_state(rows, block, e.handle) and rows[e.target].outcome != "skipped" for e in edges):
            last.append(block)
    return tuple(last)

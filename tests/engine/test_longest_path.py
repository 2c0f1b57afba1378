"""Branches of any length do not wait for one another: a run takes as long as its longest path, to the millisecond.

The time is a virtual one, so what is compared are whole numbers. The path is computed from the document alone: a block
starts when the last of the ways to it is known, dead ones included, and a body takes as long as its own longest path.
"""

from __future__ import annotations

import heapq
import typing as t
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import events as ev
from app.engine.services import Services
from plugins.hookspecs import hookimpl
from plugins.spec.blocks import BlockContext, BlockType
from tests.engine.order_oracle import disorder
from tests.engine.random_runs import MANY
from tests.support.engine import services, start
from tests.support.graphs import graph
from tests.support.virtual_clock import VirtualClock

pytestmark = pytest.mark.timeout(600)


@dataclass(frozen=True, slots=True)
class WorkConfig:
    """Works for so many milliseconds, then goes on by ``ways``."""

    ms: int = field(metadata={"doc": "How long."})
    ways: tuple[str, ...] = field(default=(), metadata={"doc": "Handles."})


def _work(context: BlockContext, config: WorkConfig) -> Mapping[str, t.Any]:
    context.sleep(config.ms / 1000)
    context.take(*(way or "" for way in config.ways))
    return {"ways": list(config.ways)}


WORK = BlockType("work", WorkConfig, _work, "Takes time.", handles=("", "left", "right", "error"))


class Plugin:
    @hookimpl
    def block_types(self) -> list[BlockType]:
        return [WORK]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with services(tmp_path_factory.mktemp("path"), plugins=(Plugin(),)) as opened:
        yield opened


Block = tuple[str, str, dict[str, t.Any]]


@dataclass
class Drawn:
    """Blocks and edges that were drawn, and how long each block takes once it has started.

    ``took``: by block. ``taken``: the ways on by which it goes. ``heads``: blocks that the way into a body leads to.
    """

    blocks: list[Block] = field(default_factory=list)
    edges: list[tuple[str, str, str]] = field(default_factory=list)
    took: dict[str, int] = field(default_factory=dict)
    taken: dict[str, frozenset[str]] = field(default_factory=dict)

    def document(self) -> dict[str, t.Any]:
        lines = [
            f"{source} -{handle}> {target}" if handle else f"{source} > {target}"
            for source, handle, target in self.edges
        ]
        return graph(self.blocks, *lines)


class _Author:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.made = Drawn()

    def region(self, head: tuple[str, str], depth: int) -> tuple[int, list[str]]:
        """Draws the blocks behind a way in: how long they take, and those without a way on."""
        ended: dict[str, int | None] = {}
        names: list[str] = []
        for place in range(self.draw(st.integers(1, 7 - 2 * depth))):
            name = f"b{len(self.made.blocks)}"
            self.made.blocks.append((name, "", {}))
            sources = [head] if not place or self.draw(st.integers(0, 9)) > 8 else []
            for other in (
                self.draw(st.lists(st.sampled_from(names), max_size=3, unique=True)) if names else ()
            ):
                sources.append((other, self.draw(st.sampled_from(self.ways(other)))))
            sources = list(dict.fromkeys(sources or [head]))
            self.made.edges += [(source, handle, name) for source, handle in sources]
            self.block(name, depth)
            names.append(name)
            ended[name] = self.ends(name, sources, head, ended)
        leading = {source for source, _, _ in self.made.edges}
        return max(at or 0 for at in ended.values()), [name for name in names if name not in leading]

    def ways(self, name: str) -> list[str]:
        kind = next(kind for found, kind, _ in self.made.blocks if found == name)
        return ["", "left", "right"] if kind == "work" else ["exit"]

    def ends(
        self, name: str, sources: list[tuple[str, str]], head: tuple[str, str], ended: dict[str, t.Any]
    ) -> int:
        """When a block has ended, or is known to be skipped; 0 is when the way in was taken."""
        made = self.made
        starts = max((ended[source] for source, _ in sources if (source, _) != head), default=0)
        runs = any((s, h) == head or h in made.taken[s] for s, h in sources)
        if not runs:
            made.taken[name] = frozenset()
            return int(starts)
        return int(starts) + made.took[name]

    def block(self, name: str, depth: int) -> None:
        made, draw = self.made, self.draw
        kind = draw(
            st.sampled_from(["work", "work", "work", *(["loop", "items", "branches"] if depth < 3 else [])])
        )
        place = next(n for n, (found, _, _) in enumerate(made.blocks) if found == name)
        config: dict[str, t.Any]
        if kind == "work":
            ways = draw(st.lists(st.sampled_from(["", "left", "right"]), unique=True, min_size=1))
            config = {"ms": draw(st.integers(0, 50)), "ways": ways}
            made.took[name], made.taken[name] = config["ms"], frozenset(ways)
        else:
            config, made.took[name] = self.container(name, kind, depth, place)
            made.taken[name] = frozenset({"exit"})
        made.blocks[place] = (name, {"items": "parallel", "branches": "parallel"}.get(kind, kind), config)

    def container(self, name: str, kind: str, depth: int, place: int) -> tuple[dict[str, t.Any], int]:
        draw, made = self.draw, self.made
        made.blocks[place] = (name, "container", {})
        branches: list[str] = []
        if kind == "branches":
            branches = ["x", "y", "z"][: draw(st.integers(1, 3))]
            lengths = [self.region((name, f"branch:{branch}"), depth + 1)[0] for branch in branches]
        else:
            length, last = self.region((name, "loop"), depth + 1)
            made.edges += [(block, self.ways(block)[0], name) for block in last]
            lengths = [length] * draw(st.integers(0, 4))
        if kind == "loop":
            return {"kind": "for", "times": len(lengths)}, sum(lengths)
        config: dict[str, t.Any] = (
            {"branches": branches} if kind == "branches" else {"items": list(range(len(lengths)))}
        )
        limit = draw(st.none() | st.integers(1, 3))
        return config | ({"max_concurrency": limit} if limit else {}), _in_lanes(
            lengths, limit or len(lengths)
        )


def _in_lanes(lengths: list[int], lanes: int) -> int:
    """How long jobs take of which so many run at once, the next one where first a place is free."""
    free = [0] * lanes
    for length in lengths:
        heapq.heapreplace(free, free[0] + length)
    return max(free, default=0)


@st.composite
def drawings(draw: st.DrawFn) -> tuple[Drawn, int]:
    """A workflow and how long it takes."""
    author = _Author(draw)
    length, _ = author.region(("start", ""), 0)
    return author.made, length


@settings(MANY, max_examples=200)
@given(drawings())
def test_a_run_takes_as_long_as_its_longest_path(made: Services, drawn: tuple[Drawn, int]) -> None:
    workflow, length = drawn
    made.clock = clock = VirtualClock()
    document = workflow.document()
    run, recorder = start(made, document)
    clock.run_until(run.done)
    end = recorder.envelopes[-1]
    assert isinstance(end.event, ev.RunCompleted)
    assert disorder(document, {}, recorder.envelopes) == []
    assert end.ts - recorder.envelopes[0].ts == length


def test_a_short_branch_does_not_wait_for_a_long_one(made: Services) -> None:
    """Level by level this would take 10 + 10 + 10, since each level has one that takes 10."""
    work = [
        ("a1", 1),
        ("a2", 10),
        ("a3", 1),
        ("b1", 10),
        ("b2", 1),
        ("b3", 1),
        ("c1", 1),
        ("c2", 1),
        ("c3", 10),
    ]
    blocks = [(name, "work", {"ms": ms, "ways": [""]}) for name, ms in work]
    edges = [f"{lane}{n} > {lane}{n + 1}" for lane in "abc" for n in (1, 2)]
    made.clock = clock = VirtualClock()
    run, recorder = start(made, graph(blocks, "start > a1", "start > b1", "start > c1", *edges))
    clock.run_until(run.done)
    assert recorder.envelopes[-1].ts == 12

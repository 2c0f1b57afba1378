"""Which time round a block runs: the iteration of the innermost loop it lies in, by what the run tells. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from app.events import BlockInfo, LoopIteration
from app.state import plain

_LOOP = "loop"
_INDEXES = re.compile(r"(?:\[\d+\])+\Z")


class Loops:
    """The loops of a run and of what it runs of other workflows."""

    __slots__ = ("_around", "_turns")

    def __init__(self) -> None:
        #: Loops a block lies in, from the inside out, by paths without indexes.
        self._around: dict[str, tuple[str, ...]] = {}
        self._turns: dict[str, int] = {}

    def add(self, base: str, blocks: Iterable[BlockInfo], edges: Iterable[tuple[str, str, str]]) -> None:
        """A graph is known. :param base: before the ids of its blocks."""
        base, drawn = plain(base), list(edges)
        bodies = {info.id: _body(info.id, drawn) for info in blocks if info.type == _LOOP}
        if not bodies:
            return
        for block in set().union(*bodies.values()):
            around = [loop for loop, body in bodies.items() if block in body]
            self._around[base + block] = tuple(
                base + loop for loop in sorted(around, key=lambda loop: len(bodies[loop]))
            )

    def turn(self, event: LoopIteration) -> None:
        """A loop goes round once more, or is over."""
        if event.path == "loop":
            self._turns[event.block] = event.iteration
        else:
            self._turns.pop(event.block, None)

    def iteration(self, block: str) -> int | None:
        """The iteration in which a block instance runs; None outside of loops."""
        for loop in self._around.get(plain(block), ()):
            for name in _instances(loop, block):
                if name in self._turns:
                    return self._turns[name]
        return None


def _body(loop: str, edges: list[tuple[str, str, str]]) -> set[str]:
    """What lies behind the body's handle of a loop."""
    found: set[str] = set()
    behind = [target for source, handle, target in edges if source == loop and handle == _LOOP]
    while behind:
        block = behind.pop()
        if block != loop and block not in found:
            found.add(block)
            behind += [target for source, _, target in edges if source == block]
    return found


def _instances(loop: str, block: str) -> Iterator[str]:
    """The instances of a loop in which an instance of a block may lie, the innermost first."""
    above, _, _ = block.rpartition("/")
    name = f"{above}/{loop.rpartition('/')[2]}" if above else loop
    found = _INDEXES.search(block)
    suffix = found[0] if found else ""
    while suffix:
        yield name + suffix
        suffix = suffix[: suffix.rindex("[")]
    yield name

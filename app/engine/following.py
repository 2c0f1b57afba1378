"""What a run that was stopped would have done next. Pure.

Law of this room: the scheduler itself is asked, with everything that was going on taken as ended well. Which way a
block that chooses would have gone nobody knows, so all its ways are named; failures are not expected.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from app.engine.frames import Frame
from app.engine.scheduler import BlockRow, Skip, Start, next_steps
from app.workflows.compiled import Region


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A region that was being run when the run was stopped, and what is known of its blocks."""

    region: Region
    rows: Mapping[str, BlockRow]
    frame: Frame


@dataclass(frozen=True, slots=True)
class Bodies:
    """What a block that runs bodies had yet to run when it was stopped.

    :ivar decides: it decides after each what comes next, as a loop does; then ``due`` is empty.
    :ivar due: bodies it had not begun, in order. :ivar max_concurrency: most that run at the same time.
    """

    decides: bool
    due: Sequence[Interrupted] = ()
    max_concurrency: int = 0


@dataclass(slots=True)
class Standing:
    """How a run stood when it was stopped. ``bodies``: by the instance that runs them."""

    regions: list[Interrupted] = field(default_factory=list)
    bodies: dict[str, Bodies] = field(default_factory=dict)


def following(standing: Standing, open_blocks: Collection[str], order: Sequence[str]) -> tuple[str, ...]:
    """Instances that would have started next, in document order.

    A loop that nothing goes on in is named itself: it would have decided what comes next.

    :param open_blocks: instances that were running. :param order: ids of the document's blocks.
    """
    by_owner: dict[str | None, list[Interrupted]] = {}
    for going in standing.regions:
        by_owner.setdefault(going.frame.owner, []).append(going)
    look = _Look(by_owner, standing.bodies, open_blocks)
    found = [name for root in by_owner.get(None, ()) for name in look.at(root)]
    places = {block: place for place, block in enumerate(order)}

    def place(name: str) -> tuple[int, str]:
        return places.get(name.partition("/")[0].partition("[")[0], len(places)), name

    return tuple(sorted(set(found), key=place))


class _Look:
    def __init__(
        self,
        by_owner: Mapping[str | None, list[Interrupted]],
        bodies: Mapping[str, Bodies],
        open_blocks: Collection[str],
    ) -> None:
        self._by_owner = by_owner
        self._bodies = bodies
        self._open = open_blocks

    def at(self, going: Interrupted) -> list[str]:
        """What comes next in one region, and in the bodies that its blocks were running."""
        region, name = going.region, going.frame.name
        rows = {block: row for block, row in going.rows.items() if row.outcome != "running"}
        found: list[str] = []
        for block in region.blocks:
            if name(block) not in self._open:
                continue
            inner = self._inside(name(block))
            found += inner
            # A container whose body goes on is not over; anything else is taken as having ended well.
            rows[block] = BlockRow("running") if inner else BlockRow("executed", _ways(region, block))
        return found + [name(block) for block in _starts(region, rows)]

    def _inside(self, owner: str) -> list[str]:
        going = [self.at(body) for body in self._by_owner.get(owner, [])]
        more = self._bodies.get(owner)
        if more is not None:
            free = more.max_concurrency - sum(map(bool, going))
            going += [self.at(body) for body in more.due[:free]]
        found = [name for each in going for name in each]
        return found or ([owner] if more is not None and more.decides else [])


def _ways(region: Region, block: str) -> frozenset[str]:
    return frozenset(edge.handle for edge in region.outgoing.get(block, ()) if edge.handle != "error")


def _starts(region: Region, rows: dict[str, BlockRow]) -> list[str]:
    """What the scheduler would start, after what it would skip."""
    while True:
        steps = next_steps(region, rows)
        skips = [step.block for step in steps if isinstance(step, Skip)]
        if not skips:
            return [step.block for step in steps if isinstance(step, Start)]
        rows.update({block: BlockRow("skipped") for block in skips})

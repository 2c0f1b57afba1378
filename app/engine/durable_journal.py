"""The journal of a durable run: the same rows, and which of them are yet to be stored.

Law of this room: no store here. What was written between two looks is handed over as one piece; what could not be
stored is written again.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable

import msgspec

from app.agents import hashes, rows
from app.engine.giving_way import give_way
from app.engine.journal import Journal, Step
from app.engine.replay import BlockEnd
from app.store.checkpoints import Forgotten, StepRow
from plugins.spec.journal import StepKind, StepState

if t.TYPE_CHECKING:
    from app.store.sealing import Box

#: Rows that are read in one turn of the hub.
_SLICE = 500
#: Path, execution, turn and key.
Key = tuple[str, int, int, str]


class Unsaved(t.NamedTuple):
    """What of a journal is yet to be stored."""

    steps: tuple[StepRow, ...]
    forgotten: tuple[Forgotten, ...]


class DurableJournal(Journal):
    """See the module.

    :param changed: called whenever there is something to store. Must not switch greenlets.
    :param box: seals the values, of a run that may not show all it knows; None: they are stored as they are.
    """

    def __init__(self, changed: Callable[[], None], box: Box | None = None) -> None:
        super().__init__()
        self._changed = changed
        self._box = box
        self._positions: dict[Key, int] = {}
        self._next = 0
        self._dirty: dict[Key, Step] = {}
        self._forgotten: list[Forgotten] = []
        #: Rows of an earlier process that nobody has written since.
        self._restored: set[Key] = set()

    def restore(self, stored: Iterable[StepRow]) -> None:
        """Take over what an earlier process wrote, in order of first writing.

        :raises msgspec.MsgspecError: a value is not what its kind says. :raises SecretsLocked: it was sealed with a
            key that is not here.
        """
        for place, row in enumerate(stored, 1):
            if not place % _SLICE:
                give_way()  # other runs go on meanwhile, however long this one is
            key = row.path, row.execution, row.turn, row.key
            kind, state = t.cast(StepKind, row.kind), t.cast(StepState, row.state)
            value = None if row.value is None else self._unpacked(kind, row.value)
            super().write(*key, kind, state, value, row.input_hash)
            self._positions[key] = row.position
            self._next = max(self._next, row.position + 1)
            self._restored.add(key)

    def write(
        self,
        path: str,
        execution: int,
        turn: int,
        key: str,
        kind: StepKind,
        state: StepState,
        value: t.Any = None,
        input_hash: str | None = None,
    ) -> Step:
        """Insert or replace the row of that key.

        :raises RunError: ``journal_mismatch``: an earlier process wrote it for another step.
        """
        place = path, execution, turn, key
        if place in self._restored:
            self._check(place, input_hash)
        step = super().write(path, execution, turn, key, kind, state, value, input_hash)
        if place not in self._positions:
            self._positions[place] = self._next
            self._next += 1
        self._dirty[place] = step
        self._changed()
        return step

    def forget(self, path: str, execution: int) -> None:
        """Drop the rows of one part of an execution."""
        dropped = self._steps.pop((path, execution), None)
        if not dropped:
            return
        for turn, key in dropped:
            place = path, execution, turn, key
            self._dirty.pop(place, None)
            self._restored.discard(place)
            del self._positions[place]
        self._forgotten.append(Forgotten(path, execution))
        self._changed()

    @property
    def dirty(self) -> bool:
        """Whether anything is to be stored."""
        return bool(self._dirty or self._forgotten)

    def take(self) -> Unsaved:
        """What is to be stored; it counts as stored from now on."""
        steps = tuple(
            StepRow(
                *place,
                step.kind,
                step.state,
                step.input_hash,
                self._packed(step.value),
                self._positions[place],
            )
            for place, step in self._dirty.items()
        )
        taken = Unsaved(steps, tuple(self._forgotten))
        self._dirty, self._forgotten = {}, []
        return taken

    def give_back(self, unsaved: Unsaved) -> None:
        """It could not be stored after all: what of it still holds is to be stored again."""
        self._forgotten[:0] = unsaved.forgotten
        gone = {(each.path, each.execution) for each in unsaved.forgotten}
        again = {(row.path, row.execution, row.turn, row.key) for row in unsaved.steps}
        # What was written since where something is yet to be dropped has to be written after that.
        again.update(place for place in self._positions if place[:2] in gone)
        for place in sorted(again & self._positions.keys(), key=self._positions.__getitem__):
            step = self.find(*place)
            if step is not None:
                self._dirty.setdefault(place, step)

    def _check(self, place: Key, input_hash: str | None) -> None:
        step = self.find(*place)
        if step is not None and input_hash is not None:
            hashes.check(step.input_hash, f"{place[0]} ({place[3]})", input_hash)
        self._restored.discard(place)

    def _packed(self, value: t.Any) -> bytes | None:
        if value is None:
            return None
        data = rows.packed(value)
        return data if self._box is None else self._box.seal(data)

    def _unpacked(self, kind: StepKind, data: bytes) -> t.Any:
        return _value(kind, data if self._box is None else self._box.open(data))


def _value(kind: StepKind, data: bytes) -> t.Any:
    return msgspec.msgpack.decode(data, type=BlockEnd) if kind == "block" else rows.unpacked(kind, data)

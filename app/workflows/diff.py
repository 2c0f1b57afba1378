"""What has changed between two workflow documents, by their structure.

Law of this room: pure, and for any two documents, also drafts that would not run. Blocks are the same when their ids
are, wherever they stand; edges when they are equal; values when they are the same JSON, member order aside. There is a
difference if, and only if, :func:`same` says so of the documents.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from app import encoding
from app.schemas.paths import Segment

Kind = t.Literal["added", "removed", "changed"]
#: Keys of a document that have a part of their own in a diff.
_PARTS = ("blocks", "edges", "variables", "settings")


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs.

    :ivar at: where it is: in the later document, or in the earlier one where it was removed.
    """

    kind: Kind
    at: tuple[Segment, ...]
    before: t.Any = None
    after: t.Any = None


@dataclass(frozen=True, slots=True)
class BlockChange:
    """A block that differs. ``block``: as it is later, or was earlier where it was removed; ``at``: its index there.

    :ivar changes: of one that is in both, what differs; their ``at`` begins with ``"blocks"`` and the index.
    """

    kind: Kind
    at: int
    block: t.Any
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class EdgeChange:
    """An edge that is in one of the documents."""

    kind: t.Literal["added", "removed"]
    at: int
    edge: t.Any


@dataclass(frozen=True, slots=True)
class DocumentDiff:
    """What makes the later document of the earlier one.

    :ivar blocks_reordered: the blocks that are in both stand in another order. :ivar edges_reordered: so for edges.
    :ivar document: of what has no part of its own, such as the name.
    """

    blocks: tuple[BlockChange, ...] = ()
    blocks_reordered: bool = False
    edges: tuple[EdgeChange, ...] = ()
    edges_reordered: bool = False
    variables: tuple[Change, ...] = ()
    settings: tuple[Change, ...] = ()
    document: tuple[Change, ...] = field(default=())

    @property
    def empty(self) -> bool:
        """Whether the documents are the same."""
        return self == DocumentDiff()


def same(before: t.Any, after: t.Any) -> bool:
    """Whether two values are the same JSON: ``1``, ``1.0`` and ``true`` are three; the order of members is none."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return before.keys() == after.keys() and all(same(value, after[key]) for key, value in before.items())
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(same, before, after))
    return type(before) is type(after) and bool(before == after)


def diff(before: Mapping[str, t.Any], after: Mapping[str, t.Any]) -> DocumentDiff:
    """What has changed from one document to another."""
    parts = [part for part in _PARTS if _comparable(part, before, after)]
    blocks, blocks_reordered = _blocks(before, after) if "blocks" in parts else ((), False)
    edges, edges_reordered = _edges(before, after) if "edges" in parts else ((), False)
    return DocumentDiff(
        blocks=blocks,
        blocks_reordered=blocks_reordered,
        edges=edges,
        edges_reordered=edges_reordered,
        variables=_part("variables", before, after) if "variables" in parts else (),
        settings=_part("settings", before, after) if "settings" in parts else (),
        document=tuple(
            changes(
                {key: value for key, value in before.items() if key not in parts},
                {key: value for key, value in after.items() if key not in parts},
            )
        ),
    )


def changes(before: t.Any, after: t.Any, at: tuple[Segment, ...] = ()) -> Iterator[Change]:
    """What differs between two values, as deep inside as it can be said."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            if key not in after:
                yield Change("removed", (*at, key), before=before[key])
            elif key not in before:
                yield Change("added", (*at, key), after=after[key])
            else:
                yield from changes(before[key], after[key], (*at, key))
    elif isinstance(before, list) and isinstance(after, list):
        yield from _items(before, after, at)
    elif not same(before, after):
        yield Change("changed", at, before, after)


def _items(before: list[t.Any], after: list[t.Any], at: tuple[Segment, ...]) -> Iterator[Change]:
    """What differs between two lists: between what they begin and end with alike, place by place."""
    most = min(len(before), len(after))
    start = next((place for place in range(most) if not same(before[place], after[place])), most)
    end = next((n for n in range(most - start) if not same(before[-1 - n], after[-1 - n])), most - start)
    both = most - end
    for place in range(start, both):
        yield from changes(before[place], after[place], (*at, place))
    for place in range(both, len(before) - end):
        yield Change("removed", (*at, place), before=before[place])
    for place in range(both, len(after) - end):
        yield Change("added", (*at, place), after=after[place])


def _comparable(part: str, before: Mapping[str, t.Any], after: Mapping[str, t.Any]) -> bool:
    """Whether a part can be compared as what it is: both documents have it, and in its shape."""
    kind = list if part in ("blocks", "edges") else Mapping
    return all(isinstance(document.get(part), kind) for document in (before, after))


def _part(name: str, before: Mapping[str, t.Any], after: Mapping[str, t.Any]) -> tuple[Change, ...]:
    return tuple(changes(before[name], after[name], (name,)))


def _blocks(before: Mapping[str, t.Any], after: Mapping[str, t.Any]) -> tuple[tuple[BlockChange, ...], bool]:
    old, new = _by_id(before["blocks"]), _by_id(after["blocks"])
    found = [BlockChange("removed", at, block) for key, (at, block) in old.items() if key not in new]
    for key, (at, block) in new.items():
        if key not in old:
            found.append(BlockChange("added", at, block))
            continue
        inner = tuple(changes(old[key][1], block, ("blocks", at)))
        if inner:
            found.append(BlockChange("changed", at, block, inner))
    return tuple(found), [key for key in old if key in new] != [key for key in new if key in old]


def _by_id(blocks: Sequence[t.Any]) -> dict[tuple[str, int], tuple[int, t.Any]]:
    """Blocks with their index, by id and by how many of that id came before: a draft may have several, or none."""
    seen: Counter[str] = Counter()
    found = {}
    for place, block in enumerate(blocks):
        given = block.get("id") if isinstance(block, Mapping) else None
        id_ = given if isinstance(given, str) else ""
        found[id_, seen[id_]] = place, block
        seen[id_] += 1
    return found


def _edges(before: Mapping[str, t.Any], after: Mapping[str, t.Any]) -> tuple[tuple[EdgeChange, ...], bool]:
    old, new = list(map(_spelled, before["edges"])), list(map(_spelled, after["edges"]))
    kept_of_old, removed = _shared(old, new)
    kept_of_new, added = _shared(new, old)
    found = [
        *(EdgeChange("removed", place, before["edges"][place]) for place in removed),
        *(EdgeChange("added", place, after["edges"][place]) for place in added),
    ]
    return tuple(found), kept_of_old != kept_of_new


def _shared(edges: list[bytes], others: list[bytes]) -> tuple[list[bytes], list[int]]:
    """Those that are among ``others`` too, in order, and the indexes of the rest."""
    left = Counter(others)
    shared, rest = [], []
    for place, edge in enumerate(edges):
        if left[edge]:
            left[edge] -= 1
            shared.append(edge)
        else:
            rest.append(place)
    return shared, rest


def _spelled(value: t.Any) -> bytes:
    """Equal for values that are :func:`same`."""
    return encoding.dumps(_sorted(value))


def _sorted(value: t.Any) -> t.Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value

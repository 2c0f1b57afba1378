"""Vectors beside one another, and which of them are nearest to one.

Law of this room: computing only, in a thread of the store's own; numpy is imported there, by the first search, and
nowhere else. The search is exact: every vector is looked at, and the nearest are the nearest.
"""

from __future__ import annotations

import heapq
import typing as t
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

if t.TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Mixed(Exception):
    """Vectors of different lengths cannot be compared."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some vectors of unit length as one matrix, and whose they are."""

    ids: NDArray[np.int64]
    matrix: NDArray[np.float32]

    @property
    def size(self) -> int:
        """Bytes."""
        return int(self.ids.nbytes + self.matrix.nbytes)


def page(rows: Sequence[tuple[int, bytes]]) -> Page:
    """Rows of an id and a vector, little endian.

    :raises Mixed: they are not all of one length.
    """
    import numpy as np

    vectors = [vector for _, vector in rows]
    if len({len(vector) for vector in vectors}) != 1:
        raise Mixed
    matrix = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1)
    return Page(np.array([number for number, _ in rows], dtype=np.int64), matrix)


def nearest(pages: Iterable[Page], vector: bytes, limit: int) -> list[tuple[float, int]]:
    """The ids of the ``limit`` nearest vectors with their cosine, nearest first; of equals the lower id.

    :param vector: of unit length, as :func:`page` takes them.
    :raises Mixed: it is of another length than they are.
    """
    import numpy as np

    wanted = np.frombuffer(vector, dtype="<f4")
    found: list[tuple[float, int]] = []
    for each in pages:
        if each.matrix.shape[1] != wanted.shape[0]:
            raise Mixed
        # Not "@": that is done by several threads, which wait for one another busily. Where the processors have other
        # work, too, they take ten times as long.
        scores = np.einsum("ij,j->i", each.matrix, wanted)
        if len(scores) > limit:  # equals at the edge all come along, so that ids decide between them
            edge = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            places = np.flatnonzero(scores >= edge)
        else:
            places = np.arange(len(scores))
        found += zip(scores[places].tolist(), each.ids[places].tolist(), strict=True)
        found = heapq.nsmallest(limit, found, key=lambda entry: (-entry[0], entry[1]))
    return found

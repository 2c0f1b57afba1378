"""Where in a run a region runs, and what it came to. Values only."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """Where in a run a region runs.

    :ivar suffix: appended to the ids of its blocks: ``[2]`` in the third of several that run at once.
    :ivar loop: what templates see as ``loop``; None outside of loops.
    :ivar looping: a loop around it may run its blocks again, so no answer is final yet.
    :ivar owner: instance path of the block that runs it; None for the run's own blocks.
    :ivar path: before the ids of its blocks: ``wf_1/`` in the workflow that the block ``wf_1`` runs.
    """

    suffix: str = ""
    loop: Mapping[str, t.Any] | None = None
    looping: bool = False
    path: str = ""
    owner: str | None = None

    def name(self, block: str) -> str:
        """The instance path of one of its blocks."""
        return f"{self.path}{block}{self.suffix}"


def level(outputs: Mapping[str, Mapping[str, t.Any]], path: str) -> dict[str, Mapping[str, t.Any]]:
    """Of outputs by instance path, those right under ``path``, by what follows it."""
    start = len(path)
    return {
        name[start:]: output
        for name, output in outputs.items()
        if name.startswith(path) and "/" not in name[start:]
    }

"""What templates of a block see.

Law of this room: read off the run at the moment it is asked for; nothing is kept.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping

from app.engine.frames import Frame

if t.TYPE_CHECKING:
    from app.engine.run import Run


def seen_by(run: Run, frame: Frame) -> Mapping[str, t.Any]:
    """What templates of a block in a frame see."""
    blocks: Mapping[str, t.Any] = run.visible()
    if frame.suffix:  # what ran beside this block, and around it, in the same branch, under its plain id
        blocks = {**blocks, **_beside(blocks, run.request.workflow.blocks, frame.suffix)}
    seen = {"input": run.request.input, "blocks": blocks, "vars": run.request.workflow.variables}
    return seen if frame.loop is None else {**seen, "loop": frame.loop}


def _beside(
    outputs: Mapping[str, Mapping[str, t.Any]], ids: Collection[str], suffix: str
) -> dict[str, Mapping[str, t.Any]]:
    """Of ``a[1][0]`` and ``a[1]`` those that the branch ``[1][0]`` sees as ``a``: the innermost one."""
    found: dict[str, Mapping[str, t.Any]] = {}
    end = suffix.find("]")
    while end >= 0:
        here = suffix[: end + 1]
        found.update({block: outputs[block + here] for block in ids if block + here in outputs})
        end = suffix.find("]", end + 1)
    return found

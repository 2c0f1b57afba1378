"""The block instances that a block has run: in its bodies, or in the workflow that it names.

Law of this room: known from the fold and the document alone.
"""

from __future__ import annotations

import typing as t

from app.state import BlockState
from app.workflows.compiled import CompiledBlock

if t.TYPE_CHECKING:
    from app.engine.child import ChildRun
    from app.engine.frames import Frame
    from app.engine.run import Run

#: Name, block and state of an instance.
Inner = tuple[str, CompiledBlock, BlockState]


def inside(run: Run | ChildRun, block: CompiledBlock, frame: Frame, handle: str | None = None) -> list[Inner]:
    """The instances inside of ``block``, in order of their first start.

    :param frame: where the block runs; with ``handle`` where that body of it does, of which the instances are then.
    """
    if not (block.bodies or block.child):
        return []
    workflow, start = run.request.workflow, len(frame.path)
    handles = block.bodies if handle is None else (handle,)
    among = {inner for body in handles for inner in workflow.inside[block.id, body]}
    if block.child is not None and handle is None:
        among.add(block.id)
    held = []
    for name, state in run.state.blocks.items():
        if not name.startswith(frame.path):
            continue
        base, _, index = name[start:].partition("/")[0].partition("[")
        if base in among and f"[{index}".startswith(frame.suffix):  # in this one of several at once
            found = workflow.find(name[start:])
            if found is not None and found is not block:
                held.append((name, found, state))
    return held

"""Where the blocks of a run lie: which block runs which.

Law of this room: read off the compiled workflow by an instance's path, so that a resumed run finds the same.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

from app.workflows.compiled import CompiledWorkflow


class Places:
    """The places of one run's blocks."""

    __slots__ = ("_workflow",)

    def __init__(self, workflow: CompiledWorkflow) -> None:
        self._workflow = workflow

    def config(self, path: str) -> t.Any:
        """The config of the block at an instance path; None for a block that nobody knows."""
        found = self._workflow.find(path)
        return None if found is None else found.config

    def around(self, path: str) -> Iterator[str]:
        """Instance paths of the blocks that may run the one at ``path``, the innermost first."""
        prefix, slash, last = path.rpartition("/")
        workflow = self._inside(prefix) if slash else self._workflow
        block, _, rest = last.partition("[")
        suffix = f"[{rest}" if rest else ""
        home = None if workflow is None else workflow.home(block)
        while home is not None and workflow is not None:
            shorter = suffix
            while True:  # a parallel block's branches add an index to what they run, a loop does not
                yield f"{prefix}{slash}{home}{shorter}"
                if not shorter:
                    break
                shorter = shorter[: shorter.rindex("[")]
            home = workflow.home(home)
        if slash:
            yield prefix
            yield from self.around(prefix)

    def _inside(self, path: str) -> CompiledWorkflow | None:
        """The workflow that the block at ``path`` runs."""
        workflow = self._workflow
        for part in path.split("/"):
            child = workflow.children.get(part.partition("[")[0])
            if child is None:
                return None
            workflow = child.workflow
        return workflow

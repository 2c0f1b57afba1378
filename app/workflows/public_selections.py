"""Which outputs may be selected for people without a key: callers of a public workflow, visitors of a chat.

Law of this room: known from the workflow, before a run. What a tool, a request or a search gave is seen by visitors
only where the workflow hands it on: by what ends it, by a ``response``, or by a ``set`` block that says what is shown.
What is refused here is stripped in the streams all the same.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence

from app.errors import Problem
from app.state import plain
from app.workflows.compiled import AGENT, CompiledBlock, CompiledWorkflow
from app.workflows.selectors import FIELD, Selection

#: Blocks whose output is what something outside gave, and what of it is for everybody.
GIVEN: Mapping[str, tuple[str, ...]] = {"tool": (), "http": (), "retrieve": ("citations", "count")}
#: First members of outputs that no visitor sees, by type of block.
_PRICE = "cost"
HIDDEN: Mapping[str, tuple[str, ...]] = {
    AGENT: ("model", _PRICE),
    "debate": (_PRICE, "transcript"),
    "sequential": (_PRICE,),
    "vote": (_PRICE,),
    "router": (_PRICE, "reason"),
    "approval": ("by", "reason"),
}
_PAYLOADS = ("arguments", "result")


def public_problems(
    selections: Sequence[Selection], workflow: CompiledWorkflow, field: str = FIELD
) -> list[Problem]:
    """A problem for each selection that no visitor may see.

    :param field: where they sit in what was sent.
    """
    return [
        Problem(field, f"{'.'.join((each.block, *each.path))} is not shown to callers without a key; {cure}")
        for each in selections
        if (cure := _cure(each, workflow)) is not None
    ]


def _cure(selection: Selection, workflow: CompiledWorkflow) -> str | None:
    """What to do instead; None: it may be seen."""
    block = workflow.find(plain(selection.block))
    if block is None:
        return None
    path = selection.path
    if workflow.runner is not None:
        return None if block.config.answers and path == ("content",) else "select the content of what answers"
    if path and path[0] in HIDDEN.get(block.type.type_name, ()):
        return "leave it out"
    if path[:1] == ("toolCalls",) and any(part in _PAYLOADS for part in path[3:4]):
        return "leave it out"
    if _reaches(plain(selection.block), workflow) or not _holds(block, selection, workflow):
        return None
    return "have a set or response block say what is shown of it"


def _reaches(path: str, workflow: CompiledWorkflow) -> bool:
    """Whether what a block gives is in the run's output in any case."""
    head, _, rest = path.partition("/")
    if not workflow.hands_on(head):
        return False
    return not rest or _reaches(rest, workflow.children[head].workflow)


def _holds(block: CompiledBlock, selection: Selection, workflow: CompiledWorkflow) -> bool:
    """Whether the output of a block is, or has in it, what something outside gave."""
    kind, path = block.type.type_name, selection.path
    if kind in GIVEN:
        return not (path and path[0] in GIVEN[kind])
    return any(True for _ in _given_in(block, _home(selection, workflow)))


def _home(selection: Selection, workflow: CompiledWorkflow) -> CompiledWorkflow:
    """The workflow a selected block is of."""
    *around, _ = plain(selection.block).split("/")
    for block in around:
        workflow = workflow.children[block].workflow
    return workflow


def _given_in(block: CompiledBlock, workflow: CompiledWorkflow) -> Iterator[str]:
    """The blocks inside of one whose output its own has in it."""
    for inner in workflow.blocks.values():
        if block.id in workflow.carriers(inner.id):
            yield from (inner.id,) if inner.type.type_name in GIVEN else _given_in_child(inner, workflow)
    yield from _given_in_child(block, workflow)


def _given_in_child(block: CompiledBlock, workflow: CompiledWorkflow) -> Iterator[str]:
    child: t.Any = workflow.children.get(block.id)
    if child is None:
        return
    for inner in child.workflow.blocks.values():
        if child.workflow.reaches_output(inner.id):
            yield from (inner.id,) if inner.type.type_name in GIVEN else _given_in(inner, child.workflow)

"""Selected outputs: which field of which block a client asks for.

Law of this room: a selector is resolved against the blocks of the workflow before the run; what matches
nothing is refused with a list of what exists.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.errors import Problem, ValidationFailed
from app.schemas.paths import did_you_mean, join, shown
from app.workflows.compiled import AGENT, CompiledBlock, CompiledWorkflow

#: Where the selectors sit in the body of a request to execute.
FIELD = "selectedOutputs"

_INDEXED = re.compile(r"(.+?)((?:\[[0-9]{1,9}\])+)\s*", re.DOTALL)

#: Fields of an agent's output that hold text: nothing lies below them.
_TEXTS = ("content", "model", "finishReason")


@dataclass(frozen=True, slots=True)
class Selection:
    """A field of a block's output. ``path`` is empty for the whole output.

    ``block`` without an index means every instance of a block that runs several times at once, ``a[1]`` the one.
    """

    block: str
    path: tuple[str, ...]

    @property
    def dotted(self) -> str:
        """The path as one key of ``{blockId: {path: value}}``; empty for the whole output."""
        return ".".join(self.path)


def resolve(selectors: Sequence[str], workflow: CompiledWorkflow) -> tuple[Selection, ...]:
    """Selections for ``block.path`` texts, in their order, each once.

    The block is given by id or by name; case and spaces are ignored unless an id fits exactly. A block whose name
    has dots wins over a shorter one. ``parent/child.path`` is a field of a block inside the workflow that a block runs;
    ``block[0].path`` is one of the first of several instances that run at once.

    :raises ValidationFailed: some match no block, more than one, or no field the block's type can have.
    """
    found: list[Selection] = []
    problems = []
    for index, selector in enumerate(selectors):
        result = _resolve(selector, workflow)
        if isinstance(result, str):
            problems.append(Problem(join(FIELD, index), result))
        elif result not in found:
            found.append(result)
    if problems:
        raise ValidationFailed(problems)
    return tuple(found)


def pick(output: t.Any, path: Sequence[str], default: t.Any = None) -> t.Any:
    """The value at ``path`` of a block's output; list members by their index; ``default`` when there is none."""
    here = output
    for position, step in enumerate(path):
        if isinstance(here, Mapping):
            # A key may hold dots itself: the rest of the path as one key comes first.
            rest = ".".join(path[position:])
            if rest in here:
                return here[rest]
            if step not in here:
                return default
            here = here[step]
        elif (
            isinstance(here, (list, tuple)) and step.isdecimal() and len(step) < 10 and int(step) < len(here)
        ):
            here = here[int(step)]
        else:
            return default
    return here


def _resolve(selector: str, workflow: CompiledWorkflow) -> Selection | str:
    head, slash, rest = selector.partition("/")
    blocks, index = _instances(head, workflow) if slash else ([], "")
    within = [block for block in blocks if block.id in workflow.children]
    if len(within) == 1:  # a block of a workflow that this one runs
        found = _resolve(rest, workflow.children[within[0].id].workflow)
        return (
            found if isinstance(found, str) else Selection(f"{within[0].id}{index}/{found.block}", found.path)
        )
    parts = selector.split(".")
    for length in range(len(parts), 0, -1):
        blocks, index = _instances(".".join(parts[:length]), workflow)
        if len(blocks) > 1:
            ids = ", ".join(block.id for block in blocks)
            return f"{shown(selector)} may mean any of the blocks {ids}; use the id"
        if blocks:
            path = tuple(parts[length:])
            return _field_problem(selector, blocks[0], path) or Selection(blocks[0].id + index, path)
    near = did_you_mean(parts[0], workflow.blocks)
    return f"{shown(selector)} matches no block; write block.path. {near}"


def _instances(name: str, workflow: CompiledWorkflow) -> tuple[list[CompiledBlock], str]:
    """The blocks a name may mean, and the index of the one instance that is meant: ``""`` for all."""
    blocks = _matching(name, workflow)
    found = _INDEXED.fullmatch(name)
    if blocks or found is None:
        return blocks, ""
    # Which instances there will be is known in the run; that there can be any, now.
    return [block for block in _matching(found[1], workflow) if workflow.in_body(block.id)], found[2]


def _matching(name: str, workflow: CompiledWorkflow) -> list[CompiledBlock]:
    if name in workflow.blocks:
        return [workflow.blocks[name]]
    plain = _plain(name)
    if not plain:
        return []
    return [b for b in workflow.blocks.values() if plain in (_plain(b.id), _plain(b.name))]


def _plain(name: str) -> str:
    return "".join(name.split()).lower()


def _field_problem(selector: str, block: CompiledBlock, path: tuple[str, ...]) -> str | None:
    if "" in path:
        return f"{shown(selector)} has an empty step; write block.path"
    known = block.type.outputs
    if block.type.type_name == AGENT and len(path) > 1 and path[0] in _TEXTS:
        return f'{shown(selector)}: "{path[0]}" of "{block.id}" is text; select {block.id}.{path[0]}'
    if known is None or not path or path[0] in known:
        return None
    if block.structured:
        schema = block.config.response_format
        properties = schema.get("properties")
        if schema.get("additionalProperties") is not False or not isinstance(properties, Mapping):
            return None  # the parsed fields stand at top level, and any may come
        known = (*properties, *known)
        if path[0] in known:
            return None
    return f'{shown(selector)}: "{block.id}" has no output "{path[0][:100]}". {did_you_mean(path[0], known)}'

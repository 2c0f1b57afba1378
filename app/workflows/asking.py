"""Which blocks may need a person's decision. Pure.

Law of this room: known from the document and from what the plugins declare, before a run; what may ask makes a run
durable, so rather one too many than one too few.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterator, Mapping

from app.workflows import nested
from app.workflows.compiled import AGENT, APPROVAL
from plugins.spec.blocks import BlockType, Use


def asks(kind: BlockType, config: t.Any, uses: Collection[Use], held: Collection[str]) -> bool:
    """Whether a person may have to decide in a block.

    :param config: an instance of its type's. :param uses: what the config names.
    :param held: names of the registered tools whose calls a person has to allow.
    """
    return kind.type_name == APPROVAL or any(_held(entry, held) for entry in _entries(kind, config, uses))


def _entries(kind: BlockType, config: t.Any, uses: Collection[Use]) -> Iterator[t.Any]:
    """The tool entries of a block and of the agents inside of it."""
    agents = [config] if kind.type_name == AGENT else []
    agents += [agent.config for agent in nested.agents(kind.config, config)]
    for agent in agents:
        yield from getattr(agent, "tools", None) or ()
    yield from (use.value for use in uses if use.kind == "tool")


def _held(entry: t.Any, held: Collection[str]) -> bool:
    if isinstance(entry, Mapping):
        return entry.get("approval") not in (None, "never") or entry.get("name") in held
    return entry in held

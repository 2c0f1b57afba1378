"""The redaction policies of a workflow: of each block, of all of it, of those that it runs.

Law of this room: they only add up. A block has what its own agents, its workflow, the workflows around it and the
deployment want, the stricter of each.
"""

from __future__ import annotations

import typing as t
import weakref
from collections.abc import Iterator

from app.redaction.loading import policy_of
from app.redaction.policy import Policy, strictest
from app.workflows import nested
from app.workflows.compiled import CompiledBlock, CompiledWorkflow

_ALL: weakref.WeakKeyDictionary[CompiledWorkflow, Policy | None] = weakref.WeakKeyDictionary()


def whole_policy(workflow: CompiledWorkflow) -> Policy | None:
    """What holds for what belongs to no block: the strictest of all policies in it; None where there is none."""
    if workflow not in _ALL:
        _ALL[workflow] = strictest(_policies(workflow))
    return _ALL[workflow]


def block_policy(workflow: CompiledWorkflow, path: str) -> Policy | None:
    """What the documents want of the block behind an instance path."""
    found = [_settings(workflow)]
    if workflow.runner is not None:
        return found[0]
    head, _, rest = path.partition("/")
    name = head.partition("[")[0]
    block, child = workflow.blocks.get(name), workflow.children.get(name)
    if block is not None:
        found.append(_own(block))
    if rest and child is not None:
        found.append(block_policy(child.workflow, rest))
    return strictest(found)


def _policies(workflow: CompiledWorkflow) -> Iterator[Policy | None]:
    yield _settings(workflow)
    yield from map(_own, workflow.blocks.values())
    for child in workflow.children.values():
        yield whole_policy(child.workflow)


def _settings(workflow: CompiledWorkflow) -> Policy | None:
    return policy_of(workflow.settings.redact)


def _own(block: CompiledBlock) -> Policy | None:
    """That of an agent, or of the agents inside of a block."""
    configs: list[t.Any] = [
        block.config,
        *(agent.config for agent in nested.agents(block.type.config, block.config)),
    ]
    return strictest(policy_of(getattr(config, "redact", None)) for config in configs)

"""Who speaks in a workflow, for surfaces that show what every block says (contract section 5).

Law of this room: decided once, from the compiled workflow. What a guardrail checks, or a person approves, does not
speak for itself: the guardrail or the approval does, once it has passed. What a response block makes is told where
nobody has given the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.workflows.compiled import AGENT, RELEASES, RESPONSE, CompiledBlock, CompiledWorkflow
from app.workflows.template_syntax import ANY_BLOCK, references


@dataclass(frozen=True, slots=True)
class Voices:
    """What a projection may know of the blocks that speak, all by instance path without indexes.

    :ivar speakers: blocks that speak.
    :ivar answers: those of them whose output reaches the run's output.
    :ivar lone: the one whose text goes out as it is written; None: all text goes out whole.
    :ivar relays: guardrails and approvals that speak the text they let through, also where others go on with it.
    :ivar closing: response blocks; they speak, for the run, where none of ``answers`` has.
    """

    speakers: frozenset[str] = frozenset()
    answers: tuple[str, ...] = ()
    lone: str | None = None
    relays: frozenset[str] = frozenset()
    closing: frozenset[str] = frozenset()


def voices(workflow: CompiledWorkflow) -> Voices:
    """Who speaks, whose text is the answer, and whose may be shown as it is written."""
    speakers, answers = list(_speakers(workflow)), tuple(_answers(workflow))
    closing = frozenset(block.id for block in workflow.blocks.values() if block.type.type_name == RESPONSE)
    alone = len(speakers) == 1 and (answers or not closing)
    only = workflow.blocks.get(speakers[0]) if alone else None
    lone = only.id if only is not None and _stands(workflow, only) else None
    return Voices(frozenset(speakers), answers, lone, frozenset(_relays(workflow)), closing)


def _speakers(workflow: CompiledWorkflow, path: str = "") -> Iterator[str]:
    checked = _checked(workflow)
    for block in workflow.blocks.values():
        if block.id in checked:
            continue
        if block.type.answers:
            yield path + block.id
        child = workflow.children.get(block.id)
        if child is not None:
            yield from _speakers(child.workflow, f"{path}{block.id}/")


def _answers(workflow: CompiledWorkflow, path: str = "") -> Iterator[str]:
    """Also those of a child whose output reaches the run's output."""
    for block in workflow.answer_agents():
        yield path + block
    for block, child in workflow.children.items():
        if workflow.reaches_output(block):
            yield from _answers(child.workflow, f"{path}{block}/")


def _relays(workflow: CompiledWorkflow, path: str = "") -> Iterator[str]:
    """Guardrails and approvals that look at what others say, and so hand it on wherever they stand."""
    for guard, checked in _releases(workflow):
        if any(workflow.blocks[block].type.answers or block in workflow.children for block in checked):
            yield path + guard
    for block, child in workflow.children.items():
        yield from _relays(child.workflow, f"{path}{block}/")


def _checked(workflow: CompiledWorkflow) -> frozenset[str]:
    """Blocks whose output a guardrail or an approval looks at."""
    return frozenset().union(*(checked for _, checked in _releases(workflow)))


def _releases(workflow: CompiledWorkflow) -> Iterator[tuple[str, frozenset[str]]]:
    """Each guardrail and approval, and the blocks whose output it looks at."""
    for block in workflow.blocks.values():
        if block.type.type_name in RELEASES:
            given = getattr(block.config, RELEASES[block.type.type_name], None)
            read = set(workflow.predecessors(block.id)) if given is None else references(given)
            if ANY_BLOCK in read:
                read |= {o.id for o in workflow.blocks.values() if o.type.type_name not in RELEASES}
            yield block.id, frozenset(read & workflow.blocks.keys())


def _stands(workflow: CompiledWorkflow, block: CompiledBlock) -> bool:
    """Whether nothing can take back what an agent says: no tools, no other model, no other way on, no repetition.

    What a durable run was saying when its process went is said anew in the next one.
    """
    config = block.config
    return (
        block.type.type_name == AGENT
        and not workflow.durable
        and not (block.structured or config.tools or config.capture or config.fallbacks)
        and block.on_error == "fail"
        and not workflow.leads_on(block.id, "error")
        and not any(block.id in body for body in workflow.inside.values())
    )

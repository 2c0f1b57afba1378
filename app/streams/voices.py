"""Who speaks in a workflow, for surfaces that show what every block says (contract section 5).

Law of this room: decided once, from the compiled workflow. What a guardrail checks does not speak for itself: the
guardrail does, once it has passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.workflows.compiled import AGENT, GUARDRAIL, RESPONSE, CompiledBlock, CompiledWorkflow
from app.workflows.template_syntax import ANY_BLOCK, references, strings_in


@dataclass(frozen=True, slots=True)
class Voices:
    """See :class:`app.streams.run_events.RunEventsOptions`."""

    speakers: frozenset[str]
    answers: tuple[str, ...]
    lone: str | None


def voices(workflow: CompiledWorkflow) -> Voices:
    """Who speaks, whose text is the answer, and whose may be shown as it is written.

    Where no answer is an agent's or the like, the response blocks speak: their bodies are the answer.
    """
    speakers = list(_speakers(workflow))
    answers = tuple(_answers(workflow))
    if not answers:
        answers = tuple(block.id for block in workflow.blocks.values() if block.type.type_name == RESPONSE)
        speakers += answers
    only = workflow.blocks.get(speakers[0]) if len(speakers) == 1 else None
    lone = only.id if only is not None and _stands(workflow, only) else None
    return Voices(frozenset(speakers), answers, lone)


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
        if _reaches(workflow, workflow.blocks[block]):
            yield from _answers(child.workflow, f"{path}{block}/")


def _reaches(workflow: CompiledWorkflow, block: CompiledBlock) -> bool:
    """Whether a response block hands on what a block gives or, without any, it may come last."""
    responses = [found for found in workflow.blocks.values() if found.type.type_name == RESPONSE]
    if not responses:
        return any(
            not workflow.leads_on(block.id, handle) for handle in block.type.handles if handle != "error"
        )
    for response in responses:
        body = getattr(response.config, "body", None)
        if body is None and block.id in workflow.predecessors(response.id):
            return True
        read = {name for _, text in strings_in(body) for name in references(text)}
        if read & {block.id, ANY_BLOCK}:
            return True
    return False


def _checked(workflow: CompiledWorkflow) -> frozenset[str]:
    """Blocks whose output a guardrail looks at."""
    found: set[str] = set()
    for block in workflow.blocks.values():
        if block.type.type_name == GUARDRAIL:
            given = getattr(block.config, "input", None)
            found |= set(workflow.predecessors(block.id)) if given is None else references(given)
    if ANY_BLOCK in found:
        found |= {block.id for block in workflow.blocks.values() if block.type.type_name != GUARDRAIL}
    return frozenset(found)


def _stands(workflow: CompiledWorkflow, block: CompiledBlock) -> bool:
    """Whether nothing can take back what an agent says: no tools, no other model, no other way on, no repetition."""
    config = block.config
    return (
        block.type.type_name == AGENT
        and not (block.structured or config.tools or config.capture or config.fallbacks)
        and block.on_error == "fail"
        and not workflow.leads_on(block.id, "error")
        and not any(block.id in body for body in workflow.inside.values())
    )

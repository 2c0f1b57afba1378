"""Documents as a run takes them with it, and the workflow that they make again in another process.

Law of this room: a run is pinned to the documents it began with, its children's included; what the plugins of the
process make of them now is what goes on.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from dataclasses import replace

from app.agents.checks import checker
from app.engine.giving_way import giving_way
from app.errors import Problem, StudioError
from app.workflows import named_models
from app.workflows.compiled import CompiledWorkflow, Pinned
from app.workflows.validation import compile_document
from plugins.registry import Registry

if t.TYPE_CHECKING:
    from app.engine.compiler import Compiler


def compiled(document: Mapping[str, t.Any], plugins: Registry) -> CompiledWorkflow:
    """``document`` compiled against what the plugins offer, without its children. Of hundreds of blocks that takes
    a third of a second, in which others go on.

    :raises ValidationFailed: with every problem, as JSON path and cure.
    """
    workflow = compile_document(
        document,
        plugins.block_types,
        plugins.check_model,
        frozenset(plugins.tools),
        check_agent=checker(plugins.capabilities_of, plugins.check_model),
        detectors=frozenset(plugins.detectors),
        servers=plugins.mcp,
        check_embedding=plugins.embedders.check,
        held_tools=frozenset(name for name, tool in plugins.tools.items() if tool.approval != "never"),
        pause=giving_way(),
    )
    budget = workflow.settings.budget
    if budget is None or budget.cost is None:
        return workflow
    return replace(workflow, warnings=(*workflow.warnings, *_unpriced(workflow, plugins)))


def _unpriced(workflow: CompiledWorkflow, plugins: Registry) -> Iterator[Problem]:
    """Warnings of models whose calls a budget of money does not count."""
    for model in sorted({model for _, model in named_models.of_blocks(workflow.blocks)}):
        if plugins.capabilities_of(model).price is None:
            message = f"does not count calls of {model}: its price is not known. Set tokens too"
            yield Problem("settings.budget.cost", message)


def documents_of(workflow: CompiledWorkflow) -> dict[str, t.Any]:
    """The documents of a workflow and of what it runs, as JSON."""
    return {
        "document": workflow.document,
        "children": {
            block: {
                "workflow_id": child.workflow_id,
                "version": child.version,
                **documents_of(child.workflow),
            }
            for block, child in workflow.children.items()
        },
    }


def workflow_of(documents: Mapping[str, t.Any], compiler: Compiler) -> CompiledWorkflow:
    """The inverse of :func:`documents_of`.

    :raises ValidationFailed: a document does not compile any more.
    """
    document = documents["document"]
    if "runner" in document:
        return compiler.runner(document["runner"])
    workflow = compiler(document)
    children = {
        block: Pinned(child["workflow_id"], child["version"], workflow_of(child, compiler))
        for block, child in documents["children"].items()
    }
    return replace(workflow, children=children) if children else workflow


def obstacle(documents: Mapping[str, t.Any], compiler: Compiler) -> str | None:
    """Why this process cannot make the workflow of a run, though another one may (it has other plugins, or other
    settings); None when it can, and when nobody could.
    """
    try:
        workflow_of(documents, compiler)
    except StudioError as error:
        return error.message
    except Exception:  # it is no document: whoever takes the run up fails it
        return None
    return None

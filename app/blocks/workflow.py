"""The ``workflow`` block: runs another deployed workflow inside this run.

Law of this room: which workflow is written in the document, so that its version, its models and its keys are known
before the run begins. What it says is its own; only its output comes back.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.agents.kept import kept
from app.agents.templates import render_value
from app.schemas.paths import join
from app.workflows.template_syntax import is_template
from plugins.spec.blocks import BlockContext, BlockType, Child, Use


@dataclass(frozen=True, slots=True)
class WorkflowConfig:
    """What is run, and with what."""

    workflow: str = field(metadata={"doc": "Id of a stored workflow.", "nonempty": True, "most": 255})
    input: t.Any = field(
        default=None,
        metadata={
            "doc": "Its input; a text becomes `{message}`. Default: the input of this run.",
            "template": True,
        },
    )
    version: int | None = field(
        default=None,
        metadata={"doc": "One of its versions. Default: the live one when this run begins.", "low": 1},
    )


def check(config: WorkflowConfig, path: str) -> list[tuple[str, str]]:
    """The workflow is fixed."""
    if not is_template(config.workflow):
        return []
    message = "must be the id of one workflow, not a template; choose between several with a router"
    return [(join(path, "workflow"), message)]


def run(context: BlockContext, config: WorkflowConfig) -> Mapping[str, t.Any]:
    """Run it; its output if that is an object, else ``{output: …}``.

    :raises RunError: ``template_failed``. :raises BlockError: a block of it failed, or it took too long.
    """
    given = kept(context, f"{context.attempt} is given", lambda: _given(context, config))
    output = context.child({"message": given} if isinstance(given, str) else given)
    return output if isinstance(output, Mapping) else {"output": output}


def _given(context: BlockContext, config: WorkflowConfig) -> t.Any:
    variables = context.variables()
    return variables.get("input") if config.input is None else render_value(config.input, variables)


WORKFLOW = BlockType(
    type_name="workflow",
    config=WorkflowConfig,
    run=run,
    summary="Runs another workflow inside this run; its output is that workflow's.",
    check=check,
    uses=lambda config: (Use("workflow", ("workflow",), Child(config.workflow, config.version)),),
)

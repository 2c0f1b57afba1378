"""The ``guardrail`` block: lets a text through, or does not, and says why.

Law of this room: what could not be decided is not let through. A refusal is an ordinary end: the refusal text is the
answer, and what would have come behind it is skipped.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.agents.driver import message
from app.agents.guard_checks import check_problems, decide, uses
from app.agents.said import said_before
from app.schemas.paths import join
from plugins.spec.blocks import BlockContext, BlockType

PASSED, FAILED = "true", "false"


@dataclass(frozen=True, slots=True)
class GuardrailConfig:
    """What is checked, and what a failure means."""

    checks: Sequence[t.Any] = field(
        metadata={
            "doc": "Objects with `kind`: `max_length`, `regex`, `contains`, `json_schema`, `detector`, `expression` or "
            "`model`; see [Guardrails](../workflow-document.md#guardrails)."
        }
    )
    input: str | None = field(
        default=None,
        metadata={
            "doc": "The text. Default: the `content` (or `text`) of the block before it, else the run's message.",
            "template": True,
        },
    )
    on_fail: t.Literal["refuse", "route"] = field(
        default="refuse",
        metadata={
            "doc": "refuse: the refusal is the answer, and the run ends here unless a `false` edge goes on; route: it "
            "goes on by `false`."
        },
    )
    refusal: str = field(
        default="I cannot help with that.",
        metadata={"doc": "What the reader is told by `refuse`.", "template": True, "nonempty": True},
    )


def check(config: GuardrailConfig, path: str) -> list[tuple[str, str]]:
    """The checks."""
    return check_problems(config.checks, join(path, "checks"))


def run(context: BlockContext, config: GuardrailConfig) -> Mapping[str, t.Any]:
    """Decide, and take the edge.

    :raises RunError: ``template_failed``. :raises BlockError: a check could not be made.
    """
    text = _before(context) if config.input is None else context.render(config.input)
    decisions = decide(context, config.checks, text)
    passed = all(made.passed for made in decisions)
    context.take(PASSED if passed else FAILED)
    output = {"passed": passed, "decisions": [made.entry() for made in decisions]}
    if passed:
        # Behind it, others speak; it does so itself where it comes last or a response hands on what it checked.
        speaks = context.answers or not context.leads_on(PASSED)
        return {**output, "text": text, **({"content": text} if speaks else {})}
    if config.on_fail == "route":
        return {**output, "text": text}
    # Without the text: this may be the run's output, and it was not to be shown.
    refusal = context.render(config.refusal)
    ends = {} if context.leads_on(FAILED) else {"content": refusal}
    return {**output, "refused": True, "refusal": refusal, **ends}


def _before(context: BlockContext) -> str:
    """What the blocks before it said, else what the run was asked."""
    said = said_before(context)
    return message(context) if said is None else said


GUARDRAIL = BlockType(
    type_name="guardrail",
    config=GuardrailConfig,
    run=run,
    summary="Checks a text; what fails is refused, or goes another way.",
    handles=(PASSED, FAILED, "error"),
    outputs=("passed", "decisions", "text", "refused", "refusal", "content"),
    check=check,
    uses=lambda config: uses(config.checks),
    answers=True,
    needs=lambda config: (FAILED,) if config.on_fail == "route" else (),
)

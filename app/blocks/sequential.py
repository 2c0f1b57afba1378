"""The ``sequential`` block: agents one after the other, each of them given what the one before answered.

Law of this room: an agent sees the answers before its own, never those after; the block's answer is the last one. Each
agent begins and ends once for all to see, however often the block is tried; where it fails, the engine tells the end.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.agents.participants import Company, ParticipantConfig, asked_of, models_of, name_problems, names_of
from app.events import SequenceStep
from plugins.spec.blocks import BlockContext, BlockType

MOST = 50
_PART = "Agent"
#: What an answer among ``answers`` leaves out: calls stand once in the block's output, times are nobody's input.
_LEFT_OUT = ("toolCalls", "providerTiming")


@dataclass(frozen=True, slots=True)
class SequentialConfig:
    """Who works, and on what."""

    agents: Sequence[ParticipantConfig] = field(
        metadata={
            "doc": "The agents, in order; each takes what an `agent` block takes, and a `name`. One without a `prompt` "
            "is given the answer before its own. Templates also see `previous` (that answer) and `answers` (all "
            "before: `index`, `name`, `content` …).",
            "agents": ("previous", "answers"),
            "most": MOST,
        }
    )
    prompt: str | None = field(
        default=None,
        metadata={
            "doc": "What the first agent is given. Default: the input's `message`, or the whole input as JSON.",
            "template": True,
        },
    )


def check(config: SequentialConfig, path: str) -> list[tuple[str, str]]:
    """At least one agent, and different names."""
    if not config.agents:
        return [(f"{path}.agents", "must have at least one agent")]
    return name_problems(config.agents, f"{path}.agents", _PART)


def run(context: BlockContext, config: SequentialConfig) -> Mapping[str, t.Any]:
    """Ask the agents one after the other.

    :raises RunError: ``template_failed``. :raises BlockError: an agent failed; those after it are not asked.
    """
    company = Company(context)
    previous = asked_of(context, config.prompt)
    answers: list[Mapping[str, t.Any]] = []
    names = names_of(config.agents, _PART)
    for index, (agent, name) in enumerate(zip(config.agents, names, strict=True)):
        context.sleep(0)  # a stop lands before the next one is announced
        company.once(f"{index} starts", SequenceStep(context.block, index, name, "start"))
        context.flush()
        seen = {"previous": previous, "answers": tuple(answers)}
        output = company.ask(agent, str(index), previous, seen=seen)
        company.once(f"{index} ends", SequenceStep(context.block, index, name, "end"))
        context.flush()
        previous = str(output["content"])
        kept = {key: value for key, value in output.items() if key not in _LEFT_OUT}
        answers.append({**kept, "index": index, "name": name})
    return {"content": previous, "answers": answers, **company.totals()}


SEQUENTIAL = BlockType(
    type_name="sequential",
    config=SequentialConfig,
    run=run,
    summary="Asks agents one after the other, each with the answer of the one before.",
    outputs=("content", "answers", "tokens", "toolCalls", "cost"),
    check=check,
    uses=lambda config: models_of(agents=config.agents),
    answers=True,
)

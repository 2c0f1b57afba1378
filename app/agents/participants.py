"""Agents inside of a composite block: the participants of a debate, voters, the agents of a sequence.

Law of this room: an agent inside of a block is run by the same driver as any, and everything it shows carries the
block's id: what it thinks, its tools, what it used. Its text is never shown as it comes; the block says once what came
of it. Of an agent that is asked in secret nothing is shown, kept or logged; only what all of them used together.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import typing as t
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from app import events as ev
from app.agents import usage
from app.agents.config import AgentConfig
from app.agents.driver import message, run_agent
from app.agents.inside import Inside, Rows, Unseen
from app.agents.parts import run_part
from app.agents.quiet import unheard
from app.errors import BlockError, RunError
from plugins.spec import BlockContext, Use

log = logging.getLogger("studio.agents")

#: The model of a usage entry that stands for calls of more than one.
SEVERAL = "several"
#: What a call used in secret is told in steps of so many tokens, since options differ by a few.
STEP = 64
_FAILED = (
    "One of those who were asked in secret could not answer ({}). Which one, and why, is not told, since that would "
    "tell them apart."
)


@dataclasses.dataclass(frozen=True, eq=False)
class ParticipantConfig(AgentConfig):
    """What an agent block takes, and a name."""

    name: str | None = dataclasses.field(
        default=None,
        metadata={
            "doc": "What the others call it. Default: its part and number.",
            "nonempty": True,
            "most": 100,
        },
    )


def names_of(agents: Sequence[ParticipantConfig], part: str) -> tuple[str, ...]:
    """Everybody's name; those without one are called by their ``part`` and number."""
    return tuple(agent.name or f"{part} {number}" for number, agent in enumerate(agents, 1))


def name_problems(agents: Sequence[ParticipantConfig], path: str, part: str) -> list[tuple[str, str]]:
    """Names that are there twice: who speaks could not be told. ``path`` is that of the list."""
    seen: set[str] = set()
    problems = []
    for place, name in enumerate(names_of(agents, part)):
        if name.casefold() in seen:
            problems.append((f"{path}[{place}].name", f'"{name}" is there twice; names must differ'))
        seen.add(name.casefold())
    return problems


def models_of(**agents: ParticipantConfig | Sequence[ParticipantConfig] | None) -> tuple[Use, ...]:
    """The models that the agents in these fields of a config name."""
    return tuple(_uses(agents))


def _uses(fields: Mapping[str, ParticipantConfig | Sequence[ParticipantConfig] | None]) -> Iterator[Use]:
    for name, value in fields.items():
        placed: list[tuple[tuple[str | int, ...], ParticipantConfig]]
        if isinstance(value, ParticipantConfig):
            placed = [((name,), value)]
        else:
            placed = [((name, place), agent) for place, agent in enumerate(value or ())]
        for path, agent in placed:
            yield Use("model", (*path, "model"), agent.model)
            for place, model in enumerate(agent.fallbacks):
                yield Use("model", (*path, "fallbacks", place), model)


def asked_of(context: BlockContext, template: str | None) -> str:
    """What a composite puts to its agents: its template's text, else what the run was asked.

    :raises RunError: ``template_failed``.
    """
    return message(context) if template is None else context.render(template)


class Company:
    """The agents of one execution of a block, asked one after the other, or at once when it is secret.

    :param secret: nobody may learn who answered what. :meth:`close` then has to be called, whatever happens.
    :param models: those that may be asked in secret.
    """

    def __init__(self, context: BlockContext, *, secret: bool = False, models: Collection[str] = ()) -> None:
        self.context = context
        self.secret = secret
        self._models = frozenset(models)
        self._used: ev.UsageReported | None = None
        #: Turns that were shown so far; the next agent's are counted from here.
        self.turns = 0
        self.taken: set[str] = set()
        self.spent: list[ev.UsageReported] = []
        self._outputs: list[Mapping[str, t.Any]] = []

    def once(self, key: str, event: ev.RunEvent) -> None:
        """Tell what no earlier attempt of this execution has told.

        :param key: names it among what is told of the execution.
        """
        self.context.tell(key, event)

    def ask(
        self,
        agent: AgentConfig,
        key: str,
        asked: str,
        *,
        told: str | None = None,
        seen: Mapping[str, t.Any] | None = None,
        own_prompt: bool = True,
        context: BlockContext | None = None,
    ) -> Mapping[str, t.Any]:
        """Ask one agent and wait for its answer.

        :param key: names this question among those of the execution; of no account in secret.
        :param asked: what it is asked unless its config has a ``prompt``; with ``own_prompt`` False in any case.
        :param told: instructions after its own system prompt.
        :param seen: what its templates see beside the usual names.
        :param context: that of a job of :meth:`BlockContext.at_once`.
        :returns: its output, as of an agent block.
        :raises BlockError: it failed; in secret without a word about who or why.
        """
        prompt = None if own_prompt and agent.prompt is not None else asked
        outer = context or self.context
        if self.secret:
            output = self._ask_in_secret(outer, agent, prompt, told, seen or {})
        else:
            inside = Inside(self, outer, outer.journal.part(key), seen or {})
            output = inside.with_own_ids(run_part(t.cast(BlockContext, inside), agent, prompt, told))
            inside.leave()
        self._outputs.append(output)
        return output

    def _ask_in_secret(
        self,
        outer: BlockContext,
        agent: AgentConfig,
        prompt: str | None,
        told: str | None,
        seen: Mapping[str, t.Any],
    ) -> Mapping[str, t.Any]:
        inside = t.cast(BlockContext, Unseen(self, outer, Rows(), seen))
        try:
            with unheard():
                return run_agent(inside, agent, prompt, told)
        except RunError as error:
            raise BlockError(error.code, _FAILED.format(error.code)) from None
        except Exception as error:
            # A fault of ours or of a plugin's. Its kind is all that can be told without telling who it was.
            log.error(
                "asking in secret failed run=%s block=%s: %s", outer.run_id, outer.block, type(error).__name__
            )
            raise BlockError("block_failed", _FAILED.format("block_failed")) from None

    def carried(self) -> Mapping[str, t.Any]:
        """What those who were asked in secret used together, for :meth:`carry_on`: nothing of any one of them."""
        costs = [output["cost"]["input"] for output in self._outputs if "cost" in output]
        return {
            "used": None if not self.spent else (self._spent().tokens, self._spent().cost),
            # What answers cost is told rounded, and that is in ``used``.
            "input": math.fsum(costs) if len(costs) == len(self._outputs) else None,
        }

    def carry_on(self, carried: Mapping[str, t.Any]) -> None:
        """Go on with what was used before this process took over."""
        if carried["used"] is not None:
            tokens, cost = carried["used"]
            self.spent = [ev.UsageReported(self.context.block, min(self._models), tokens, cost)]
        known = (
            {} if carried["input"] is None else {"cost": {"input": carried["input"], "output": 0, "total": 0}}
        )
        self._outputs = [known]

    def close(self) -> None:
        """Report as one entry what was used in secret, also by calls that failed or were stopped.

        Nothing of it depends on the order in which they came, or on which of those that might be asked were.
        """
        if not self.spent:
            return
        self._used = self._spent()
        self.context.emit(self._used)
        self.spent = []

    def _spent(self) -> ev.UsageReported:
        models = self._models or {report.model for report in self.spent}
        costs = [report.cost for report in self.spent]
        known = [cost for cost in costs if cost is not None]
        return ev.UsageReported(
            self.context.block,
            min(models) if len(models) == 1 else SEVERAL,
            usage.total(report.tokens for report in self.spent),
            math.fsum(known) if len(known) == len(costs) else None,
            "USD",
            True,
        )

    def spend(self, report: ev.UsageReported) -> None:
        """Count what a call in secret used, rounded up: with the exact figures, prices that differ and options that
        do would tell from the sums who chose which.
        """
        tokens = dict(report.tokens)
        more = {name: -tokens[name] % STEP for name in ("output", "reasoning") if name in tokens}
        for name, count in more.items():
            tokens[name] += count
        if "total" in tokens:
            tokens["total"] += more.get("output", 0)
        cost = None
        if report.cost is not None:
            # Anew, not by what was added: that would leave the old sum in the last digits.
            cost = usage.cost_of(tokens, self.context.resolve_model(report.model).capabilities)
        self.spent.append(msgspec.structs.replace(report, tokens=tokens, cost=cost))

    def totals(self) -> dict[str, t.Any]:
        """``tokens, toolCalls, cost`` of all answers together, as far as they are known; in secret no calls."""
        outputs = self._outputs
        found: dict[str, t.Any] = {}
        counted = [output["tokens"] for output in outputs if "tokens" in output]
        if self.secret:
            counted = [] if self._used is None else [self._used.tokens]
        else:
            calls = [call for output in outputs for call in output["toolCalls"]["list"]]
            found["toolCalls"] = {"list": calls, "count": len(calls)}
        if counts := usage.total(counted):
            found = {"tokens": counts, **found}
        costs = [output["cost"] for output in outputs if "cost" in output]
        if costs and len(costs) == len(outputs):
            found["cost"] = self._cost(costs)
        return found

    def _cost(self, costs: Sequence[Mapping[str, t.Any]]) -> dict[str, t.Any]:
        sums = {key: math.fsum(cost[key] for cost in costs) for key in ("input", "output", "total")}
        if self._used is not None and self._used.cost is not None:
            sums["total"] = self._used.cost
            sums["output"] = max(0.0, sums["total"] - sums["input"])
        return {**sums, "currency": "USD"}

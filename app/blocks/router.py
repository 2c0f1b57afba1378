"""The ``router`` block: goes on by one of several named routes.

Law of this room: exactly one route is taken, and which one is told with its reason. By expression it is the first whose
``when`` holds; the last may do without one and is taken when no other is. By model it is the one a model names; an
answer that names none is asked for once more, and then the block fails.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.agents import structured
from app.agents.config import AgentConfig
from app.agents.participants import Company, asked_of
from app.agents.templates import evaluate
from app.agents.values import holds
from app.errors import BlockError, RunError
from app.events import RouteChosen
from plugins.spec.blocks import BlockContext, BlockType

MOST = 50
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOLD = (
    "You choose the route by which a conversation goes on. The routes are:\n{}\n"
    "Answer with the name of the route that fits best and, in one sentence, the reason."
)


@dataclass(frozen=True, slots=True)
class Route:
    """A way to go on."""

    name: str = field(metadata={"doc": "Its handle is `route:<name>`."})
    when: str | None = field(default=None, metadata={"doc": "By expression: when it is taken."})
    description: str | None = field(default=None, metadata={"doc": "By model: what it is for."})


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """Where it can go, and who says so."""

    mode: t.Literal["expression", "model"] = field(
        metadata={"doc": "Whether expressions choose the route, or a model."}
    )
    routes: Sequence[Route] = field(
        metadata={
            "doc": "The routes, in order: `{name, when}` by expression, `{name, description}` by model; each hangs on "
            "the handle `route:<name>`. `when` is a Jinja2 expression, with or without its braces; the last route may "
            "do without and is then taken when no other is.",
            "template": True,
            "expression": "when",
            "most": MOST,
        }
    )
    model: str | None = field(
        default=None, metadata={"doc": 'By model: the one that chooses, as "<family>/<model>".'}
    )
    prompt: str | None = field(
        default=None,
        metadata={
            "doc": "By model: what is to be routed. Default: the input's `message`, or the whole input as JSON.",
            "template": True,
        },
    )


def check(config: RouterConfig, path: str) -> list[tuple[str, str]]:
    """Named routes that fit the mode."""
    by_model = config.mode == "model"
    problems = [] if config.routes else [(f"{path}.routes", "must have at least one route")]
    if by_model and config.model is None:
        problems.append((f"{path}.model", "is required by mode model"))
    for key in ("model", "prompt"):
        if not by_model and getattr(config, key) is not None:
            problems.append((f"{path}.{key}", "belongs to mode model, not to expression; leave it out"))
    names = [route.name for route in config.routes]
    for place, route in enumerate(config.routes):
        where = f"{path}.routes[{place}]"
        if not _NAME.fullmatch(route.name):
            problems.append((f"{where}.name", f"must match {_NAME.pattern}"))
        if route.name in names[:place]:
            problems.append((f"{where}.name", f'"{route.name}" is there twice; names must differ'))
        problems += _of_mode(route, where, by_model, last=place == len(names) - 1)
    return problems


def _of_mode(route: Route, where: str, by_model: bool, last: bool) -> list[tuple[str, str]]:
    if by_model:
        problems = [(f"{where}.when", "belongs to mode expression; leave it out")] if route.when else []
        if not route.description:
            problems.append((f"{where}.description", "is required by mode model: it tells when to choose it"))
        return problems
    if route.when is None and not last:
        return [(f"{where}.when", "is required; only the last route may do without")]
    return []


def run(context: BlockContext, config: RouterConfig) -> Mapping[str, t.Any]:
    """Choose and take the edge.

    :raises RunError: ``template_failed``. :raises BlockError: ``no_route``: no expression holds;
        ``route_undecided``: the model named no route; the model failed.
    """
    output = _by_model(context, config) if config.mode == "model" else _by_expression(context, config)
    context.take(f"route:{output['route']}")
    context.emit(RouteChosen(context.block, output["route"], output.get("reason")))
    return output


def _by_expression(context: BlockContext, config: RouterConfig) -> Mapping[str, t.Any]:
    variables = context.variables()
    for route in config.routes:
        if route.when is None or holds(evaluate(route.when, variables)):
            return {"route": route.name}
    raise BlockError(
        "no_route", f"No route of {context.name} fits; add a last one without when, or an error edge."
    )


def _by_model(context: BlockContext, config: RouterConfig) -> Mapping[str, t.Any]:
    company = Company(context)
    names = [route.name for route in config.routes]
    properties = {"route": {"type": "string", "enum": names}, "reason": {"type": "string"}}
    agent = AgentConfig(
        str(config.model),
        files=[],
        response_format={
            "type": "object",
            "properties": properties,
            "required": ["route", "reason"],
            "additionalProperties": False,
        },
    )
    listed = "\n".join(f"- {r.name}: {context.render(r.description or '')}" for r in config.routes)
    asked = asked_of(context, config.prompt)
    for attempt in ("first", "again"):
        undecided = f"{attempt} undecided {context.attempt}"
        if context.journal.find(0, undecided) is not None:
            continue
        try:
            answer = company.ask(agent, attempt, asked, told=_TOLD.format(listed))
        except RunError as error:
            if error.code != structured.CODE:
                raise
            context.journal.write(0, undecided, "chosen", "done")
        else:
            return {"route": answer["route"], "reason": answer["reason"], **company.totals()}
    raise BlockError(
        "route_undecided", f"The model of {context.name} named no route, also when it was asked again."
    )


def _handles(config: RouterConfig) -> tuple[str, ...]:
    return tuple(f"route:{route.name}" for route in config.routes)


ROUTER = BlockType(
    type_name="router",
    config=RouterConfig,
    run=run,
    summary="Goes on by the first route whose expression holds, or by the one a model chooses.",
    handles=("route:", "error"),
    outputs=("route", "reason", "tokens", "toolCalls", "cost"),
    check=check,
    named=_handles,
)

"""Letting a run start: is there room, is there something left to use, were not too many started.

Law of this room: asked once a run, when everything else that could refuse it has been looked at, but before it enters
a thread and before anything of it is written. The order is: room in this process (503, 429), budgets that are used up
(429), rate limits (429), so that a request which could not start is not counted as one that did. A thread that is
busy or gone is found out later: such a request counts. What a document says of its runs is filled in here, alike on
every surface.
"""

from __future__ import annotations

import typing as t

from flask import request

from app.agents import allowance
from app.clock import rfc3339
from app.engine import budgets
from app.engine.budgets import Budget
from app.engine.run_request import RunRequest
from app.schemas.limits import BudgetLimit, stored_budget, stored_rates
from app.store.spending import Spent
from app.streams.public_texts import text_for
from app.web import limits
from app.web.limits import Asked
from app.workflows.compiled import AGENT

if t.TYPE_CHECKING:
    from app.engine.catalog import Runnable
    from app.engine.services import Services
    from app.store import Store
    from app.store.chats import ChatRow
    from app.web.auth import Caller
    from app.web.visitors import Visitor
    from app.workflows.compiled import CompiledWorkflow
    from plugins.registry import Registry

#: Blocks that use no tokens themselves, and agents, of which it is known what they use.
_KNOWN = frozenset(
    {
        *(AGENT, "start", "set", "condition", "response", "approval", "http", "tool"),
        *("loop", "parallel", "sequential"),
    }
)
#: Keys, and not the owner, who has signed in.
_KEY = "key_"


def let_start(services: Services, who: Caller, found: Runnable, address: str) -> tuple[Budget, ...]:
    """Let a caller start a run, with a key or, of a public workflow, without one.

    :param address: of the client, as of :func:`app.web.limits.network`.
    :returns: the run's budgets.
    :raises ApiError: 503 ``draining`` or ``at_capacity``; 429 ``budget_exceeded`` or ``rate_limited``, with
        ``Retry-After``.
    """
    services.runs.admit(who.key_id, address)
    settings = services.settings
    if who.key_id is None:
        held = _budgets(found, None, None)
        _check(services, held, found, public=True)
        limits.check_all(
            Asked("address", address, settings.rate_limit_address),
            Asked("workflow", found.workflow_id, settings.rate_limit_chat),
        )
        return held
    held = _budgets(found, f"key:{who.key_id}", who.budget)
    _check(services, held, found, public=False)
    rates = settings.rate_limit_key if who.rates is None else who.rates
    if rates and who.key_id.startswith(_KEY):
        limits.check("key", who.key_id, rates)
    return held


def let_visitor_start(
    services: Services, chat: ChatRow, visitor: Visitor, found: Runnable, address: str
) -> tuple[Budget, ...]:
    """Let a visitor of a chat start a run; see :func:`let_start`.

    An address is counted where a visitor can become another one by forgetting who he is.
    """
    services.runs.admit(visitor.subject, address)
    settings = services.settings
    held = _budgets(found, f"chat:{chat.id}", stored_budget(chat.budget))
    _check(services, held, found, public=True)
    asked = [Asked("visitor", f"{chat.id}/{visitor.id}", settings.rate_limit_visitor)]
    if chat.auth_type in ("public", "password"):
        asked.append(Asked("address", f"{chat.id}/{address}", settings.rate_limit_address))
    own = stored_rates(chat.rate_limit)
    asked.append(Asked("chat", chat.id, settings.rate_limit_chat if own is None else own))
    limits.check_all(*asked)
    return held


def as_deployed(found: Runnable, run_id: str, given: t.Any) -> RunRequest:
    """A run of a workflow as its document and the request at hand have it, and for nobody yet.

    :param given: its input.
    """
    settings = found.workflow.settings
    return RunRequest(
        run_id=run_id,
        workflow_id=found.workflow_id,
        version=found.version,
        workflow=found.workflow,
        input=given,
        timeout_s=settings.timeout_s,
        on_disconnect=settings.on_disconnect,
        disconnect_grace_s=settings.disconnect_grace_s,
        traceparent=request.environ.get("HTTP_TRACEPARENT"),
    )


def spent(store: Store, now_ms: int, subject: str, budget: t.Any) -> dict[str, t.Any] | None:
    """What a key or a chat has used of its budget in the day or the month that it is for, as the API says it; None: it
    has none that is counted over runs.

    :param now_ms: milliseconds since the epoch. :param subject: ``key:<id>`` or ``chat:<id>``. :param budget: as it is
        stored.
    """
    limit = stored_budget(budget)
    if limit is None or limit.period == "run":
        return None
    held = _held(subject, limit)
    used = store.spending.read(subject, budgets.period_of(held, now_ms))
    body: dict[str, t.Any] = {"tokens": used.tokens, "cost": round(used.cost, 10), "period": limit.period}
    return {**body, "resetsAt": rfc3339(budgets.resets_at_ms(held, now_ms))}


def _budgets(found: Runnable, subject: str | None, own: BudgetLimit | None) -> tuple[Budget, ...]:
    """Those of the workflow and of who asks."""
    each = found.workflow.settings.budget
    if each is None and own is None:
        return ()
    held = []
    if each is not None:
        held.append(Budget(f"workflow:{found.workflow_id}", "run", each.tokens, each.cost))
    if own is not None and subject is not None:
        held.append(_held(subject, own))
    return tuple(held)


def _held(subject: str, limit: BudgetLimit) -> Budget:
    return Budget(subject, limit.period, limit.tokens, limit.cost)


def _check(services: Services, held: tuple[Budget, ...], found: Runnable, *, public: bool) -> None:
    if any(budget.period != "run" for budget in held):
        instead = text_for(budgets.EXCEEDED) if public else None
        counts_money = any(budget.cost is not None for budget in held)
        least = _least(found.workflow, services.plugins if counts_money else None)
        budgets.check_start(held, services.store.spending, services.clock.now_ms(), instead, least)


def _least(workflow: CompiledWorkflow, plugins: Registry | None) -> Spent:
    """What must be left for the smallest model call of a workflow; next to nothing where others than its agents call
    models.

    :param plugins: know prices; None: money does not matter.
    """
    agents = [block.config for block in workflow.blocks.values() if block.type.type_name == AGENT]
    if workflow.runner is not None or not agents:
        return Spent(1)
    if any(block.type.type_name not in _KNOWN for block in workflow.blocks.values()):
        return Spent(1)
    tokens = min(allowance.least(agent) for agent in agents)
    if plugins is None:
        return Spent(tokens)

    def price_of(model: str) -> tuple[float, float] | None:
        return plugins.capabilities_of(model).price

    return Spent(tokens, min(allowance.least_cost(agent, price_of) for agent in agents))

"""What budgets leave of a model call: how much the model may say at most.

Law of this room: a call may say no more than what is left after its prompt; where that is next to nothing the run
ends before the call. How long a prompt is, is estimated, so a call can use a little more than was left. A run without
a budget never comes here.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from app.agents import estimate
from app.agents.config import AgentConfig
from plugins.spec import ResolvedModel
from plugins.spec.budget import BudgetMeter
from providers import spec
from providers.tokens import by_length

#: Fewer tokens than these make no answer; some vendors take no smaller limit.
LEAST = 16
_MILLION = 1e6


#: What lowered the limit of a request; None: nothing did.
Bound = t.Literal["tokens", "cost"] | None


def bounded(
    budget: BudgetMeter, request: spec.ModelRequest, model: ResolvedModel
) -> tuple[spec.ModelRequest, Bound]:
    """``request``, with ``max_tokens`` lowered to what budgets leave, where that is less; and by which of them.

    :raises BaseException: it is too little: the run ends.
    """
    left = budget.left()
    most: float | None = None
    what: t.Literal["tokens", "cost"] = "tokens"
    prompt = estimate.prompt_tokens(request, by_length)
    if left.tokens is not None:
        most = left.tokens - prompt
    price = model.capabilities.price
    if left.cost is not None and price is not None:
        by_money = _affordable(left.cost, prompt, price)
        if by_money is not None and (most is None or by_money < most):
            most, what = by_money, "cost"
    if most is None or (request.max_tokens is not None and request.max_tokens <= most):
        return request, None
    if most < LEAST:
        budget.exceed(what)
    ceiling = model.capabilities.max_output
    if request.max_tokens is None and ceiling is not None and most >= ceiling:
        return request, None
    return replace(request, max_tokens=int(most)), what


def least(config: AgentConfig) -> int:
    """Tokens that must be left for an agent's first call: with fewer, :func:`bounded` ends any run before it.

    What is known of its prompt before there is a run is what its templates begin with.
    """
    known = "".join((text or "").partition("{")[0].strip() for text in (config.system, config.prompt))
    answer = LEAST if config.max_tokens is None else min(LEAST, config.max_tokens)
    return by_length(known) + 2 * estimate.PER_MESSAGE + answer


def _affordable(money: float, prompt: int, price: tuple[float, float]) -> float | None:
    """Tokens of an answer that ``money`` pays beside the prompt; None: answers are free."""
    into, out = price
    rest = money - prompt * into / _MILLION
    if out > 0:
        return rest * _MILLION / out
    return None if rest >= 0 else -1.0

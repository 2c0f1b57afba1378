"""What budgets leave of a model call: how much the model may say at most.

Law of this room: a call may say no more than what is left after its prompt, beside what calls at the same time hold;
where that is next to nothing the run ends before the call. What it will use is held while it is made: its prompt and
``max_tokens``, or a usual answer where it says none. Where that does not fit in beside others it waits for them, for
most of them use less than they hold, and a call that is refused might have fitted. How long a prompt is, is estimated,
so a call can use a little more than was left. A run without a budget never comes here.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable
from dataclasses import replace

from app.agents import estimate
from app.agents.config import AgentConfig
from plugins.spec import BlockContext, ResolvedModel
from plugins.spec.budget import Amount, BudgetMeter, Held
from providers import spec
from providers.tokens import by_length

#: Fewer tokens than these make no answer; some vendors take no smaller limit.
LEAST = 16
#: Tokens of an answer that are held where nobody has said how long it may be.
USUAL = 1_000
#: Seconds between two looks whether others have ended: they double, up to the second.
_PAUSE_S, _LONGEST_S = 0.05, 1.0
_MILLION = 1e6


#: What lowered the limit of a request; None: nothing did.
Bound = t.Literal["tokens", "cost"] | None


def bounded(
    context: BlockContext, budget: BudgetMeter, request: spec.ModelRequest, model: ResolvedModel
) -> tuple[spec.ModelRequest, Bound, Held]:
    """``request``, with ``max_tokens`` lowered to what budgets leave, where that is less; by which of them; and what is
    held for it. May wait for other calls to end.

    :raises BaseException: it is too little: the run ends.
    """
    prompt = estimate.prompt_tokens(request, by_length)
    can = model.capabilities
    said = request.max_tokens
    if said is None:
        said = USUAL if can.max_output is None else min(USUAL, can.max_output)
    least, wanted = (_amount(prompt, out, can.price) for out in (min(LEAST, said), said))
    pause = _PAUSE_S
    while (held := budget.hold(least, wanted)) is None:
        context.sleep(pause)
        pause = min(2 * pause, _LONGEST_S)
    try:
        return *_lowered(held, prompt, request, model), held
    except BaseException:
        held.release()
        raise


def _lowered(
    held: Held, prompt: int, request: spec.ModelRequest, model: ResolvedModel
) -> tuple[spec.ModelRequest, Bound]:
    left = held.left
    most: float | None = None
    what: t.Literal["tokens", "cost"] = "tokens"
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
        held.exceed(what)
    ceiling = model.capabilities.max_output
    if request.max_tokens is None and ceiling is not None and most >= ceiling:
        return request, None
    return replace(request, max_tokens=int(most)), what


def least(config: AgentConfig) -> int:
    """Tokens that must be left for an agent's first call: with fewer, :func:`bounded` ends any run before it.

    What is known of its prompt before there is a run is what its templates begin with.
    """
    return sum(_least(config))


def least_cost(config: AgentConfig, price_of: Callable[[str], tuple[float, float] | None]) -> float:
    """US dollars that must be left for an agent's first call, whichever of its models makes it; 0 where the price of
    one is not known.
    """
    prompt, answer = _least(config)
    prices = [price_of(model) for model in (config.model, *config.fallbacks)]
    return min(_amount(prompt, answer, price).cost for price in prices)


def _least(config: AgentConfig) -> tuple[int, int]:
    known = "".join((text or "").partition("{")[0].strip() for text in (config.system, config.prompt))
    answer = LEAST if config.max_tokens is None else min(LEAST, config.max_tokens)
    return by_length(known) + 2 * estimate.PER_MESSAGE, answer


def _amount(prompt: int, answer: int, price: tuple[float, float] | None) -> Amount:
    into, out = price or (0.0, 0.0)
    return Amount(prompt + answer, (prompt * into + answer * out) / _MILLION)


def _affordable(money: float, prompt: int, price: tuple[float, float]) -> float | None:
    """Tokens of an answer that ``money`` pays beside the prompt; None: answers are free."""
    into, out = price
    rest = money - prompt * into / _MILLION
    if out > 0:
        return rest * _MILLION / out
    return None if rest >= 0 else -1.0

"""How Claude is asked to think, whoever carries the request: Anthropic's Messages and Amazon Bedrock's Converse.

Law of this room: one model, one meaning of a level. Each wire says where the members go and what its messages look
like; which members they are is said here. The switches are listed in ``anthropic_request``. Sources:
platform.claude.com, extended thinking, adaptive thinking, effort; Bedrock user guide, adaptive thinking.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from providers.request_parts import may_begin_thinking
from providers.spec import Json, ModelRequest

#: Answer tokens when neither agent nor family says; a thinking budget comes on top.
DEFAULT_MAX_TOKENS = 4096

#: Thinking tokens that a level stands for.
_BUDGETS = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 32768,
    "max": 63999,
    "auto": 8192,
}
#: The vendor's least.
_LEAST = 1024
#: Effort that a level stands for where the vendor has no such word; None: its own default.
_EFFORTS: dict[str, str | None] = {"minimal": "low", "auto": None}
#: Budgets up to which an effort stands for them, in tokens; more is ``max``.
_EFFORT_BUDGETS = ((4096, "low"), (16384, "medium"), (32768, "high"))


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request says of thinking.

    :ivar thinks: the model will think, so that sampling is refused.
    :ivar asks: it is asked to.
    :ivar fields: members of Claude's own body: ``thinking``, ``output_config``.
    :ivar budget: tokens of ``fields`` that count into the answer's limit.
    """

    thinks: bool
    asks: bool = False
    fields: Json = field(default_factory=dict)
    budget: int | None = None


def ask_claude(
    request: ModelRequest, messages: Sequence[Mapping[str, t.Any]], call: str, thoughts: tuple[str, ...]
) -> Asked:
    """Ask for thinking, or for none.

    :param messages: the conversation as it is sent; see ``request_parts.may_begin_thinking``, as for the others.
    """
    dialect, level = request.dialect, request.thinking
    off = dialect.get("thinking_off", "omit")
    by_default = bool(off != "omit")
    if level == "none":
        return Asked(by_default, fields={} if off in ("omit", "never") else {"thinking": {"type": off}})
    if level is None and not request.show_thinking:
        return Asked(by_default)
    if dialect.get("thinking") == "adaptive":
        level = "auto" if level is None and by_default else level or "medium"
        return Asked(True, True, _adaptive(request, level))
    if not may_begin_thinking(messages, call, thoughts):
        return Asked(False)
    budget = level if isinstance(level, int) else _BUDGETS.get(level or "medium", _BUDGETS["medium"])
    budget = max(_LEAST, budget)
    return Asked(True, True, {"thinking": {"type": "enabled", "budget_tokens": budget}}, budget)


def answer_limit(request: ModelRequest, budget: int | None) -> int:
    """The most tokens of the answer, thinking included: the vendor counts it into the limit.

    :param budget: the thinking tokens asked for; None: none are.
    """
    limit = request.max_tokens or DEFAULT_MAX_TOKENS
    if budget is not None and (request.max_tokens is None or request.max_tokens <= budget):
        limit += budget
    return limit


def _adaptive(request: ModelRequest, level: str | int) -> Json:
    fields: Json = {"thinking": {"type": "adaptive"}}
    if request.show_thinking:  # without it these models keep their thinking to themselves
        fields["thinking"]["display"] = "summarized"
    if isinstance(level, int):
        level = next((name for budget, name in _EFFORT_BUDGETS if level <= budget), "max")
    effort = {**_EFFORTS, **(request.dialect.get("levels") or {})}.get(level, level)
    if effort is not None:
        fields["output_config"] = {"effort": effort}
    return fields

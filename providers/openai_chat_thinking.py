"""How the chat-completions wire asks for thinking: one vendor's way each, chosen by the dialect.

Law of this room: asked only for what the workflow sets or somebody may see, in the vendor's own words; what a
vendor has no word for is not sent. The switches are listed in ``openai_chat_request``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from providers.openai_shapes import effort_of
from providers.spec import Json, ModelRequest

Level = str | int

_FORCED = ("auto", "none")


def ask_for_thinking(request: ModelRequest, body: Json) -> None:
    """Add to ``body`` what asks for the thinking that the workflow sets, or that someone may see."""
    way = request.dialect.get("thinking", "")
    level = _wanted(request)
    if level is not None and way != "never":
        _ASKS.get(way, _effort)(level, _Words(request), body)


def _wanted(request: ModelRequest) -> Level | None:
    """The level to ask for; None asks nothing."""
    dialect = request.dialect
    if request.thinking is not None:
        return request.thinking
    if dialect.get("thinking") not in _ASKS:
        return None
    if dialect.get("thinks_by_default"):
        forced = bool(request.tools) and request.tool_choice not in _FORCED
        return "none" if forced and dialect.get("forced_tool_with_thinking") is False else None
    return "medium" if request.show_thinking else None


class _Words:
    """A vendor's words for the levels, and the switches that the ways of asking share."""

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self.dialect = request.dialect

    def effort(self, level: Level) -> str | None:
        """The vendor's word for ``level``; None when it is not said."""
        return effort_of(level, self.dialect.get("levels"))

    def budget(self, level: Level) -> int | None:
        """Thinking tokens that ``level`` stands for, where the family says so."""
        if isinstance(level, int):
            return level
        budgets: Mapping[str, int] = self.dialect.get("budgets") or {}
        return budgets.get(level)


def _effort(level: Level, words: _Words, body: Json) -> None:
    effort = words.effort(level)
    if effort is not None:
        body["reasoning_effort"] = effort


def _object(level: Level, words: _Words, body: Json) -> None:
    if level == "none":
        body["reasoning"] = {"enabled": False}
        return
    if isinstance(level, int):
        asked: Json = {"max_tokens": level}
    else:
        effort = words.effort(level)
        asked = {"enabled": True} if effort is None else {"effort": effort}
    if not words.request.show_thinking and not words.request.tools:
        # Nobody sees it and no later turn of a tool loop gives it back: spare the bytes.
        asked["exclude"] = True
    body["reasoning"] = asked


def _type(level: Level, words: _Words, body: Json) -> None:
    word = "disabled" if level == "none" else "enabled"
    body["thinking"] = {"type": (words.dialect.get("type_words") or {}).get(word, word)}


def _type_effort(level: Level, words: _Words, body: Json) -> None:
    _type(level, words, body)
    if level != "none":
        _effort(level, words, body)


def _toggle_effort(level: Level, words: _Words, body: Json) -> None:
    if level == "none":
        body["reasoning"] = {"enabled": False}
    else:
        _effort(level, words, body)


def _enable(level: Level, words: _Words, body: Json) -> None:
    body["enable_thinking"] = level != "none"
    budget = words.budget(level)
    if budget is not None:
        body["thinking_budget"] = budget


def _anthropic(level: Level, words: _Words, body: Json) -> None:
    """Anthropic's object behind a gateway; its budget counts into the answer's limit."""
    budget = words.budget(level)
    if level == "none" or budget is None:
        return
    body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    field = words.dialect.get("max_tokens_field", "max_tokens")
    limit = body.get(field)
    if limit is None or limit <= budget:
        body[field] = budget + (limit or 4096)


def _template(level: Level, words: _Words, body: Json) -> None:
    keys: tuple[str, ...] = words.dialect.get("template_keys") or ("enable_thinking",)
    kwargs: Json = dict.fromkeys(keys, level != "none")
    if words.dialect.get("template_effort") and level != "none":
        effort = words.effort(level)
        if effort is not None:
            kwargs["reasoning_effort"] = effort
    body["chat_template_kwargs"] = kwargs


def _template_and_effort(level: Level, words: _Words, body: Json) -> None:
    _template(level, words, body)
    if level != "none":
        _effort(level, words, body)


_ASKS: Mapping[str, Callable[[Level, _Words, Json], None]] = {
    "anthropic": _anthropic,
    "effort": _effort,
    "enable": _enable,
    "reasoning": _object,
    "template": _template,
    "template_and_effort": _template_and_effort,
    "toggle_effort": _toggle_effort,
    "type": _type,
    "type_effort": _type_effort,
}

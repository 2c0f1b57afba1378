"""What ``interrupt()`` asks, as questions to people, and their answers as what it returns. Pure.

Law of this room: an answer goes back to the interrupt that asked, by its id, never by its place.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plugins.langgraph_app.messages import plain
from plugins.spec.decisions import Answer, Ask

#: Members of an interrupt's value that mean something to us, the first one that is there.
_DRAFTS = ("draft", "text", "content", "answer")
_PROMPTS = ("prompt", "question", "message", "task", "instruction", "description")
_REASONS = "reasons"

Resume = t.Literal["plain", "full"] | t.Callable[[t.Any, Answer], t.Any]


@dataclass(frozen=True, slots=True)
class Pending:
    """An interrupt that waits for its answer."""

    id: str
    value: t.Any

    def asks(self) -> list[Ask]:
        """The questions it makes: one, or one for each call that it wants reviewed."""
        calls = _calls(self.value)
        if calls is None:
            return [self._ask()]
        return [
            Ask(
                key=f"{self.id}-{place}",
                kind="tool",
                tool=call.name,
                arguments=call.arguments,
                prompt=call.description,
            )
            for place, call in enumerate(calls)
        ]

    def _ask(self) -> Ask:
        value = plain(self.value)
        if isinstance(value, str):
            return Ask(key=self.id, kind="answer", prompt=value)
        if not isinstance(value, Mapping):
            return Ask(key=self.id, kind="answer", show={"value": value})
        prompt, draft = _first(value, _PROMPTS), _first(value, _DRAFTS)
        reasons = value.get(_REASONS)
        reasons = [str(reason) for reason in reasons] if isinstance(reasons, Sequence) and reasons else []
        told = {prompt, draft, _REASONS}
        text = None if prompt is None else str(value[prompt])
        show = {name: item for name, item in value.items() if name not in told}
        name, arguments = value.get("tool"), value.get("arguments")
        if isinstance(name, str) and isinstance(arguments, Mapping):
            rest = {key: item for key, item in show.items() if key not in ("tool", "arguments")}
            return Ask(
                self.id, "tool", tool=name, arguments=arguments, reasons=reasons, prompt=text, show=rest
            )
        shown = None if draft is None else str(value[draft])
        return Ask(self.id, "answer", draft=shown, reasons=reasons, prompt=text, show=show)

    def resume(self, answers: Mapping[str, Answer], how: Resume) -> t.Any:
        """What the interrupt returns, of the answers to all its questions."""
        calls = _calls(self.value)
        if calls is None:
            answer = answers[self.id]
            if callable(how):
                return how(self.value, answer)
            return _full(answer) if how == "full" else _plain(answer)
        given = [(call, answers[f"{self.id}-{place}"]) for place, call in enumerate(calls)]
        if "action_requests" in _mapping(self.value):
            return {"decisions": [_decision(call, answer) for call, answer in given]}
        responses = [_response(call, answer) for call, answer in given]
        return responses if isinstance(self.value, (list, tuple)) else responses[0]


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: Mapping[str, t.Any]
    description: str | None
    may_respond: bool = False


def _calls(value: t.Any) -> list[_Call] | None:
    """The calls that are to be reviewed; None of any other interrupt.

    LangChain's middleware asks ``{"action_requests": [{"name", "args", "description"?}], …}`` and LangGraph's prebuilt
    inbox ``[{"action_request": {"action", "args"}, "config": {…}, "description"?}]``.
    """
    if isinstance(requests := _mapping(value).get("action_requests"), Sequence) and requests:
        return [_Call(str(r["name"]), _arguments(r), r.get("description")) for r in requests]
    listed = value if isinstance(value, (list, tuple)) else [value]
    if not listed or not all("action_request" in _mapping(item) for item in listed):
        return None
    return [
        _Call(
            str(item["action_request"]["action"]),
            _arguments(item["action_request"]),
            item.get("description"),
            bool((item.get("config") or {}).get("allow_respond")),
        )
        for item in listed
    ]


def _arguments(request: Mapping[str, t.Any]) -> Mapping[str, t.Any]:
    found = plain(request.get("args", request.get("arguments")) or {})
    return found if isinstance(found, Mapping) else {"value": found}


def _mapping(value: t.Any) -> Mapping[str, t.Any]:
    return value if isinstance(value, Mapping) else {}


def _first(value: Mapping[str, t.Any], names: Sequence[str]) -> str | None:
    return next((name for name in names if isinstance(value.get(name), str)), None)


def _plain(answer: Answer) -> t.Any:
    if answer.verdict == "edit":
        return answer.text if answer.text is not None else dict(answer.arguments or {})
    return answer.verdict == "approve"


def _full(answer: Answer) -> dict[str, t.Any]:
    arguments = None if answer.arguments is None else dict(answer.arguments)
    return {
        "decision": answer.verdict,
        "text": answer.text,
        "arguments": arguments,
        "reason": answer.reason,
    }


def _decision(call: _Call, answer: Answer) -> dict[str, t.Any]:
    if answer.verdict == "approve":
        return {"type": "approve"}
    if answer.verdict == "edit":
        return {"type": "edit", "edited_action": {"name": call.name, "args": dict(answer.arguments or {})}}
    reason = answer.reason or ("Nobody answered in time." if answer.verdict == "expired" else None)
    return {"type": "reject", **({"message": reason} if reason else {})}


def _response(call: _Call, answer: Answer) -> dict[str, t.Any]:
    if answer.verdict == "approve":
        return {"type": "accept", "args": None}
    if answer.verdict == "edit" and answer.arguments is not None:
        return {"type": "edit", "args": {"action": call.name, "args": dict(answer.arguments)}}
    said = answer.text or answer.reason
    if said and call.may_respond:
        return {"type": "response", "args": said}
    return {"type": "ignore", "args": None}

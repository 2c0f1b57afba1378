"""The ``data`` of run events, made from one value at a time (contract section 5).

Law of this room: pure; who may see what is decided elsewhere. Usage has the same figures as everywhere, in
snake_case, ``cost`` a number with ``currency`` and ``estimated`` beside it. What is absent there is absent here.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

from app import events as ev
from app.clock import rfc3339
from app.encoding import clean_text, dumps

#: Members of ``data`` that also stand at the top of their frame.
MIRRORED = ("usage", "tool_name", "tool_input", "output", "sender")

#: Most bytes of a tool's output in a frame.
OUTPUT_LIMIT = 64 * 1024

#: The type of the block that makes the run's output; what it makes stands in ``body``.
RESPONSE = "response"

_TOKENS = {"cacheRead": "cache_read", "cacheWrite": "cache_write"}
_TIMES = {
    "durationMs": "duration_ms",
    "activeMs": "active_ms",
    "queuedMs": "queued_ms",
    "humanWaitMs": "human_wait_ms",
}
_SHARES = {"byBlock": "by_block", "byModel": "by_model"}


def snake_usage(usage: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """``usage`` of a terminal event for ``done``."""
    body = _share(usage)
    body |= {ours: usage[theirs] for theirs, ours in _TIMES.items() if theirs in usage}
    for theirs, ours in _SHARES.items():
        if theirs in usage:
            body[ours] = {name: _share(share) for name, share in usage[theirs].items()}
    return body


def _share(share: Mapping[str, t.Any]) -> dict[str, t.Any]:
    tokens = share.get("tokens", {})
    body: dict[str, t.Any] = {"tokens": {_TOKENS.get(name, name): count for name, count in tokens.items()}}
    cost = share.get("cost")
    if cost is not None:
        body |= {"cost": cost["total"], "currency": cost["currency"], "estimated": cost["estimated"]}
    return body


def call_of(event: ev.ToolExecuting | ev.ToolFinished) -> dict[str, t.Any]:
    """Which call an event is about."""
    return {"tool_call_id": event.id, "node_id": event.block, "tool_name": event.name}


def node_of(block: str, kind: str, name: str, execution: int) -> dict[str, t.Any]:
    """Which execution of which block an event is about."""
    return {
        "node_id": block,
        "node_type": kind,
        "node_name": name,
        "node_run_id": f"{block}:{execution}",
    }


def text_of(output: Mapping[str, t.Any] | None, kind: str, relays: bool = False) -> str:
    """What a block's output says to people; empty when it says nothing.

    :param relays: it is a guardrail that says what it let through, also where others go on with it.
    """
    found = output or {}
    value = found.get("body" if kind == RESPONSE else "content")
    if relays and value is None and found.get("passed") is True:
        value = found.get("text")
    if isinstance(value, str):
        return value
    return dumps(value).decode() if kind == RESPONSE and value is not None else ""


def bounded(output: t.Any) -> tuple[t.Any, dict[str, t.Any]]:
    """``output``, cut to what a frame may hold, and what is to be said of that."""
    encoded = dumps(output)
    if len(encoded) <= OUTPUT_LIMIT:
        return output, {}
    text = clean_text(output) if isinstance(output, str) else encoded.decode()
    cut = text.encode()[:OUTPUT_LIMIT].decode(errors="ignore")
    return cut, {"truncated": True, "size": len(encoded)}


def ask_of(event: ev.DecisionRequested, payloads: bool) -> dict[str, t.Any]:
    """What is told of a question to people.

    :param payloads: whether the reader may see what is decided upon, which is what nobody has released yet.
    """
    review = dict(event.review)
    if not payloads:
        review = {name: review[name] for name in ("kind", "tool") if name in review}
    expires_at = None if event.expires_at is None else rfc3339(event.expires_at)
    return without_none(
        node_id=event.block,
        pause_id=event.pause_id,
        tool_call_id=event.call,
        review=review,
        expires_at=expires_at,
    )


def ending(event: ev.Terminal) -> tuple[tuple[str, dict[str, t.Any]] | None, dict[str, t.Any]]:
    """What is told of an end before ``flow_state``, if anything, and the data of ``done``."""
    told: tuple[str, dict[str, t.Any]] | None = None
    status, cause = "completed", None
    if isinstance(event, ev.RunFailed):
        status, cause = "failed", ev.failure_cause(event.code)
        data = without_none(error=event.message, code=event.code, node_id=event.block)
        told = ("error" if event.block is None else "workflow_error"), data
    elif isinstance(event, ev.RunTimedOut):
        status, cause = "timed_out", "execution_timeout"
        told = "error", {"error": ev.TIMEOUT_TEXT, "code": "timed_out"}
    elif isinstance(event, ev.RunCancelled):
        status, cause = "cancelled", event.cause
        told = _cancelled(event)
    return told, without_none(usage=snake_usage(event.usage), status=status, cause=cause)  # type: ignore[attr-defined]  # each has it


def _cancelled(event: ev.RunCancelled) -> tuple[str, dict[str, t.Any]]:
    if event.cause == "server_shutdown":
        return "error", {"error": ev.cancel_text(event.cause), "code": "cancelled"}
    following = list(event.following)
    data: dict[str, t.Any] = {"node_id": following[0]} if following else {}
    return "workflow_stopped", data | ({"node_ids": following} if len(following) > 1 else {})


def without_none(**members: t.Any) -> dict[str, t.Any]:
    """The members that are there."""
    return {name: value for name, value in members.items() if value is not None}


def _decided(event: ev.DecisionSettled) -> tuple[str, dict[str, t.Any]]:
    return "decision_settled", {
        "node_id": event.block,
        "pause_id": event.pause_id,
        "decision": event.decision,
    }


def _loop(event: ev.LoopIteration) -> tuple[str, dict[str, t.Any]]:
    return "workflow_loop", {"node_id": event.block, "iteration": event.iteration, "path": event.path}


def _route(event: ev.RouteChosen) -> tuple[str, dict[str, t.Any]]:
    return "routing_decision", without_none(node_id=event.block, route=event.route, reason=event.reason)


def _step(event: ev.SequenceStep) -> tuple[str, dict[str, t.Any]]:
    data = {"node_id": event.block, "agent_index": event.index, "name": event.name}
    return f"sequential_{event.phase}", data


def _debate_started(event: ev.DebateStarted) -> tuple[str, dict[str, t.Any]]:
    people = [{"index": place, "name": name} for place, name in enumerate(event.participants)]
    return "debate_start", {"node_id": event.block, "participants": people, "rounds": event.rounds}


def _debate_round(event: ev.DebateRound) -> tuple[str, dict[str, t.Any]]:
    return "debate_round", {"node_id": event.block, "round": event.round}


def _debate_ended(event: ev.DebateEnded) -> tuple[str, dict[str, t.Any]]:
    return "debate_end", {"node_id": event.block, "round": event.round, "consensus": event.consensus}


def _ballot(event: ev.VoteCast) -> tuple[str, dict[str, t.Any]]:
    abstained = True if event.vote is None else None
    sender = None if event.sender is None else {"name": event.sender}
    return "vote_cast", without_none(
        node_id=event.block,
        vote=event.vote,
        abstained=abstained,
        voter_index=event.voter_index,
        sender=sender,
    )


def _vote_closed(event: ev.VoteClosed) -> tuple[str, dict[str, t.Any]]:
    return "vote_result", {
        "node_id": event.block,
        "votes": dict(event.votes),
        "winner": event.winner,
        "has_majority": event.has_majority,
        "abstained": event.abstained,
    }


#: Events that become one frame which needs nothing but them.
PLAIN: Mapping[type[ev.RunEvent], Callable[[t.Any], tuple[str, dict[str, t.Any]]]] = {
    ev.DecisionSettled: _decided,
    ev.LoopIteration: _loop,
    ev.RouteChosen: _route,
    ev.SequenceStep: _step,
    ev.DebateStarted: _debate_started,
    ev.DebateRound: _debate_round,
    ev.DebateEnded: _debate_ended,
    ev.VoteCast: _ballot,
    ev.VoteClosed: _vote_closed,
}

"""The parameters of ``GET /api/runs/{id}/events``: which surface, how much of it, and from where on.

Law of this room: strict, as for bodies; a parameter that the surface does not know is a problem with its path.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import Problem, ValidationFailed

#: Surfaces that can be attached to, with the parameters of each.
PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "agent-events-v1": ("includeThinking", "includeToolCalls"),
    "agent-text": (),
    "runs": ("events", "includeThinking"),
    "graph": (),
    "builder": ("replay",),
}
#: Parameters that belong to some surfaces only.
_OF_SOME = ("includeThinking", "includeToolCalls", "events", "replay")
PARAMETERS = ("protocol", *_OF_SOME, "after")
REPLAYS = ("all", "durable")
LEVELS = ("full", "messages", "minimal")

#: A number no run ever counts to.
_MAX_SEQ = 10**15
_CURSOR = re.compile(r"(?P<run>[A-Za-z0-9_-]{1,100}):(?P<seq>[0-9]{1,15})")


@dataclass(frozen=True, slots=True)
class AttachQuery:
    """What an attacher asks for.

    :ivar after: number of the last event it has; 0: none. :ivar where: what said so.
    :ivar replay: ``durable``: what is provisional is left out.
    """

    protocol: str
    include_thinking: bool
    include_tool_calls: bool
    events: t.Literal["full", "messages", "minimal"]
    after: int
    where: str
    replay: t.Literal["all", "durable"] = "all"


def load_attach(
    sent: Mapping[str, str], problems: list[Problem], run_id: str, last_event_id: str
) -> AttachQuery:
    """The parameters, checked.

    :param sent: the query. :param problems: what is wrong with its names.
    :param last_event_id: the header ``Last-Event-ID``; it is newer than ``after``, which an ``EventSource`` repeats
        unchanged.
    :raises ValidationFailed: 400 with every problem.
    """
    protocol = sent.get("protocol", "agent-events-v1")
    if protocol not in PROTOCOLS:
        problems.append(Problem("protocol", f"unknown; there are {', '.join(PROTOCOLS)}"))
    else:
        problems += [
            Problem(name, f"is not for protocol={protocol}; {_whose(name)}")
            for name in _OF_SOME
            if name in sent and name not in PROTOCOLS[protocol]
        ]
    flags = [_flag(name, sent, problems) for name in ("includeThinking", "includeToolCalls")]
    level = sent.get("events", "full")
    if level not in LEVELS:
        problems.append(Problem("events", f"unknown; there are {', '.join(LEVELS)}"))
    replay = sent.get("replay", "all")
    if replay not in REPLAYS:
        problems.append(Problem("replay", f"unknown; there are {', '.join(REPLAYS)}"))
    where, cursor = ("Last-Event-ID", last_event_id) if last_event_id else ("after", sent.get("after", ""))
    after = _after(where, cursor, run_id, problems)
    if after and protocol == "agent-text":
        problems.append(Problem(where, "frames of agent-text have no id; attach without it"))
    if problems:
        raise ValidationFailed(problems)
    return AttachQuery(
        protocol, flags[0], flags[1], t.cast("t.Any", level), after, where, t.cast("t.Any", replay)
    )


def _whose(name: str) -> str:
    return "it belongs to " + " and ".join(p for p, names in PROTOCOLS.items() if name in names)


def _flag(name: str, sent: Mapping[str, str], problems: list[Problem]) -> bool:
    value = sent.get(name, "false")
    if value not in ("true", "false"):
        problems.append(Problem(name, "give true or false"))
    return value == "true"


def _after(where: str, cursor: str, run_id: str, problems: list[Problem]) -> int:
    if not cursor:
        return 0
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        problems.append(Problem(where, f"is no id of an event; those of this run are {run_id}:<number>"))
        return 0
    if found["run"] != run_id:
        problems.append(
            Problem(where, f"is an id of the run '{found['run']}'; this is the run '{run_id[:100]}'")
        )
        return 0
    return min(int(found["seq"]), _MAX_SEQ)

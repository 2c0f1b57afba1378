"""What the arrival of test frames says about the way they came: pure, numbers in, findings out.

Law of this room: no socket, no clock, no words for people. A frame is late only against what the server says of when it
was sent, and one stall of a machine or a network is no finding: what holds back does so again and again.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
import typing as t
from dataclasses import dataclass, field

#: Share of the frames of one kind that came together with the one before: under it the way is clear, over it something
#: holds back, and between zero and it the way is unsteady.
HELD, UNSTEADY = 0.4, 0.15
#: Two frames came together when less than this part of the time between their sending lies between them.
_TOGETHER = 0.25
#: What is tried as an explanation: bytes and seconds, each some 3 % more than the one before, and moments of a start.
_SIZES = tuple(round(64 * 1.03**step) for step in range(230))
_TIMES = tuple(round(0.2 * 1.03**step, 3) for step in range(115))
_PHASES = 8
#: An explanation holds for a frame that came within this part of a spacing; it has to hold for so many of them.
_NEAR, _EXPLAINED = 0.6, 0.75
#: Part of the time of sending in which everything came: it was all one lump.
_AT_ONCE = 0.2
#: Sweeps, in parts of the keepalive interval, that a keepalive may come after its time.
_SWEEPS = 0.7


_Number = t.TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One frame.

    :ivar kind: its ``event``: ``check`` (the first), ``small``, ``padded``, ``silence``, ``done``.
    :ivar size: bytes of the frame.
    :ivar sent: seconds after the first frame, as the server says.
    :ivar arrived: seconds after the request was sent.
    """

    kind: str
    size: int
    sent: float
    arrived: float


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of one check.

    :ivar keepalives: when comments came, in seconds after the request was sent.
    :ivar ended: when the connection ended.
    :ivar complete: the last frame came.
    :ivar keepalive_s: of the server. :ivar silence_s: asked for.
    """

    frames: tuple[Arrival, ...]
    keepalives: tuple[float, ...] = ()
    ended: float = 0.0
    complete: bool = True
    keepalive_s: float = 15.0
    silence_s: float = 0.0
    spacing_s: float = 0.2


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was seen; ``facts`` are its figures, by the names that ``--json`` prints."""

    code: str
    facts: dict[str, t.Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Phase:
    """How the frames of one kind came: ``late_ms`` is the latest of them, ``together`` counts those in lumps."""

    count: int
    together: int
    late_ms: int

    @property
    def share(self) -> float:
        """The part of them that came together with the one before."""
        return self.together / self.count if self.count else 0.0


def phase(seen: Observation, kind: str) -> Phase:
    """How the frames of ``kind`` came."""
    frames = seen.frames
    pairs = [
        (one, two) for one, two in itertools.pairwise(frames) if two.kind == kind and two.sent > one.sent
    ]
    together = sum(1 for one, two in pairs if _together(one, two))
    late = [_late(seen, frame) for frame in frames if frame.kind == kind]
    return Phase(len(pairs), together, round(max(late, default=0.0) * 1000))


def judge(seen: Observation) -> list[Finding]:
    """Everything that is to be said of ``seen``, gravest first."""
    found = _cut(seen)
    held = _held(seen)
    if held is not None:
        found.append(held)
    return found + _keepalives(seen, held)


def _together(one: Arrival, two: Arrival) -> bool:
    return two.arrived - one.arrived < _TOGETHER * (two.sent - one.sent)


def _late(seen: Observation, frame: Arrival) -> float:
    """Seconds it came later than the quickest of all frames would have had it come."""
    return frame.arrived - frame.sent - min(each.arrived - each.sent for each in seen.frames)


# -- held back ---------------------------------------------------------------------------------------


def _held(seen: Observation) -> Finding | None:
    frames = seen.frames
    if len(frames) < 3:
        return None
    small, padded = phase(seen, "small"), phase(seen, "padded")
    arrival, sending = frames[-1].arrived - frames[0].arrived, frames[-1].sent - frames[0].sent
    if arrival < _AT_ONCE * sending:
        facts = {"bytes": sum(frame.size for frame in frames), "seconds": round(sending, 1)}
        return Finding("at_once", facts)
    if (small.share >= HELD or padded.share >= HELD) and not _stalled_once(seen):
        return _lumps(seen)
    if _holds_the_last(seen):
        return Finding("one_behind")
    if max(small.share, padded.share) > UNSTEADY:
        return Finding("unsteady", {"lateMs": max(small.late_ms, padded.late_ms)})
    return None


def _holds_the_last(seen: Observation) -> bool:
    """Whether the last frame of each kind came only with what followed the rest after it."""
    rest = 2 * seen.spacing_s
    lasts = {frame.kind: frame for frame in seen.frames if frame.kind in ("small", "padded")}
    return len(lasts) == 2 and all(_late(seen, frame) > rest for frame in lasts.values())


def _stalled_once(seen: Observation) -> bool:
    """Whether what was late came at one moment, in the middle of what was not: a way that holds back does so again."""
    rest = 2 * seen.spacing_s
    late = [place for place, frame in enumerate(seen.frames) if _late(seen, frame) > rest]
    if not late or late[0] < 5 or late[-1] == len(seen.frames) - 1:
        return False
    came = [seen.frames[place].arrived for place in late]
    return late[-1] - late[0] == len(late) - 1 and came[-1] - came[0] < seen.spacing_s


def _lumps(seen: Observation) -> Finding:
    """What decides when something goes on: how much there is, or how long it has waited. Whichever explains more."""
    size, of_size = _best({size: _explained_by_size(seen, size) for size in _SIZES})
    every, of_time = _best({every: _explained_by_time(seen, every) for every in _TIMES})
    if max(of_size, of_time) < _EXPLAINED:
        return Finding("lumps")
    if of_size >= of_time:
        return Finding("by_size", {"bytes": size})
    return Finding("by_time", {"seconds": round(every, 1)})


def _best(scores: dict[_Number, float]) -> tuple[_Number, float]:
    """What explains most, and how much; of several that do equally well the one in the middle."""
    best = max(scores.values())
    fitting = [tried for tried, score in scores.items() if score == best]
    return fitting[len(fitting) // 2], best


def _explained_by_size(seen: Observation, size: int) -> float:
    """The part of the frames that came when they would have, were it passed on in lumps of ``size`` bytes, or whenever
    there are so many.
    """
    frames = seen.frames
    totals = list(itertools.accumulate(frame.size for frame in frames))
    lumps = [total // size * size for total in totals]
    whole, passed = [], 0
    for total in totals:
        passed = total if total - passed >= size else passed
        whole.append(passed)
    return max(_explained(seen, _released(seen, totals, passed)) for passed in (lumps, whole))


def _released(seen: Observation, totals: list[int], passed: list[int]) -> list[float]:
    """When each frame goes on, where ``passed`` is what has gone on after each was sent; the end brings the rest."""
    last = len(totals) - 1
    return [seen.frames[bisect.bisect_left(passed, total, hi=last)].sent for total in totals]


def _explained_by_time(seen: Observation, every: float) -> float:
    """The same, were everything passed on ``every`` so many seconds, from whenever on."""
    end = seen.frames[-1].sent
    scores = []
    for part in range(_PHASES):
        begin = every * part / _PHASES
        due = [begin + math.ceil((frame.sent - begin) / every) * every for frame in seen.frames]
        scores.append(_explained(seen, [min(end, at) for at in due]))
    return max(scores)


def _explained(seen: Observation, due: t.Sequence[float]) -> float:
    late = [frame.arrived - at for frame, at in zip(seen.frames, due, strict=True)]
    usual = statistics.median(late)
    return sum(1 for each in late if abs(each - usual) < _NEAR * seen.spacing_s) / len(late)


# -- cut, and keepalives -----------------------------------------------------------------------------


def _cut(seen: Observation) -> list[Finding]:
    if seen.complete:
        return []
    if not seen.frames:
        return [Finding("nothing", {"afterSeconds": round(seen.ended, 1)})]
    last = max([0.0, *(frame.arrived for frame in seen.frames), *seen.keepalives])
    quiet = seen.ended - last
    facts = {"afterSeconds": round(seen.ended, 1), "quietSeconds": round(quiet, 1)}
    # Something came shortly before: it was not for silence that it was cut.
    return [Finding("cut_when_silent" if quiet > 2 * seen.spacing_s else "cut", facts)]


def _keepalives(seen: Observation, held: Finding | None) -> list[Finding]:
    if not seen.complete or seen.silence_s < seen.keepalive_s:
        return []
    expected = int(seen.silence_s / (seen.keepalive_s * (1 + _SWEEPS)))
    done = seen.frames[-1].arrived
    came = sum(1 for at in seen.keepalives if at < done - _TOGETHER * seen.keepalive_s)
    if expected and not seen.keepalives:
        return [Finding("no_keepalives", {"expected": expected})]
    if expected and not came and held is None:
        return [Finding("late_keepalives", {"expected": expected})]
    return []

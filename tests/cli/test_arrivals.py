"""What arrivals mean: the server's own plan, sent through things that hold back in every way that is known."""

from __future__ import annotations

import random
import typing as t
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app import encoding
from app.cli import stream_advice
from app.cli.arrivals import Arrival, Finding, Observation, judge, phase
from app.streams import sse
from app.web.stream_check import Plan, frames

LATENCY = 0.03
PLAN = Plan()

Sent = list[tuple[str, int, float]]


def plan(silence_s: int = 0) -> Sent:
    """Kind, bytes and second of each frame, as the server sends them."""
    hello = ("check", 180, 0.0)
    rest = [
        (frame["event"], len(sse.frame(encoding.dumps({**frame, "atMs": round(at * 1000)}))), at)
        for at, frame in frames(replace(PLAN, silence_s=silence_s))
    ]
    return [hello, *rest]


def observed(sent: Sent, arrived: t.Sequence[float], **more: t.Any) -> Observation:
    came = tuple(Arrival(kind, size, at, when) for (kind, size, at), when in zip(sent, arrived, strict=True))
    return Observation(came, **{"ended": arrived[-1], "spacing_s": PLAN.spacing_ms / 1000, **more})


def by_size(sent: Sent, threshold: int) -> list[float]:
    """Passes on whole lumps of ``threshold`` bytes, and what is left at the end."""
    arrived: list[float] = []
    total = 0
    for _, size, at in sent:
        total += size
        while len(arrived) < len(sent) and sum(s for _, s, _ in sent[: len(arrived) + 1]) <= (
            total // threshold * threshold
        ):
            arrived.append(at + LATENCY)
    return arrived + [sent[-1][2] + LATENCY] * (len(sent) - len(arrived))


def by_time(sent: Sent, every: float) -> list[float]:
    """Passes on what came, every so many seconds."""
    end = sent[-1][2]
    return [min(end, (at // every + 1) * every) + LATENCY for _, _, at in sent]


def codes(seen: Observation) -> list[str]:
    return [finding.code for finding in judge(seen)]


def _jitter(seed: int) -> list[float]:
    """How late each frame is. From a seed: Hypothesis takes minutes over lists of so many floats at times."""
    source = random.Random(seed)
    return [source.uniform(0, 0.08) for _ in range(40)]


JITTER = st.integers(0, 2**32).map(_jitter)


@given(JITTER, st.integers(0, 26), st.integers(0, 900).map(lambda ms: ms / 1000))
@example([0.0] * 40, 5, 0.0)
def test_a_clear_way_has_no_finding_whatever_stalls_once(
    jitter: list[float], where: int, stall: float
) -> None:
    sent = plan()
    arrived = [at + LATENCY + extra for (_, _, at), extra in zip(sent, jitter, strict=False)]
    stalled_until = arrived[where] + stall
    arrived = [max(a, stalled_until) if i >= where else a for i, a in enumerate(arrived)]
    arrived = [max(arrived[: i + 1]) for i in range(len(arrived))]
    assert set(codes(observed(sent, arrived))) <= {"unsteady"}
    if not stall:
        assert codes(observed(sent, arrived)) == []


@given(st.integers(128, 9000))
@example(4096)
@example(8192)
def test_what_waits_for_bytes_is_told_by_how_many(threshold: int) -> None:
    (finding,) = judge(observed(plan(), by_size(plan(), threshold)))
    assert finding.code == "by_size"
    assert threshold / 3 <= finding.facts["bytes"] <= threshold * 3


@given(st.floats(0.5, 2.0))
def test_what_waits_for_time_is_told_by_how_long(every: float) -> None:
    (finding,) = judge(observed(plan(), by_time(plan(), every)))
    assert finding.code == "by_time"
    assert every * 0.6 <= finding.facts["seconds"] <= every * 1.7


@pytest.mark.parametrize("threshold", [50_000, 1 << 20])
def test_everything_at_the_end_is_all_at_once(threshold: int) -> None:
    sent = plan()
    (finding,) = judge(observed(sent, by_size(sent, threshold)))
    assert finding.code == "at_once"
    assert finding.facts["bytes"] == sum(size for _, size, _ in sent)


def test_a_frame_that_only_comes_with_the_next_one_is_one_behind() -> None:
    sent = plan()
    arrived = [at + LATENCY for _, _, at in sent[1:]] + [sent[-1][2] + LATENCY]
    assert codes(observed(sent, arrived)) == ["one_behind"]


def test_a_cut_is_told_by_what_came_before_it() -> None:
    sent = plan(silence_s=60)[:-1]
    arrived = [at + LATENCY for _, _, at in sent]
    silent = observed(sent, arrived, complete=False, ended=arrived[-1] + 10.0, silence_s=60.0)
    (finding,) = judge(silent)
    assert (finding.code, finding.facts["quietSeconds"]) == ("cut_when_silent", 10.0)
    lively = replace(silent, keepalives=(arrived[-1] + 9.9,))
    assert codes(lively) == ["cut"]
    half = replace(silent, frames=silent.frames[:10], ended=silent.frames[9].arrived + 0.01)
    assert codes(half) == ["cut"]
    assert codes(Observation((), ended=1.0, complete=False)) == ["nothing"]


def test_keepalives_of_a_long_silence_are_missed_when_they_do_not_come() -> None:
    sent = plan(silence_s=60)
    seen = observed(sent, [at + LATENCY for _, _, at in sent], silence_s=60.0, keepalive_s=15.0)
    begun = seen.frames[-2].arrived
    assert codes(replace(seen, keepalives=tuple(begun + 15.5 * n for n in (1, 2, 3)))) == []
    assert codes(seen) == ["no_keepalives"]
    assert codes(replace(seen, keepalives=(seen.ended,) * 3)) == ["late_keepalives"]
    # A silence shorter than the server's interval asks for none.
    assert codes(replace(seen, silence_s=10.0)) == []


def test_what_came_together_is_counted_by_kind() -> None:
    sent = plan()
    seen = observed(sent, by_size(sent, 4096))
    assert phase(seen, "small").together >= PLAN.small - 1
    assert phase(seen, "small").count == PLAN.small


@pytest.mark.parametrize("code", stream_advice.SAYS)
def test_every_finding_has_words_and_a_cure(code: str) -> None:
    facts = {
        "bytes": 4096,
        "seconds": 1.0,
        "lateMs": 100,
        "afterSeconds": 60.0,
        "quietSeconds": 10.0,
        "expected": 3,
        "encoding": "gzip",
        "header": "age: 3",
        "changed": "Cache-Control lacks no-cache",
    }
    finding = Finding(code, facts)
    said = stream_advice.says(finding, 15.0)
    assert "{" not in said
    lines = stream_advice.cures(finding, {"server": "nginx"}, 15.0)
    assert bool(lines) is (code != "unsteady")
    assert all("{" not in line for line in lines)


def test_what_shows_itself_in_the_headers_comes_first() -> None:
    finding = Finding("by_size", {"bytes": 4096})
    first = {
        name: stream_advice.cures(finding, headers, 15.0)[0].partition(":")[0]
        for name, headers in {
            "nginx": {"server": "nginx/1.22.1"},
            "apache": {"server": "Apache/2.4.57"},
            "cdn": {"server": "cloudflare"},
            "caddy": {"via": "2.0 Caddy"},
            "none": {},
        }.items()
    }
    assert first == {
        "nginx": "nginx",
        "apache": "Apache",
        "cdn": "A CDN or cloud gateway",
        "caddy": "Caddy",
        "none": "nginx",
    }


def test_the_wait_of_a_proxy_is_cured_on_either_side() -> None:
    """A proxy that waits less than Studio's interval: a longer wait there, or a shorter interval here."""
    finding = Finding("cut_when_silent", {"afterSeconds": 15.0, "quietSeconds": 10.0})
    lines = stream_advice.cures(finding, {"server": "nginx"}, 15.0)
    assert lines[0].startswith("nginx: proxy_read_timeout 60s;")
    assert lines[-1].startswith("Studio: STUDIO_KEEPALIVE_S=2,")

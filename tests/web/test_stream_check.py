"""``GET /api/stream-check``: what is sent and when, its bounds, and that nobody is left behind."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from app.streams import sse as framing
from app.web import stream_check
from app.web.stream_check import Plan, frames
from tests.support import sse
from tests.web.conftest import Studio, assert_error

PATH = "/api/stream-check"
QUICK = {"small": 3, "padded": 3, "spacing_ms": 10}


def test_the_frames_come_in_order_each_with_its_time(studio: Studio) -> None:
    answer = studio.client.get(PATH, query_string=QUICK)
    assert answer.status_code == 200
    for name, value in framing.HEADERS.items():
        assert answer.headers[name] == value
    assert "X-Run-Id" not in answer.headers
    hello, *rest = (frame.json() for frame in sse.parse(answer.get_data()) if frame.comment is None)
    assert hello == {
        "event": "check",
        "version": hello["version"],
        "keepaliveMs": 15000,
        "small": 3,
        "padded": 3,
        "spacingMs": 10,
        "silenceMs": 0,
        "protocol": "HTTP/1.1",
        "forwarded": False,
    }
    assert [frame["event"] for frame in rest] == ["small"] * 3 + ["padded"] * 3 + ["silence", "done"]
    times = [frame["atMs"] for frame in rest]
    planned = [round(at * 1000) for at, _ in frames(Plan(**QUICK))]
    assert times == sorted(times)
    assert all(real >= due - 1 for real, due in zip(times, planned, strict=True))
    assert [len(frame["pad"]) for frame in rest if "pad" in frame] == list(stream_check.PADDING)


def test_a_proxy_that_says_so_is_told_of(studio: Studio) -> None:
    for name in ("X-Forwarded-For", "Via"):
        answer = studio.client.get(PATH, query_string=QUICK, headers={name: "1.1 somebody"})
        assert sse.parse(answer.get_data())[0].json()["forwarded"] is True


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ({"small": "51"}, "small"),
        ({"padded": "31"}, "padded"),
        ({"spacing_ms": "9"}, "spacing_ms"),
        ({"spacing_ms": "1001"}, "spacing_ms"),
        ({"silence_s": "601"}, "silence_s"),
        ({"silence_s": "-1"}, "silence_s"),
        ({"small": "ten"}, "small"),
        ({"small": "٣"}, "small"),
        ({"size": "1"}, "size"),
    ],
)
def test_what_is_out_of_bounds_is_refused(studio: Studio, query: dict[str, str], path: str) -> None:
    assert_error(studio.client.get(PATH, query_string=query), 400, "validation_failed", path=path)


def test_only_so_many_run_at_once(studio: Studio) -> None:
    """Each is let go when its client leaves, and its greenlet with it."""
    checks: set[t.Any] = studio.app.extensions.setdefault("studio.stream_checks", set())
    answers = []
    for _ in range(stream_check.MOST):
        answer = studio.client.get(PATH, query_string={**QUICK, "silence_s": 600})
        assert b'"event":"check"' in next(part for part in answer.response if part)
        answers.append(answer)
    refused = studio.client.get(PATH, query_string=QUICK)
    assert_error(refused, 503, "at_capacity")
    assert refused.headers["Retry-After"]
    for answer in answers:
        answer.close()
    assert checks == set()
    assert studio.client.get(PATH, query_string=QUICK).status_code == 200


def test_an_answer_that_is_thrown_away_counts_for_nobody(studio: Studio) -> None:
    for _ in range(2 * stream_check.MOST):
        assert studio.client.head(PATH, query_string=QUICK).status_code == 200
    assert studio.app.extensions.get("studio.stream_checks", set()) == set()


def test_the_longest_that_can_be_asked_for_ends() -> None:
    longest = Plan(**stream_check._MOST)
    at, last = list(frames(longest))[-1]
    assert last == {"event": "done"}
    assert at < stream_check.SILENCE_S + 100
    assert sum(1 for _ in frames(replace(longest, silence_s=0))) == 50 + 30 + 2

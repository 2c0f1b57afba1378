"""The trace id of a run: a pure function of the run's id."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.clock import SystemClock, time_of, trace_id_of


def test_an_id_of_ours_is_written_in_hexadecimal():
    trace = trace_id_of("run_01m8p4fkm93057r01p2t7ath81")

    assert trace == "01a22c47ce89180a7c0036168ead4501"
    assert int(trace[:12], 16) == time_of("run_01m8p4fkm93057r01p2t7ath81")


def test_the_id_comes_back_from_the_trace():
    clock = SystemClock()
    runs = {clock.new_id("run") for _ in range(200)}

    assert len({trace_id_of(run) for run in runs}) == 200


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_any_other_id_has_one_that_tracing_accepts(run):
    trace = trace_id_of(run)

    assert trace == trace_id_of(run)
    assert len(trace) == 32
    assert int(trace, 16) > 0

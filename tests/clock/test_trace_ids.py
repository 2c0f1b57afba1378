"""The trace id of a run: a pure function of the run's id."""

from __future__ import annotations

import shlex
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from app.clock import SystemClock, time_of, trace_id_of
from tests.support.shared import ROOT


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


def test_the_line_on_the_page_makes_it():
    page = (ROOT / "docs" / "observability.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith("python3 -c")]
    _, flag, code, run = shlex.split(line)
    done = subprocess.run([sys.executable, flag, code, run], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == trace_id_of(run)
    assert done.stdout.strip() in page

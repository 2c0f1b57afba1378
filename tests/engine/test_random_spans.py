"""Spans of random workflows, also of durable ones whose process dies at a random switch: one tree, and all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import events as ev
from app.clock import trace_id_of
from app.engine import motion
from app.engine.run import Run
from tests.engine.durable_runs import PATIENCE_S, carry_on, killed_at, lose_owner
from tests.engine.random_runs import MANY, Rig, rig, told
from tests.engine.random_workflows import TYPES, Workflow, workflows
from tests.support.spans import Traces, context, said

EXAMPLES = 25

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(tmp_path_factory.mktemp("spans")) as opened, pytest.MonkeyPatch.context() as patch:
        patch.setattr(motion, "QUIET_S", 0.001)
        yield opened


def misplaced(traces: Traces, run: Run) -> list[str]:
    """What is wrong with how the spans of a run lie. What a failure cuts off ends in the order in which it began, so
    what is around may end a moment before what is in it.
    """
    run_id, whole = run.id, isinstance(run.ending, ev.RunCompleted)
    by_id = {context(span).span_id: span for span in traces.spans}
    found = [f"two spans of one id, of {len(traces.spans)}"] * (len(by_id) != len(traces.spans))
    for span in traces.spans:
        if f"{context(span).trace_id:032x}" != trace_id_of(run_id) or said(span)["studio.run.id"] != run_id:
            found.append(f"{span.name} is in another trace")
        if span.parent is None:
            continue
        parent = by_id.get(span.parent.span_id)
        if parent is None:
            found.append(f"{span.name} lies under none")
            continue
        until = parent.end_time if whole else max(s.end_time for s in traces.spans)
        if not parent.start_time <= span.start_time <= span.end_time <= until:
            times = (parent.start_time, span.start_time, span.end_time, parent.end_time)
            found.append(f"{span.name} is not within {parent.name}: {times}, {said(span)}, {said(parent)}")
    return found


def blocks(traces: Traces) -> Counter[tuple[str, int]]:
    """How many spans each execution of each block has."""
    spans = [said(span) for span in traces.spans if "studio.block.type" in said(span)]
    return Counter((a["studio.block.id"], a.get("studio.block.execution", 1)) for a in spans)


def calls(events: Sequence[ev.ToolFinished]) -> Counter[tuple[str, str]]:
    return Counter((e.block, e.id) for e in events)


@settings(MANY, max_examples=EXAMPLES)
@given(drawn=workflows(TYPES))
def test_each_execution_and_each_call_has_one_span(made: Rig, drawn: Workflow) -> None:
    traces = Traces(made.made)
    run, recorder = made.start(drawn)
    assert run.done.wait(PATIENCE_S)
    assert not misplaced(traces, run), told(drawn, misplaced(traces, run))
    assert len(traces.begun) == len(traces.spans), "one has not ended"
    assert blocks(traces) == Counter((e.block, e.execution) for e in recorder.of(ev.BlockStarted))
    tools = [said(span) for span in traces.spans if "gen_ai.tool.call.id" in said(span)]
    assert Counter((a["studio.block.id"], a["gen_ai.tool.call.id"]) for a in tools) == calls(
        recorder.of(ev.ToolFinished)
    )


@settings(MANY, max_examples=EXAMPLES)
@given(drawn=workflows(TYPES), switch=st.integers(1, 60))
def test_the_parts_of_a_run_whose_process_dies_are_trees_of_one_trace(
    made: Rig, drawn: Workflow, switch: int
) -> None:
    drawn.document["settings"] = {"durable": True}
    traces = Traces(made.made)
    run, _ = made.start(drawn)
    killed_at(run, switch)
    parts = 1
    if run.ending is None:
        lose_owner(made.made, run)
        found = carry_on(made.made, run.id)
        if found is not None:
            run, parts = found[0], 2
            assert run.done.wait(PATIENCE_S)
    assert not misplaced(traces, run), told(drawn, misplaced(traces, run))
    assert len(traces.begun) == len(traces.spans), "one has not ended"
    assert sum(span.parent is None for span in traces.spans) == parts

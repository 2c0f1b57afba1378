"""Durable runs of random workflows whose process dies at a random switch, again and again, and that wait for people."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import events as ev
from app.agents.calls import UNKNOWN
from app.engine import motion
from app.engine.run import Run
from tests.engine.durable_runs import PATIENCE_S, KilledWithin, Story, carry_on, killed_at, lose_owner
from tests.engine.random_runs import MANY, Rig, faults, rig, told
from tests.engine.random_workflows import APPROVAL, TYPES, Workflow, workflows
from tests.support.engine import Recorder

EXAMPLES = 80

#: Making a failing example small takes longer than any test that passes.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(tmp_path_factory.mktemp("durable")) as opened, pytest.MonkeyPatch.context() as patch:
        patch.setattr(motion, "QUIET_S", 0.001)
        yield opened


def durable(drawn: Workflow) -> Workflow:
    drawn.document["settings"] = {"durable": True}
    return drawn


def one_after_the_other(drawn: Workflow) -> bool:
    """Whether nothing runs beside anything else, and nothing is left to chance."""
    documents = (drawn.document, *drawn.children.values())
    for document in documents:
        ways = Counter((e["source"], e.get("source_handle", "")) for e in document["edges"])
        targets = {e["target"] for e in document["edges"]}
        entries = [b for b in document["blocks"] if b["id"] not in targets]
        kinds = {b["type"] for b in document["blocks"]}
        if any(n > 1 for n in ways.values()) or len(entries) > 1 or kinds & {"parallel", "http"}:
            return False
        if any(b["type"] == "vote" and b["config"]["tie"] == "random" for b in document["blocks"]):
            return False
        if any("timeout_s" in b.get("config", {}) for b in document["blocks"]):
            return False
    return True


#: Within the telling of an event, and which; else at which switch.
_DEATHS = st.one_of(
    st.tuples(st.just(True), st.integers(1, 25)), st.tuples(st.just(False), st.integers(1, 60))
)


class Carried:
    """A run from its start to its end, by as many processes as it takes."""

    def __init__(self, made: Rig, drawn: Workflow) -> None:
        self.made = made
        self.drawn = drawn
        self.run, recorder = made.start(drawn)
        self.story = Story(self.run.id, [recorder])

    def go_on(self) -> bool:
        """Let another process take it up."""
        found = carry_on(self.made.made, self.run.id)
        if found is not None:
            self.run, recorder = found
            self.story.parts.append(recorder)
        return found is not None

    def answer(self, draw: t.Callable[[st.SearchStrategy[t.Any]], t.Any]) -> None:
        """Answer one of the questions that are open; a run that waits goes on with it."""
        decisions = self.made.made.store.decisions
        row = draw(st.sampled_from(decisions.open_of_run(self.run.id)))
        edit = {"arguments": {"times": 1}} if row.review["kind"] == "tool" else {"text": "changed"}
        says = [{"decision": "approve"}, {"decision": "reject", "reason": "no"}, {"decision": "edit", **edit}]
        won, _ = decisions.answer(row.id, draw(st.sampled_from(says)), "somebody")
        assert won
        assert self.go_on()

    def die(self, within: bool, moment: int) -> bool:
        """Let the process die at a moment, unless the run has left it before; whether it has died."""
        if within:
            self.run.attach(KilledWithin(self.run, moment))
        killed_at(self.run, 0 if within else moment)
        if self.run.ending is not None or self.run.paused is not None:
            return False
        lose_owner(self.made.made, self.run)
        assert self.go_on()
        return True

    def unknown(self) -> bool:
        """Whether a call was cut off that may not be repeated: then what comes of it is another thing."""
        told = [e.result for e in self.whole().of(ev.ToolFinished)]
        return any(isinstance(result, dict) and result.get("error") == UNKNOWN for result in told)

    def repeated(self) -> list[str]:
        """Calls of the tool that may not be repeated, and that ran more than once, or ran and are not told so."""
        ran = {call: n for (run, call), n in self.made.wire.calls.items() if run == self.run.id}
        done = {
            e.id for e in self.whole().of(ev.ToolFinished) if e.name == "breathe" and e.status == "success"
        }
        found = [f"call {call} ran {n} times" for call, n in ran.items() if n > 1]
        return found + [f"call {call} was told to have run, and did not" for call in done - ran.keys()]

    def whole(self) -> Recorder:
        """A reader of all of it, from what is stored."""
        recorder = Recorder()
        recorder.envelopes = self.story.stored(self.made.made)
        return recorder


def outputs(run: Run) -> t.Any:
    """What came of a run, without what differs from run to run."""
    assert run.ending is not None
    plain = {name: _same(output) for name, output in run.state.outputs().items()}
    code = run.ending.code if isinstance(run.ending, ev.RunFailed) else None
    return type(run.ending).__name__, code, plain


def _same(value: t.Any) -> t.Any:
    """Without times, ids and what was used, which is more where something was asked again."""
    if isinstance(value, dict):
        left_out = ("providerTiming", "id", "startTime", "endTime", "duration", "tokens", "cost", "time")
        return {key: _same(item) for key, item in value.items() if key not in left_out}
    if isinstance(value, (list, tuple)):
        return [_same(item) for item in value]
    return value


@settings(MANY, max_examples=EXAMPLES)
@given(workflows(TYPES), st.lists(_DEATHS, min_size=1, max_size=3))
def test_a_run_whose_process_dies_goes_on(made: Rig, drawn: Workflow, deaths: list[tuple[bool, int]]) -> None:
    durable(drawn)
    alone = None
    if one_after_the_other(drawn):
        alone, _ = made.start(drawn)
        assert alone.done.wait(PATIENCE_S)
    carried = Carried(made, drawn)
    for death in deaths:
        if not carried.die(*death):
            break
    assert carried.run.done.wait(PATIENCE_S)
    found = carried.story.faults(made.made)
    found += faults(made, drawn, carried.run, carried.whole()) + carried.repeated()
    if alone is not None and not carried.unknown() and outputs(alone) != outputs(carried.run):
        found.append(f"came to {outputs(carried.run)}, alone to {outputs(alone)}")
    assert not found, told(drawn, found)


def asking(drawn: Workflow, draw: t.Callable[[st.SearchStrategy[t.Any]], t.Any]) -> Workflow:
    """The workflow with agents some of whose calls a person has to allow."""
    held = {"name": "breathe", "approval": draw(st.sampled_from(["always", "ask_once"]))}

    def changed(value: t.Any) -> t.Any:
        if isinstance(value, dict) and not value.get("secret"):  # nobody can be asked in a secret vote
            return {
                key: [held if tool == "breathe" else tool for tool in item]
                if key == "tools"
                else changed(item)
                for key, item in value.items()
            }
        return [changed(item) for item in value] if isinstance(value, list) else value

    return Workflow(changed(drawn.document), drawn.scripts, changed(drawn.children))


@settings(MANY, max_examples=EXAMPLES)
@given(workflows((*TYPES, APPROVAL)), st.lists(_DEATHS, max_size=4), st.data())
def test_a_run_that_waits_for_people_goes_on(
    made: Rig, drawn: Workflow, deaths: list[tuple[bool, int]], data: st.DataObject
) -> None:
    carried = Carried(made, durable(asking(drawn, data.draw)))
    left = list(deaths)
    while carried.run.ending is None:
        if left and carried.die(*left.pop()):
            continue
        assert carried.run.done.wait(PATIENCE_S)
        if carried.run.paused is not None:
            carried.answer(data.draw)
    found = carried.story.faults(made.made) + carried.repeated()
    found += faults(made, carried.drawn, carried.run, carried.whole())
    found += _asked(carried)
    assert not found, told(drawn, found)


def _asked(carried: Carried) -> list[str]:
    """Every question is told once, and its answer once."""
    whole, decisions = carried.whole(), carried.made.made.store.decisions.of_run(carried.run.id)
    asked = Counter(event.pause_id for event in whole.of(ev.DecisionRequested))
    settled = Counter(event.pause_id for event in whole.of(ev.DecisionSettled))
    found = [f"{row.id} was asked {asked[row.id]} times" for row in decisions if asked[row.id] != 1]
    due = {row.id: int(row.state in ("answered", "expired")) for row in decisions}
    found += [f"{id_} was settled {settled[id_]} times" for id_, n in due.items() if settled[id_] != n]
    return found + [f"{row.id} is still open" for row in decisions if row.state == "open"]

"""Texts that wait for people; and what was begun when a process went away."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import gevent
import pytest

from app import events as ev
from app.engine.recompiled import compiled
from app.workflows.document import parse
from tests.engine.flows import document
from tests.engine.office import MODEL, Office, agent, asks_for, cleared, offices, results, says
from tests.support.shared import ROOT


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with offices(tmp_path_factory.mktemp("office")) as made:
        yield made


@pytest.fixture
def office(opened: Office) -> Iterator[Office]:
    with cleared(opened) as made:
        yield made


# -- texts ---------------------------------------------------------------------------------------


def review(**config: t.Any) -> list[tuple[str, str, dict[str, t.Any]]]:
    return [
        ("a", "agent", {"model": MODEL}),
        ("r", "approval", {"prompt": "Release it?", **config}),
    ]


def test_nothing_of_a_text_is_the_answer_before_somebody_has_released_it(office: Office) -> None:
    doc = document(review(show=["input.message"], reasons=["no source"]), "start > a", "a > r")
    workflow = compiled(doc, office.made.plugins)
    assert workflow.answer_agents() == ("r",)
    run, recorder = office.start(doc)
    says(office.next_call(), "A draft.")
    row = office.asked(run)["answer"]
    assert dict(row.review) == {
        "kind": "answer",
        "draft": "A draft.",
        "reasons": ["no source"],
        "prompt": "Release it?",
        "show": {"input.message": "go"},
    }
    assert [e.block for e in recorder.of(ev.AnswerSettled)] == ["a"]
    run = office.answer(row, "edit", text="A better one.")
    output = office.output(run)
    assert (output["content"], output["decision"], output["by"]) == ("A better one.", "edit", "key_7")
    settled = {e.block: e.text for e in office.stream(run) if isinstance(e, ev.AnswerSettled)}
    assert settled == {"a": "A draft.", "r": "A better one."}


@pytest.mark.parametrize(
    ("decision", "code"),
    [("reject", "rejected"), ("expired", "decision_expired")],
    ids=["rejected", "expired"],
)
def test_what_nobody_released_goes_its_own_way_or_fails_the_run(
    office: Office, decision: str, code: str
) -> None:
    handle = "rejected" if decision == "reject" else "expired"
    after = ("s", "set", {"values": {"said": "{{ blocks.r.decision }}: {{ blocks.r.reason }}"}})
    edges = ("start > a", "a > r")
    ways = {
        handle: f"r -{handle}> s",
        "error": "r -error> s",
        "": "",
    }
    for way in ways.values():
        blocks = [*review(deadline_s=60), after] if way else review(deadline_s=60)
        run, _ = office.start(document(blocks, *edges, *([way] if way else [])))
        says(office.next_call(), "A draft.")
        row = office.asked(run)["answer"]
        if decision == "reject":
            run = office.answer(row, "reject", reason="no source")
        else:
            office.made.store.decisions.expire(row.created_at + 60_001)
            gone_on = office.made.runs.go_on(row.run_id)
            assert gone_on is not None
            run = gone_on
        assert run.done.wait(20)
        end = office.stream(run)[-1]
        if way:
            assert isinstance(end, ev.RunCompleted)
            reason = "no source" if decision == "reject" else ""
            assert end.output == {"said": f"{decision}: {reason}"}
        else:
            assert isinstance(end, ev.RunFailed)
            assert (end.code, end.block) == (code, "r")


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_the_example(office: Office, decision: str) -> None:
    doc = dict(parse((ROOT / "examples" / "approval.yaml").read_text()))
    assert compiled(doc, office.made.plugins).answer_agents() == ("review",)
    run, _ = office.start(doc, "A refund, please.")
    (call,) = office.asked(run).values()
    assert (call.review["tool"], call.review["arguments"]) == ("calculator", {"expression": "6 * 7"})
    run = office.answer(call, "approve")
    row = office.asked(run)["answer"]
    assert row.review["reasons"] == ["It is about money."]
    run = office.answer(row, decision)
    said = row.review["draft"] if decision == "approve" else "We will come back to you."
    assert office.output(run) == {"content": said}


# -- a process that goes away --------------------------------------------------------------------


def test_a_tool_that_may_be_repeated_is_and_any_other_is_told_to_be_unknown(office: Office) -> None:
    office.desk.hold = gevent.event.Event()
    doc = {**agent("look", "read"), "settings": {"durable": True}}
    run, _ = office.start(doc)
    asks_for(office.next_call(), ("look", 1), ("read", 2))
    while len(office.desk.ran) < 2:
        gevent.sleep(0.01)
    assert run.hand_over()
    assert run.done.wait(20)
    office.desk.hold = None
    going = office.made.runs.go_on(run.id)
    assert going is not None
    second = office.next_call()
    assert results(second) == [
        "The outcome of this call is unknown: the server stopped while it ran.",
        "read 2",
    ]
    says(second, "Well.")
    assert office.output(going)["content"] == "Well."
    assert [name for name, _ in office.desk.ran] == ["look", "read", "read"]
    making = [e.name for e in office.stream(going) if isinstance(e, ev.ToolExecuting)]
    assert sorted(making) == ["look", "read"]


@pytest.mark.parametrize(("method", "again"), [("POST", False), ("GET", True)])
def test_a_request_that_was_sent_is_not_sent_again_unless_it_only_reads(
    office: Office, method: str, again: bool
) -> None:
    doc = document(
        [
            ("h", "http", {"url": office.vendor.base, "method": method, "body": {"x": 1}, "retries": 2}),
            ("s", "set", {"values": {"code": "{{ blocks.h.code }}"}}),
        ],
        "start > h",
        "h -error> s",
        settings={"durable": True},
    )
    run, _ = office.start(doc)
    office.next_call()
    assert run.hand_over()
    assert run.done.wait(20)
    going = office.made.runs.go_on(run.id)
    assert going is not None
    if again:
        office.next_call().answer(200, b'{"y": 2}')
        assert office.output(going)["body"] == {"y": 2}
    else:
        assert office.output(going) == {"code": "outcome_unknown"}

"""The blocks ``tool`` and ``approval`` where a person has to decide, in one process and another."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from app import events as ev
from app.blocks import approval
from app.blocks import tool as tool_block
from app.errors import RunError
from plugins.spec.decisions import Answer
from providers.spec import ModelEvent, ModelRequest
from tests.agents.acts import (
    each_ended_once,
    tool,
)
from tests.agents.cutting import Cut, Paused, Process, World, cuts


def silent(request: ModelRequest) -> list[ModelEvent]:
    """No model is asked here."""
    raise AssertionError("no model is asked here")


def code_of(run: Callable[[], t.Any]) -> str | None:
    """The code of what it fails with; None where it does not."""
    try:
        run()
    except RunError as error:
        return error.code
    return None


def paying(**more: t.Any) -> Callable[[t.Any], t.Any]:
    config = tool_block.ToolConfig("pay", {"n": "{{ input.n }}"}, **more)
    return lambda context: tool_block.run(context, config)


def to_pay(**more: t.Any) -> World:
    return World(silent, [tool("pay", **more)], {"input": {"n": 5}})


def test_a_tool_block_asks_about_its_call_and_makes_it_once() -> None:
    world = to_pay(approval="always")
    with pytest.raises(Paused):
        paying()(Process(world))
    world.restart(lost=False)
    world.variables = {**world.variables, "input": {"n": 6}}
    ((call, ask),) = world.asked.items()
    assert (ask.tool, ask.arguments) == ("pay", {"n": 5})
    assert [e.id for e in world.told if isinstance(e, ev.ToolStarted)] == [call]
    world.answers[call] = Answer(call, "approve", 1)
    assert paying()(Process(world)) == {"result": "pay 5", "status": "success"}
    each_ended_once(world)
    assert world.ran == [("pay", {"n": 5})]


@pytest.mark.parametrize(("verdict", "code"), [("reject", "rejected"), ("expired", "decision_expired")])
def test_a_tool_block_does_not_ask_again_what_was_turned_down(verdict: t.Any, code: str) -> None:
    world = to_pay(approval="always")
    world.answers["call_1"] = Answer("call_1", verdict, 1, reason="no money")
    with pytest.raises(RunError) as caught:
        paying(retries=3)(Process(world))
    assert caught.value.code == code
    assert len(world.asked) == 1
    assert world.ran == []


def test_a_tool_block_fails_before_it_calls_where_nobody_can_be_asked() -> None:
    world = to_pay(approval="always")
    process = Process(world)
    process.can_ask = False
    assert code_of(partial(paying(retries=2), process)) == "approval_unavailable"
    assert len(world.told) == 1
    assert world.ran == []


@pytest.mark.parametrize("lost", [False, True])
def test_a_tool_block_whose_process_ends_in_the_call_does_not_make_it_again(lost: bool) -> None:
    failed = 0
    world: World = to_pay()
    for left in range(100):
        world = to_pay()
        try:
            paying(retries=2)(Process(world, left))
            break
        except Cut:
            world.restart(lost)
        code = code_of(partial(paying(retries=2), Process(world)))
        assert code in (None, "outcome_unknown")
        failed += code is not None
        assert len(world.ran) <= 1
        each_ended_once(world)
    assert failed


QUESTION = approval.ApprovalConfig(
    "Release?",
    show=["blocks.before.sources", {"name": "who", "value": "input.message"}],
    reasons=["{{ 'no source' if not blocks.before.sources else '' }}", " ", "always"],
    deadline_s=60,
)
BEFORE = {"blocks": {"before": {"content": "A draft.", "sources": []}}}


def reviewed(answer: Answer | None, edges: Sequence[str] = (), **more: t.Any) -> tuple[World, t.Any]:
    """A text that was asked about in one process and goes on in another."""
    config = approval.ApprovalConfig(**{**_fields(QUESTION), **more})
    world = World(silent, variables=BEFORE)
    world.edges = frozenset(edges)
    with pytest.raises(Paused):
        approval.run(t.cast(t.Any, Process(world)), config)
    world.restart(lost=False)
    world.variables = {**world.variables, "blocks": {"before": {"content": "Something else."}}}
    if answer is not None:
        world.answers["answer"] = answer
    return world, approval.run(t.cast(t.Any, Process(world)), config)


def _fields(config: t.Any) -> dict[str, t.Any]:
    return {name: getattr(config, name) for name in config.__dataclass_fields__}


def test_what_is_approved_goes_on_as_it_was_shown() -> None:
    world, output = reviewed(Answer("answer", "approve", 1, by="key_1"))
    assert output == {"content": "A draft.", "decision": "approve", "asked": True, "by": "key_1"}
    assert world.taken == ("approved",)
    ask = world.asked["answer"]
    assert (ask.kind, ask.draft, ask.prompt, ask.deadline_s) == ("answer", "A draft.", "Release?", 60)
    assert ask.show == {"blocks.before.sources": [], "who": "go"}
    assert ask.reasons == ["no source", "always"]


def test_what_is_changed_goes_on_as_it_was_changed() -> None:
    world, output = reviewed(Answer("answer", "edit", 1, text="A better one.", reason="tone"))
    assert output == {"content": "A better one.", "decision": "edit", "asked": True, "reason": "tone"}
    assert world.taken == ("approved",)


@pytest.mark.parametrize(
    ("verdict", "handle", "code"),
    [("reject", "rejected", "rejected"), ("expired", "expired", "decision_expired")],
)
def test_what_is_not_approved_goes_its_own_way_or_fails(verdict: t.Any, handle: str, code: str) -> None:
    answer = Answer("answer", verdict, 1, reason="no")
    world, output = reviewed(answer, edges=[handle])
    assert output == {"decision": verdict, "asked": True, "reason": "no"}
    assert world.taken == (handle,)
    with pytest.raises(RunError) as caught:
        reviewed(answer)
    assert caught.value.code == code
    assert caught.value.output == output  # type: ignore[attr-defined]


def test_a_further_try_asks_nobody_again() -> None:
    world = World(silent, variables=BEFORE)
    world.answers["answer"] = Answer("answer", "reject", 1)
    for _ in range(2):
        assert code_of(partial(approval.run, t.cast(t.Any, Process(world)), QUESTION)) == "rejected"


def test_nobody_is_asked_where_it_is_not_due() -> None:
    config = approval.ApprovalConfig("Release?", when="blocks.before.sources | length == 0")
    sure = World(silent, variables={"blocks": {"before": {"content": "A draft.", "sources": [1]}}})
    output = approval.run(t.cast(t.Any, Process(sure)), config)
    assert output == {"content": "A draft.", "decision": "approve", "asked": False}
    assert (sure.asked, sure.taken) == ({}, ("approved",))
    with pytest.raises(Paused):
        approval.run(t.cast(t.Any, Process(World(silent, variables=BEFORE))), config)


def test_another_question_gets_no_answer_of_the_one_before() -> None:
    world = World(silent, variables=BEFORE)
    with pytest.raises(Paused):
        approval.run(t.cast(t.Any, Process(world)), QUESTION)
    world.restart(lost=False)
    world.answers["answer"] = Answer("answer", "approve", 1)
    with pytest.raises(RunError) as caught:
        approval.run(t.cast(t.Any, Process(world)), approval.ApprovalConfig("Delete everything?"))
    assert caught.value.code == "journal_mismatch"


def test_an_answer_counts_also_when_the_process_ends_right_after_it() -> None:
    def make() -> World:
        world = World(silent, variables=BEFORE)
        world.answers["answer"] = Answer("answer", "edit", 1, text="new")
        return world

    for world, output in cuts(make, lambda c: approval.run(c, QUESTION), lost=True):
        assert output["content"] == "new"
        assert len(world.asked) == 1

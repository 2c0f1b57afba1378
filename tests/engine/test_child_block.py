"""Workflows inside workflows: paths, outputs, errors, limits, usage, and what a reader sees of them."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import events as ev
from app.engine.catalog import Catalog
from app.engine.services import Services
from app.errors import ApiError, ValidationFailed
from app.streams.agent_events import AgentEventsOptions
from app.streams.rights import Rights
from app.web.catalog import check_configured
from app.workflows import selectors
from app.workflows.compiled import MAX_DEPTH
from tests.engine.flows import document, ended_saved, finished, problems, save, start_saved, stopped, stored
from tests.field.rig import environ, until
from tests.streams.reader import Reader, read
from tests.support.engine import Recorder, services
from tests.support.vendor import Vendor, vendor

pytestmark = pytest.mark.leak_check


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with services(tmp_path) as opened:
        yield opened


ECHO = document([("say", "agent", {"model": "scripted/echo"})], "start > say")
SUM = document([("add", "set", {"values": {"sum": "{{ input.a + input.b }}"}})], "start > add")


Blocks = list[tuple[str, str, dict[str, t.Any]]]


def caller(workflow: str, *edges: str, more: Blocks | None = None, **config: t.Any) -> dict[str, t.Any]:
    """A document that runs ``workflow`` in its block ``sub``."""
    blocks = [("sub", "workflow", {"workflow": workflow, **config}), *(more or [])]
    return document(blocks, "start > sub", *edges)


def agent_events(recorder: Recorder, negotiated: bool = True, *chosen: selectors.Selection) -> Reader:
    picked = tuple(chosen) or None
    options = AgentEventsOptions("run_1", negotiated, False, Rights(True, True, True), picked, ())
    return read(options, recorder.envelopes)


def test_its_output_is_the_child_s_and_its_blocks_lie_under_its_path(made: Services) -> None:
    save(made, sum=SUM, top=caller("sum", input={"a": "{{ input.n }}", "b": 2}))
    run, recorder = start_saved(made, "top", {"n": 40})
    assert run.done.wait(20)
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunCompleted)
    assert end.output == {"sum": 42}
    assert finished(recorder) == [
        ("start", "executed", 1),
        ("sub/start", "executed", 1),
        ("sub/add", "executed", 1),
        ("sub", "executed", 1),
    ]
    (began,) = recorder.of(ev.ChildStarted)
    assert (began.block, began.workflow_id, began.version) == ("sub", "sum", 1)
    assert [info.id for info in began.blocks] == ["start", "add"]
    assert set(stored(made, run)) == {"start", "sub", "sub/start", "sub/add"}


def test_without_an_input_it_gets_the_run_s_and_a_text_becomes_a_message(made: Services) -> None:
    save(made, echo=ECHO, top=caller("echo"), told=caller("echo", input="Say {{ input.message }}"))
    assert ended_saved(made, "top", {"message": "hello"})[0].output["content"] == "hello"
    assert ended_saved(made, "told", {"message": "hello"})[0].output["content"] == "Say hello"


def test_an_output_that_is_no_object_stands_under_output(made: Services) -> None:
    answer = document([("answer", "response", {"body": "just text"})], "start > answer")
    save(made, text=answer, top=caller("text"))
    assert ended_saved(made, "top")[0].output == {"output": "just text"}


def test_neither_sees_into_the_other(made: Services) -> None:
    inner = document(
        [("peek", "set", {"values": {"seen": "{{ blocks.secret.x }}{{ vars.v }}{{ input.message }}"}})],
        "start > peek",
        variables={"v": "own "},
    )
    top = document(
        [
            ("secret", "set", {"values": {"x": "outer"}}),
            ("sub", "workflow", {"workflow": "inner"}),
            (
                "after",
                "set",
                {"values": {"seen": "{{ blocks.peek.seen }}|{{ blocks.sub.seen }}|{{ blocks|length }}"}},
            ),
        ],
        "start > secret",
        "secret > sub",
        "sub > after",
        variables={"v": "outer "},
    )
    save(made, inner=inner, top=top)
    assert ended_saved(made, "top")[0].output == {"seen": "|own hi|3"}


def test_its_text_is_not_the_answer_unless_it_is_selected(made: Services) -> None:
    save(made, echo=ECHO, top=caller("echo"))
    workflow = Catalog(made).find("top").workflow
    assert workflow.answer_agents() == ()
    _, recorder = ended_saved(made, "top", {"message": "hello"})
    assert agent_events(recorder).standing == {}
    chosen = selectors.resolve(["sub/say.content"], workflow)
    for negotiated in (True, False):
        reader = agent_events(recorder, negotiated, *chosen)
        assert reader.standing == {"sub/say": "hello"}
    with pytest.raises(ValidationFailed) as refused:
        selectors.resolve(["sub/nobody.content", "sub/say.nothing"], workflow)
    assert [problem.path for problem in refused.value.details] == ["selectedOutputs[0]", "selectedOutputs[1]"]
    assert "say" in refused.value.details[0].message


def test_a_structured_answer_inside_is_sent_once_when_it_is_selected(made: Services) -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    inner = document(
        [("say", "agent", {"model": "scripted/structured", "response_format": schema})], "start > say"
    )
    save(made, inner=inner, top=caller("inner"))
    _, recorder = ended_saved(made, "top")
    workflow = Catalog(made).find("top").workflow
    reader = agent_events(recorder, True, *selectors.resolve(["sub/say.content"], workflow))
    assert len(reader.chunks["sub/say"]) == 1


def test_what_its_models_used_is_counted_under_its_path_and_in_the_totals(made: Services) -> None:
    two = document(
        [("own", "agent", {"model": "scripted/echo"}), ("sub", "workflow", {"workflow": "echo"})],
        "start > own",
        "own > sub",
    )
    save(made, echo=ECHO, top=two)
    end, _ = ended_saved(made, "top")
    by_block = end.usage["byBlock"]
    assert set(by_block) == {"own", "sub/say"}
    total = sum(entry["tokens"]["total"] for entry in by_block.values())
    assert end.usage["tokens"]["total"] == total


def test_tools_inside_it_are_shown_under_its_path(made: Services) -> None:
    inner = document(
        [("call", "tool", {"tool": "calculator", "arguments": {"expression": "6*7"}})], "start > call"
    )
    save(made, inner=inner, top=caller("inner"))
    _, recorder = ended_saved(made, "top")
    frames = agent_events(recorder).events("tool")
    assert [(frame["blockId"], frame["phase"]) for frame in frames] == [
        ("sub/call", "start"),
        ("sub/call", "end"),
    ]


def test_a_failure_names_the_block_inside_and_an_error_edge_takes_it_up(made: Services) -> None:
    fails = document([("say", "agent", {"model": "scripted/error-before", "retries": 0})], "start > say")
    caught = [("sorry", "set", {"values": {"code": "{{ blocks.sub.code }}"}})]
    save(made, fails=fails, top=caller("fails"), kind=caller("fails", "sub -error> sorry", more=caught))
    end, _ = ended_saved(made, "top")
    assert isinstance(end, ev.RunFailed)
    assert end.block == "sub/say"
    end, recorder = ended_saved(made, "kind")
    assert (end.output["code"].startswith("provider_"), end.success) == (True, False)
    assert [e[:2] for e in finished(recorder)][-3:] == [
        ("sub/say", "failed"),
        ("sub", "failed"),
        ("sorry", "executed"),
    ]


def test_what_its_own_error_edge_takes_up_is_its_own_affair(made: Services) -> None:
    copes = document(
        [
            ("say", "agent", {"model": "scripted/error-before", "retries": 0}),
            ("sorry", "response", {"body": {"text": "later"}}),
        ],
        "start > say",
        "say -error> sorry",
    )
    save(made, copes=copes, top=caller("copes"))
    end, _ = ended_saved(made, "top")
    assert (end.output, end.success) == ({"text": "later"}, True)


def test_its_blocks_that_no_path_leads_to_are_skipped_under_their_names(made: Services) -> None:
    inner = document(
        [
            ("ask", "condition", {"expression": "false"}),
            ("yes", "set", {"values": {"x": 1}}),
            ("no", "set", {"values": {"x": 2}}),
        ],
        "start > ask",
        "ask -true> yes",
        "ask -false> no",
    )
    save(made, inner=inner, top=caller("inner"))
    run, recorder = start_saved(made, "top")
    assert run.done.wait(20)
    assert recorder.envelopes[-1].event.output == {"x": 2}
    skipped = stored(made, run)["sub/yes"]
    assert (skipped["status"], skipped["type"], skipped["name"]) == ("skipped", "set", "yes")


def test_in_a_loop_each_run_of_it_begins_afresh(made: Services) -> None:
    inner = document(
        [
            ("early", "set", {"values": {"late": "{{ blocks.late.x }}", "n": "{{ input.n }}"}}),
            ("say", "agent", {"model": "scripted/echo", "prompt": "{{ input.n }}"}),
            ("late", "set", {"values": {"x": "left behind", "seen": "{{ blocks.early.late }}"}}),
        ],
        "start > early",
        "early > say",
        "say > late",
    )
    top = document(
        [
            ("each", "loop", {"kind": "for_each", "items": [1, 2]}),
            ("sub", "workflow", {"workflow": "inner", "input": {"n": "{{ loop.item }}"}}),
        ],
        "start > each",
        "each -loop> sub",
        "sub > each",
    )
    save(made, inner=inner, top=top)
    end, recorder = ended_saved(made, "top")
    assert [result["seen"] for result in end.output["results"]] == [None, None]
    assert [e for e in finished(recorder) if e[0] == "sub/late"] == [
        ("sub/late", "executed", 1),
        ("sub/late", "executed", 2),
    ]
    assert [(e.block, e.text) for e in recorder.of(ev.AnswerSettled)] == [("sub/say", "2")]
    chosen = selectors.resolve(["sub/say.content"], Catalog(made).find("top").workflow)
    for negotiated in (True, False):
        assert agent_events(recorder, negotiated, *chosen).standing == {"sub/say": "2"}


def test_several_run_at_the_same_time(made: Services) -> None:
    top = document(
        [
            ("all", "parallel", {"items": ["x", "y", "z"]}),
            ("sub", "workflow", {"workflow": "echo", "input": "{{ loop.item }}"}),
        ],
        "start > all",
        "all -loop> sub",
        "sub > all",
    )
    save(made, echo=ECHO, top=top)
    end, recorder = ended_saved(made, "top")
    assert [result["content"] for result in end.output["results"]] == ["x", "y", "z"]
    assert {e.block for e in recorder.of(ev.AnswerSettled)} == {f"sub[{n}]/say" for n in range(3)}
    chosen = selectors.resolve(["sub/say.content"], Catalog(made).find("top").workflow)
    assert agent_events(recorder, True, *chosen).standing == {
        "sub[0]/say": "x",
        "sub[1]/say": "y",
        "sub[2]/say": "z",
    }


def test_one_that_is_tried_again_says_its_answer_once(made: Services, tmp_path: Path) -> None:
    inner = document(
        [
            ("say", "agent", {"model": "scripted/echo"}),
            ("call", "tool", {"tool": "calculator", "arguments": {"expression": "1/0"}}),
        ],
        "start > say",
        "say > call",
    )
    caught = [("sorry", "set", {"values": {"x": 1}})]
    save(made, inner=inner, top=caller("inner", "sub -error> sorry", more=caught, retries=1))
    _, recorder = ended_saved(made, "top", {"message": "hello"})
    assert [e for e in finished(recorder) if e[0] == "sub/say"] == [
        ("sub/say", "executed", n) for n in (1, 2)
    ]
    assert [(e.block, e.text) for e in recorder.of(ev.AnswerSettled)] == [("sub/say", "hello")]
    chosen = selectors.resolve(["sub/say.content"], Catalog(made).find("top").workflow)
    for negotiated in (True, False):
        assert agent_events(recorder, negotiated, *chosen).standing == {"sub/say": "hello"}


def test_the_version_is_the_one_that_was_live_when_the_run_began(made: Services) -> None:
    def says(word: str) -> dict[str, t.Any]:
        return document([("answer", "response", {"body": {"word": word}})], "start > answer")

    save(made, inner=says("old"), top=caller("inner"), pinned=caller("inner", version=1))
    found = Catalog(made)
    before = found.find("top")
    save(made, inner=says("new"))
    assert before.workflow.children["sub"].version == 1
    assert found.find("top").workflow.children["sub"].version == 2
    assert ended_saved(made, "top")[0].output == {"word": "new"}
    assert ended_saved(made, "pinned")[0].output == {"word": "old"}


def test_a_workflow_cannot_run_inside_itself(made: Services) -> None:
    save(made, a=SUM, b=caller("a"), c=caller("b"))
    with pytest.raises(ValidationFailed) as refused:
        Catalog(made).of("a", caller("c"))
    (problem,) = refused.value.details
    assert problem.path == "blocks[1].config.workflow"
    assert "a → c → b → a" in problem.message
    save(made, a=caller("c"))
    with pytest.raises(ValidationFailed, match="inside itself"):
        Catalog(made).find("c")


def test_what_is_missing_is_told_before_the_run(made: Services) -> None:
    made.store.workflows.save(SUM, "draft", "draft")
    for name, word in (("nobody", "no workflow"), ("draft", "no live version")):
        save(made, top=caller(name))
        with pytest.raises(ApiError) as refused:
            Catalog(made).find("top")
        assert refused.value.status == 400
        assert refused.value.details[0].path == "blocks[1].config.workflow"
        assert word in refused.value.details[0].message


def test_they_nest_up_to_eight_deep(made: Services) -> None:
    save(made, w0=SUM)
    for n in range(1, MAX_DEPTH + 2):
        save(made, **{f"w{n}": caller(f"w{n - 1}")})
    end, recorder = ended_saved(made, f"w{MAX_DEPTH}", {"a": 1, "b": 1})
    assert end.output == {"sum": 2}
    assert "/".join(["sub"] * MAX_DEPTH) + "/add" in {e[0] for e in finished(recorder)}
    with pytest.raises(ValidationFailed, match="8 deep"):
        Catalog(made).find(f"w{MAX_DEPTH + 1}")


def test_a_missing_key_of_its_models_is_found_before_the_first_byte(
    made: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    inner = document([("say", "agent", {"model": "anthropic/claude-sonnet-4-5"})], "start > say")
    save(made, inner=inner, top=caller("inner"))
    with pytest.raises(ApiError) as refused:
        check_configured(Catalog(made).find("top").models, made.plugins, public=False)
    assert refused.value.code == "provider_not_configured"
    assert refused.value.details[0].path == "blocks[1].config.workflow/blocks[1].config.model"


def test_its_own_time_limit_ends_it_alone(made: Services) -> None:
    slow = document(
        [("say", "agent", {"model": "scripted/silent"})], "start > say", settings={"timeout_s": 1}
    )
    caught = [("sorry", "set", {"values": {"code": "{{ blocks.sub.code }}"}})]
    save(made, slow=slow, top=caller("slow", "sub -error> sorry", more=caught))
    run, recorder = start_saved(made, "top")
    assert run.done.wait(20)
    assert recorder.envelopes[-1].event.output == {"code": "workflow_timeout"}
    assert [e[:2] for e in finished(recorder)][-3:] == [
        ("sub/say", "failed"),
        ("sub", "failed"),
        ("sorry", "executed"),
    ]
    assert stored(made, run)["sub/say"]["error"]["code"] == "cancelled"


def test_the_block_s_time_limit_ends_all_in_it(made: Services) -> None:
    slow = document([("say", "agent", {"model": "scripted/silent"})], "start > say")
    save(made, slow=slow, top=caller("slow", timeout_s=1))
    end, recorder = ended_saved(made, "top")
    assert isinstance(end, ev.RunFailed)
    assert (end.code, end.block) == ("block_timeout", "sub")
    assert ("sub/say", "failed", 1) in finished(recorder)


def test_the_run_s_own_limit_ends_it_too(made: Services) -> None:
    slow = document([("say", "agent", {"model": "scripted/silent"})], "start > say")
    save(made, slow=slow, top=caller("slow"))
    run, recorder = start_saved(made, "top", timeout_s=0.1)
    assert run.done.wait(20)
    assert isinstance(recorder.envelopes[-1].event, ev.RunTimedOut)


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    with vendor() as listening:
        for name, value in environ(listening).items():
            monkeypatch.setenv(name, value)
        yield listening


def test_a_stop_closes_the_upstream_of_a_model_inside(made: Services, upstream: Vendor) -> None:
    inner = document([("say", "agent", {"model": "openai-compatible/m"})], "start > say")
    after = [("after", "set", {"values": {"x": 1}})]
    save(made, inner=inner, middle=caller("inner"), top=caller("middle", "sub > after", more=after))
    run, recorder = start_saved(made, "top")
    call = upstream.next_call()
    call.text("half an ans")
    until(lambda: recorder.of(ev.TextDelta), "the text is here")
    stopped(run, recorder)
    assert call.left.wait(10)
    assert {e[:2] for e in finished(recorder)} >= {
        ("sub", "failed"),
        ("sub/sub", "failed"),
        ("sub/sub/say", "failed"),
    }
    assert "after" not in {e[0] for e in finished(recorder)}
    row = made.store.runs.get(run.id)
    assert row is not None
    assert (row["status"], row["partial_text"]) == ("cancelled", {"sub/sub/say": "half an ans"})


def test_what_is_wrong_with_a_document_is_told_with_its_path(made: Services) -> None:
    at = "blocks[1].config."
    assert set(problems(made, caller("{{ input.which }}"))) == {f"{at}workflow"}
    assert set(problems(made, caller("", version=0))) == {f"{at}workflow", f"{at}version"}
    assert set(problems(made, caller("x", colour="red"))) == {f"{at}colour"}

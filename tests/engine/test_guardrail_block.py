"""The guardrail block: its checks, where it leads, what a refusal is, and what a reader sees of it."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from app import events as ev
from app.engine.catalog import Catalog
from app.engine.recompiled import compiled
from app.engine.services import Services
from app.streams.agent_events import AgentEventsOptions
from app.streams.rights import Rights
from app.web.catalog import check_configured
from plugins.hookspecs import hookimpl
from tests.engine.flows import document, ended, ended_saved, finished, problems, save, stopped
from tests.field.rig import environ
from tests.streams.reader import Reader, read
from tests.support.engine import Recorder, services, start
from tests.support.vendor import Vendor, vendor

pytestmark = pytest.mark.leak_check


class Broken:
    """A detector that raises."""

    name = "broken"
    longest = 10

    def find(self, text: str) -> Iterable[tuple[int, int]]:
        raise RuntimeError("cannot look")

    @hookimpl
    def pii_detectors(self) -> list[t.Any]:
        """Itself."""
        return [self]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    said = {
        "yes": '{"reason": "It is fine.", "passed": true}',
        "no": '{"reason": "It is rude.", "passed": false}',
    }
    for name, text in {**said, "nonsense": "maybe"}.items():
        (tmp_path / f"judge-{name}.yaml").write_text(f"turns: [{{steps: [{{text: '{text}'}}]}}]")
    settings = {"STUDIO_SCRIPTS_DIR": str(tmp_path), "STUDIO_MODEL_RETRIES": "0"}
    with services(tmp_path / "data", settings, plugins=(Broken(),)) as opened:
        yield opened


def guard(*checks: dict[str, t.Any], **config: t.Any) -> tuple[str, str, dict[str, t.Any]]:
    return ("guard", "guardrail", {"checks": list(checks), **config})


def alone(*checks: dict[str, t.Any], **config: t.Any) -> dict[str, t.Any]:
    return document([guard(*checks, **config)], "start > guard")


def before(*checks: dict[str, t.Any], **config: t.Any) -> dict[str, t.Any]:
    """A guardrail before an agent."""
    say = ("say", "agent", {"model": "scripted/echo"})
    return document([guard(*checks, **config), say], "start > guard", "guard -true> say")


def behind(*checks: dict[str, t.Any], **config: t.Any) -> dict[str, t.Any]:
    """A guardrail behind an agent, at the end."""
    say = ("say", "agent", {"model": "scripted/echo"})
    return document([say, guard(*checks, **config)], "start > say", "say > guard")


def seen(made: Services, doc: dict[str, t.Any], recorder: Recorder, negotiated: bool = True) -> Reader:
    answer = compiled(doc, made.plugins).answer_agents()
    options = AgentEventsOptions("run_1", negotiated, False, Rights(True, True, True), None, answer)
    return read(options, recorder.envelopes)


SHORT = {"kind": "max_length", "limit": 5}
CASES: list[tuple[dict[str, t.Any], str, str]] = [
    (SHORT, "short", "longer"),
    ({"kind": "regex", "pattern": "(?i)pass.?word"}, "hello", "my PASSWORD"),
    ({"kind": "regex", "pattern": "^[a-z]+$", "mode": "require"}, "hello", "Hello!"),
    ({"kind": "contains", "values": ["Straße", "bomb"]}, "street", "die STRASSE"),
    ({"kind": "contains", "values": ["Bomb"], "ignore_case": False}, "bomb", "a Bomb"),
    ({"kind": "json_schema", "schema": {"type": "object", "required": ["a"]}}, '{"a": 1}', '{"b": 1}'),
    ({"kind": "json_schema", "schema": {}}, "[]", "no json"),
    ({"kind": "detector", "detectors": ["email", "ip"]}, "no data", "me@example.com"),
    (
        {"kind": "detector", "detectors": ["email"], "threshold": 2},
        "me@example.com",
        "a@example.com b@example.com",
    ),
    ({"kind": "expression", "expression": "text | length < 8 and input.message"}, "short", "much longer"),
]


@pytest.mark.parametrize(("check", "good", "bad"), CASES, ids=[str(n) for n in range(len(CASES))])
def test_each_kind_lets_through_and_holds_back(
    made: Services, check: dict[str, t.Any], good: str, bad: str
) -> None:
    end, _ = ended(made, alone(check), {"message": good})
    assert end.output == {
        "passed": True,
        "decisions": [{"check": check["kind"], "passed": True}],
        "text": good,
        "content": good,
    }
    end, _ = ended(made, alone({**check, "name": "rule"}, refusal="Not that."), {"message": bad})
    (decision,) = end.output["decisions"]
    assert (decision["check"], decision["passed"]) == ("rule", False)
    assert decision["reason"]
    assert {key: end.output[key] for key in ("passed", "refused", "refusal", "content")} == {
        "passed": False,
        "refused": True,
        "refusal": "Not that.",
        "content": "Not that.",
    }


def test_a_refusal_is_an_ordinary_end_and_what_is_behind_is_skipped(made: Services) -> None:
    doc = before(SHORT, refusal="Too long, {{ input.name }}.")
    end, recorder = ended(made, doc, {"message": "much longer", "name": "Ann"})
    assert isinstance(end, ev.RunCompleted)
    assert (end.success, end.output["content"]) == (True, "Too long, Ann.")
    assert ("say", "skipped", 1) in finished(recorder)
    for negotiated in (True, False):
        assert seen(made, doc, recorder, negotiated).standing == {"guard": "Too long, Ann."}


def test_what_passes_is_said_by_what_comes_behind(made: Services) -> None:
    doc = before(SHORT)
    _, recorder = ended(made, doc, {"message": "hello"})
    for negotiated in (True, False):
        assert seen(made, doc, recorder, negotiated).standing == {"say": "hello"}


def test_nothing_of_an_answer_is_shown_before_it_has_passed(made: Services) -> None:
    doc = behind(SHORT)
    end, recorder = ended(made, doc, {"message": "hello"})
    assert end.output["content"] == "hello"
    end, refused = ended(made, doc, {"message": "a long secret"})
    assert "secret" not in str(end.output)
    for negotiated in (True, False):
        assert seen(made, doc, recorder, negotiated).standing == {"guard": "hello"}
        reader = seen(made, doc, refused, negotiated)
        assert reader.standing == {"guard": "I cannot help with that."}
        assert not [frame for frame in reader.frames if "secret" in str(frame)]


@pytest.mark.parametrize("read_", ["blocks.say.content", "blocks.guard.content"])
def test_a_response_behind_a_guardrail_streams_what_passed(made: Services, read_: str) -> None:
    doc = behind(SHORT)
    doc["blocks"].append(
        {"id": "answer", "type": "response", "config": {"body": {"text": f"{{{{ {read_} }}}}"}}}
    )
    doc["edges"].append({"source": "guard", "target": "answer", "source_handle": "true"})
    end, recorder = ended(made, doc, {"message": "hello"})
    assert end.output == {"text": "hello"}
    end, refused = ended(made, doc, {"message": "a long secret"})
    assert end.output["refusal"] == "I cannot help with that."
    for negotiated in (True, False):
        assert seen(made, doc, recorder, negotiated).standing == {"guard": "hello"}
        assert seen(made, doc, refused, negotiated).standing == {"guard": "I cannot help with that."}


def test_one_guardrail_after_another_checks_the_same_text(made: Services) -> None:
    doc = behind(SHORT)
    doc["blocks"].append(
        {"id": "second", "type": "guardrail", "config": {"checks": [{"kind": "contains", "values": ["x"]}]}}
    )
    doc["edges"].append({"source": "guard", "target": "second", "source_handle": "true"})
    for text, standing in (
        ("hello", {"second": "hello"}),
        ("axe", {"second": "I cannot help with that."}),
        ("much longer", {"guard": "I cannot help with that."}),
    ):
        _, recorder = ended(made, doc, {"message": text})
        assert seen(made, doc, recorder).standing == standing


def test_a_failure_may_lead_another_way(made: Services) -> None:
    doc = before(SHORT, on_fail="route")
    doc["blocks"].append(
        {"id": "other", "type": "set", "config": {"values": {"was": "{{ blocks.guard.text }}"}}}
    )
    doc["edges"].append({"source": "guard", "target": "other", "source_handle": "false"})
    end, recorder = ended(made, doc, {"message": "much longer"})
    assert end.output == {"was": "much longer"}
    assert ("say", "skipped", 1) in finished(recorder)
    assert seen(made, doc, recorder).standing == {}
    end, recorder = ended(made, doc, {"message": "hello"})
    assert ("other", "skipped", 1) in finished(recorder)


def test_a_refusal_with_a_false_edge_goes_on_there(made: Services) -> None:
    doc = before(SHORT, refusal="No.")
    doc["blocks"].append(
        {"id": "note", "type": "response", "config": {"body": {"said": "{{ blocks.guard.refusal }}"}}}
    )
    doc["edges"].append({"source": "guard", "target": "note", "source_handle": "false"})
    end, _ = ended(made, doc, {"message": "much longer"})
    assert end.output == {"said": "No."}


def test_the_text_may_be_any_template(made: Services) -> None:
    end, _ = ended(made, alone(SHORT, input="{{ input.a }}-{{ input.b }}"), {"a": "x", "b": "y"})
    assert end.output["text"] == "x-y"


@pytest.mark.parametrize(("verdict", "passed"), [("yes", True), ("no", False)])
def test_a_model_judges_with_a_reason_and_is_not_heard(made: Services, verdict: str, passed: bool) -> None:
    judge = {"kind": "model", "model": f"scripted/judge-{verdict}", "instruction": "Be polite."}
    doc = alone(judge)
    end, recorder = ended(made, doc, {"message": "hello"})
    (decision,) = end.output["decisions"]
    assert decision == {
        "check": "model",
        "passed": passed,
        "reason": "It is fine." if passed else "It is rude.",
    }
    assert not recorder.of(ev.TextDelta)
    assert set(end.usage["byBlock"]) == {"guard"}
    assert "reason" not in str(seen(made, doc, recorder).standing)


def test_a_model_is_not_asked_about_what_has_failed_already(made: Services) -> None:
    judge = {"kind": "model", "model": "scripted/judge-yes", "instruction": "Be polite.", "name": "tone"}
    end, recorder = ended(
        made, alone(SHORT, judge, {"kind": "contains", "values": ["x"]}), {"message": "longer"}
    )
    assert [(d["check"], d.get("passed"), d.get("skipped")) for d in end.output["decisions"]] == [
        ("max_length", False, None),
        ("tone", None, True),
        ("contains", True, None),
    ]
    assert not recorder.of(ev.UsageReported)


@pytest.mark.parametrize(
    ("check", "code"),
    [
        (
            {"kind": "model", "model": "scripted/judge-nonsense", "instruction": "x"},
            "structured_output_invalid",
        ),
        ({"kind": "model", "model": "scripted/error-before", "instruction": "x"}, "provider_"),
        ({"kind": "detector", "detectors": ["broken"]}, "guardrail_failed"),
        ({"kind": "expression", "expression": "1 / 0"}, "template_failed"),
    ],
)
def test_what_cannot_be_decided_is_not_let_through(
    made: Services, check: dict[str, t.Any], code: str
) -> None:
    end, recorder = ended(made, before(check), {"message": "hello"})
    assert isinstance(end, ev.RunFailed)
    assert (end.code.startswith(code), end.block) == (True, "guard")
    assert "say" not in {e.block for e in recorder.of(ev.BlockStarted)}
    doc = before(check)
    doc["blocks"].append(
        {"id": "sorry", "type": "set", "config": {"values": {"code": "{{ blocks.guard.code }}"}}}
    )
    doc["edges"].append({"source": "guard", "target": "sorry", "source_handle": "error"})
    end, _ = ended(made, doc, {"message": "hello"})
    assert end.output["code"].startswith(code)


def test_in_a_workflow_inside_another_a_refusal_is_its_output(made: Services) -> None:
    save(made, inner=before(SHORT), top=document([("sub", "workflow", {"workflow": "inner"})], "start > sub"))
    end, recorder = ended_saved(made, "top", {"message": "much longer"})
    assert end.output["refused"] is True
    assert ("sub/say", "skipped", 1) in finished(recorder)


def test_in_a_loop_a_refusal_ends_an_iteration(made: Services) -> None:
    doc = document(
        [
            ("each", "loop", {"kind": "for_each", "items": ["ok", "much longer"]}),
            guard(SHORT, input="{{ loop.item }}"),
            ("work", "set", {"values": {"x": "{{ loop.item }}"}}),
        ],
        "start > each",
        "each -loop> guard",
        "guard -true> work",
        "work > each",
    )
    end, recorder = ended(made, doc)
    assert [result.get("refused", False) for result in end.output["results"]] == [False, True]
    assert [e[1] for e in finished(recorder) if e[0] == "work"] == ["executed", "skipped"]


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    with vendor() as listening:
        for name, value in environ(listening).items():
            monkeypatch.setenv(name, value)
        yield listening


def test_a_stop_closes_the_upstream_of_a_judge(made: Services, upstream: Vendor) -> None:
    judge = {
        "kind": "model",
        "model": "openai-compatible/judge",
        "instruction": "Be polite to {{ input.name }}.",
    }
    run, recorder = start(made, before(judge), {"message": 'ignore "the" rule', "name": "Ann"})
    call = upstream.next_call()
    system, asked = (message["content"] for message in call.body["messages"])
    assert "Be polite to Ann." in system
    assert r"ignore \"the\" rule" in asked
    call.text('{"reason": ')
    stopped(run, recorder)
    assert call.left.wait(10)
    assert finished(recorder) == [("start", "executed", 1), ("guard", "failed", 1)]


def test_the_models_of_checks_are_looked_for_before_the_first_byte(
    made: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    judge = {"kind": "model", "model": "anthropic/claude-sonnet-4-5", "instruction": "x"}
    save(made, top=alone(SHORT, judge))
    with pytest.raises(Exception, match="ANTHROPIC_API_KEY") as refused:
        check_configured(Catalog(made).find("top").models, made.plugins, public=False)
    assert t.cast(t.Any, refused.value).details[0].path == "blocks[1].config.checks[1].model"


def test_what_is_wrong_with_a_document_is_told_with_its_path(made: Services) -> None:
    wrong = [
        {"kind": "max_length", "limit": -1},
        {"kind": "regex", "pattern": "(?<=a)b"},
        {"kind": "contains", "values": []},
        {"kind": "json_schema", "schema": {"type": "nonsense"}},
        {"kind": "detector", "detectors": ["email", "emial"]},
        {"kind": "expression", "expression": "text |"},
        {"kind": "model", "model": "scripted/nobody", "instruction": "{{ oops"},
        {"kind": "magic"},
        {"limit": 3},
        "short",
    ]
    told = problems(made, alone(*t.cast(t.Any, wrong)))
    at = "blocks[1].config.checks"
    assert set(told) == {
        f"{at}[0].limit",
        f"{at}[1].pattern",
        f"{at}[2].values",
        f"{at}[3].schema",
        f"{at}[4].detectors[1]",
        f"{at}[5].expression",
        f"{at}[6].model",
        f"{at}[6].instruction",
        f"{at}[7].kind",
        f"{at}[8].kind",
        f"{at}[9]",
    }
    assert "email" in told[f"{at}[4].detectors[1]"]
    assert set(problems(made, alone())) == {at}
    told = problems(made, before(SHORT, on_fail="route"))
    assert told == {
        "blocks[1]": '"guard" leads nowhere by false; add an edge from it with source_handle false'
    }

"""People in a run: tool calls and texts that wait for them, in this process and after it."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator, Mapping

import gevent
import pytest

from app import events as ev
from app.engine.recompiled import compiled
from app.engine.registry import Run, RunRequest
from app.engine.services import Services
from app.store.checkpoints import DecisionRow
from app.workflows.document import parse
from plugins.hookspecs import hookimpl
from plugins.spec import Tool
from tests.engine.flows import document
from tests.support.engine import Recorder, services
from tests.support.shared import ROOT
from tests.support.vendor import Call, Vendor, vendor

MODEL = "openai-compatible/field"
ANY: dict[str, t.Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}


class Desk:
    """Registered tools that note what they did. ``look`` needs nobody, ``careful`` always a person."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, t.Any]] = []
        self.hold: gevent.event.Event | None = None
        self.begun = gevent.event.Event()

    def _tool(self, name: str, **more: t.Any) -> Tool:
        def run(arguments: dict[str, t.Any], context: t.Any) -> str:
            self.ran.append((name, arguments))
            self.begun.set()
            if self.hold is not None:
                with context.waits.wait():
                    self.hold.wait()
            return f"{name} {arguments.get('n')}"

        return Tool(name, name, ANY, run, **more)

    @hookimpl
    def tools(self) -> list[Tool]:
        """See the class."""
        return [
            self._tool("pay"),
            self._tool("look"),
            self._tool("read", idempotent=True),
            self._tool("careful", approval="always"),
        ]


class Office:
    """The engine, a vendor that answers by the test's hand, and people who do."""

    def __init__(self, made: Services, model: Vendor, desk: Desk) -> None:
        self.made, self.vendor, self.desk = made, model, desk

    def start(self, doc: Mapping[str, t.Any], given: str = "go", **options: t.Any) -> tuple[Run, Recorder]:
        """Start a run."""
        workflow = compiled(dict(doc), self.made.plugins)
        assert workflow.durable
        request = RunRequest(
            options.pop("run_id", None) or self.made.clock.new_id("run"),
            "wf_test",
            1,
            workflow,
            {"message": given},
            workflow.settings.timeout_s,
            **options,
        )
        recorder = Recorder()
        return self.made.runs.start(request, (recorder,)), recorder

    def asked(self, run: Run) -> dict[str, DecisionRow]:
        """What people are asked of a run that has paused, by tool and ``n``, or by kind."""
        assert run.done.wait(20)
        assert run.paused is not None
        return {_label(row): row for row in self.made.store.decisions.open_of_run(run.id)}

    def answer(self, row: DecisionRow, decision: str, **more: t.Any) -> Run:
        """Answer a question of a run that has paused; the run goes on."""
        remember = bool(more.get("remember"))
        won, _ = self.made.store.decisions.answer(
            row.id, {"decision": decision, **more}, "key_7", remember=remember
        )
        assert won
        run = self.made.runs.go_on(row.run_id)
        assert run is not None
        return run

    def next_call(self) -> Call:
        """The next request of a model."""
        return self.vendor.next_call()

    def stream(self, run: Run) -> list[ev.RunEvent]:
        """All that was told of a run, by whichever process."""
        return [envelope.event for envelope in run.log]

    def output(self, run: Run) -> t.Any:
        """The output of a run that completes."""
        assert run.done.wait(20)
        end = self.stream(run)[-1]
        assert isinstance(end, ev.RunCompleted), end
        return end.output


def _label(row: DecisionRow) -> str:
    if row.review["kind"] == "answer":
        return "answer"
    return f"{row.review['tool']} {row.review['arguments'].get('n', '')}".strip()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Services, Vendor, Desk]]:
    with vendor() as model, pytest.MonkeyPatch.context() as patch:
        patch.setenv("STUDIO_OPENAI_COMPATIBLE_API_BASE", model.base)
        folder, desk = tmp_path_factory.mktemp("office"), Desk()
        with services(folder, {"STUDIO_HTTP_ALLOW": "127.0.0.0/8"}, plugins=(desk,)) as made:
            yield made, model, desk


@pytest.fixture
def office(opened: tuple[Services, Vendor, Desk]) -> Iterator[Office]:
    made, model, desk = opened
    desk.ran, desk.hold = [], None
    desk.begun.clear()
    yield Office(made, model, desk)
    assert model.calls.empty(), "a request came that the test did not expect"


def agent(*tools: t.Any, **config: t.Any) -> dict[str, t.Any]:
    return document([("a", "agent", {"model": MODEL, "tools": list(tools), **config})], "start > a")


def held(name: str, approval: str = "always", **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "approval": approval, **more}


def asks_for(call: Call, *calls: tuple[str, int]) -> None:
    """A turn that asks for tools."""
    for place, (name, n) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps({"n": n})}
        call.send({"tool_calls": [{"index": place, "id": f"t{place}", "function": function}]})
    call.finish("tool_calls")


def says(call: Call, text: str) -> None:
    call.text(text)
    call.finish()


def results(call: Call) -> list[str]:
    return [message["content"] for message in call.body["messages"] if message["role"] == "tool"]


# -- calls ---------------------------------------------------------------------------------------


def test_calls_wait_for_people_one_by_one_and_the_others_for_nobody(office: Office) -> None:
    """Three answers in three processes, out of order; each call is made once, with what was shown or put instead."""
    run, recorder = office.start(
        agent(held("pay"), held("fixed", result="secret", description="d"), "look", "careful")
    )
    asks_for(office.next_call(), ("pay", 1), ("look", 2), ("careful", 3), ("fixed", 4))
    asked = office.asked(run)
    assert asked.keys() == {"pay 1", "careful 3", "fixed 4"}
    assert office.desk.ran == [("look", {"n": 2})]
    first = {event.name: event.id for event in recorder.of(ev.ToolStarted)}
    told = {event.call: event.pause_id for event in recorder.of(ev.DecisionRequested)}
    assert told == {first[row.review["tool"]]: row.id for row in asked.values()}
    run = office.answer(asked["fixed 4"], "reject", reason="not today")
    assert office.asked(run).keys() == {"pay 1", "careful 3"}
    run = office.answer(asked["careful 3"], "edit", arguments={"n": 30})
    assert office.asked(run).keys() == {"pay 1"}
    run = office.answer(asked["pay 1"], "approve")
    second = office.next_call()
    assert results(second) == [
        "pay 1",
        "look 2",
        'A person changed the arguments of this call before it ran, to {"n":30}. Its result:\ncareful 30',
        "A person did not allow this call. Nothing was run. Their reason: not today",
    ]
    says(second, "Done.")
    output = office.output(run)
    assert output["content"] == "Done."
    assert office.desk.ran == [("look", {"n": 2}), ("careful", {"n": 30}), ("pay", {"n": 1})]
    listed = {call["name"]: call for call in output["toolCalls"]["list"]}
    assert {name: call["id"] for name, call in listed.items()} == first
    assert listed["careful"]["arguments"] == {"n": 30}
    assert [listed[name]["status"] for name in ("pay", "look", "careful", "fixed")] == [
        "success",
        "success",
        "success",
        "error",
    ]
    events = office.stream(run)
    assert [e.decision for e in events if isinstance(e, ev.DecisionSettled)] == ["reject", "edit", "approve"]
    for kind in (ev.ToolStarted, ev.ToolFinished):
        assert sorted(e.id for e in events if isinstance(e, kind)) == sorted(first.values())


def test_an_answer_that_comes_while_others_run_is_taken_up_at_once(office: Office) -> None:
    office.desk.hold = gevent.event.Event()
    run, _ = office.start(agent(held("careful"), "look"))
    asks_for(office.next_call(), ("look", 1), ("careful", 2))
    assert office.desk.begun.wait(20)
    decisions = office.made.store.decisions
    while not (rows := decisions.open_of_run(run.id)):
        gevent.sleep(0.01)
    decisions.answer(rows[0].id, {"decision": "approve"}, "key_7")
    assert office.made.runs.go_on(run.id) is run
    while len(office.desk.ran) < 2:
        gevent.sleep(0.01)
    assert not run.done.is_set()
    office.desk.hold.set()
    second = office.next_call()
    assert results(second) == ["look 1", "careful 2"]
    says(second, "Done.")
    assert office.output(run)["content"] == "Done."
    assert run.paused is None


def test_a_document_may_ask_for_more_approval_than_a_tool_and_not_for_less(office: Office) -> None:
    run, _ = office.start(agent({"name": "careful", "approval": "never"}))
    asks_for(office.next_call(), ("careful", 1))
    run = office.answer(office.asked(run)["careful 1"], "reject")
    says(office.next_call(), "So be it.")
    assert office.output(run)["content"] == "So be it."
    assert office.desk.ran == []


def test_a_call_that_was_turned_down_is_not_forced_again(office: Office) -> None:
    run, _ = office.start(agent(held("pay"), tool_choice="pay"))
    call = office.next_call()
    assert call.body["tool_choice"] == {"type": "function", "function": {"name": "pay"}}
    asks_for(call, ("pay", 1))
    run = office.answer(office.asked(run)["pay 1"], "reject")
    call = office.next_call()
    assert call.body.get("tool_choice", "auto") == "auto"
    says(call, "So be it.")
    assert office.output(run)["content"] == "So be it."


def test_nobody_is_asked_about_a_call_that_is_wrong(office: Office) -> None:
    run, _ = office.start(agent(held("pay")))
    asks_for(office.next_call(), ("pay", t.cast(int, "many")))
    second = office.next_call()
    assert [result.split(".")[0] for result in results(second)] == ["Invalid arguments"]
    says(second, "Sorry.")
    office.output(run)
    assert office.made.store.decisions.of_run(run.id) == []


def test_a_deadline_ends_the_wait_for_a_call(office: Office) -> None:
    run, _ = office.start(agent(held("pay", approval_deadline_s=0.001)))
    asks_for(office.next_call(), ("pay", 1))
    assert run.done.wait(20)
    assert office.made.store.decisions.expire(office.made.clock.now_ms() + 10)
    going = office.made.runs.go_on(run.id)
    assert going is not None
    second = office.next_call()
    assert results(second) == [
        "This call needs a person's approval, and nobody gave it in time. Nothing was run."
    ]
    says(second, "Too late.")
    assert office.output(going)["content"] == "Too late."


def test_agents_inside_of_a_block_ask_by_the_ids_they_were_shown_with(office: Office) -> None:
    one = {"model": MODEL, "tools": [held("pay")]}
    doc = document([("s", "sequential", {"agents": [one, {**one, "name": "bob"}]})], "start > s")
    run, _ = office.start(doc)
    for n in (1, 2):
        asks_for(office.next_call(), ("pay", n))
        (row,) = office.asked(run).values()
        assert row.review["arguments"] == {"n": n}
        assert row.key in [e.id for e in office.stream(run) if isinstance(e, ev.ToolStarted)]
        run = office.answer(row, "approve")
        second = office.next_call()
        assert results(second) == [f"pay {n}"]
        says(second, f"paid {n}")
    assert office.output(run)["content"] == "paid 2"
    steps = [(e.index, e.phase) for e in office.stream(run) if isinstance(e, ev.SequenceStep)]
    assert steps == [(0, "start"), (0, "end"), (1, "start"), (1, "end")]
    assert office.desk.ran == [("pay", {"n": 1}), ("pay", {"n": 2})]


def test_a_loop_whose_body_asks_goes_on_where_it_stood(office: Office) -> None:
    """What steers it was taken down: the value that its condition reads has changed by then."""
    doc = document(
        [
            ("l", "loop", {"kind": "while", "condition": "loop.index < 2 and blocks.t.result != 'pay 9'"}),
            ("t", "tool", {"tool": held("pay"), "arguments": {"n": "{{ loop.index + 8 }}"}}),
        ],
        "start > l",
        "l -loop> t",
        "t > l",
    )
    run, _ = office.start(doc)
    for n in (8, 9):
        asked = office.asked(run)
        assert asked.keys() == {f"pay {n}"}
        run = office.answer(asked[f"pay {n}"], "approve")
    output = office.output(run)
    assert (output["iterations"], [r["result"] for r in output["results"]]) == (2, ["pay 8", "pay 9"])
    iterations = [(e.iteration, e.path) for e in office.stream(run) if isinstance(e, ev.LoopIteration)]
    assert iterations == [(1, "loop"), (2, "loop"), (2, "exit")]


def test_a_loop_goes_through_the_items_that_it_began_with(office: Office) -> None:
    doc = document(
        [
            ("l", "loop", {"kind": "for_each", "items": "{{ [1, 2, 9 if blocks.t.result else 3] }}"}),
            ("t", "tool", {"tool": held("pay"), "arguments": {"n": "{{ loop.item }}"}}),
        ],
        "start > l",
        "l -loop> t",
        "t > l",
    )
    run, _ = office.start(doc)
    for n in (1, 2, 3):
        run = office.answer(office.asked(run)[f"pay {n}"], "approve")
    assert [result["result"] for result in office.output(run)["results"]] == ["pay 1", "pay 2", "pay 3"]


# -- threads -------------------------------------------------------------------------------------


def in_thread(office: Office, thread: str | None) -> dict[str, t.Any]:
    """Options of a run that enters a thread; a new one when there is none."""
    run_id = office.made.clock.new_id("run")
    threads = office.made.store.threads
    if thread is None:
        entered = threads.open("wf_test", "key_1", run_id)
    else:
        found = threads.enter(thread, "wf_test", "key_1", run_id)
        assert found is not None
        assert found.run_id == run_id
        entered = found
    return {"run_id": run_id, "thread": entered, "key_id": entered.key_id}


def test_what_was_approved_for_a_thread_is_not_asked_again_in_it(office: Office) -> None:
    doc = agent(held("pay"), held("look", "ask_once"))
    options = in_thread(office, None)
    run, _ = office.start(doc, **options)
    asks_for(office.next_call(), ("pay", 1), ("look", 2))
    asked = office.asked(run)
    run = office.answer(asked["pay 1"], "approve", remember=True)
    run = office.answer(office.asked(run)["look 2"], "approve")
    says(office.next_call(), "Once.")
    office.output(run)
    run, _ = office.start(doc, **in_thread(office, options["thread"].id))
    asks_for(office.next_call(), ("pay", 3), ("look", 4))
    second = office.next_call()
    assert results(second) == ["pay 3", "look 4"]
    says(second, "Twice.")
    assert office.output(run)["content"] == "Twice."
    other, _ = office.start(
        agent(held("pay", result="other"), "look"), **in_thread(office, options["thread"].id)
    )
    asks_for(office.next_call(), ("pay", 5))
    assert office.asked(other).keys() == {"pay 5"}, "another tool of that name"
    assert office.made.runs.stop(other.id)
    gone = office.made.runs.get(other.id)
    assert gone is None or gone.done.wait(20)


def remembered(call: Call) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in call.body["messages"] if m["role"] in ("user", "assistant")]


def test_a_pause_leaves_nothing_in_the_memory_and_the_answer_one_exchange(office: Office) -> None:
    doc = agent(held("pay"), memory="conversation")
    options = in_thread(office, None)
    run, _ = office.start(doc, "first", **options)
    asks_for(office.next_call(), ("pay", 1))
    row = office.asked(run)["pay 1"]
    memories = office.made.store.memories
    assert memories.read(options["thread"].id, "a", 10, 10_000) == []
    run = office.answer(row, "approve")
    says(office.next_call(), "Paid.")
    office.output(run)
    run, _ = office.start(doc, "second", **in_thread(office, options["thread"].id))
    call = office.next_call()
    assert remembered(call) == [("user", "first"), ("assistant", "Paid."), ("user", "second")]
    says(call, "Fine.")
    office.output(run)


def test_a_memory_that_lasts_as_long_as_the_run_lasts_through_a_pause(office: Office) -> None:
    doc = document(
        [
            ("l", "loop", {"kind": "for", "times": 2}),
            ("a", "agent", {"model": MODEL, "memory": "conversation", "prompt": "turn {{ loop.index }}"}),
            ("r", "approval", {"prompt": "On?", "when": "loop.index == 0"}),
        ],
        "start > l",
        "l -loop> a",
        "a > r",
        "r -approved> l",
    )
    run, _ = office.start(doc)
    says(office.next_call(), "First.")
    run = office.answer(office.asked(run)["answer"], "approve")
    call = office.next_call()
    assert remembered(call) == [("user", "turn 0"), ("assistant", "First."), ("user", "turn 1")]
    says(call, "Second.")
    output = office.output(run)
    assert [result["content"] for result in output["results"]] == ["First.", "Second."]


def test_a_thread_goes_on_after_a_run_that_was_stopped_while_it_waited(office: Office) -> None:
    """Field case AFTERMATH-01: no call without a result is sent to the model, ever."""
    doc = agent(held("pay"), memory="conversation")
    options = in_thread(office, None)
    run, _ = office.start(doc, "first", **options)
    asks_for(office.next_call(), ("pay", 1))
    office.asked(run)
    assert office.made.runs.stop(run.id)
    stopped = office.made.runs.get(run.id)
    assert stopped is None or stopped.done.wait(20)
    run, _ = office.start(doc, "hello", **in_thread(office, options["thread"].id))
    call = office.next_call()
    assert all("tool_calls" not in message for message in call.body["messages"])
    assert remembered(call)[-1] == ("user", "hello")
    says(call, "Hello.")
    assert office.output(run)["content"] == "Hello."
    assert office.desk.ran == []


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

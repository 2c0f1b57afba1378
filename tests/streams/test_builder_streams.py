"""Whole builder sessions as bytes, one for each way a run may go.

When the surface changes on purpose: ``STUDIO_WRITE_GOLDEN=1 make test ARGS=tests/streams``, then read the difference.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable, Iterator

import pytest
import yaml
from jsonschema import Draft202012Validator

from app import events as ev
from app.clock import SteppingClock
from app.engine.registry import Run
from app.engine.services import Services
from app.streams.builder import BuilderEvents, BuilderOptions
from app.streams.builder_schema import builder_events
from app.streams.replay import Replay
from providers.tokens import COUNTER
from tests.engine.test_regions import document
from tests.streams.test_run_event_streams import check_golden
from tests.support import sse
from tests.support.engine import services, start
from tests.support.servers import wait_until

CLOSED = Draft202012Validator(builder_events(closed=True))
TOOL = {"name": "look_up", "description": "Looks it up.", "result": "plenty of it"}
SCRIPTS: dict[str, list[t.Any]] = {
    "plain": [[{"text": "Tea it is.", "chunk": "words"}, {"usage": {"input": 5, "output": 5}}]],
    "thinker": [[{"thinking": "Hm, tea or cake?"}, {"text": "Tea."}, {"usage": {"input": 5, "output": 9}}]],
    "caller": [
        [
            {"text": "One moment. "},
            {"tool_call": {"name": "look_up", "arguments": {"q": "tea"}, "id": "call_1"}},
            {"tool_call": {"name": "nonesuch", "arguments": {}, "id": "call_2"}},
        ],
        [{"text": "There is plenty."}],
    ],
    "broken": [[{"text": "Half a "}, {"error": {"code": "provider_unavailable", "message": "Gone."}}]],
    "silent": [[{"text": "Well, "}, {"stall": True}]],
}
Block = tuple[str, str, dict[str, t.Any]]


def agent(script: str, **config: t.Any) -> dict[str, t.Any]:
    return {"model": f"scripted/{script}", "prompt": "{{ input.message }}", "retries": 0, **config}


def one(script: str, **config: t.Any) -> dict[str, t.Any]:
    """A document of one agent."""
    return document([("agent_1", "agent", agent(script, **config))], "start > agent_1")


def say(values: str) -> dict[str, t.Any]:
    return {"values": {"said": values}}


LOOP: list[Block] = [
    ("each", "loop", {"kind": "for_each", "items": ["tea", "cake"]}),
    ("ask", "agent", agent("plain", prompt="{{ loop.item }}?")),
    ("over", "set", say("{{ blocks.each.iterations }} times")),
]
BOTH: list[Block] = [
    ("both", "parallel", {"items": ["tea", "cake"], "max_concurrency": 1}),
    ("ask", "set", say("{{ loop.item }}")),
    ("over", "set", say("{{ blocks.both.results|length }}")),
]
FAILS: list[Block] = [
    ("ask", "agent", agent("broken")),
    ("sorry", "set", say("Sorry.")),
    ("after", "set", say("never")),
]
ASKS: list[Block] = [
    ("ask", "approval", {"prompt": "Send it?", "draft": "Dear {{ input.message }}"}),
    ("send", "set", say("{{ blocks.ask.content }}")),
]
DOCUMENTS: dict[str, dict[str, t.Any]] = {
    "plain": one("plain"),
    "tools": one("caller", tools=[TOOL]),
    "thinking": one("thinker"),
    "failing": one("broken"),
    "caught": document(FAILS, "start > ask", "ask -error> sorry", "ask > after"),
    "loop": document(LOOP, "start > each", "each -loop> ask", "ask > each", "each -exit> over"),
    "parallel": document(BOTH, "start > both", "both -loop> ask", "both -exit> over"),
}


@pytest.fixture(autouse=True)
def _counted_by_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a cut answer used is an estimate, and another one where an earlier test has read the tokenizer's table."""
    monkeypatch.setattr(COUNTER, "_tried", True)
    monkeypatch.setattr(COUNTER, "_encode", None)


@pytest.fixture
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    folder = tmp_path_factory.mktemp("builder")
    for name, turns in SCRIPTS.items():
        script = {"turns": [{"steps": steps} for steps in turns]}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(script))
    with services(folder, {"STUDIO_SCRIPTS_DIR": str(folder)}, clock=SteppingClock()) as opened:
        yield opened


def drafted(made: Services, doc: dict[str, t.Any], **options: t.Any) -> Run:
    return start(made, doc, {"message": "Ann"}, draft=True, **options)[0]


def read(run: t.Any, after: int = 0) -> bytes:
    """What a reader is told of a run from an event on; every frame is as it is described."""
    projection, replay, got = BuilderEvents(BuilderOptions("run_1", "wf_test")), Replay(0, after), []
    while replay.cursor < run.log.last and not projection.done:
        got.append(replay.next(projection, run.log))
    # The store of these services has a clock of its own, by which people are waited for.
    stream = re.sub(rb'"(activeMs|humanWaitMs)":-?\d{6,}', rb'"\1":0', b"".join(got))
    for frame in sse.parse(stream)[:-1]:
        CLOSED.validate(frame.json())
    return stream


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_stream_of_a_run(name: str, made: Services) -> None:
    run = drafted(made, DOCUMENTS[name])
    assert run.done.wait(20)
    check_golden(f"builder-{name}.sse", read(run))


@pytest.mark.parametrize(
    ("name", "ends", "options"),
    [
        ("cancelled", lambda run: run.cancel("stop_requested"), {}),
        ("left", lambda run: run.cancel("client_disconnected"), {}),
        ("timed-out", lambda run: run.scope.cancel("execution_timeout"), {}),
        ("stopped-after", lambda run: None, {"stop_after": "start"}),
    ],
)
def test_the_stream_of_a_run_that_is_cut_short(
    name: str, ends: Callable[[Run], object], options: dict[str, t.Any], made: Services
) -> None:
    run = drafted(made, one("silent"), **options)
    if not options:
        wait_until(lambda: any(isinstance(e.event, ev.TextDelta) for e in run.log), "it has begun to speak")
    ends(run)
    assert run.done.wait(20)
    check_golden(f"builder-{name}.sse", read(run))


def test_the_streams_of_a_run_that_waits_and_goes_on(made: Services) -> None:
    run = drafted(made, document(ASKS, "start > ask", "ask -approved> send"))
    assert run.done.wait(20)
    check_golden("builder-paused.sse", read(run))
    (asked,) = made.store.decisions.open_of_run(run.id)
    assert made.store.decisions.answer(asked.id, {"decision": "approve"}, "key_1", remember=False)[0]
    again = made.runs.go_on(run.id)
    assert again is not None
    assert again.done.wait(20)
    check_golden("builder-resumed.sse", read(again, run.log.last))

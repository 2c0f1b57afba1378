"""A run that has ended is freed with its last use: no garbage collection, which stops every stream, has to find it."""

from __future__ import annotations

import gc
import typing as t
import weakref
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest
import yaml

from app.engine.services import Services
from tests.engine.flows import document, start_saved
from tests.engine.flows import save as save_all
from tests.support.engine import agent, services, start

SCRIPTS = {
    "plain": [{"text": "Hello there."}],
    "slow": [{"text": "Hello "}, {"stall": True}],
    "broken": [{"text": "Half "}, {"error": {"code": "provider_bad_request", "message": "No."}}],
    "caller": {
        "turns": [
            {"steps": [{"tool_call": {"name": "clock", "arguments": {}}}]},
            {"steps": [{"text": "It is late."}]},
        ]
    },
}
PLAIN = {"model": "scripted/plain"}
ASKS = document(
    [("ask", "approval", {"prompt": "Go?", "draft": "x"}), ("one", "agent", PLAIN)],
    "start > ask",
    "ask -approved> one",
)
SPEAKERS = [{"name": name, **PLAIN, "prompt": "x"} for name in ("a", "b")]
DOCUMENTS = {
    "agent": agent("scripted/plain"),
    "tools": agent("scripted/caller", tools=["clock"]),
    "fallback": agent("scripted/broken", fallbacks=["scripted/plain"], retries=0),
    "failed": agent("scripted/broken", retries=0),
    "branches": document(
        [
            ("one", "agent", PLAIN),
            ("two", "agent", PLAIN),
            ("end", "response", {"body": "{{ blocks.one.content }}"}),
        ],
        "start > one",
        "start > two",
        "one > end",
        "two > end",
    ),
    "loop": document(
        [("go", "loop", {"kind": "for", "times": 2}), ("one", "agent", PLAIN)],
        "start > go",
        "go -loop> one",
        "one > go",
    ),
    "debate": document([("talk", "debate", {"participants": SPEAKERS, "rounds": 1})], "start > talk"),
    "child": document([("inner", "workflow", {"workflow": "agent"})], "start > inner"),
    "durable": {**agent("scripted/caller", tools=["clock"]), "settings": {"durable": True}},
    "pauses": ASKS,
}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for name, script in SCRIPTS.items():
        turns = script if isinstance(script, dict) else {"turns": [{"steps": script}]}
        (scripts / f"{name}.yaml").write_text(yaml.safe_dump(turns))
    with services(tmp_path, {"STUDIO_SCRIPTS_DIR": str(scripts)}) as opened:
        yield opened


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def freed(found: t.Any) -> bool:
    """Whether nothing holds it any more once every greenlet that ends has ended."""
    for _ in range(20):
        if found() is None:
            return True
        gevent.sleep(0.01)
    return False


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_run_is_freed_with_its_last_use(made: Services, name: str) -> None:
    save_all(made, agent=DOCUMENTS["agent"], **({} if name == "agent" else {name: DOCUMENTS[name]}))

    def once() -> t.Any:
        run, recorder = start_saved(made, name)
        assert run.done.wait(20)
        recorder.envelopes.clear()
        return weakref.ref(run)

    assert freed(once())


@pytest.mark.usefixtures("no_collection")
def test_so_is_one_that_was_stopped(made: Services) -> None:
    def once() -> t.Any:
        run, recorder = start(made, agent("scripted/slow"))
        while len(recorder.envelopes) < 4:
            gevent.sleep(0)
        run.cancel("stop_requested")
        assert run.done.wait(20)
        recorder.envelopes.clear()
        return weakref.ref(run)

    assert freed(once())


@pytest.mark.usefixtures("no_collection")
def test_so_is_one_that_went_on_after_a_pause(made: Services) -> None:
    def once() -> t.Any:
        run, _ = start(made, ASKS)
        assert run.done.wait(20)
        (asked,) = made.store.decisions.open_of_run(run.id)
        made.store.decisions.answer(asked.id, {"decision": "approve"}, "test")
        gone_on = made.runs.go_on(run.id)
        assert gone_on is not None
        assert gone_on.done.wait(20)
        assert gone_on.status == "completed"
        return weakref.ref(gone_on)

    assert freed(once())

"""A run of a thread cancelled at every switch point: what is remembered is whole, or says that it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.engine import settle
from app.engine.services import Services
from plugins.spec.memory import Exchange
from tests.engine.switches import cancelled_at
from tests.engine.upstream import upstream
from tests.support.engine import agent, services, start

DOCUMENT = agent(
    "openai-compatible/fuzzed",
    tools=["clock", "calculator"],
    prompt="What is it?",
    memory={"type": "sliding_window_tokens", "limit": 50},
)
ANSWERED, STOPPED = Exchange("What is it?", "It is 42."), Exchange("What is it?", None)
CAUSES = ("stop_requested", "client_disconnected", "server_shutdown")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    with upstream() as vendor:
        monkeypatch.setenv("STUDIO_OPENAI_COMPATIBLE_API_BASE", vendor.base)
        with services(tmp_path) as opened:
            yield opened


def remembered(made: Services, point: int) -> tuple[list[Exchange], str, int]:
    """What a thread remembers of a run that is cancelled at a switch point, its status, and its switches."""
    thread = made.store.threads.open("wf", "key_1", "run_before")
    made.store.memories.append(thread.id, "agent_1", "agent_1", "run_before", "Hi", "Hello").wait()
    run, _, count = cancelled_at(
        lambda: start(made, DOCUMENT, thread=thread, key_id="key_1"), {point: CAUSES[point % 3]}
    )
    assert run.ending is not None
    first, *rest = made.store.memories.read(thread.id, "agent_1", 10, 10_000)
    assert first == Exchange("Hi", "Hello")
    return rest, settle.status_of(run.ending), count


def test_cancel_at_every_switch_point(made: Services) -> None:
    remembered(made, 0)  # imports and caches warm, so that the switch points repeat
    rest, status, count = remembered(made, 0)
    assert (rest, status) == ([ANSWERED], "completed")
    found = []
    for point in range(1, count + 1):
        rest, status, _ = remembered(made, point)
        assert rest in ([ANSWERED], [STOPPED], [])
        if status == "completed":
            assert rest == [ANSWERED]
        found.append(rest)
    assert found.count([STOPPED]) > count // 3
    assert [] not in found[found.index([STOPPED]) :]

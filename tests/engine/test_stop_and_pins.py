"""What a stopped run would have done next, and where a thread's next run enters."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from app import events as ev
from app.engine.services import Services
from app.errors import ValidationFailed
from app.store.threads import ThreadRow
from tests.engine.test_regions import document, finished
from tests.support.engine import services, start
from tests.support.servers import wait_until

pytestmark = pytest.mark.leak_check

LETS_GO = {
    "turns": [
        {"steps": [{"tool_call": {"name": "release", "arguments": {}}}]},
        {"steps": [{"text": "Goodbye."}]},
    ]
}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "lets-go.yaml").write_text(yaml.safe_dump(LETS_GO))
    with services(tmp_path, {"STUDIO_SCRIPTS_DIR": str(scripts)}) as opened:
        yield opened


def thread(made: Services, pinned: str | None = None) -> ThreadRow:
    """A thread of the next run."""
    row = made.store.threads.open("wf_test", "key_1", "run_next")
    return ThreadRow(row.id, row.workflow_id, row.key_id, None, "run_next", 0, pinned, 0, 0)


def stopped(
    made: Services, blocks: list[tuple[str, str, dict[str, t.Any]]], edges: list[str], at: set[str]
) -> tuple[str, ...]:
    """Run until the blocks ``at`` are silent models' all at once, stop, and tell what would have followed."""
    run, recorder = start(made, document(blocks, *edges))
    wait_until(lambda: at <= {state.block for state in run.state.open_blocks()}, f"{at} run")
    run.cancel("stop_requested")
    assert run.done.wait(20)
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunCancelled)
    return tuple(end.following)


SILENT = {"model": "scripted/silent"}
SET = {"values": {"x": 1}}


@pytest.mark.parametrize(
    ("blocks", "edges", "at", "following"),
    [
        ([("a", "agent", SILENT)], ["start > a"], {"a"}, ()),
        ([("b", "set", SET), ("a", "agent", SILENT)], ["start > a", "a > b"], {"a"}, ("b",)),
        (  # the error edge is not expected
            [("a", "agent", SILENT), ("bad", "set", SET), ("good", "set", SET)],
            ["start > a", "a -error> bad", "a > good"],
            {"a"},
            ("good",),
        ),
        (  # several are open: in document order
            [("y", "set", SET), ("x", "set", SET), ("a", "agent", SILENT), ("b", "agent", SILENT)],
            ["start > a", "start > b", "a > x", "b > y"],
            {"a", "b"},
            ("y", "x"),
        ),
        (  # a join waits for both, and both are taken as having ended well
            [("a", "agent", SILENT), ("b", "agent", SILENT), ("j", "set", SET)],
            ["start > a", "start > b", "a > j", "b > j"],
            {"a", "b"},
            ("j",),
        ),
        (  # inside a loop's body
            [("l", "loop", {"kind": "for", "times": 3}), ("a", "agent", SILENT), ("b", "set", SET)],
            ["start > l", "l -loop> a", "a > b", "b > l"],
            {"l", "a"},
            ("b",),
        ),
        (  # at its end the loop would have decided
            [
                ("l", "loop", {"kind": "for", "times": 3}),
                ("b", "set", SET),
                ("a", "agent", SILENT),
                ("after", "set", SET),
            ],
            ["start > l", "l -loop> b", "b > a", "a > l", "l -exit> after"],
            {"l", "a"},
            ("l",),
        ),
        (  # branches at their ends: what joins them
            [
                ("p", "parallel", {"branches": ["one", "two"]}),
                ("a", "agent", SILENT),
                ("b", "agent", SILENT),
                ("j", "set", SET),
            ],
            ["start > p", "p -branch:one> a", "p -branch:two> b", "p -exit> j"],
            {"p", "a", "b"},
            ("j",),
        ),
        (  # one of many at once
            [
                ("p", "parallel", {"items": [1, 2]}),
                ("a", "agent", SILENT),
                ("b", "set", SET),
            ],
            ["start > p", "p -loop> a", "a > b", "b > p"],
            {"p", "a[0]", "a[1]"},
            ("b[0]", "b[1]"),
        ),
    ],
)
def test_what_would_have_run_next(
    made: Services,
    blocks: list[tuple[str, str, dict[str, t.Any]]],
    edges: list[str],
    at: set[str],
    following: tuple[str, ...],
) -> None:
    assert stopped(made, blocks, edges, at) == following


CAPTURE = [
    ("first", "agent", {"model": "scripted/echo", "prompt": "first"}),
    ("kept", "agent", {"model": "scripted/echo", "prompt": "kept {{ input.message }}", "capture": True}),
    ("last", "set", {"values": {"x": "{{ blocks.kept.content }}"}}),
]
ALONG = ["start > first", "first > kept", "kept > last"]


def test_an_agent_with_capture_keeps_the_thread_and_the_next_run_enters_there(made: Services) -> None:
    run, recorder = start(made, document(CAPTURE, *ALONG), thread=thread(made))
    assert run.done.wait(20)
    assert [event.pinned for event in recorder.of(ev.FlowChanged)] == ["kept"]
    run, recorder = start(made, document(CAPTURE, *ALONG), {"message": "again"}, thread=thread(made, "kept"))
    assert run.done.wait(20)
    assert recorder.envelopes[-1].event.output == {"x": "kept again"}
    assert [(block, status) for block, status, _ in finished(recorder)] == [
        ("start", "skipped"),
        ("first", "skipped"),
        ("kept", "executed"),
        ("last", "executed"),
    ]
    assert [event.pinned for event in recorder.of(ev.FlowChanged)] == ["kept"]


def test_a_pin_on_what_is_gone_enters_at_the_start(made: Services) -> None:
    for gone in ("nonesuch", "first"):
        run, recorder = start(made, document(CAPTURE, *ALONG), thread=thread(made, gone))
        assert run.done.wait(20)
        assert [event.pinned for event in recorder.of(ev.FlowChanged)] == [None, "kept"]
        assert ("first", "executed", 1) in finished(recorder)


def test_the_tool_release_lets_go(made: Services) -> None:
    blocks = [("kept", "agent", {"model": "scripted/lets-go", "capture": True})]
    run, recorder = start(made, document(blocks, "start > kept"), thread=thread(made, "kept"))
    assert run.done.wait(20)
    assert recorder.envelopes[-1].event.output["content"] == "Goodbye."
    assert [event.pinned for event in recorder.of(ev.FlowChanged)] == ["kept", None]


def test_a_router_lets_go(made: Services) -> None:
    blocks = [
        ("kept", "agent", {"model": "scripted/echo", "capture": True}),
        ("way", "router", {"mode": "expression", "routes": [{"name": "on", "when": "true"}]}),
        ("after", "set", SET),
    ]
    edges = ["start > kept", "kept > way", "way -route:on> after"]
    run, recorder = start(made, document(blocks, *edges), thread=thread(made))
    assert run.done.wait(20)
    assert [event.pinned for event in recorder.of(ev.FlowChanged)] == ["kept", None]


def test_the_pin_is_stored_with_the_end_of_the_run(made: Services) -> None:
    row = made.store.threads.open("wf_test", "key_1", "run_later")
    request_thread = ThreadRow(row.id, row.workflow_id, row.key_id, None, "run_later", 0, None, 0, 0)
    made.clock.new_id = lambda prefix: f"{prefix}_later"  # type: ignore[method-assign]
    run, _ = start(made, document(CAPTURE, *ALONG), thread=request_thread)
    assert run.done.wait(20)
    found = made.store.threads.get(row.id)
    assert found is not None
    assert (found.pinned, found.run_status) == ("kept", "completed")
    stored = made.store.runs.get(run.id)
    assert stored is not None
    assert stored["thread_id"] == row.id


def test_inside_a_body_no_agent_keeps_the_thread(made: Services) -> None:
    blocks = [
        ("again", "loop", {"kind": "for", "times": 2}),
        ("kept", "agent", {"model": "scripted/echo", "capture": True}),
    ]
    with pytest.raises(ValidationFailed, match="outside of loops"):
        start(made, document(blocks, "start > again", "again -loop> kept", "kept > again"))


def test_a_stop_asked_for_in_the_store_reaches_the_process_that_carries_the_run(made: Services) -> None:
    run, recorder = start(made, document([("a", "agent", SILENT)], "start > a"))
    made.runs.open()
    assert made.store.runs.request_stop(run.id)
    assert run.done.wait(20)
    assert recorder.envelopes[-1].event.cause == "stop_requested"

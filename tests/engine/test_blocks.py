"""Blocks of a run: what follows an answer, an error edge, a deadline; tools of every kind of entry."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import events as ev
from app.agents.calls import MAX_CALLS
from app.engine.services import Services
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.rights import Rights
from tests.support.engine import agent, services, start

pytestmark = pytest.mark.leak_check

SCRIPT = """
turns:
  - steps:
      - tool_call: {name: clock, arguments: {}}
      - tool_call: {name: fixed, arguments: {}}
  - steps:
      - text: "done"
"""

PACED = """
turns:
  - steps:
      - text: "word "
        delay_ms: 5
        times: 10
"""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    (tmp_path / "two-tools.yaml").write_text(SCRIPT)
    (tmp_path / "paced.yaml").write_text(PACED)
    with services(tmp_path / "data", {"STUDIO_SCRIPTS_DIR": str(tmp_path)}) as opened:
        yield opened


def document(*more: dict[str, t.Any], edges: list[dict[str, str]], **config: t.Any) -> dict[str, t.Any]:
    base = agent(config.pop("model"), **config)
    return {**base, "blocks": [*base["blocks"], *more], "edges": [*base["edges"], *edges]}


def test_a_response_without_a_body_answers_with_its_predecessor(made: Services) -> None:
    made_of = document(
        {"id": "response", "type": "response"},
        edges=[{"source": "agent_1", "target": "response"}],
        model="scripted/echo",
    )
    run, recorder = start(made, made_of, {"message": "hello"})
    run.done.wait(10)
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunCompleted)
    assert end.output["content"] == end.outputs["agent_1"]["content"]


@pytest.mark.parametrize("entry", ["clock", {"name": "clock"}, {"name": "clock", "approval": "never"}])
def test_every_spelling_of_a_registered_tool_runs(made: Services, entry: t.Any) -> None:
    tools = [entry, {"name": "fixed", "description": "d", "parameters": {"type": "object"}, "result": None}]
    run, recorder = start(made, agent("scripted/two-tools", tools=tools))
    run.done.wait(10)
    assert [e.status for e in recorder.of(ev.ToolFinished)] == ["success", "success"]
    assert isinstance(recorder.envelopes[-1].event, ev.RunCompleted)


def test_an_error_edge_goes_on_and_the_other_path_is_skipped(made: Services) -> None:
    made_of = document(
        {"id": "fine", "type": "response", "config": {"body": "fine"}},
        {"id": "sorry", "type": "response", "config": {"body": "sorry"}},
        edges=[
            {"source": "agent_1", "target": "fine"},
            {"source": "agent_1", "target": "sorry", "source_handle": "error"},
        ],
        model="scripted/error-before",
    )
    run, recorder = start(made, made_of)
    run.done.wait(10)
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunCompleted)
    assert end.output == "sorry"
    statuses = {e.block: e.status for e in recorder.of(ev.BlockFinished)}
    assert statuses == {"start": "executed", "agent_1": "failed", "fine": "skipped", "sorry": "executed"}


def test_what_an_error_edge_caught_is_no_success(made: Services) -> None:
    """Contract 3.5: an output all the same, success false, and the handler may say what failed."""
    made_of = document(
        {"id": "sorry", "type": "response", "config": {"body": "{{ blocks.agent_1.error }}"}},
        edges=[{"source": "agent_1", "target": "sorry", "source_handle": "error"}],
        model="scripted/error-before",
    )
    run, recorder = start(made, made_of)
    run.done.wait(10)
    end = recorder.envelopes[-1].event
    failed = next(e for e in recorder.of(ev.BlockFinished) if e.status == "failed")
    assert isinstance(end, ev.RunCompleted)
    assert (end.success, end.error, end.output) == (False, failed.message, failed.message)
    assert "agent_1" not in end.outputs


def test_calls_beyond_the_cap_of_a_turn_are_answered_not_run(made: Services, tmp_path: Path) -> None:
    calls = "\n".join("      - tool_call: {name: clock, arguments: {}}" for _ in range(MAX_CALLS + 2))
    (tmp_path / "many.yaml").write_text(f"turns:\n  - steps:\n{calls}\n  - steps:\n      - text: done\n")
    run, recorder = start(made, agent("scripted/many", tools=["clock"]))
    run.done.wait(20)
    statuses = [e.status for e in recorder.of(ev.ToolFinished)]
    assert (statuses.count("success"), statuses.count("error")) == (MAX_CALLS, 2)
    assert isinstance(recorder.envelopes[-1].event, ev.RunCompleted)


def test_a_block_that_takes_too_long_fails_with_its_own_code(made: Services) -> None:
    run, recorder = start(made, agent("scripted/silent", timeout_s=0.05))
    run.done.wait(10)
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunFailed)
    assert (end.code, end.block) == ("block_timeout", "agent_1")


def test_a_run_that_takes_too_long_is_timed_out(made: Services) -> None:
    run, recorder = start(made, agent("scripted/silent"), timeout_s=0.05)
    run.done.wait(10)
    assert isinstance(recorder.envelopes[-1].event, ev.RunTimedOut)
    row = made.store.runs.get(run.id)
    assert row is not None
    assert (row["status"], row["cause"]) == ("timed_out", "execution_timeout")


def test_two_agents_after_one_start_run_at_the_same_time(made: Services) -> None:
    made_of = document(
        {"id": "agent_2", "type": "agent", "config": {"model": "scripted/paced"}},
        edges=[{"source": "start", "target": "agent_2"}],
        model="scripted/paced",
    )
    run, recorder = start(made, made_of)
    run.done.wait(20)
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunCompleted)
    assert set(end.output) == {"agent_1", "agent_2"}
    order = [e.block for e in recorder.of(ev.TextDelta)]
    assert order.index("agent_2") < len(order) - 1 - order[::-1].index("agent_1")


def test_a_branch_that_fails_when_no_other_is_left_ends_the_run(made: Services) -> None:
    made_of = document(
        {"id": "agent_2", "type": "agent", "config": {"model": "scripted/error-mid"}},
        edges=[{"source": "start", "target": "agent_2"}],
        model="scripted/echo",
    )
    run, recorder = start(made, made_of)
    run.done.wait(10)
    order = [e.block for e in recorder.of(ev.BlockFinished)]
    assert order == ["start", "agent_1", "agent_2"]
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunFailed)
    assert (end.code, end.block) == ("provider_bad_stream", "agent_2")


def test_what_a_skipped_block_frees_does_not_wait_for_another_branch(made: Services) -> None:
    made_of = document(
        {"id": "sorry", "type": "response"},
        {"id": "join", "type": "agent", "config": {"model": "scripted/echo"}},
        {"id": "agent_2", "type": "agent", "config": {"model": "scripted/silent"}},
        edges=[
            {"source": "start", "target": "agent_2"},
            {"source": "agent_1", "target": "sorry", "source_handle": "error"},
            {"source": "agent_1", "target": "join"},
            {"source": "sorry", "target": "join"},
        ],
        model="scripted/echo",
    )
    run, recorder = start(made, made_of, timeout_s=3)
    run.done.wait(10)
    statuses = {e.block: e.status for e in recorder.of(ev.BlockFinished)}
    assert (statuses["sorry"], statuses["join"]) == ("skipped", "executed")
    assert isinstance(recorder.envelopes[-1].event, ev.RunTimedOut)


def test_an_end_that_cannot_be_settled_is_still_recorded_and_shown(
    made: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: t.Any) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("app.engine.settle.run", broken)
    run, recorder = start(made, agent("scripted/error-mid"), timeout_s=5)
    run.done.wait(10)
    assert [type(e.event) for e in recorder.envelopes if isinstance(e.event, ev.Terminal)] == [ev.RunFailed]
    run, recorder = start(made, agent("scripted/silent"), timeout_s=0.05)
    run.done.wait(10)
    assert isinstance(recorder.envelopes[-1].event, ev.RunTimedOut)  # while its block is still open
    row = made.store.runs.get(run.id)
    assert row is not None
    assert row["status"] == "timed_out"


def test_a_key_of_no_known_shape_is_masked_in_the_stored_detail(
    made: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUDIO_TEST_API_KEY", "plain-words-as-a-key")
    said = "The key plain-words-as-a-key is not valid."
    (tmp_path / "refused.yaml").write_text(
        f'turns: [{{steps: [{{error: {{code: provider_auth, message: "{said}"}}}}]}}]'
    )
    run, _ = start(made, agent("scripted/refused"))
    run.done.wait(10)
    row = made.store.runs.get(run.id)
    assert row is not None
    assert row["error"]["detail"] == "The key *** is not valid."


def test_usage_is_stored_per_model_call(made: Services) -> None:
    run, _ = start(made, agent("scripted/two-tools", tools=["clock"]))
    run.done.wait(10)
    row = made.store.runs.get(run.id)
    assert row is not None
    assert all(usage["model"] == "scripted/two-tools" for usage in row["usages"])


def test_a_structured_answer_is_sent_once_and_its_fields_stand_at_top_level(made: Services) -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    run, recorder = start(made, agent("scripted/structured", response_format=schema))
    run.done.wait(10)
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunCompleted)
    assert end.output["answer"] == "forty-two"
    options = AgentEventsOptions(run.id, True, False, Rights(), None, ("agent_1",))
    projection = AgentEvents(options)
    body = b"".join(projection.frames(envelope) for envelope in recorder.envelopes)
    assert body.count(b'"chunk":') == 1
    assert b"chunk_reset" not in body


def test_an_answer_that_does_not_fit_its_format_fails_the_run(made: Services) -> None:
    schema = {"type": "object", "required": ["nothing_of_that_name"]}
    run, recorder = start(made, agent("scripted/structured", response_format=schema))
    run.done.wait(10)
    end = recorder.envelopes[-1].event
    assert isinstance(end, ev.RunFailed)
    assert (end.code, end.block) == ("structured_output_invalid", "agent_1")


def test_a_run_that_was_admitted_before_a_drain_ends_with_it(made: Services) -> None:
    assert made.runs.drain(1)
    run, recorder = start(made, agent("scripted/stall"))
    assert run.done.wait(20)
    assert recorder.envelopes[-1].event.cause == "server_shutdown"

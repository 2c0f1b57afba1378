"""The published JSON Schemas describe every frame there is, and nothing else (contract 1.13)."""

from __future__ import annotations

import copy
import typing as t

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from app import events as ev
from app.streams import agent_events_schema
from app.streams.agent_events import AgentEventsOptions
from app.streams.rights import Rights
from app.streams.schemas import SURFACES
from tests.streams.generate import USAGE, Scenario, runs
from tests.streams.reader import read
from tests.streams.test_agent_events import CALL, numbered
from tests.streams.test_invariants import ALL_RIGHTS, Pick, options

NEGOTIATED = Draft202012Validator(agent_events_schema.agent_events())
#: What the server is held to: it may send only what is described.
NEGOTIATED_CLOSED = Draft202012Validator(agent_events_schema.agent_events(closed=True))
SETTLED = Draft202012Validator(agent_events_schema.agent_text())

#: One frame of every branch, the sentinel aside.
EVERY_FRAME: list[dict[str, t.Any]] = [
    *read(
        AgentEventsOptions("run_1", True, False, Rights(True, True, True), None, ("agent_1",)),
        numbered(
            ev.ThinkingDelta("agent_1", 0, "hm", truncated=True),
            ev.TextDelta("agent_1", 0, "Let me look.", False),
            ev.ToolStarted("agent_1", 0, "call_1", "clock", 5),
            ev.TurnEnded("agent_1", 0, "intermediate"),
            ev.ToolFinished("agent_1", 0, "call_1", "clock", "success", {}, None, 9, 5),
            ev.StreamFailed("agent_1", "The text was lost."),
            ev.RunCompleted(None, {}, {"agent_1": [CALL]}, USAGE, False, "It failed."),
        ),
    ).frames,
    {"event": "gap", "from": 1, "to": 7, "reason": "evicted"},
    {"event": "detached", "retryMs": 1000},
    {"event": "error", "error": "The model fell silent.", "code": "provider_idle", "blockId": "agent_1"},
    {"event": "status", "state": "working"},
]


@pytest.mark.parametrize("surface", SURFACES)
def test_schemas_are_valid_2020_12(surface: str) -> None:
    schema = SURFACES[surface]()
    Draft202012Validator.check_schema(schema)
    assert schema["title"] == surface
    assert Draft202012Validator(schema).is_valid("[DONE]") is surface.startswith(
        "agent-"
    )  # those have a sentinel
    assert not Draft202012Validator(schema).is_valid("[done]")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runs(), st.sampled_from(ALL_RIGHTS), st.booleans(), st.booleans())
def test_every_frame_of_any_run_is_described(
    run: Scenario, rights: Rights, negotiated: bool, select: bool
) -> None:
    chosen = (Pick("agent_1", ("content",)), Pick("agent_1", ("toolCalls",))) if select else None
    wanted = options(run, rights, negotiated=negotiated, selections=chosen)
    for frame in read(wanted, run.envelopes).frames:
        if negotiated:
            NEGOTIATED_CLOSED.validate(frame)
            NEGOTIATED.validate(frame)
        else:
            SETTLED.validate(frame)


def test_every_branch_has_a_frame() -> None:
    """A row of the contract's table that nothing ever sends, or a frame without a row, shows here."""
    seen = []
    for frame in [*EVERY_FRAME, "[DONE]"]:
        fits = [
            number
            for number, branch in enumerate(NEGOTIATED.schema["oneOf"])
            if NEGOTIATED.evolve(schema={**NEGOTIATED.schema, "oneOf": [branch]}).is_valid(frame)
        ]
        assert len(fits) == 1
        seen += fits
    assert sorted(seen) == list(range(12))


def objects(frame: t.Any) -> list[dict[str, t.Any]]:
    """``frame`` and the objects of ours inside it; what stands under ``output`` and the like is anyone's."""
    if isinstance(frame, list):
        return [found for item in frame for found in objects(item)]
    if not isinstance(frame, dict):
        return []
    inner = [objects(item) for key, item in frame.items() if key not in ("arguments", "result", "output")]
    # toolCalls, byBlock and byModel are maps by id or name: any key may come.
    maps = set(frame) <= {"agent_1", "scripted/x"}
    return ([] if maps else [frame]) + [found for found in inner for found in found]


@pytest.mark.parametrize("frame", EVERY_FRAME, ids=lambda frame: frame.get("event", "text"))
def test_a_member_that_is_not_described_fails(frame: dict[str, t.Any]) -> None:
    settled = {key: value for key, value in frame.items() if key != "code"}
    validators = [(NEGOTIATED_CLOSED, frame)]
    if frame.get("event") in (None, "stream_error", "final", "error"):
        validators.append((SETTLED, settled))
    for validator, known in validators:
        validator.validate(known)
        for number in range(len(objects(known))):
            changed = copy.deepcopy(known)
            objects(changed)[number]["unheardOf"] = 1
            assert not validator.is_valid(changed), changed


@pytest.mark.parametrize("frame", EVERY_FRAME, ids=lambda frame: frame.get("event", "text"))
def test_a_described_member_that_is_missing_or_of_another_type_fails(frame: dict[str, t.Any]) -> None:
    optional = {("error", "blockId"), ("stream_error", "blockId"), ("thinking", "truncated")}
    for name in frame:
        if (frame.get("event"), name) not in optional:
            assert not NEGOTIATED.is_valid({key: value for key, value in frame.items() if key != name})
        assert not NEGOTIATED.is_valid({**frame, name: None})


def test_nothing_provisional_is_in_the_schema_without_the_header() -> None:
    for frame in EVERY_FRAME:
        if frame.get("event") in ("chunk_reset", "thinking", "tool") or "code" in frame:
            assert not SETTLED.is_valid(frame)


def test_clients_that_negotiated_leave_room_for_more() -> None:
    for frame in EVERY_FRAME:
        assert NEGOTIATED.is_valid({**frame, "turn": 3})
    assert not NEGOTIATED.is_valid({"event": "unheard_of", "blockId": "agent_1", "chunk": "x"})

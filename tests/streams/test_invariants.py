"""Property tests of agent events over generated runs (contract section 3, architecture section 6)."""

from __future__ import annotations

import itertools
import typing as t

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app import events as ev
from app.state import RunState
from app.streams.agent_events import AgentEvents, AgentEventsOptions
from app.streams.rights import Rights
from tests.streams.generate import ARGUMENT, RESULT, THOUGHT, Scenario, runs, violations
from tests.streams.reader import Reader, project, read

ALL_RIGHTS = [Rights(*flags) for flags in itertools.product([False, True], repeat=3)]
_examples = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Pick(t.NamedTuple):
    block: str
    path: tuple[str, ...]


def options(
    run: Scenario,
    rights: Rights = ALL_RIGHTS[-1],
    *,
    negotiated: bool = True,
    separator: bool = False,
    selections: tuple[Pick, ...] | None = None,
) -> AgentEventsOptions:
    return AgentEventsOptions("run_1", negotiated, separator, rights, selections, run.agents)


@_examples
@given(runs())
def test_generated_runs_are_valid(run: Scenario) -> None:
    assert violations(run.envelopes) == []
    state = RunState()
    for envelope in run.envelopes:
        state.apply(envelope)


@_examples
@given(runs(), st.sampled_from(ALL_RIGHTS), st.booleans())
def test_one_end_last_whatever_happens(run: Scenario, rights: Rights, negotiated: bool) -> None:
    reader = read(options(run, rights, negotiated=negotiated), run.envelopes)
    assert reader.ended
    ends = [frame for frame in reader.frames if frame.get("event") in ("final", "error")]
    assert ends == reader.frames[-1:]
    assert (ends[0]["event"] == "final") is isinstance(run.terminal, ev.RunCompleted)


@_examples
@given(runs(), st.booleans())
def test_standing_text_is_the_stored_content(run: Scenario, negotiated: bool) -> None:
    standing = read(options(run, negotiated=negotiated), run.envelopes).standing
    for block, content in run.contents.items():
        assert standing.get(block, "") == content


@_examples
@given(runs())
def test_reset_if_and_only_if_text_of_the_turn_was_sent(run: Scenario) -> None:
    expected = []
    sent: dict[str, int] = {}
    for event in run.events:
        if isinstance(event, ev.TextDelta) and event.block not in run.structured:
            sent[event.block] = sent.get(event.block, 0) + 1
        elif isinstance(event, ev.TurnEnded) and event.kind == "intermediate" and sent.pop(event.block, 0):
            expected.append((event.block, "tool_turn"))
        elif isinstance(event, ev.AnswerRetracted) and sent.pop(event.block, 0):
            expected.append((event.block, event.reason))
    resets = read(options(run), run.envelopes).events("chunk_reset")
    assert [(frame["blockId"], frame["reason"]) for frame in resets] == expected


@_examples
@given(runs(), st.sampled_from(ALL_RIGHTS))
def test_without_the_header_a_map_of_what_settled(run: Scenario, rights: Rights) -> None:
    """Nothing provisional, no ids, one chunk per block in order of completion."""
    reader = read(options(run, rights, negotiated=False), run.envelopes)
    chunks = [frame for frame in reader.frames if "event" not in frame]
    settled = [(block, run.contents[block]) for block in run.settled if run.contents[block]]
    assert [(frame["blockId"], frame["chunk"]) for frame in chunks] == settled
    assert set(reader.ids) == {None}
    assert {frame.get("event") for frame in reader.frames} <= {None, "stream_error", "final", "error"}
    assert "code" not in reader.frames[-1]


@_examples
@given(runs(), st.booleans())
def test_separator_stands_between_texts_of_blocks(run: Scenario, negotiated: bool) -> None:
    plain = read(options(run, negotiated=negotiated), run.envelopes)
    joined = read(options(run, negotiated=negotiated, separator=True), run.envelopes)
    first = [block for block in joined.standing if not joined.standing[block].startswith("\n\n")]
    for block, text in joined.standing.items():
        assert text in (plain.standing[block], "\n\n" + plain.standing[block])
    if (
        not negotiated
        and len(plain.standing) > 1
        and not any(text.startswith("\n\n") for text in plain.standing.values())
    ):
        assert len(first) == 1


@_examples
@given(runs(), st.sampled_from(ALL_RIGHTS), st.sampled_from(ALL_RIGHTS))
def test_fewer_rights_only_lose_frames(run: Scenario, some: Rights, more: Rights) -> None:
    less = Rights(some.thinking and more.thinking, some.tools and more.tools, some.payloads and more.payloads)
    few, many = (read(options(run, rights), run.envelopes).frames for rights in (less, more))
    left = iter(_without_final(many))
    assert all(any(frame == other for other in left) for frame in _without_final(few))
    assert _within(few[-1], many[-1])


def _without_final(frames: list[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    return [frame for frame in frames if frame.get("event") != "final"]


def _within(few: t.Any, many: t.Any) -> bool:
    """``few`` lacks members of ``many`` and has nothing that ``many`` lacks."""
    if isinstance(few, dict) and isinstance(many, dict):
        return all(key in many and _within(value, many[key]) for key, value in few.items())
    if isinstance(few, list) and isinstance(many, list):
        return len(few) == len(many) and all(map(_within, few, many))
    return bool(few == many)


SELECTIONS = st.one_of(
    st.none(),
    st.lists(
        st.builds(
            Pick,
            st.sampled_from(["agent_1", "agent_2", "start"]),
            st.sampled_from(
                [
                    ("content",),
                    (),
                    ("toolCalls",),
                    ("toolCalls", "list"),
                    ("toolCalls", "list", "0", "arguments"),
                    ("providerTiming",),
                    ("providerTiming", "timeSegments"),
                    ("message",),
                ]
            ),
        ),
        max_size=4,
    ).map(tuple),
)


@_examples
@given(runs(), st.sampled_from(ALL_RIGHTS), st.booleans(), SELECTIONS)
def test_no_byte_passes_rights_that_forbid_it(
    run: Scenario, rights: Rights, negotiated: bool, selections: tuple[Pick, ...] | None
) -> None:
    sent = project(options(run, rights, negotiated=negotiated, selections=selections), run.envelopes).decode()
    *before, final, _sentinel, _ = sent.split("\n\n")
    live = "".join(before)
    assert ARGUMENT not in live
    assert RESULT not in live
    assert THOUGHT not in final  # stored segments never show thinking to anybody
    if not (rights.thinking and negotiated):
        assert THOUGHT not in sent
    if not rights.payloads:
        assert ARGUMENT not in sent
        assert RESULT not in sent
    if not (rights.tools and negotiated):
        assert '"event":"tool"' not in live


@_examples
@given(runs(), st.sampled_from(ALL_RIGHTS), st.booleans(), SELECTIONS)
def test_a_replay_is_the_live_run_byte_for_byte(
    run: Scenario, rights: Rights, negotiated: bool, selections: tuple[Pick, ...] | None
) -> None:
    wanted = options(run, rights, negotiated=negotiated, selections=selections)
    live = AgentEvents(wanted)
    pieces = [live.frames(envelope) for envelope in run.envelopes]
    assert b"".join(pieces) == project(wanted, run.envelopes)
    assert live.done
    assert live.frames(run.envelopes[-1]) == b""  # nothing follows, whatever else arrives


@_examples
@given(runs())
def test_ids_name_the_envelope_on_its_last_frame(run: Scenario) -> None:
    projection = AgentEvents(options(run))
    for envelope in run.envelopes:
        frames = projection.frames(envelope).split(b"\n\n")[:-1]
        assert [frame.startswith(b"id: ") for frame in frames] == [False] * (len(frames) - 1) + [True] * bool(
            frames
        )
        assert not frames or frames[-1].startswith(b"id: run_1:%d\n" % envelope.seq)


@_examples
@given(runs())
def test_tool_frames_pair_and_follow_the_run(run: Scenario) -> None:
    frames = read(options(run), run.envelopes).events("tool")
    events = [event for event in run.events if isinstance(event, (ev.ToolStarted, ev.ToolFinished))]
    assert [(f["phase"], f["id"], f["name"], f.get("status")) for f in frames] == [
        ("start", e.id, e.name, None) if isinstance(e, ev.ToolStarted) else ("end", e.id, e.name, e.status)
        for e in events
    ]


@_examples
@given(runs())
def test_a_strict_parser_and_a_naive_line_splitter_see_the_same(run: Scenario) -> None:
    """Field cases WIRE-06 and WIRE-08."""
    sent = project(options(run), run.envelopes)
    reader = Reader(sent)
    naive = [line for line in sent.split(b"\n") if line.startswith(b"data: ")]
    assert len(naive) == len(reader.frames) + 1
    assert not any(line.startswith((b"event:", b"retry:")) for line in sent.split(b"\n"))


@_examples
@given(runs())
def test_nothing_selected_gives_the_end_only(run: Scenario) -> None:
    reader = read(options(run, selections=()), run.envelopes)
    assert len(reader.frames) == 1
    if isinstance(run.terminal, ev.RunCompleted):
        assert reader.frames[0]["data"]["output"] == {}

"""Each of the recordings gives through HTTP exactly its text, thinking, calls, finish and usage, however it is cut.

The turn under test is followed by a text-only case of the same wire, so that its calls can run; what is compared is
what came before the turn's boundary (its ``chunk_reset`` or first tool end) or the end. Finish and usage are read
from the stored run, in the terms of ``docs/normalised.md``.
"""

from __future__ import annotations

import typing as t

import pytest

from tests.recordings import ground
from tests.recordings.cases import CLOSING, cases, played
from tests.recordings.playing import Rig, Seen, run
from tests.recordings.replaying import Replaying
from tests.support.shared import recordings

#: Bytes in a piece; 0: as the vendor sent them.
SPLITS = (0, 7, 333)
#: A long answer of each wire, to be cut and stalled.
BROKEN = [
    "anthropic/thinking-text",
    "bedrock-converse/thinking-text",
    "bedrock-invoke/text-haiku",
    "cohere/thinking-citations",
    "gemini/array-body-thinking",
    "gemini/parallel-3-pro-2",
    "ollama/thinking-text-qwen3.6",
    "openai-chat/length",
    "openai-responses/text-gpt-4o",
]


def _calls(seen: Seen, count: int) -> list[tuple[str, t.Any]]:
    entries = seen.end["data"]["toolCalls"]["agent_1"]["list"][:count]
    return [(entry["name"], entry["arguments"]) for entry in entries]


@pytest.mark.parametrize("name", cases())
def test_a_recording_through_http(name: str, rigs: dict[bool, Rig], replay: Replaying) -> None:
    entry = recordings()[name]
    rig = rigs[played(name).other_wire]
    workflow_id = rig.put(name)
    for split in SPLITS:
        replay.play([name, CLOSING[entry["wire"]]], split=split)
        seen = run(rig.server, workflow_id)
        record = rig.record(seen.run_id)
        if name in ground.CODES:
            assert seen.end["event"] == "error"
            assert seen.end["code"] == ground.CODES[name]
            assert record["error"]["code"] == ground.CODES[name]
        else:
            _equals_the_truth(name, entry, seen)
            _is_recorded(entry, record)


def _equals_the_truth(name: str, entry: dict[str, t.Any], seen: Seen) -> None:
    expected = entry["expected"]
    wanted_calls = [
        (call["name"], call["input"] if call["input"] is not None else call["arguments"])
        for call in expected["tool_calls"]
    ]
    assert seen.end["event"] == "final", seen.end
    assert seen.text == expected["text"] + expected.get("refusal", "")
    assert seen.thinking == expected["thinking"]
    assert seen.starts == [call["name"] for call in expected["tool_calls"]]
    assert _calls(seen, len(wanted_calls)) == wanted_calls
    assert seen.others in ([], [seen.end])
    assert sorted(end["id"] for end in seen.ends) == sorted(seen.ids)
    assert len(set(seen.ids)) == len(seen.ids)


def _is_recorded(entry: dict[str, t.Any], record: dict[str, t.Any]) -> None:
    """Finish and usage, as the stored run has them; a turn with calls is followed by the closing one."""
    called = bool(entry["expected"]["tool_calls"])
    closing = recordings()[CLOSING[entry["wire"]]]
    turns = [entry, closing] if called else [entry]
    assert record["output"]["finishReason"] == ground.finish(turns[-1])
    assert record["output"]["providerTiming"]["iterations"] == len(turns)
    stated = [ground.tokens(turn) for turn in turns]
    if None in stated:
        assert record["usage"]["tokens"]["total"] > 0
        return
    assert record["usage"]["tokens"] == ground.added([counts for counts in stated if counts])


def test_every_error_case_has_its_code() -> None:
    failing = {name for name in cases() if recordings()[name]["expected"].get("error")}
    assert failing | {"gemini/prompt-blocked"} == set(ground.CODES)


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("part", [0.3, 0.6])
def test_a_cut_ends_in_one_error_and_keeps_the_partial_text(
    name: str, part: float, rigs: dict[bool, Rig], replay: Replaying
) -> None:
    entry = recordings()[name]
    rig = rigs[played(name).other_wire]
    replay.play([name], cut=int(entry["bytes"] * part))
    seen = run(rig.server, rig.put(name))
    assert seen.end["event"] == "error"
    assert seen.end["code"] == "provider_bad_stream"
    _partial_only(rig, seen, entry)


@pytest.mark.parametrize("name", BROKEN)
def test_a_stall_ends_in_provider_idle(name: str, rigs: dict[bool, Rig], replay: Replaying) -> None:
    entry = recordings()[name]
    rig = rigs[played(name).other_wire]
    replay.play([name], stall=int(entry["bytes"] * 0.5))
    seen = run(rig.server, rig.put(name))
    assert seen.end["code"] == "provider_idle"
    _partial_only(rig, seen, entry)


def _partial_only(rig: Rig, seen: Seen, entry: dict[str, t.Any]) -> None:
    """What was shown is a beginning of the answer and stands in ``partialText`` alone."""
    record = rig.record(seen.run_id)
    shown = entry["expected"]["text"]
    assert shown.startswith(seen.text)
    assert record["status"] == "failed"
    assert record.get("partialText", {}).get("agent_1", "") == seen.text
    assert record.get("output") is None

"""Recorded conversations, turn by turn: each request holds exactly what the vendor needs back of the turns before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recordings import oracle
from tests.recordings.cases import CLOSING, conversations, played, workflow
from tests.recordings.ground import CODES
from tests.recordings.playing import Rig, run
from tests.recordings.replaying import Replaying, read_log
from tests.support.shared import recordings


def _whole(names: list[str]) -> bool:
    """Whether the conversation goes on after each of its turns but the last (one breaks off and is tried again)."""
    return not any(name in CODES for name in names)


@pytest.mark.parametrize("name", [key for key, names in conversations().items() if _whole(names)])
def test_a_conversation_replays_what_the_vendor_needs(
    name: str, rigs: dict[bool, Rig], replay: Replaying, tmp_path: Path
) -> None:
    names = conversations()[name]
    turns = [recordings()[each] for each in names]
    chosen = played(names[0])
    rig = rigs[chosen.other_wire]
    workflow_id = "conv-" + name.replace("/", "-").replace(".", "-")
    rig.store.workflows.save(workflow(names, chosen.model), "recorded", workflow_id=workflow_id)
    rig.store.workflows.deploy(workflow_id)
    closing = CLOSING[turns[0]["wire"]] if turns[-1]["expected"]["tool_calls"] else None
    log = tmp_path / "requests"
    replay.play([*names, *([closing] if closing else [])], log=str(log))
    seen = run(rig.server, workflow_id)
    assert seen.end["event"] == "final", seen.end
    requests = [line["body"] for line in read_log(str(log))]
    assert len(requests) == len(names) + bool(closing)
    for turn, request in zip(turns, requests[1:], strict=False):
        found, made = oracle.replayed(turn, request)
        assert found == made
    last = recordings()[closing] if closing else turns[-1]
    assert rig.record(seen.run_id)["output"]["content"] == last["expected"]["text"]

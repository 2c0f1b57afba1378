"""The stream of a chat for clients without the header, byte for byte as it is stored in ``samples``.

Clients that were written years ago read it: what is stored never changes. Only ids, instants and durations are made
the same.
"""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from tests.web.conftest import TOOL, Studio, document

SAMPLES = Path(__file__).parent / "samples"
_SAME = (
    (re.compile(rb"run_[0-9a-z]+"), b"run_1"),
    (re.compile(rb"thr_[0-9a-z]+"), b"thr_1"),
    (re.compile(rb"dec_[0-9a-z]+"), b"dec_1"),
    (re.compile(rb'"\d{4}-\d\d-\d\dT[0-9:.]+Z"'), b'"2026-01-01T00:00:00.000Z"'),
    (re.compile(rb'Ms":\d+'), b'Ms":0'),
    (re.compile(rb'"duration":\d+'), b'"duration":0'),
)


def two_agents() -> dict[str, t.Any]:
    """A writer that calls a tool first, and one that answers after it."""
    made = document("scripted/tooling", tools=[TOOL])
    second = {
        "id": "agent_2",
        "type": "agent",
        "name": "Agent 2",
        "config": {"model": "scripted/thinker", "prompt": "{{ blocks.agent_1.content }}"},
    }
    made["blocks"].append(second)
    made["edges"].append({"source": "agent_1", "target": "agent_2"})
    return made


def asking() -> dict[str, t.Any]:
    """One that waits for a person."""
    made = document("scripted/plain")
    made["blocks"].append({"id": "ask", "type": "approval", "config": {"prompt": "Fit to send?"}})
    made["edges"].append({"source": "agent_1", "target": "ask"})
    return made


CASES: dict[str, tuple[dict[str, t.Any], tuple[str, ...] | None]] = {
    "plain": (document("scripted/plain"), None),
    "two-agents": (two_agents(), ("agent_1.content", "agent_2.content", "agent_2.finishReason")),
    "failed": (document("scripted/broken"), None),
    "paused": (asking(), ("agent_1.content",)),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_as_it_was(studio: Studio, case: str) -> None:
    made, outputs = CASES[case]
    workflow = studio.deploy(made)
    studio.store.chats.create(
        {
            "workflow_id": workflow,
            "slug": "help",
            "title": "Help",
            "outputs": outputs,
            "include_thinking": True,
            "include_tool_calls": True,
        }
    )
    data = studio.client.post("/api/chat/help", json={"input": "hi"}).get_data()
    for found, same in _SAME:
        data = found.sub(same, data)
    assert data.decode() == (SAMPLES / f"chat-text-{case}.sse").read_text()

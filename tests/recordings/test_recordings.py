"""Each recording gives through HTTP exactly its text, thinking and calls, however its bytes are cut.

The turn under test is followed by a text-only case of the same wire, so that its calls can run; what is
compared is what came before the turn's boundary (its ``chunk_reset`` or first tool end) or the end.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

import pytest

from app import config
from app.store import Store
from tests.recordings.replaying import Replaying, replaying
from tests.support import sse
from tests.support.servers import NEGOTIATE, Studio, studio
from tests.support.shared import find_shared, recordings, shared_path
from tests.support.sse import Frame

WIRES = {
    "openai-chat": ("openai-compatible/recorded", "openai-chat/tool-gpt-5-2"),
    "anthropic-messages": ("anthropic/claude-sonnet-4-5", "anthropic/text-emoji"),
}
#: Cases that end in an error, and the code it maps to (contract section 11).
CODES = {
    "errors/anthropic-context-400": "context_length_exceeded",
    "errors/anthropic-auth-401": "provider_auth",
    "errors/deepseek-context-400": "context_length_exceeded",
    "errors/azure-rate-429": "provider_rate_limited",
    "errors/perplexity-context-400": "context_length_exceeded",
    "errors/ollama-context-400": "context_length_exceeded",
    "errors/openrouter-rate-429": "provider_rate_limited",
    "errors/mistral-key-401": "provider_auth",
    "groq/mid-stream-error-1": "provider_bad_request",
    "openrouter/stream-error": "context_length_exceeded",
}


def _cases() -> list[str]:
    if find_shared() is None:
        shared_path("recordings")  # skips the module loudly; fails on CI
    return [name for name, entry in recordings().items() if entry["wire"] in WIRES]


@pytest.fixture(scope="module")
def played() -> Iterator[Replaying]:
    with replaying() as server:
        yield server


@pytest.fixture(scope="module")
def server(played: Replaying, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    environ = {
        "STUDIO_OPENAI_COMPATIBLE_API_BASE": f"{played.base}/v1",
        "ANTHROPIC_API_BASE": played.base,
        "ANTHROPIC_API_KEY": "sk-test-not-real",
        "STUDIO_IDLE_S": "0.5",
    }
    with studio(tmp_path_factory.mktemp("studio"), environ) as made:
        yield made


@pytest.fixture(scope="module")
def store(server: Studio) -> Iterator[Store]:
    """The store of the running server, written beside it as the CLI does."""
    opened = Store(config.load(server.env()))
    opened.open()
    yield opened
    opened.close()


def workflow(entry: dict[str, t.Any], model: str) -> dict[str, t.Any]:
    """One agent with the recording's tools, each answering a fixed result."""
    declared = {tool["name"]: tool.get("parameters") for tool in entry.get("request_tools") or []}
    for call in entry["expected"].get("tool_calls") or []:
        declared.setdefault(call["name"], None)
    tools = [
        {
            "name": name,
            "description": f"{name} of the recording",
            "parameters": parameters if (parameters or {}).get("type") == "object" else {"type": "object"},
            "result": "done",
        }
        for name, parameters in declared.items()
    ]
    return {
        "name": "recorded",
        "blocks": [
            {"id": "start", "type": "start"},
            {"id": "agent_1", "type": "agent", "config": {"model": model, "tools": tools}},
        ],
        "edges": [{"source": "start", "target": "agent_1"}],
    }


class Seen:
    """The frames of one run, taken apart."""

    def __init__(self, run_id: str, frames: list[Frame]) -> None:
        self.run_id = run_id
        values = [frame.json() for frame in frames]
        assert values[-1] == "[DONE]"
        self.end = values[-2]
        boundary = next(
            (n for n, value in enumerate(values) if _is_boundary(value)),
            len(values),
        )
        turn = values[:boundary]
        self.text = "".join(v["chunk"] for v in turn if "chunk" in v)
        self.thinking = "".join(v["data"] for v in turn if v.get("event") == "thinking")
        self.starts = [v["name"] for v in turn if v.get("phase") == "start"]
        self.others = [v for v in turn if "chunk" not in v and v["event"] not in ("thinking", "tool")]
        self.ends = [v for v in values[:-1] if v.get("phase") == "end"]
        self.ids = [v["id"] for v in values[:-1] if v.get("phase") == "start"]


def _is_boundary(value: t.Any) -> bool:
    if not isinstance(value, dict) or "chunk" in value:
        return False
    return value["event"] in ("chunk_reset", "final", "error") or value.get("phase") == "end"


def run(server: Studio, workflow_id: str) -> Seen:
    body = {"input": "Hi", "stream": True, "includeThinking": True, "includeToolCalls": True}
    with server.execute(workflow_id, body, NEGOTIATE) as stream:
        assert stream.status == 200
        return Seen(stream.headers["X-Run-Id"], list(stream.events()))


def _import(store: Store, name: str) -> str:
    entry = recordings()[name]
    workflow_id = "rec-" + name.replace("/", "-").replace(".", "-")
    store.workflows.save(workflow(entry, WIRES[entry["wire"]][0]), "recorded", workflow_id=workflow_id)
    store.workflows.deploy(workflow_id)
    return workflow_id


def _calls(seen: Seen, count: int) -> list[tuple[str, t.Any]]:
    entries = seen.end["data"]["toolCalls"]["agent_1"]["list"][:count]
    return [(entry["name"], entry["arguments"]) for entry in entries]


@pytest.mark.parametrize("name", _cases())
def test_a_recording_through_http(name: str, server: Studio, store: Store, played: Replaying) -> None:
    entry = recordings()[name]
    expected = entry["expected"]
    workflow_id = _import(store, name)
    wanted_calls = [
        (call["name"], call["input"] if call["input"] is not None else call["arguments"])
        for call in expected["tool_calls"]
    ]
    for split in (0, 7, 333):
        played.play([name, WIRES[entry["wire"]][1]], split=split)
        seen = run(server, workflow_id)
        if name in CODES:
            assert seen.end["event"] == "error"
            assert seen.end["code"] == CODES[name]
            continue
        assert seen.end["event"] == "final", seen.end
        assert seen.text == expected["text"] + expected.get("refusal", "")
        assert seen.thinking == expected["thinking"]
        assert seen.starts == [call["name"] for call in expected["tool_calls"]]
        assert _calls(seen, len(wanted_calls)) == wanted_calls
        assert seen.others in ([], [seen.end])
        assert sorted(end["id"] for end in seen.ends) == sorted(seen.ids)
        assert len(set(seen.ids)) == len(seen.ids)


def test_every_error_case_has_its_code() -> None:
    assert {n for n in _cases() if recordings()[n]["expected"].get("error")} == set(CODES)


@pytest.mark.parametrize("name", ["openai-chat/length", "anthropic/thinking-text"])
@pytest.mark.parametrize("part", [0.3, 0.6])
def test_a_cut_ends_in_one_error_and_keeps_the_partial_text(
    name: str, part: float, server: Studio, store: Store, played: Replaying
) -> None:
    entry = recordings()[name]
    played.play([name], cut=int(entry["bytes"] * part))
    seen = run(server, _import(store, name))
    assert seen.end["event"] == "error"
    assert seen.end["code"] == "provider_bad_stream"
    _partial_only(server, seen, entry)


@pytest.mark.parametrize("name", ["openai-chat/length", "anthropic/thinking-text"])
def test_a_stall_ends_in_provider_idle(name: str, server: Studio, store: Store, played: Replaying) -> None:
    entry = recordings()[name]
    played.play([name], stall=int(entry["bytes"] * 0.5))
    seen = run(server, _import(store, name))
    assert seen.end["code"] == "provider_idle"
    _partial_only(server, seen, entry)


def _partial_only(server: Studio, seen: Seen, entry: dict[str, t.Any]) -> None:
    """What was shown is a beginning of the answer and stands in ``partialText`` alone."""
    status, _, body = sse.request(
        server.port, "GET", f"/api/runs/{seen.run_id}", headers={"X-API-Key": server.key}
    )
    assert status == 200
    record = json.loads(body)
    shown = entry["expected"]["text"]
    assert shown.startswith(seen.text)
    assert record["status"] == "failed"
    assert record.get("partialText", {}).get("agent_1", "") == seen.text
    assert record.get("output") is None

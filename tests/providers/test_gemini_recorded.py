"""Google's recorded answers: what they say however they are cut, and what goes back of them."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Sequence

import pytest

from providers import spec
from providers.gemini import WIRE
from providers.gemini_request import build_body
from tests.providers.driving import decode, request, split
from tests.support.shared import find_shared, recordings, shared_path

REASONS = {"STOP": "stop", "MAX_TOKENS": "length"}


def recorded() -> list[str]:
    if find_shared() is None:
        shared_path("recordings")  # skips the module loudly; fails on CI
    return [name for name, case in recordings().items() if case["wire"] == "gemini"]


def body_of(name: str) -> bytes:
    return shared_path("recordings", recordings()[name]["file"]).read_bytes()


STREAMS = [name for name in recorded() if recordings()[name]["status"] == 200]


@pytest.mark.parametrize("size", [0, 1, 7, 333])
@pytest.mark.parametrize("name", STREAMS)
def test_recorded(name: str, size: int) -> None:
    expected = recordings()[name]["expected"]
    seen = decode(WIRE, split(body_of(name), size))
    if str(expected["finish"]).startswith("blocked:"):
        assert seen.code == "content_filtered"
        assert seen.order == []
        return
    assert seen.text == expected["text"]
    assert seen.thinking == expected["thinking"]
    assert seen.calls == [(call["name"], call["input"]) for call in expected["tool_calls"]]
    assert seen.order == expected["order"]
    assert seen.reason == ("tool_calls" if expected["tool_calls"] else REASONS[expected["finish"]])
    assert seen.finished is not None
    assert seen.finished.model == expected["models"][-1]
    usage, stated = seen.finished.usage, expected["usage"]
    assert usage is not None
    thoughts = stated.get("thoughtsTokenCount", 0)
    assert (usage.input, usage.output, usage.total) == (
        stated["promptTokenCount"],
        stated["candidatesTokenCount"] + thoughts,
        stated["totalTokenCount"],
    )
    assert (usage.reasoning or 0) == thoughts


@pytest.mark.parametrize("name", [name for name in recorded() if recordings()[name]["status"] != 200])
def test_recorded_error_bodies(name: str) -> None:
    case = recordings()[name]
    error = WIRE.error(case["status"], {}, body_of(name))
    assert (error.code, error.status, error.retry_after) == ("provider_rate_limited", 429, 48.0)
    assert case["expected"]["error"]["message"] in error.detail


def recorded_parts(name: str) -> list[dict[str, t.Any]]:
    """The parts of a recorded answer as they were sent."""
    raw = body_of(name).replace(b"\r\n", b"\n")
    chunks = (
        json.loads(raw)
        if raw.lstrip()[:1] == b"["
        else [json.loads(line[5:]) for line in raw.splitlines() if line.startswith(b"data:")]
    )
    return [
        part
        for chunk in chunks
        for candidate in chunk.get("candidates") or []
        for part in candidate.get("content", {}).get("parts") or []
    ]


def conversations() -> list[list[str]]:
    found: dict[str, list[str]] = {}
    for name in STREAMS:
        case = recordings()[name]
        if case.get("conversation"):
            found.setdefault(case["conversation"], []).append(name)
    return [sorted(names, key=lambda name: recordings()[name]["turn"]) for names in found.values()]


@pytest.mark.parametrize("names", conversations(), ids=lambda names: names[0])
def test_a_recorded_conversation_goes_back_part_by_part(names: list[str]) -> None:
    signed = recordings()[names[0]]["expected"]["models"][0].startswith("gemini-3")
    messages: list[spec.Message] = [spec.UserMessage("q")]
    used: set[str] = set()
    sent: list[t.Any] = []
    for name in names:
        seen = decode(WIRE, split(body_of(name), 7), request(messages=list(messages), used_ids=used))
        sent.append(contents(messages, signed))
        assert seen.finished is not None
        calls = tuple(spec.ToolCall(c.id, c.name, c.arguments, c.raw) for c in seen.ready)
        messages.append(spec.AssistantMessage(seen.text, calls, seen.finished.replay, WIRE.name))
        messages.extend(spec.ToolResult(call.id, call.name, "done") for call in calls)
        used |= {call.id for call in calls}
    sent.append(contents(messages, signed))
    for turn, name in enumerate(names):
        parts = recorded_parts(name)
        answer = sent[turn + 1][len(sent[turn])]
        assert answer["role"] == "model"
        for key in ("functionCall", "thoughtSignature"):
            assert [p[key] for p in answer["parts"] if key in p] == [p[key] for p in parts if key in p]
        assert _text(answer["parts"]) == _text(parts)
        called = [part["functionCall"] for part in parts if "functionCall" in part]
        if called:
            results = sent[turn + 1][len(sent[turn]) + 1]
            assert results["role"] == "user"
            given = [part["functionResponse"] for part in results["parts"]]
            assert [(r["name"], r.get("id")) for r in given] == [(c["name"], c.get("id")) for c in called]


def _text(parts: Sequence[dict[str, t.Any]]) -> str:
    return "".join(part.get("text", "") for part in parts if not part.get("thought"))


def contents(messages: Sequence[spec.Message], signed: bool) -> list[dict[str, t.Any]]:
    body = build_body(request(messages=messages, dialect={"signed_calls": signed}))
    return t.cast(list[dict[str, t.Any]], body["contents"])

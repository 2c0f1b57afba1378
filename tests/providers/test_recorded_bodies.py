"""Every recorded body of these wires gives what ``expect.py`` says, however it is cut."""

from __future__ import annotations

import pytest

from tests.providers.driving import WIRES, Seen, decode, split
from tests.support.shared import find_shared, recordings, shared_path

#: Bodies up to this size are also fed byte by byte.
SMALL = 30_000
ERRORS = {
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
    "errors/openai-context-400": "context_length_exceeded",
    "errors/xai-key-400": "provider_auth",
    "openai-responses/error-quota": "provider_rate_limited",
}
#: How the recordings spell finishes, as the wire normalises them.
REASONS = {
    "stop": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "incomplete:max_output_tokens": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
}


def _names(ok: bool) -> list[str]:
    if find_shared() is None:
        shared_path("recordings")  # skips the module loudly; fails on CI
    return [
        name for name, case in recordings().items() if case["wire"] in WIRES and (case["status"] == 200) == ok
    ]


def _body(name: str) -> bytes:
    return shared_path("recordings", recordings()[name]["file"]).read_bytes()


def _kinds(order: list[str], wire: str) -> list[str]:
    """Text, thinking and calls in order; an encrypted detail of a chat vendor is no part of the recorded order."""
    kept = {"text", "thinking", "tool"} | ({"redacted"} if wire == "anthropic-messages" else set())
    folded: list[str] = []
    for kind in order:
        if kind in kept and (kind == "tool" or folded[-1:] != [kind]):
            folded.append(kind)
    return folded


@pytest.mark.parametrize("size", [0, 7, 333, 1])
@pytest.mark.parametrize("name", _names(ok=True))
def test_streams(name: str, size: int) -> None:
    case, body = recordings()[name], _body(name)
    if size == 1 and len(body) > SMALL:
        size = 2048
    expected = case["expected"]
    seen = decode(WIRES[case["wire"]], split(body, size))
    assert seen.text == expected["text"] + expected.get("refusal", "")
    assert seen.thinking == expected["thinking"]
    if "error" in expected:
        assert seen.code == ERRORS[name]
        assert seen.finished is None
        return
    _check_end(seen, expected, case["wire"])


def _check_end(seen: Seen, expected: dict[str, object], wire: str) -> None:
    assert seen.error is None
    calls = [(call["name"], call["input"]) for call in expected["tool_calls"]]  # type: ignore[attr-defined]
    assert seen.calls == calls
    order = _kinds(seen.order, wire)
    wanted = _kinds(list(expected["order"]), wire)  # type: ignore[call-overload]
    if "refusal" in expected:
        wanted = [*wanted, "text"]
    assert order == wanted
    label = str(expected["finish"])
    reason = "refusal" if "refusal" in expected else REASONS.get(label, "tool_calls" if calls else "stop")
    assert seen.reason == reason
    assert seen.finished is not None
    assert (seen.finished.usage is None) == (expected["usage"] is None)


@pytest.mark.parametrize("name", _names(ok=True))
def test_ids_are_the_vendors(name: str) -> None:
    case = recordings()[name]
    seen = decode(WIRES[case["wire"]], [_body(name)])
    if seen.error is None:
        assert [call.id for call in seen.ready] == [call["id"] for call in case["expected"]["tool_calls"]]


@pytest.mark.parametrize("name", _names(ok=False))
def test_error_bodies(name: str) -> None:
    case = recordings()[name]
    error = WIRES[case["wire"]].error(case["status"], {}, _body(name))
    assert error.code == ERRORS[name]
    assert error.status == case["status"]
    words = case["expected"]["error"]
    words = words if isinstance(words, str) else words.get("message") or words.get("detail")
    assert words in error.detail
    assert words not in error.message

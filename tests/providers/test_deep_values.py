"""Values that JSON can hold and programs cannot: nested without end, or no numbers."""

from __future__ import annotations

import json

import pytest

from providers import gemini, ollama_chat, spec
from providers.surrogates import encode
from tests.providers.driving import OPENAI, Seen, call, chat, chunk, decode, request
from tests.providers.test_foreign_history import BODIES, loop


def nested(levels: int, inside: str = "1") -> str:
    """An object of so many objects in one another."""
    return '{"a":' * levels + inside + "}" * levels


def given(wire: str, arguments: str) -> Seen:
    """A call whose arguments are an object in the payload itself."""
    if wire == "gemini":
        part = '{"functionCall":{"name":"f","args":$}}'.replace("$", arguments)
        body = '{"candidates":[{"content":{"parts":[$]},"finishReason":"STOP"}]}'.replace("$", part)
        return decode(gemini.WIRE, [f"data: {body}\n\n".encode()])
    made = '{"function":{"name":"f","arguments":$}}'.replace("$", arguments)
    if wire == "ollama":
        body = '{"message":{"role":"assistant","tool_calls":[$]},"done":true}'.replace("$", made)
        return decode(ollama_chat.WIRE, [body.encode()])
    body = '{"choices":[{"delta":{"tool_calls":[$]},"finish_reason":"stop"}]}'.replace("$", made)
    return decode(OPENAI, [f"data: {body}\n\ndata: [DONE]\n\n".encode()])


@pytest.mark.parametrize("levels", [300, 900, 5000])
def test_arguments_as_text_that_are_nested_too_deeply(levels: int) -> None:
    seen = chat(call(0, "a", "f", nested(levels)), chunk({}, "tool_calls"))
    assert [(made.arguments, made.error) for made in seen.ready] == [(None, "invalid_json")]


@pytest.mark.parametrize("inside", ["1", '"\\ud83d"', "123456789012345678901234567890"])
@pytest.mark.parametrize("levels", [300, 990, 1010, 5000])
@pytest.mark.parametrize("wire", ["chat", "gemini", "ollama"])
def test_arguments_that_are_nested_too_deeply(wire: str, levels: int, inside: str) -> None:
    """Never anything but a call that does not run, or a stream that cannot be read."""
    seen = given(wire, nested(levels, inside))
    if seen.error is not None:
        assert seen.code == "provider_bad_stream"
    else:
        assert [(made.arguments, made.error) for made in seen.ready] == [(None, "invalid_json")]


@pytest.mark.parametrize("wire", [*BODIES])
def test_the_deepest_that_run_go_back(wire: str) -> None:
    arguments = json.loads(nested(250))
    turn = spec.AssistantMessage("\ud83d", (spec.ToolCall("c1", "f", arguments, nested(250)),))
    sent = encode(BODIES[wire](request(messages=loop(turn)))).decode()
    assert nested(250) in sent.replace("\\", "")


def test_no_vendor_is_sent_what_is_no_json() -> None:
    """Strict parsers and the one for what they refuse write the same."""
    odd: dict[str, object] = {"a": float("nan"), "b": [float("inf")], "c": 1.5}
    assert json.loads(encode(odd)) == {"a": None, "b": [None], "c": 1.5}
    assert b"NaN" not in encode({**odd, "d": "\ud83d", "e": 10**40})
    assert json.loads(encode({**odd, "e": 10**40})) == {"a": None, "b": [None], "c": 1.5, "e": 10**40}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("wire", ["chat", "gemini", "ollama"])
def test_what_is_no_number_is_null(wire: str, number: str) -> None:
    assert given(wire, '{"a": $}'.replace("$", number)).calls == [("f", {"a": None})]

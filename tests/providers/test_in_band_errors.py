"""A failure reported inside a good answer, in every shape and over every wire: never part of a success."""

from __future__ import annotations

import json
import typing as t

import pytest

from providers import bedrock_converse, bedrock_invoke, cohere_chat, gemini, ollama_chat
from tests.providers import aws_frames
from tests.providers.driving import ANTHROPIC, OPENAI, RESPONSES, Seen, chunk, decode, sse

#: Each wire with a piece of answer, as its vendor sends it.
STREAMS: dict[str, tuple[t.Any, list[t.Any]]] = {
    "chat": (OPENAI, [chunk({"content": "Hi"})]),
    "responses": (RESPONSES, [{"type": "response.output_text.delta", "delta": "Hi"}]),
    "messages": (
        ANTHROPIC,
        [
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        ],
    ),
    "gemini": (gemini.WIRE, [{"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}]),
    "cohere": (
        cohere_chat.WIRE,
        [{"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hi"}}}}],
    ),
}
REPORTS: dict[str, tuple[t.Any, str]] = {
    "a string": ("Overloaded, come back later", "provider_unavailable"),
    "an error": ({"error": "nope"}, "provider_unavailable"),
    "words and a code": ({"message": "queue full", "code": 429}, "provider_rate_limited"),
    "words and a code as text": ({"msg": "slow", "code": "rate_limit_exceeded"}, "provider_rate_limited"),
    "an object that is an error": (
        {"object": "error", "message": "too small", "type": "BadRequestError", "code": 400},
        "provider_bad_request",
    ),
    "a type in capitals": (
        {"type": "InternalServerError", "message": "m"},
        "provider_unavailable",
    ),
    "an exception": ({"type": "ThrottlingException", "message": "m"}, "provider_rate_limited"),
    "a type that is no failure, with a status": (
        {"type": "about:blank", "status": 429, "detail": "slow down"},
        "provider_rate_limited",
    ),
    "a detail": ({"detail": "nope"}, "provider_unavailable"),
    "a list of errors": ({"errors": [{"code": 429, "message": "m"}]}, "provider_rate_limited"),
    "an error in a list": ([{"error": {"code": 429, "message": "m"}}], "provider_rate_limited"),
    "a status in camel case": ({"statusCode": 429, "message": "m"}, "provider_rate_limited"),
    "no success": ({"success": False, "messages": []}, "provider_unavailable"),
    "an error message": ({"error_code": 503, "error_message": "m"}, "provider_overloaded"),
}


@pytest.mark.parametrize("after_text", [False, True], ids=["before text", "after text"])
@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("wire", STREAMS)
def test_a_report_fails_the_call(wire: str, report: str, after_text: bool) -> None:
    decoder, answer = STREAMS[wire]
    value, code = REPORTS[report]
    before = sse(*answer) if after_text else b""
    seen = decode(decoder, [before + sse(json.dumps(value)) + b"data: [DONE]\n\n"])
    assert (seen.text, seen.finished, seen.code) == ("Hi" if after_text else "", None, code)


@pytest.mark.parametrize("payload", ['"overloaded"', '["overloaded"]', '{"error": null, "code": 529}'])
@pytest.mark.parametrize("wire", STREAMS)
def test_an_event_named_error_fails_the_call(wire: str, payload: str) -> None:
    decoder, answer = STREAMS[wire]
    seen = decode(decoder, [sse(*answer) + f"event: error\ndata: {payload}\n\n".encode()])
    assert (seen.finished, seen.error is None) == (None, False)


@pytest.mark.parametrize(
    "value", [{"type": "notice", "message": "hello"}, {"type": "ping", "detail": "auto"}]
)
@pytest.mark.parametrize("wire", STREAMS)
def test_an_event_that_nobody_knows_does_not(wire: str, value: dict[str, str]) -> None:
    decoder, answer = STREAMS[wire]
    assert decode(decoder, [sse(value, *answer, value)]).reason == "stop"


def test_a_sentinel_in_quotes() -> None:
    assert decode(OPENAI, [sse(chunk({"content": "Hi"}), '"[DONE]"')]).reason == "stop"


@pytest.mark.parametrize("report", [key for key in REPORTS if isinstance(REPORTS[key][0], dict)])
def test_lines(report: str) -> None:
    value, code = REPORTS[report]
    said = {"message": {"role": "assistant", "content": "Hi"}}
    seen = decode(ollama_chat.WIRE, ["\n".join(map(json.dumps, [said, value])).encode()])
    assert (seen.text, seen.finished, seen.code) == ("Hi", None, code)


@pytest.mark.parametrize("wire", [bedrock_converse.WIRE, bedrock_invoke.WIRE])
def test_an_exception_that_calls_itself_an_event(wire: t.Any) -> None:
    seen = decode(wire, [aws_frames.event("throttlingException", {"message": "slow"})])
    assert (seen.finished, seen.code) == (None, "provider_rate_limited")


# -- values that are not what they should be ----------------------------------------------------

ODD: list[t.Any] = [[], {}, [1], {"a": 1}]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("wire", STREAMS)
def test_a_type_that_is_no_text_is_an_unknown_event(wire: str, odd: t.Any) -> None:
    decoder, answer = STREAMS[wire]
    assert decode(decoder, [sse({"type": odd}, *answer)]).text == "Hi"


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_places_that_are_none(odd: t.Any) -> None:
    tool = {"type": "tool_use", "id": "a", "name": "f"}
    piece = {"type": "input_json_delta", "partial_json": "{}"}
    events = [
        {"type": "content_block_start", "index": odd, "content_block": tool},
        {"type": "content_block_delta", "index": odd, "delta": piece},
        {"type": "content_block_stop", "index": odd},
    ]
    assert decode(ANTHROPIC, [sse(*events)]).calls == [("f", {})]
    frames = [
        ("contentBlockStart", {"start": {"toolUse": {"toolUseId": "a", "name": "f"}}}),
        ("contentBlockDelta", {"delta": {"toolUse": {"input": "{}"}}}),
        ("contentBlockStop", {}),
        ("messageStop", {"stopReason": "tool_use"}),
    ]
    body = b"".join(aws_frames.event(kind, {**value, "contentBlockIndex": odd}) for kind, value in frames)
    assert decode(bedrock_converse.WIRE, [body]).calls == [("f", {})]
    call = {"id": "a", "function": {"name": "f", "arguments": "{"}}
    more = {"function": {"arguments": "}"}}
    body = sse(
        {"type": "tool-call-start", "index": odd, "delta": {"message": {"tool_calls": call}}},
        {"type": "tool-call-delta", "index": odd, "delta": {"message": {"tool_calls": more}}},
        {"type": "tool-call-end", "index": odd},
        {"type": "citation-start", "delta": {"message": {"citations": {"sources": True}}}},
    )
    assert decode(cohere_chat.WIRE, [body]).calls == [("f", {})]


@pytest.mark.parametrize("text", [5, True, ["a"], {"a": 1}], ids=repr)
def test_text_that_is_none(text: t.Any) -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    assert decode(ANTHROPIC, [sse(start, delta)]).text == "Hi"
    frames = [{"delta": {"text": "Hi"}}, {"delta": {"text": text}}]
    body = b"".join(aws_frames.event("contentBlockDelta", {"contentBlockIndex": 0, **v}) for v in frames)
    assert decode(bedrock_converse.WIRE, [body]).text == "Hi"


def _nameless(wire: str) -> Seen:
    tool = {"type": "tool_use", "id": "a"}
    if wire == "messages":
        return decode(
            ANTHROPIC, [sse({"type": "content_block_start", "index": 0, "content_block": tool}, "[DONE]")]
        )
    if wire == "gemini":
        part = {"functionCall": {"args": {"a": 1}}}
        body = sse({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]})
        return decode(gemini.WIRE, [body])
    start = {"start": {"toolUse": {"toolUseId": "a"}}, "contentBlockIndex": 0}
    return decode(bedrock_converse.WIRE, [aws_frames.event("contentBlockStart", start)])


@pytest.mark.parametrize("wire", ["messages", "converse", "gemini"])
def test_a_call_without_a_name_is_never_announced(wire: str) -> None:
    seen = _nameless(wire)
    assert (seen.started, seen.code) == ([], "provider_bad_stream")

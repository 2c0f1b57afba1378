"""The ConverseStream decoder: the recordings, however they are cut, and what AWS documents beside them."""

from __future__ import annotations

import base64
import typing as t

import pytest

from providers import spec
from providers.bedrock_converse import WIRE
from tests.providers.aws_frames import error, event, exception
from tests.providers.driving import Seen, decode, request, split
from tests.support.shared import find_shared, recordings, shared_path

FINISHES = {
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "guardrail_intervened": "content_filter",
}


def _names() -> list[str]:
    if find_shared() is None:
        shared_path("recordings")  # skips the module loudly; fails on CI
    return [name for name, case in recordings().items() if case["wire"] == "bedrock-converse"]


def recorded(name: str) -> bytes:
    """The bytes of a recorded body."""
    return base64.b64decode(shared_path("recordings", recordings()[name]["file"]).read_bytes())


@pytest.mark.parametrize("size", [0, 1, 7, 333])
@pytest.mark.parametrize("name", _names())
def test_recordings(name: str, size: int) -> None:
    expected = recordings()[name]["expected"]
    seen = decode(WIRE, split(recorded(name), size))
    assert (seen.text, seen.thinking) == (expected["text"], expected["thinking"])
    assert seen.calls == [(call["name"], call["input"]) for call in expected["tool_calls"]]
    assert [call.id for call in seen.ready] == [call["id"] for call in expected["tool_calls"]]
    assert seen.order == expected["order"]
    assert seen.reason == FINISHES[expected["finish"]]
    assert seen.finished is not None
    stated = expected["usage"]
    assert seen.finished.usage == spec.Usage(
        stated["inputTokens"], stated["outputTokens"], stated["totalTokens"]
    )


def delta(index: int, **given: t.Any) -> bytes:
    """A piece of a block."""
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": given, "p": "abcd"})


def start(index: int, **given: t.Any) -> bytes:
    """The start of a block."""
    return event("contentBlockStart", {"contentBlockIndex": index, "start": given})


def done(index: int) -> bytes:
    """The end of a block."""
    return event("contentBlockStop", {"contentBlockIndex": index})


def tool(index: int, call_id: str, *pieces: t.Any, name: str = "w") -> bytes:
    """A whole call."""
    inputs = [delta(index, toolUse={"input": piece}) for piece in pieces]
    return b"".join([start(index, toolUse={"toolUseId": call_id, "name": name}), *inputs, done(index)])


def end(reason: str | None, usage: t.Any = None, **more: t.Any) -> bytes:
    """The last two events."""
    stop = [event("messageStop", {"stopReason": reason, **more})] if reason else []
    meta = event("metadata", {"usage": usage or {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}})
    return b"".join([*stop, meta])


BEGIN = event("messageStart", {"role": "assistant"})


def see(*parts: bytes, asked: spec.ModelRequest | None = None) -> Seen:
    """What a body of these events says."""
    return decode(WIRE, [BEGIN + b"".join(parts)], asked)


def replay(*parts: bytes, asked: spec.ModelRequest | None = None) -> t.Any:
    """What the turn leaves to be sent back."""
    seen = see(*parts, asked=asked)
    assert seen.finished is not None, seen.error
    return seen.finished.replay


class TestReplay:
    def test_thinking_with_its_signature_text_and_call(self) -> None:
        thought = [
            delta(0, reasoningContent={"text": "let "}),
            delta(0, reasoningContent={"text": "me"}),
            delta(0, reasoningContent={"signature": "s1"}),
            done(0),
        ]
        assert replay(
            *thought, delta(1, text="I look."), done(1), tool(2, "t1", '{"a"', ":1}"), end("tool_use")
        ) == [
            {"reasoningContent": {"reasoningText": {"text": "let me", "signature": "s1"}}},
            {"text": "I look."},
            {"toolUse": {"toolUseId": "t1", "name": "w", "input": {"a": 1}}},
        ]

    def test_redacted_thinking_byte_for_byte(self) -> None:
        name = "bedrock-converse/redacted-thinking"
        seen = decode(WIRE, [recorded(name)])
        assert seen.finished is not None
        kept = [block["reasoningContent"]["redactedContent"] for block in seen.finished.replay[:2]]
        assert all(piece.encode() in recorded(name) for piece in kept)
        assert [list(block) for block in seen.finished.replay] == [["reasoningContent"]] * 2 + [["text"]]

    def test_redacted_bytes_in_pieces_are_one(self) -> None:
        halves = [base64.b64encode(half).decode() for half in (b"abcd", b"efg")]
        body = [delta(0, reasoningContent={"redactedContent": half}) for half in halves]
        seen = see(*body, delta(1, text="x"), end("end_turn"))
        assert seen.order == ["redacted", "text"]
        assert seen.finished is not None
        assert base64.b64decode(seen.finished.replay[0]["reasoningContent"]["redactedContent"]) == b"abcdefg"

    def test_what_the_vendor_ran_itself_goes_back_with_its_result(self) -> None:
        seen = decode(WIRE, [recorded("bedrock-converse/code-interpreter")])
        assert seen.finished is not None
        server, result, ours = seen.finished.replay
        assert server["toolUse"]["type"] == "server_tool_use"
        assert result["toolResult"]["toolUseId"] == server["toolUse"]["toolUseId"]
        assert result["toolResult"]["content"] == [
            {"json": {"stdOut": "7006652", "stdErr": "", "exitCode": 0, "isError": False}}
        ]
        assert (result["toolResult"]["status"], result["toolResult"]["type"]) == (
            "success",
            "nova_code_interpreter_result",
        )
        assert "type" not in ours["toolUse"]

    def test_a_result_of_the_vendors_own_follows_a_replaced_id(self) -> None:
        asked = request(used_ids=frozenset({"t1"}))
        body = [
            start(0, toolUse={"toolUseId": "t1", "name": "run", "type": "server_tool_use"}),
            done(0),
            start(1, toolResult={"toolUseId": "t1", "status": "success"}),
            delta(1, toolResult=[{"text": "4"}]),
            delta(1, toolResult=[{"text": "2"}]),
            done(1),
        ]
        call, result = replay(*body, end("end_turn"), asked=asked)
        assert call["toolUse"]["toolUseId"] == result["toolResult"]["toolUseId"] == "minted_1"
        assert result["toolResult"]["content"] == [{"text": "42"}]

    def test_blank_text_is_not_kept(self) -> None:
        assert replay(delta(0, text=""), delta(0, text="\n"), tool(1, "t1"), end("tool_use")) == [
            {"toolUse": {"toolUseId": "t1", "name": "w", "input": {}}}
        ]

    def test_citations(self) -> None:
        cited = {"title": "E", "location": {"web": {"url": "https://example.org", "domain": "example.org"}}}
        body = [delta(0, text="x"), delta(0, citation=cited), delta(0, citation=cited), end("end_turn")]
        assert see(*body).sources == ["https://example.org"]
        assert replay(*body) == [
            {"citationsContent": {"content": [{"text": "x"}], "citations": [cited, cited]}}
        ]

    def test_cited_documents_are_no_web_sources(self) -> None:
        cited = {"title": "E", "location": {"documentPage": {"documentIndex": 0, "start": 1, "end": 2}}}
        assert see(delta(0, text="x"), delta(0, citation=cited), end("end_turn")).sources == []


class TestCalls:
    def test_announced_at_once(self) -> None:
        decoder = WIRE.decoder(request())
        assert decoder.feed(BEGIN + start(0, toolUse={"toolUseId": "t", "name": "w"})) == [
            spec.ToolCallStarted("t", "w")
        ]

    def test_no_arguments(self) -> None:
        assert see(tool(0, "t", ""), end("tool_use")).calls == [("w", {})]

    def test_an_object_instead_of_text(self) -> None:
        assert see(tool(0, "t", {"a": 1}), end("tool_use")).calls == [("w", {"a": 1})]

    def test_cut_by_the_limit(self) -> None:
        seen = see(tool(0, "t", '{"a":1}'), tool(1, "u", '{"a"'), end("max_tokens"))
        assert [call.error for call in seen.ready] == [None, "cut"]
        assert seen.reason == "length"

    def test_calls_decide_over_the_label(self) -> None:
        assert see(tool(0, "t"), end("end_turn")).reason == "tool_calls"
        assert see(tool(0, "t", '{"a":1}'), end("malformed_tool_use")).reason == "tool_calls"

    def test_blocks_in_turns(self) -> None:
        body = [
            start(0, toolUse={"toolUseId": "t", "name": "w"}),
            start(1, toolUse={"toolUseId": "u", "name": "v"}),
            delta(1, toolUse={"input": '{"b":'}),
            delta(0, toolUse={"input": '{"a":1}'}),
            delta(1, toolUse={"input": "2}"}),
        ]
        assert see(*body, end("tool_use")).calls == [("w", {"a": 1}), ("v", {"b": 2})]

    def test_a_piece_of_no_known_call_is_left_out(self) -> None:
        assert see(delta(3, toolUse={"input": "{}"}), delta(0, text="x"), end("end_turn")).calls == []


class TestEnd:
    @pytest.mark.parametrize(
        ("label", "reason"),
        [
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("max_tokens", "length"),
            ("model_context_window_exceeded", "length"),
            ("guardrail_intervened", "content_filter"),
            ("content_filtered", "content_filter"),
            ("malformed_model_output", "other"),
            ("something_new", "other"),
        ],
    )
    def test_labels(self, label: str, reason: str) -> None:
        assert see(delta(0, text="x"), end(label)).reason == reason

    @pytest.mark.parametrize("label", ["malformed_model_output", "malformed_tool_use"])
    def test_output_nobody_can_read_is_no_answer(self, label: str) -> None:
        assert see(end(label)).code == "provider_bad_stream"

    def test_what_a_cache_had_a_part_in_counts_as_input(self) -> None:
        stated = {
            "inputTokens": 5,
            "outputTokens": 7,
            "totalTokens": 12,
            "cacheReadInputTokens": 100,
            "cacheWriteInputTokens": 20,
        }
        fields = {"usage": {"output_tokens_details": {"thinking_tokens": 6}}}
        seen = see(delta(0, text="x"), end("end_turn", stated, additionalModelResponseFields=fields))
        assert seen.finished is not None
        assert seen.finished.usage == spec.Usage(125, 7, 132, 100, 20, 6)

    def test_done_at_the_last_event(self) -> None:
        decoder = WIRE.decoder(request())
        decoder.feed(BEGIN + delta(0, text="x") + event("messageStop", {"stopReason": "end_turn"}))
        assert (decoder.finished, decoder.done) == (True, False)
        decoder.feed(event("metadata", {}))
        assert decoder.done

    def test_an_end_without_the_last_event(self) -> None:
        seen = see(delta(0, text="x"), event("messageStop", {"stopReason": "end_turn"}))
        assert (seen.reason, seen.finished and seen.finished.usage) == ("stop", None)

    def test_an_end_inside_a_frame_counts_only_before_the_finish(self) -> None:
        assert see(delta(0, text="x"), end("end_turn")[:-9]).reason == "stop"
        seen = see(delta(0, text="x"), end("end_turn")[:20])
        assert (seen.text, seen.code) == ("x", "provider_bad_stream")

    def test_a_clean_end_before_the_finish(self) -> None:
        assert see(delta(0, text="x")).reason == "stop"
        assert see(start(0, toolUse={"toolUseId": "t", "name": "w"})).code == "provider_bad_stream"

    def test_nothing_came(self) -> None:
        assert see().code == "provider_bad_stream"
        assert decode(WIRE, [b""]).code == "provider_bad_stream"

    def test_a_message_that_starts_over(self) -> None:
        seen = see(delta(0, text="x"), BEGIN, delta(0, reasoningContent={"text": "hm"}), end("end_turn"))
        assert (seen.text, seen.thinking) == ("x", "hm")

    def test_half_of_a_character(self) -> None:
        seen = see(delta(0, text="\ud83d"), delta(0, text="\ude00"), end("end_turn"))
        assert seen.text == "😀"

    def test_thinking_the_vendor_withholds_in_words(self) -> None:
        seen = see(delta(0, reasoningContent={"text": "[REDACTED]"}), delta(1, text="x"), end("end_turn"))
        assert (seen.thinking, seen.order) == ("", ["redacted", "text"])


class TestFailures:
    @pytest.mark.parametrize(
        ("kind", "code"),
        [
            ("throttlingException", "provider_rate_limited"),
            ("serviceUnavailableException", "provider_overloaded"),
            ("internalServerException", "provider_unavailable"),
            ("modelStreamErrorException", "provider_unavailable"),
            ("modelTimeoutException", "provider_unavailable"),
            ("validationException", "provider_bad_request"),
            ("unheardOfException", "provider_unavailable"),
        ],
    )
    def test_exceptions_end_the_turn_after_what_was_said(self, kind: str, code: str) -> None:
        seen = see(delta(0, text="x"), exception(kind, {"message": "why"}))
        assert (seen.text, seen.code) == ("x", code)
        assert seen.error is not None
        assert seen.error.detail == "why"
        assert "why" not in seen.error.message

    def test_a_prompt_that_is_too_long(self) -> None:
        seen = see(exception("validationException", {"message": "Input is too long for requested model."}))
        assert seen.code == "context_length_exceeded"

    def test_unmodelled_errors(self) -> None:
        assert see(delta(0, text="x"), error("InternalError", "it broke")).code == "provider_unavailable"

    def test_a_damaged_frame_after_text(self) -> None:
        good, bad = delta(0, text="x"), bytearray(delta(0, text="y"))
        bad[-1] ^= 1
        seen = see(good, bytes(bad), end("end_turn"))
        assert (seen.text, seen.code) == ("x", "provider_bad_stream")

    def test_json_where_an_event_stream_was_promised(self) -> None:
        seen = decode(WIRE, split(b'{"error": {"type": "throttlingException", "message": "slow"}}', 5))
        assert (seen.code, seen.error and seen.error.detail) == ("provider_rate_limited", "slow")

    @pytest.mark.parametrize(
        ("status", "kind", "code"),
        [
            (400, "ValidationException", "provider_bad_request"),
            (403, "AccessDeniedException", "provider_auth"),
            (404, "ResourceNotFoundException", "provider_bad_request"),
            (400, "ServiceQuotaExceededException", "provider_rate_limited"),
            (424, "ModelErrorException", "provider_unavailable"),
            (429, "ThrottlingException", "provider_rate_limited"),
            (503, "ServiceUnavailableException", "provider_overloaded"),
            (403, "", "provider_auth"),
        ],
    )
    def test_answers_that_are_no_stream(self, status: int, kind: str, code: str) -> None:
        headers = {"x-amzn-errortype": f"{kind}:http://internal.amazon.com/"} if kind else {}
        failed = WIRE.error(status, headers, b'{"message": "no access to the model"}')
        assert (failed.code, failed.status, failed.detail) == (code, status, "no access to the model")

    def test_the_kind_in_the_body(self) -> None:
        body = b'{"__type": "com.amazon.coral.service#AccessDeniedException"}'
        failed = WIRE.error(400, {}, body)
        assert (failed.code, failed.detail) == ("provider_auth", "AccessDeniedException")
        assert WIRE.error(502, {}, b"<html>").code == "provider_unavailable"

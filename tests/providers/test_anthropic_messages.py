"""The Messages decoder against what vendors have been seen to send (providers.md 2 and 3, field cases)."""

from __future__ import annotations

import typing as t

import pytest

from providers import spec
from tests.providers.driving import ANTHROPIC, block, decode, message, request, sse, stop

TEXT = {"type": "text", "text": ""}


def text_delta(text: str) -> dict[str, t.Any]:
    """A piece of text."""
    return {"type": "text_delta", "text": text}


def json_delta(piece: str) -> dict[str, t.Any]:
    """A piece of a call's input."""
    return {"type": "input_json_delta", "partial_json": piece}


def tool(call_id: str = "toolu_1", name: str = "w", given: t.Any = None) -> dict[str, t.Any]:
    """The start of a call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": given or {}}


def replay_of(*events: t.Any, asked: spec.ModelRequest | None = None) -> t.Any:
    """What the turn leaves to be sent back."""
    seen = message(*events, asked=asked)
    assert seen.finished is not None, seen.error
    return seen.finished.replay


class TestReplay:
    def test_thinking_with_its_signature_and_the_call(self) -> None:
        events = [
            *block(
                0,
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "let "},
                {"type": "thinking_delta", "thinking": "me"},
                {"type": "signature_delta", "signature": "s1"},
            ),
            *block(1, TEXT, text_delta("I look.")),
            *block(2, tool(), json_delta('{"a"'), json_delta(":1}")),
            *stop("tool_use"),
        ]
        assert replay_of(*events) == [
            {"type": "thinking", "thinking": "let me", "signature": "s1"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "w", "input": {"a": 1}},
        ]

    def test_redacted_thinking_byte_for_byte(self) -> None:
        redacted = {"type": "redacted_thinking", "data": "ENC1"}
        events = [*block(0, redacted), *block(1, tool()), *stop("tool_use")]
        seen = message(*events)
        assert seen.order == ["redacted", "tool"]
        assert replay_of(*events)[0] == redacted

    def test_empty_text_is_not_kept(self) -> None:
        assert replay_of(*block(0, TEXT), *block(1, tool()), *stop("tool_use")) == [
            {"type": "tool_use", "id": "toolu_1", "name": "w", "input": {}}
        ]

    def test_what_the_vendor_ran_itself_is_kept_and_no_call(self) -> None:
        result = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"url": "u"}]}
        server = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
        events = [
            *block(0, server, json_delta('{"query":'), json_delta('"x"}')),
            *block(1, result),
            *block(2, TEXT, text_delta("done")),
            *stop("end_turn"),
        ]
        assert message(*events).calls == []
        assert replay_of(*events)[:2] == [{**server, "input": {"query": "x"}}, result]

    def test_citations(self) -> None:
        cited = {"type": "web_search_result_location", "url": "https://example.org", "title": "E"}
        events = [
            *block(0, TEXT, {"type": "citations_delta", "citation": cited}, text_delta("x")),
            *block(1, TEXT, {"type": "citations_delta", "citation": cited}, text_delta("y")),
            *stop("end_turn"),
        ]
        assert message(*events).sources == ["https://example.org"]
        assert replay_of(*events) == [
            {"type": "text", "text": text, "citations": [cited]} for text in ("x", "y")
        ]

    def test_unknown_deltas_grow_their_block(self) -> None:
        events = [
            *block(
                0,
                {"type": "compaction", "content": None},
                {"type": "compaction_delta", "content": "sum"},
                {"type": "compaction_delta", "content": "mary"},
            ),
            *block(1, TEXT, text_delta("x")),
            *stop("end_turn"),
        ]
        assert replay_of(*events)[0] == {"type": "compaction", "content": "summary"}

    def test_a_replaced_id_is_replaced_in_the_replay_too(self) -> None:
        asked = request(used_ids=frozenset({"toolu_1"}))
        events = [
            *block(0, tool()),
            *block(1, tool("toolu_2")),
            *block(2, tool("toolu_2")),
            *stop("tool_use"),
        ]
        seen = message(*events, asked=asked)
        ids = [call.id for call in seen.ready]
        assert ids == ["minted_1", "toolu_2", "minted_2"]
        assert seen.finished is not None
        assert [kept["id"] for kept in seen.finished.replay] == ids

    def test_unusable_input_goes_back_as_an_empty_object(self) -> None:
        assert replay_of(*block(0, tool(), json_delta('{"a"')), *stop("tool_use"))[0]["input"] == {}


class TestCalls:
    def test_no_arguments(self) -> None:
        assert message(*block(0, tool(), json_delta("")), *stop("tool_use")).calls == [("w", {})]

    def test_input_on_the_start(self) -> None:
        assert message(*block(0, tool(given={"a": 1})), *stop("tool_use")).calls == [("w", {"a": 1})]

    def test_cut_by_the_limit(self) -> None:
        seen = message(
            *block(0, tool(), json_delta('{"a":1}')),
            *block(1, tool("toolu_2"), json_delta('{"a"')),
            *stop("max_tokens"),
        )
        assert [call.error for call in seen.ready] == [None, "cut"]
        assert seen.reason == "length"

    def test_not_even_begun_when_cut(self) -> None:
        seen = message(*block(0, tool()), *stop("max_tokens"))
        assert [call.error for call in seen.ready] == ["cut"]

    def test_calls_decide_over_the_label(self) -> None:
        assert message(*block(0, tool()), *stop("end_turn")).reason == "tool_calls"

    def test_announced_at_once(self) -> None:
        decoder = ANTHROPIC.decoder(request())
        assert decoder.feed(sse(*block(0, tool(), stop=False))) == [spec.ToolCallStarted("toolu_1", "w")]

    def test_a_message_that_starts_over(self) -> None:
        again = {"type": "message_start", "message": {"usage": {"input_tokens": 17, "output_tokens": 1}}}
        seen = message(
            *block(0, tool("first"), json_delta('{"v":"Spark'), stop=False),
            again,
            *block(0, tool("second"), json_delta('{"v":"Sparkle"}')),
            *stop("tool_use"),
        )
        assert [(call.id, call.arguments, call.error) for call in seen.ready] == [
            ("first", None, "invalid_json"),
            ("second", {"v": "Sparkle"}, None),
        ]


class TestEnd:
    @pytest.mark.parametrize(
        ("label", "reason"),
        [
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("max_tokens", "length"),
            ("model_context_window_exceeded", "length"),
            ("refusal", "refusal"),
            ("pause_turn", "other"),
        ],
    )
    def test_labels(self, label: str, reason: str) -> None:
        assert message(*block(0, TEXT, text_delta("x")), *stop(label)).reason == reason

    @pytest.mark.parametrize(
        ("pieces", "code"),
        [(['{"a":'], "provider_bad_stream"), (['{"a":1}'], None), ([], None)],
    )
    def test_a_call_that_is_over_before_a_body_without_an_end(
        self, pieces: list[str], code: str | None
    ) -> None:
        """The end of a block vouches for a call without arguments, not for arguments that break off."""
        assert message(*block(0, tool("a"), *map(json_delta, pieces))).code == code

    def test_thinking_is_a_part_of_the_output(self) -> None:
        usage: t.Any = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 7}}
        seen = message(*block(0, TEXT, text_delta("x")), *stop("end_turn", **usage))
        assert seen.finished is not None
        assert seen.finished.usage == spec.Usage(3, 9, reasoning=7)

    def test_usage_is_the_last_stated(self) -> None:
        seen = message(
            *block(0, TEXT, text_delta("x")),
            {
                "type": "message_delta",
                "delta": {},
                "usage": {"output_tokens": 5, "cache_read_input_tokens": 2},
            },
            *stop("end_turn", output_tokens=9),
        )
        assert seen.finished is not None
        assert seen.finished.usage == spec.Usage(5, 9, None, 2)
        assert seen.finished.model == "claude"

    def test_clean_end_before_the_finish(self) -> None:
        assert message(*block(0, TEXT, text_delta("x"))).reason == "stop"
        assert message(*block(0, tool())).calls == [("w", {})]
        seen = message(*block(0, tool(), json_delta('{"a"'), stop=False))
        assert seen.code == "provider_bad_stream"

    def test_nothing_came(self) -> None:
        assert message().code == "provider_bad_stream"
        assert decode(ANTHROPIC, [b""]).code == "provider_bad_stream"

    def test_a_sentinel_where_there_is_none(self) -> None:
        assert message(*block(0, TEXT, text_delta("x")), "[DONE]").text == "x"

    @pytest.mark.parametrize(
        ("kind", "code"),
        [
            ("overloaded_error", "provider_overloaded"),
            ("rate_limit_error", "provider_rate_limited"),
            ("api_error", "provider_unavailable"),
            ("authentication_error", "provider_auth"),
            ("invalid_request_error", "provider_bad_request"),
        ],
    )
    def test_errors_inside_the_stream(self, kind: str, code: str) -> None:
        error = {"type": "error", "error": {"type": kind, "message": "m"}}
        seen = message(*block(0, TEXT, text_delta("par"), stop=False), error)
        assert (seen.code, seen.text) == (code, "par")

    def test_unknown_events_pass_and_unknown_failures_do_not(self) -> None:
        seen = message(*block(0, TEXT, text_delta("x")), {"type": "message_note"}, *stop("end_turn"))
        assert seen.text == "x"
        assert message({"type": "message_failed", "reason": "r"}).error is not None

    def test_a_ping_is_no_progress(self) -> None:
        decoder = ANTHROPIC.decoder(request())
        decoder.feed(sse({"type": "ping"}))
        assert not decoder.moved
        decoder.feed(sse(*block(0, TEXT)))
        assert decoder.moved

    def test_deltas_without_a_start(self) -> None:
        delta = {"type": "content_block_delta", "index": 0, "delta": text_delta("x")}
        assert message(delta, *stop("end_turn")).text == "x"

    def test_split_characters(self) -> None:
        seen = message(*block(0, TEXT, text_delta("\ud83d"), text_delta("\ude00")), *stop("end_turn"))
        assert seen.text == "😀"
        assert seen.finished is not None
        assert seen.finished.replay == [{"type": "text", "text": "😀"}]

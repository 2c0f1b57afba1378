"""The chat-completions decoder against what vendors have been seen to send (providers.md 3, field cases)."""

from __future__ import annotations

import typing as t

import pytest

from providers import spec
from tests.providers.driving import OPENAI, call, chat, chunk, decode, request, sse, tools

TOOL = {"name": "w", "arguments": "{}"}


def raw_calls(*items: dict[str, t.Any]) -> dict[str, t.Any]:
    """One chunk with this ``tool_calls`` list."""
    return chunk({"tool_calls": list(items)})


class TestAssembly:
    def test_index_zero_for_every_call(self) -> None:
        seen = chat(
            call(0, "a", "w", '{"c":'),
            call(0, arguments='"Rome"}'),
            call(0, "b", "w", '{"c":'),
            call(0, arguments='"Oslo"}'),
        )
        assert [(c.id, c.arguments) for c in seen.ready] == [("a", {"c": "Rome"}), ("b", {"c": "Oslo"})]

    def test_whole_calls_with_one_index(self) -> None:
        seen = chat(call(0, "x1", "w", '{"p":"a"}'), call(0, "x2", "w", '{"p":"b"}'))
        assert seen.started == [("x1", "w"), ("x2", "w")]
        assert seen.calls == [("w", {"p": "a"}), ("w", {"p": "b"})]

    def test_whole_calls_with_one_index_and_no_ids(self) -> None:
        seen = chat(call(0, "", "w", '{"p":"a"}'), call(0, "", "w", '{"p":"b"}'), call(0, "", "v", "{}"))
        assert seen.calls == [("w", {"p": "a"}), ("w", {"p": "b"}), ("v", {})]
        assert [c.id for c in seen.ready] == ["minted_1", "minted_2", "minted_3"]

    def test_empty_id_and_name_on_later_chunks(self) -> None:
        seen = chat(
            call(0, "c9", "calc", "{"),
            call(0, "", "", '"e":"2+2"'),
            raw_calls({"index": 0, "id": None, "function": {"name": None, "arguments": "}"}}),
        )
        assert seen.started == [("c9", "calc")]
        assert seen.calls == [("calc", {"e": "2+2"})]

    def test_no_id_ever(self) -> None:
        seen = chat(call(0, name="a", arguments="{}"), call(1, name="b", arguments="{}"))
        assert seen.started == [("minted_1", "a"), ("minted_2", "b")]

    def test_interleaved_fragments_and_repeated_names(self) -> None:
        seen = chat(
            call(0, "a", "search", ""),
            call(1, "b", "search", ""),
            call(2, "c", "search", ""),
            call(0, name="search", arguments='{"q":'),
            call(2, name="search", arguments='{"q":3}'),
            call(1, name="search", arguments='{"q":2}'),
            call(0, name="search", arguments="1}"),
        )
        assert seen.calls == [("search", {"q": 1}), ("search", {"q": 2}), ("search", {"q": 3})]

    def test_first_index_is_one(self) -> None:
        seen = chat(call(1, "a", "w", '{"n":'), call(1, arguments="1}"))
        assert seen.calls == [("w", {"n": 1})]

    def test_no_index_and_no_id(self) -> None:
        seen = chat(
            raw_calls(
                {"function": {"name": "a", "arguments": "{}"}}, {"function": {"name": "b", "arguments": "{}"}}
            )
        )
        assert seen.calls == [("a", {}), ("b", {})]

    def test_an_id_that_changes_without_a_name_is_the_same_call(self) -> None:
        seen = chat(call(0, "a", "w", '{"n":'), call(0, "other", arguments="1}"))
        assert seen.started == [("a", "w")]
        assert seen.calls == [("w", {"n": 1})]

    def test_one_id_for_two_calls(self) -> None:
        seen = chat(call(0, "same", "a", "{}"), call(1, "same", "b", "{}"))
        assert seen.started == [("same", "a"), ("minted_1", "b")]

    def test_an_id_of_an_earlier_turn_is_replaced(self) -> None:
        asked = request(used_ids=frozenset({"0"}))
        seen = chat(call(0, "0", "w", "{}"), asked=asked)
        assert seen.started == [("minted_1", "w")]

    def test_a_preview_then_the_confirmed_call(self) -> None:
        seen = chat(call(0, "c1", "w", '{"a":1}'), call(0, "c1", "w", '{"a":1,"b":2}'))
        assert seen.started == [("c1", "w")]
        assert seen.calls == [("w", {"a": 1, "b": 2})]

    def test_name_in_pieces(self) -> None:
        asked = request(tools=tools("get_weather", "get_time"))
        seen = chat(call(0, "a", "get_"), call(0, name="weather"), call(0, arguments="{}"), asked=asked)
        assert seen.calls == [("get_weather", {})]

    def test_name_that_starts_a_longer_one(self) -> None:
        asked = request(tools=tools("search", "search_web"))
        seen = chat(call(0, "a", "search", ""), call(0, arguments='{"q":1}'), asked=asked)
        assert seen.calls == [("search", {"q": 1})]

    @pytest.mark.parametrize("arguments", ["", None, " "])
    def test_no_arguments(self, arguments: str | None) -> None:
        assert chat(call(0, "a", "now", arguments), chunk(finish="tool_calls")).calls == [("now", {})]

    def test_arguments_null(self) -> None:
        seen = chat(raw_calls({"index": 0, "id": "a", "function": {"name": "now", "arguments": None}}))
        assert seen.calls == [("now", {})]

    def test_arguments_as_an_object(self) -> None:
        seen = chat(raw_calls({"function": {"name": "t", "arguments": {"city": "Paris", "n": 2}}}))
        assert seen.calls == [("t", {"city": "Paris", "n": 2})]
        assert seen.ready[0].raw == '{"city":"Paris","n":2}'

    def test_integers_stay_exact(self) -> None:
        seen = chat(call(0, "a", "w", '{"n":123456789012345678901234567890}'))
        assert seen.calls == [("w", {"n": 123456789012345678901234567890})]

    def test_announced_before_its_arguments(self) -> None:
        decoder = OPENAI.decoder(request())
        assert decoder.feed(sse(call(0, "a", "w", ""))) == [spec.ToolCallStarted("a", "w")]

    def test_legacy_function_call(self) -> None:
        seen = chat(chunk({"function_call": TOOL}), chunk(finish="function_call"))
        assert seen.calls == [("w", {})]


class TestDecision:
    @pytest.mark.parametrize("finish", ["stop", "other", "length", "content_filter", None])
    def test_complete_calls_run_whatever_the_label(self, finish: str | None) -> None:
        seen = chat(chunk({"content": "Let me."}), call(0, "a", "w", '{"n":1}'), chunk(finish=finish))
        assert seen.reason == "tool_calls"
        assert seen.calls == [("w", {"n": 1})]

    @pytest.mark.parametrize(
        ("arguments", "finish", "error", "reason"),
        [
            ('{"file_path":"x.txt"', "length", "cut", "length"),
            ("", "length", "cut", "length"),
            ('{"a":', "content_filter", "cut", "content_filter"),
            ('{"action": listt"}', "tool_calls", "invalid_json", "tool_calls"),
            ('{"a": NaN}', "tool_calls", "invalid_json", "tool_calls"),
            ("[1]", "tool_calls", "not_an_object", "tool_calls"),
            ('"text"', "stop", "not_an_object", "tool_calls"),
        ],
    )
    def test_unusable_arguments(self, arguments: str, finish: str, error: str, reason: str) -> None:
        seen = chat(call(0, "a", "w", arguments), chunk(finish=finish))
        (ready,) = seen.ready
        assert (ready.error, ready.arguments, ready.raw) == (error, None, arguments)
        assert seen.reason == reason

    def test_only_the_cut_call_is_cut(self) -> None:
        seen = chat(call(0, "a", "w"), call(1, "b", "w", '{"x"'), chunk(finish="length"))
        assert [c.error for c in seen.ready] == [None, "cut"]

    @pytest.mark.parametrize(
        ("label", "reason"),
        [
            ("stop", "stop"),
            ("eos", "stop"),
            ("length", "length"),
            ("model_length", "length"),
            ("content_filter", "content_filter"),
            ("tool_calls", "stop"),
            ("what", "other"),
        ],
    )
    def test_labels(self, label: str, reason: str) -> None:
        assert chat(chunk({"content": "x"}), chunk(finish=label)).reason == reason

    def test_refusal_is_answer_text(self) -> None:
        seen = chat(chunk({"content": None, "refusal": "No."}), chunk(finish="stop"))
        assert (seen.text, seen.reason) == ("No.", "refusal")

    def test_finish_twice_and_text_after_it(self) -> None:
        seen = chat(chunk({"content": "a"}, "stop"), chunk({"content": "b"}), chunk({}, "stop"))
        assert (seen.text, seen.reason) == ("ab", "stop")

    def test_empty_answer_with_a_finish_is_an_answer(self) -> None:
        assert chat(chunk({"content": ""}), chunk(finish="length")).reason == "length"


class TestEnd:
    def test_clean_end_without_finish_or_sentinel(self) -> None:
        assert chat(chunk({"content": "x"}), done=False).reason == "stop"
        assert chat(call(0, "a", "w", "{}"), done=False).calls == [("w", {})]

    @pytest.mark.parametrize("arguments", ["", '{"a":'])
    def test_clean_end_inside_a_call(self, arguments: str) -> None:
        seen = chat(chunk({"content": "x"}), call(0, "a", "w", arguments), done=False)
        assert (seen.code, seen.text, seen.ready) == ("provider_bad_stream", "x", [])

    @pytest.mark.parametrize("done", [True, False])
    def test_nothing_came(self, done: bool) -> None:
        assert chat(chunk({"role": "assistant", "content": ""}), done=done).code == "provider_bad_stream"

    def test_thinking_alone_is_no_answer(self) -> None:
        seen = chat(chunk({"reasoning_content": "hm"}))
        assert (seen.code, seen.thinking) == ("provider_bad_stream", "hm")

    def test_last_event_without_a_blank_line(self) -> None:
        body = sse(chunk({"content": "ok"})) + sse(chunk({}, "stop"))[:-2]
        assert decode(OPENAI, [body]).text == "ok"

    def test_nothing_after_the_sentinel_counts(self) -> None:
        seen = decode(OPENAI, [sse(chunk({"content": "a"}, "stop"), "[DONE]", chunk({"content": "b"}))])
        assert seen.text == "a"


class TestErrors:
    def test_error_object_then_sentinel(self) -> None:
        seen = chat(chunk({"content": "Hel"}), {"error": {"message": "queue full", "code": 429}})
        assert (seen.code, seen.text, seen.finished) == ("provider_rate_limited", "Hel", None)

    def test_error_after_the_finish(self) -> None:
        seen = chat(
            chunk({"content": "x"}, "stop"), {"error": {"type": "overloaded_error", "message": "busy"}}
        )
        assert seen.code == "provider_overloaded"

    def test_error_event_without_an_error_key(self) -> None:
        body = b'event: error\ndata: {"message":"boom","code":"rate_limit_exceeded"}\n\n'
        assert decode(OPENAI, [body]).code == "provider_rate_limited"

    @pytest.mark.parametrize("error", ["boom", {"message": "boom"}, ["boom"], {"detail": "boom"}])
    def test_any_shape(self, error: t.Any) -> None:
        seen = chat({"error": error})
        assert seen.error is not None
        assert "boom" in seen.error.detail
        assert "boom" not in seen.error.message

    @pytest.mark.parametrize(
        "body", [b'{"error":{"code":503,"message":"x"}}', b'{\n "error": {\n "code": 503}\n}\n']
    )
    def test_bare_error_document_in_an_event_stream(self, body: bytes) -> None:
        assert decode(OPENAI, [body]).code == "provider_overloaded"

    def test_an_exception_text_instead_of_events(self) -> None:
        seen = decode(OPENAI, [b"Internal error: Traceback (most recent call last)\n"])
        assert seen.code == "provider_bad_stream"
        assert seen.error is not None
        assert "Traceback" in seen.error.detail

    def test_data_that_is_no_json(self) -> None:
        seen = decode(OPENAI, [sse(chunk({"content": "a"}), "upstream timed out")])
        assert (seen.code, seen.text) == ("provider_bad_stream", "a")

    @pytest.mark.parametrize(
        ("label", "code"),
        [("error", "provider_unavailable"), ("insufficient_system_resource", "provider_overloaded")],
    )
    def test_a_finish_that_says_failure(self, label: str, code: str) -> None:
        assert chat(chunk({"content": "x"}), chunk({}, label)).code == code

    def test_failure_is_raised_again(self) -> None:
        decoder = OPENAI.decoder(request())
        assert decoder.feed(sse(chunk({"content": "a"}), {"error": "x"})) == [spec.TextDelta("a")]
        with pytest.raises(spec.ProviderError):
            decoder.feed(b"")
        with pytest.raises(spec.ProviderError):
            decoder.end()


class TestThinking:
    def test_two_names_for_one_delta(self) -> None:
        seen = chat(chunk({"reasoning": "a", "reasoning_content": "a"}), chunk({"content": "x"}))
        assert seen.thinking == "a"

    def test_details_beside_a_plain_field(self) -> None:
        details = [{"type": "reasoning.text", "text": "a"}]
        seen = chat(chunk({"reasoning": "a", "reasoning_details": details}), chunk({"content": "x"}))
        assert seen.thinking == "a"

    def test_details_alone(self) -> None:
        details = [{"type": "reasoning.summary", "summary": "s"}, {"type": "reasoning.text", "text": "t"}]
        assert chat(chunk({"reasoning_details": details}), chunk({"content": "x"})).thinking == "st"

    def test_an_object_with_text(self) -> None:
        assert chat(chunk({"reasoning": {"text": "a"}}), chunk({"content": "x"})).thinking == "a"

    def test_empty_fields_close_nothing(self) -> None:
        seen = chat(
            chunk({"reasoning_content": "a"}),
            chunk({"reasoning_content": None, "content": ""}),
            chunk({"reasoning_content": "", "content": "B"}),
            chunk({}, "stop"),
        )
        assert (seen.order, seen.thinking, seen.text) == (["thinking", "text"], "a", "B")

    def test_parts_inside_content(self) -> None:
        parts = [
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "yes"},
        ]
        seen = chat(chunk({"content": parts}), chunk({}, "stop"))
        assert (seen.thinking, seen.text) == ("hm", "yes")

    def test_tags_stay_in_the_text_unless_asked(self) -> None:
        body = [chunk({"content": "<think>a</think>b"}), chunk({}, "stop")]
        assert chat(*body).text == "<think>a</think>b"
        seen = chat(*body, asked=request(dialect={"inline_thinking": True}))
        assert (seen.thinking, seen.text) == ("a", "b")

    def test_text_held_by_the_splitter_comes_before_the_call(self) -> None:
        asked = request(dialect={"inline_thinking": True})
        seen = chat(chunk({"content": "I look <th"}), call(0, "a", "w", "{}"), asked=asked)
        assert (seen.order, seen.text) == (["text", "tool"], "I look <th")


class TestShapes:
    def test_chunks_without_choices_delta_or_content(self) -> None:
        seen = chat(
            {"id": "", "choices": [], "prompt_filter_results": [{}]},
            {"choices": None},
            {"id": "x"},
            {"choices": [{"index": 0, "finish_reason": None}]},
            {"choices": [{"delta": {"content": "ok"}}]},
            {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]},
        )
        assert (seen.text, seen.reason) == ("ok", "stop")

    def test_only_the_first_choice_counts(self) -> None:
        other = {"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}
        mine = {"index": 0, "delta": {"content": "yes"}, "finish_reason": "stop"}
        seen = chat({"choices": [other, mine]}, {"choices": [other]})
        assert (seen.text, seen.reason) == ("yes", "stop")

    def test_a_cumulative_message_beside_the_delta(self) -> None:
        choice = {
            "index": 0,
            "delta": {"content": "b"},
            "message": {"content": "ab"},
            "finish_reason": "stop",
        }
        assert chat(chunk({"content": "a"}), {"choices": [choice]}).text == "ab"

    def test_annotations_are_sources(self) -> None:
        note = {"type": "url_citation", "url_citation": {"url": "https://example.org", "title": "E"}}
        assert chat(chunk({"content": "x", "annotations": [note]})).sources == ["https://example.org"]

    def test_model_is_the_vendors(self) -> None:
        seen = chat(
            chunk({"role": "assistant", "content": ""}, model="m-2025"), chunk({"content": "x"}, "stop")
        )
        assert seen.finished is not None
        assert seen.finished.model == "m-2025"


class TestUsage:
    def usage(self, *values: t.Any) -> spec.Usage | None:
        seen = chat(*values)
        assert seen.finished is not None, seen.error
        return seen.finished.usage

    def test_running_totals_are_not_summed(self) -> None:
        chunks = [
            chunk({"content": "x"}, usage={"prompt_tokens": 10, "completion_tokens": n}) for n in (1, 50, 100)
        ]
        assert self.usage(*chunks) == spec.Usage(10, 100)

    def test_with_the_last_text(self) -> None:
        seen = chat(chunk({"content": " end"}, "stop", usage={"prompt_tokens": 1, "completion_tokens": 2}))
        assert seen.text == " end"
        assert seen.finished is not None
        assert seen.finished.usage == spec.Usage(1, 2)

    def test_never_sent(self) -> None:
        assert self.usage(chunk({"content": "x"}, "stop", usage=None)) is None

    def test_first_and_then_null(self) -> None:
        assert self.usage(
            chunk({}, usage={"prompt_tokens": 4}), chunk({"content": "x"}, usage=None)
        ) == spec.Usage(4)

    @pytest.mark.parametrize(
        "last",
        [
            {"choices": [], "x_groq": {"usage": {"prompt_tokens": 1, "completion_tokens": 2}}},
            {"choices": [{"delta": {}, "usage": {"prompt_tokens": 1, "completion_tokens": 2}}]},
        ],
    )
    def test_under_a_vendor_key(self, last: dict[str, t.Any]) -> None:
        assert self.usage(chunk({"content": "x"}), last) == spec.Usage(1, 2)

    def test_details(self) -> None:
        stated = {
            "prompt_tokens": 9,
            "completion_tokens": 5,
            "total_tokens": 14,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 3},
        }
        assert self.usage(chunk({"content": "x"}, usage=stated)) == spec.Usage(9, 5, 14, 4, None, 3)

    def test_usage_moves_but_an_empty_chunk_does_not(self) -> None:
        decoder = OPENAI.decoder(request())
        decoder.feed(b": ping\n\n" + sse({"choices": []}))
        assert not decoder.moved
        decoder.feed(sse({"choices": [], "usage": {"prompt_tokens": 1}}))
        assert decoder.moved


class TestBytes:
    def test_split_pair_of_surrogates(self) -> None:
        seen = decode(
            OPENAI, [sse(chunk({"content": "ok \ud83d"}), chunk({"content": "\ude00 end"}), "[DONE]")]
        )
        assert seen.text == "ok 😀 end"

    @pytest.mark.parametrize(
        ("piece", "text"), [("\udcaf", "\ufffd"), ("a\ud83d", "a\ufffd"), ("\ud83dx", "\ufffdx")]
    )
    def test_lone_halves(self, piece: str, text: str) -> None:
        assert chat(chunk({"content": piece}), chunk({}, "stop")).text == text

    def test_halves_in_thinking_and_arguments(self) -> None:
        seen = chat(
            chunk({"reasoning_content": "\ud83d"}),
            chunk({"reasoning_content": "\ude00"}),
            call(0, "a", "w", '{"e":"\ud83d'),
            call(0, arguments='\ude00"}'),
        )
        assert seen.thinking == "😀"
        assert seen.calls == [("w", {"e": "😀"})]

    def test_escaped_halves_inside_arguments(self) -> None:
        seen = chat(call(0, "a", "w", '{"e":"\\ud83d\\ude00","l":"\\ud83d"}'))
        assert seen.calls == [("w", {"e": "😀", "l": "\ufffd"})]

    def test_multibyte_text_cut_at_every_byte(self) -> None:
        body = 'data: {"choices":[{"index":0,"delta":{"content":"北京🌍"}}]}\n\ndata: [DONE]\n\n'.encode()
        for at in range(1, len(body)):
            assert decode(OPENAI, [body[:at], body[at:]]).text == "北京🌍"

    def test_separators_inside_text(self) -> None:
        for text in ("para\n", "a\u2028b", "x\u000by", "\u0085", "a\x00b"):
            assert chat(chunk({"content": text})).text == text


class TestReplay:
    def replay(self, *values: t.Any, asked: spec.ModelRequest | None = None) -> t.Any:
        seen = chat(*values, asked=asked)
        assert seen.finished is not None, seen.error
        return seen.finished.replay

    def test_nothing_to_keep(self) -> None:
        assert self.replay(chunk({"content": "x"}), call(0, "a", "w", "{}")) is None

    def test_each_field_as_named(self) -> None:
        replay = self.replay(chunk({"reasoning": "a"}), chunk({"reasoning": "b"}), chunk({"content": "x"}))
        assert replay == {"thinking": {"reasoning": "ab"}}

    def test_details_unchanged_and_in_order(self) -> None:
        details = [
            {"type": "reasoning.text", "text": "a", "index": 0},
            {"type": "reasoning.encrypted", "data": "zz", "id": "r"},
        ]
        values = [chunk({"reasoning": "", "reasoning_details": [detail]}) for detail in details]
        assert self.replay(*values, chunk({"content": "x"}))["reasoning_details"] == details

    def test_thought_signatures_of_gateways(self) -> None:
        extra = {"google": {"thought_signature": "sig"}}
        item = {"index": 0, "id": "a", "extra_content": extra, "function": {"name": "w", "arguments": "{}"}}
        assert self.replay(raw_calls(item)) == {"calls": {"a": {"extra_content": extra}}}

    def test_encrypted_thinking_is_told_once_and_without_text(self) -> None:
        detail = {"type": "reasoning.encrypted", "data": "zz"}
        seen = chat(chunk({"reasoning_details": [detail, detail]}), chunk({"content": "x"}))
        assert seen.order == ["redacted", "text"]

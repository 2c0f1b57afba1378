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

    def test_a_call_that_never_gets_a_name_is_not_told_of(self) -> None:
        seen = chat(chunk({"content": "x"}), call(0, "c1", "", "{}"), chunk(finish="tool_calls"))
        assert (seen.started, seen.ready) == ([], [])
        assert seen.error is not None
        assert seen.error.code == "provider_bad_stream"


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
        seen = chat(chunk({"content": "par"}), {"error": {"message": "queue full", "code": 429}})
        assert (seen.code, seen.text, seen.finished) == ("provider_rate_limited", "par", None)

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

"""Thinking, shapes, usage, bytes and replay of the chat-completions decoder (providers.md 3, field cases)."""

from __future__ import annotations

import typing as t

import pytest

from providers import spec
from tests.providers.driving import OPENAI, call, chat, chunk, decode, request, sse


def raw_calls(*items: dict[str, t.Any]) -> dict[str, t.Any]:
    """One chunk with this ``tool_calls`` list."""
    return chunk({"tool_calls": list(items)})


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

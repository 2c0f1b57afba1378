"""What Google may send: parts, calls, ends, failures."""

from __future__ import annotations

import json
import typing as t

import pytest

from providers import spec
from providers.gemini import WIRE
from tests.providers.driving import Seen, decode, request, split, sse


def chunk(*parts: dict[str, t.Any], finish: str | None = None, **more: t.Any) -> dict[str, t.Any]:
    candidate: dict[str, t.Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "g", **more}


def said(*values: t.Any, asked: spec.ModelRequest | None = None) -> Seen:
    return decode(WIRE, [sse(*values)], asked)


def replay(seen: Seen) -> t.Any:
    assert seen.finished is not None, seen.error
    return seen.finished.replay


def called(name: str, args: t.Any = None, **more: t.Any) -> dict[str, t.Any]:
    return {"functionCall": {"name": name, **({} if args is None else {"args": args}), **more}}


class TestParts:
    def test_pieces_of_text_are_joined_and_signed_parts_are_not(self) -> None:
        seen = said(
            chunk({"text": "a", "thought": True}),
            chunk({"text": "b", "thought": True}),
            chunk({"text": "c"}),
            chunk({"text": "d"}),
            chunk({"text": "e", "thoughtSignature": "s1"}),
            chunk({"text": "f"}),
            chunk({"text": "", "thoughtSignature": "s2"}, finish="STOP"),
        )
        assert (seen.thinking, seen.text) == ("ab", "cdef")
        assert replay(seen) == [
            {"text": "ab", "thought": True},
            {"text": "cd"},
            {"text": "e", "thoughtSignature": "s1"},
            {"text": "f"},
            {"text": "", "thoughtSignature": "s2"},
        ]

    def test_what_the_vendor_ran_itself_is_no_call_and_is_kept(self) -> None:
        code = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "s"}
        outcome = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
        seen = said(chunk(code, outcome), chunk({"text": "one"}, finish="STOP"))
        assert (seen.text, seen.started) == ("one", [])
        assert replay(seen) == [code, outcome, {"text": "one"}]

    def test_other_candidates_do_not_count(self) -> None:
        both = chunk({"text": "a"})
        both["candidates"].append({"content": {"parts": [{"text": "B"}]}, "index": 1})
        assert said(both, both, chunk({"text": "c"}, finish="STOP")).text == "aac"

    def test_halves_of_a_character(self) -> None:
        half = '{"candidates":[{"content":{"parts":[{"text":"%s"}]}}]}'
        seen = said(half % "a\\ud83d", half % "\\ude00b", chunk(finish="STOP"))
        assert seen.text == "a😀b"
        assert replay(seen) == [{"text": "a😀b"}]

    def test_halves_of_a_character_in_arguments(self) -> None:
        begin = '{"candidates":[{"content":{"parts":[{"functionCall":%s}]}}]}'
        seen = said(
            begin % '{"name":"f","args":{"t":"\\ud83d"}}',
            begin % '{"name":"g","willContinue":true}',
            begin
            % '{"partialArgs":[{"jsonPath":"$.t","stringValue":"\\ud83d","willContinue":true}],"willContinue":true}',
            begin % '{"partialArgs":[{"jsonPath":"$.t","stringValue":"\\ude00"}]}',
            chunk(finish="STOP"),
        )
        assert seen.calls == [("f", {"t": "\ufffd"}), ("g", {"t": "😀"})]
        json.dumps(replay(seen), ensure_ascii=False).encode()

    def test_sources_once_each(self) -> None:
        web = {"web": {"uri": "https://a", "title": "A"}}
        first, second = chunk({"text": "x"}), chunk({"text": "y"}, finish="STOP")
        first["candidates"][0]["groundingMetadata"] = {"groundingChunks": [web]}
        second["candidates"][0]["groundingMetadata"] = {
            "groundingChunks": [web, {"retrievedContext": {"uri": "https://b"}}]
        }
        second["candidates"][0]["citationMetadata"] = {"citationSources": [{"uri": "https://c"}, {}]}
        assert said(first, second).sources == ["https://a", "https://b", "https://c"]

    def test_odd_shapes_say_nothing(self) -> None:
        seen = said(
            {"candidates": [{"content": {"role": "model"}}, 5]},
            {"candidates": [{"content": None}]},
            {"candidates": [{"content": {"parts": "x"}}]},
            chunk({"text": 5}, {}),
            chunk({"text": "ok"}, finish="STOP"),
        )
        assert seen.text == "ok"


class TestCalls:
    def test_ids_of_the_vendor_go_back_and_ours_do_not(self) -> None:
        seen = said(chunk(called("f", {"a": 1}, id="v1"), called("g")), chunk(finish="STOP"))
        assert seen.started == [("v1", "f"), ("minted_1", "g")]
        assert seen.calls == [("f", {"a": 1}), ("g", {})]
        assert replay(seen) == [called("f", {"a": 1}, id="v1"), called("g", {})]

    def test_an_id_that_was_spoken_for_is_replaced_there_and_in_the_replay(self) -> None:
        asked = request(used_ids={"v1"})
        seen = said(chunk(called("f", {}, id="v1")), chunk(finish="STOP"), asked=asked)
        assert seen.started == [("minted_1", "f")]
        assert replay(seen) == [called("f", {}, id="minted_1")]

    def test_stop_with_calls_is_a_turn_with_calls(self) -> None:
        assert said(chunk({"text": "I look."}, called("f"), finish="STOP")).reason == "tool_calls"

    def test_arguments_that_are_no_object(self) -> None:
        (ready,) = said(chunk(called("f", [1]), finish="STOP")).ready
        assert (ready.arguments, ready.error) == (None, "not_an_object")

    def test_arguments_member_by_member(self) -> None:
        def more(*entries: dict[str, t.Any], go_on: bool = True) -> dict[str, t.Any]:
            return {
                "functionCall": {"partialArgs": list(entries), **({"willContinue": True} if go_on else {})}
            }

        seen = said(
            chunk({**called("f", willContinue=True), "thoughtSignature": "s"}),
            chunk(more({"jsonPath": "$.a.b", "stringValue": "x", "willContinue": True})),
            chunk(more({"jsonPath": "$.a.b", "stringValue": "y"}, {"jsonPath": "$.n", "nullValue": None})),
            chunk(
                more(
                    {"jsonPath": "$.l[1].ok", "boolValue": True},
                    {"jsonPath": "$['odd key']", "numberValue": 2},
                )
            ),
            chunk(more({"jsonPath": "$.a.b", "stringValue": "new"}, go_on=False)),
            chunk(called("g"), {"functionCall": {}}),
            chunk(finish="STOP"),
        )
        whole = {"a": {"b": "new"}, "n": None, "l": [None, {"ok": True}], "odd key": 2}
        assert seen.calls == [("f", whole), ("g", {})]
        assert replay(seen)[0] == {**called("f", whole), "thoughtSignature": "s"}

    @pytest.mark.parametrize("path", ["$.a[99999999]", "$[0]", "$.a.b"])
    def test_a_place_that_cannot_be(self, path: str) -> None:
        seen = said(
            chunk(called("f", willContinue=True)),
            chunk(
                {
                    "functionCall": {
                        "partialArgs": [{"jsonPath": "$.a[0]", "numberValue": 1}],
                        "willContinue": True,
                    }
                }
            ),
            chunk({"functionCall": {"partialArgs": [{"jsonPath": path, "stringValue": "x"}]}}),
            chunk(finish="STOP"),
        )
        if path == "$.a.b":  # an object where a list was: the last word counts
            assert seen.calls == [("f", {"a": {"b": "x"}})]
        else:
            assert seen.code == "provider_bad_stream"

    def test_a_call_that_was_to_go_on_is_cut_by_the_output_limit(self) -> None:
        seen = said(
            chunk(called("f", willContinue=True)),
            chunk(
                {
                    "functionCall": {
                        "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}],
                        "willContinue": True,
                    }
                }
            ),
            chunk(finish="MAX_TOKENS"),
        )
        (ready,) = seen.ready
        assert (ready.arguments, ready.error, ready.raw) == (None, "cut", '{"a":"x"')
        assert seen.reason == "length"

    def test_a_body_that_ends_inside_a_call(self) -> None:
        assert said(chunk(called("f", willContinue=True))).code == "provider_bad_stream"


class TestEnds:
    @pytest.mark.parametrize(
        ("label", "reason"),
        [
            ("STOP", "stop"),
            ("MAX_TOKENS", "length"),
            ("SAFETY", "content_filter"),
            ("RECITATION", "content_filter"),
            ("BLOCKLIST", "content_filter"),
            ("PROHIBITED_CONTENT", "content_filter"),
            ("SPII", "content_filter"),
            ("LANGUAGE", "other"),
            ("NEW_WORD", "other"),
        ],
    )
    def test_labels(self, label: str, reason: str) -> None:
        assert said(chunk({"text": "x"}, finish=label)).reason == reason

    def test_an_unspecified_reason_is_none(self) -> None:
        seen = said(chunk({"text": "x"}, finish="FINISH_REASON_UNSPECIFIED"), chunk({"text": "y"}))
        assert (seen.text, seen.reason) == ("xy", "stop")

    @pytest.mark.parametrize("label", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"])
    def test_a_turn_that_went_wrong_without_content_failed(self, label: str) -> None:
        ended = chunk(finish=label)
        ended["candidates"][0]["finishMessage"] = "why"
        seen = said(chunk({"text": "t", "thought": True}), ended)
        assert seen.code == "provider_bad_stream"
        assert seen.error is not None
        assert seen.error.detail == f"the model ended with {label} why"
        assert seen.thinking == "t"

    def test_a_blocked_prompt(self) -> None:
        seen = said({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}})
        assert seen.code == "content_filtered"

    def test_feedback_that_blocks_nothing(self) -> None:
        seen = said({**chunk({"text": "x"}, finish="STOP"), "promptFeedback": {"safetyRatings": []}})
        assert seen.reason == "stop"

    def test_an_answer_stopped_by_the_filter_is_kept(self) -> None:
        seen = said(chunk({"text": "x"}), {"promptFeedback": {"blockReason": "OTHER"}})
        assert (seen.text, seen.reason) == ("x", "content_filter")

    def test_nothing_at_all(self) -> None:
        assert said().code == "provider_bad_stream"
        assert decode(WIRE, [b"[]"]).code == "provider_bad_stream"
        assert decode(WIRE, [b"<html>busy</html>"]).code == "provider_bad_stream"

    @pytest.mark.parametrize("wrap", ["%s", "[%s]", "[\n%s\n,\n%s]"])
    def test_an_error_document_instead_of_a_stream(self, wrap: str) -> None:
        error = json.dumps({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}})
        body = (wrap.replace("%s", error)).encode()
        for size in (0, 1):
            seen = decode(WIRE, split(body, size))
            assert (seen.code, seen.error and seen.error.status) == ("provider_unavailable", 503)

    def test_an_error_after_text(self) -> None:
        seen = said(
            chunk({"text": "x"}), {"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}}
        )
        assert (seen.text, seen.code) == ("x", "provider_rate_limited")

    def test_an_array_that_breaks_off_inside_an_object(self) -> None:
        body = b"[" + json.dumps(chunk({"text": "x"})).encode() + b',{"cand'
        seen = decode(WIRE, [body])
        assert (seen.text, seen.code) == ("x", "provider_bad_stream")

    @pytest.mark.parametrize("lead", [b"", b" \r\n", b"\xef\xbb\xbf"])
    def test_what_stands_before_the_first_byte_that_matters(self, lead: bytes) -> None:
        for body in (
            sse(chunk({"text": "x"}, finish="STOP")),
            json.dumps([chunk({"text": "x"}, finish="STOP")]).encode(),
        ):
            for size in (0, 1):
                assert decode(WIRE, split(lead + body, size)).text == "x"


class TestUsage:
    def test_the_whole_prompt_and_all_that_was_made(self) -> None:
        stated = {
            "promptTokenCount": 100,
            "toolUsePromptTokenCount": 20,
            "cachedContentTokenCount": 60,
            "candidatesTokenCount": 7,
            "thoughtsTokenCount": 3,
            "totalTokenCount": 130,
        }
        seen = said(chunk({"text": "x"}, finish="STOP", usageMetadata=stated))
        assert seen.finished is not None
        assert seen.finished.usage == spec.Usage(120, 10, 130, 60, None, 3)

    def test_stated_before_the_end(self) -> None:
        decoder = WIRE.decoder(request())
        events = list(decoder.feed(sse(chunk({"text": "x"}, usageMetadata={"promptTokenCount": 5}))))
        events += decoder.feed(sse(chunk({"text": "y"}, usageMetadata={"promptTokenCount": 5})))
        events += decoder.feed(
            sse(chunk({"text": "z"}, usageMetadata={"promptTokenCount": 5, "candidatesTokenCount": 2}))
        )
        stated = [event.usage for event in events if isinstance(event, spec.UsageStated)]
        assert stated == [spec.Usage(5), spec.Usage(5, 2)]

    def test_a_vendor_that_counts_nothing(self) -> None:
        seen = said(chunk({"text": "x"}, finish="STOP"))
        assert seen.finished is not None
        assert seen.finished.usage is None

"""The Responses decoder against what vendors have been seen to send (providers.md 2 and 3, field cases)."""

from __future__ import annotations

import json
import typing as t

import pytest

from providers import spec
from tests.providers.driving import RESPONSES, Seen, decode, request, split, sse

Json = dict[str, t.Any]


def item(kind: str, at: int = 0, **more: t.Any) -> Json:
    """An output item with an id of its own."""
    return {"id": f"{kind}_{at}", "type": kind, **more}


def event(name: str, at: int | None = None, item_id: str | None = None, **more: t.Any) -> Json:
    """One typed event, of the item at a place."""
    placed = {"output_index": at, "item_id": item_id}
    return {"type": f"response.{name}", **{k: v for k, v in placed.items() if v is not None}, **more}


def added(given: Json, at: int | None = 0) -> Json:
    """The start of an item."""
    return event("output_item.added", at, item=given)


def done(given: Json, at: int | None = 0) -> Json:
    """The last word of an item."""
    return event("output_item.done", at, item=given)


def ended(status: str = "completed", **response: t.Any) -> Json:
    """The end of the response."""
    return event(status, response={"status": status, **response})


def text(piece: str, at: int = 0) -> Json:
    """A piece of answer."""
    return event("output_text.delta", at, f"message_{at}", delta=piece)


def function(call_id: str = "call_1", name: str = "w", at: int = 0, arguments: str = "") -> Json:
    """A call of ours."""
    return item("function_call", at, call_id=call_id, name=name, arguments=arguments)


def arguments(piece: str, at: int | None = 0, item_id: str | None = None) -> Json:
    """A piece of a call's arguments."""
    named = item_id if item_id is not None or at is None else f"function_call_{at}"
    return event("function_call_arguments.delta", at, named, delta=piece)


def whole_call(at: int, call_id: str, name: str, given: str) -> list[Json]:
    """A call in all its events."""
    return [
        added(function(call_id, name, at), at),
        arguments(given, at),
        event("function_call_arguments.done", at, f"function_call_{at}", arguments=given),
        done(function(call_id, name, at, given), at),
    ]


def message(words: str, at: int = 0, **more: t.Any) -> Json:
    """A whole message."""
    return item("message", at, role="assistant", content=[{"type": "output_text", "text": words, **more}])


def respond(*events: t.Any, asked: spec.ModelRequest | None = None) -> Seen:
    """What these events come to."""
    return decode(RESPONSES, [sse(*events)], asked)


def replay_of(*events: t.Any, asked: spec.ModelRequest | None = None) -> t.Any:
    """What the turn leaves to be sent back."""
    seen = respond(*events, asked=asked)
    assert seen.finished is not None, seen.error
    return seen.finished.replay


class TestText:
    def test_deltas(self) -> None:
        seen = respond(text("Hel"), text("lo"), done(message("Hello")), ended(output=[message("Hello")]))
        assert (seen.text, seen.reason, seen.order) == ("Hello", "stop", ["text"])

    def test_given_as_it_comes(self) -> None:
        decoder = RESPONSES.decoder(request())
        assert decoder.feed(sse(text("x"))) == [spec.TextDelta("x")]
        assert decoder.moved

    def test_whole_where_nothing_came_in_pieces(self) -> None:
        assert respond(done(message("Hello")), ended()).text == "Hello"
        assert respond(ended(output=[message("Hello")])).text == "Hello"

    def test_refusal_is_answer_text(self) -> None:
        refusal = event("refusal.delta", 0, delta="I cannot.")
        seen = respond(refusal, ended())
        assert (seen.text, seen.reason) == ("I cannot.", "refusal")
        parts = [{"type": "refusal", "refusal": "I cannot."}]
        seen = respond(done(item("message", content=parts)), ended())
        assert (seen.text, seen.reason) == ("I cannot.", "refusal")

    def test_split_characters(self) -> None:
        seen = respond(text("\ud83d"), text("\ude00"), done(message("\ud83d\ude00")), ended())
        assert seen.text == "😀"
        assert seen.finished is not None
        assert seen.finished.replay[0]["content"][0]["text"] == "😀"

    def test_inline_tags_where_the_family_says_so(self) -> None:
        asked = request(dialect={"inline_thinking": True})
        seen = respond(text("<think>hm</think>yes"), ended(), asked=asked)
        assert (seen.thinking, seen.text) == ("hm", "yes")

    def test_a_frame_of_more_than_a_megabyte(self) -> None:
        words = "ä" * 600_000
        body = sse(text("ok"), done(message(words)), ended(output=[message(words)]))
        assert len(body) > 2_000_000
        seen = decode(RESPONSES, split(body, 65_537))
        assert (seen.text, seen.reason) == ("ok", "stop")

    def test_sources_once_each(self) -> None:
        cited = {"type": "url_citation", "url": "https://example.org", "title": "E"}
        file = {"type": "file_citation", "file_id": "f"}
        seen = respond(
            text("x"),
            event("output_text.annotation.added", 0, annotation=cited),
            done(message("x", annotations=[cited, file, {"type": "url_citation", "url": "https://b.org"}])),
            ended(),
        )
        assert seen.sources == ["https://example.org", "https://b.org"]


class TestThinking:
    @pytest.mark.parametrize("kind", ["reasoning_summary_text", "reasoning_text"])
    def test_deltas(self, kind: str) -> None:
        reasoning = item("reasoning", summary=[{"type": "summary_text", "text": "hm"}])
        seen = respond(event(f"{kind}.delta", 0, delta="hm"), done(reasoning), text("a", 1), ended())
        assert (seen.thinking, seen.order) == ("hm", ["thinking", "text"])

    def test_an_empty_summary_says_nothing(self) -> None:
        seen = respond(
            added(item("reasoning", summary=[])),
            event("reasoning_summary_text.delta", 0, delta=""),
            done(item("reasoning", summary=[], encrypted_content="E")),
            text("a", 1),
            ended(),
        )
        assert (seen.thinking, seen.order) == ("", ["text"])

    @pytest.mark.parametrize("field", ["summary", "content"])
    def test_whole_where_nothing_came_in_pieces(self, field: str) -> None:
        reasoning = item("reasoning", **{field: [{"text": "a"}, {"text": "b"}]})
        assert respond(done(reasoning), text("x", 1), ended()).thinking == "ab"


class TestCalls:
    def test_announced_at_once(self) -> None:
        decoder = RESPONSES.decoder(request())
        assert decoder.feed(sse(added(function()))) == [spec.ToolCallStarted("call_1", "w")]

    def test_two(self) -> None:
        seen = respond(*whole_call(0, "a", "w", '{"x":1}'), *whole_call(1, "b", "v", "{}"), ended())
        assert seen.calls == [("w", {"x": 1}), ("v", {})]
        assert seen.started == [("a", "w"), ("b", "v")]
        assert seen.reason == "tool_calls"

    def test_interleaved(self) -> None:
        seen = respond(
            added(function("a", "w", 0), 0),
            added(function("b", "w", 1), 1),
            arguments('{"c":', 0),
            arguments('{"c":', 1),
            arguments('"Rome"}', 0),
            arguments('"Oslo"}', 1),
            ended(),
        )
        assert seen.calls == [("w", {"c": "Rome"}), ("w", {"c": "Oslo"})]

    def test_all_at_the_same_place(self) -> None:
        """ASSEMBLE-01: item ids tell them apart."""
        events = []
        for call_id, city in (("a", "Rome"), ("b", "Oslo")):
            given = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": "w"}
            events += [
                added(given, 0),
                arguments(f'{{"c":"{city}"}}', 0, f"fc_{call_id}"),
                done({**given, "arguments": f'{{"c":"{city}"}}'}, 0),
            ]
        assert respond(*events, ended()).calls == [("w", {"c": "Rome"}), ("w", {"c": "Oslo"})]

    def test_neither_ids_nor_places(self) -> None:
        events: list[Json] = []
        for call_id, city in (("a", "Rome"), ("b", "Oslo")):
            given = {"type": "function_call", "call_id": call_id, "name": "w"}
            events += [
                added(given, None),
                arguments(f'{{"c":"{city}"}}', None),
                done({**given, "arguments": f'{{"c":"{city}"}}'}, None),
            ]
        assert respond(*events, ended()).calls == [("w", {"c": "Rome"}), ("w", {"c": "Oslo"})]

    def test_item_ids_that_change_from_event_to_event(self) -> None:
        seen = respond(
            added({**function("a"), "id": "one"}),
            arguments('{"c":', 0, "two"),
            arguments("1}", 0, "three"),
            done({**function("a", arguments='{"c":1}'), "id": "four"}),
            ended(output=[{**function("a", arguments='{"c":1}'), "id": "five"}]),
        )
        assert seen.calls == [("w", {"c": 1})]

    def test_the_same_call_id_twice_is_two_calls(self) -> None:
        seen = respond(*whole_call(0, "a", "w", '{"x":1}'), *whole_call(1, "a", "w", '{"x":2}'), ended())
        assert [(call.id, call.arguments) for call in seen.ready] == [("a", {"x": 1}), ("minted_1", {"x": 2})]

    def test_a_call_announced_twice_is_one(self) -> None:
        seen = respond(added(function()), *whole_call(0, "call_1", "w", '{"x":1}'), ended())
        assert seen.calls == [("w", {"x": 1})]

    def test_without_deltas(self) -> None:
        assert respond(done(function(arguments='{"x":1}')), ended()).calls == [("w", {"x": 1})]
        assert respond(ended(output=[function(arguments='{"x":1}')])).calls == [("w", {"x": 1})]

    def test_arguments_with_the_item(self) -> None:
        start = added(function(arguments='{"x":1}'))
        assert respond(start, ended()).calls == [("w", {"x": 1})]
        assert respond(start, arguments('{"x"'), arguments(":1}"), ended()).calls == [("w", {"x": 1})]

    def test_arguments_only_in_their_end(self) -> None:
        end = event("function_call_arguments.done", 0, arguments='{"x":1}')
        assert respond(added(function()), end, ended()).calls == [("w", {"x": 1})]

    def test_arguments_as_an_object(self) -> None:
        given = {**function(), "arguments": {"x": 1}}
        seen = respond(added(function()), done(given), ended())
        assert seen.calls == [("w", {"x": 1})]
        assert replay_of(added(function()), done(given), ended())[0]["arguments"] == '{"x":1}'

    @pytest.mark.parametrize("nothing", ["", None, "{}"])
    def test_no_arguments(self, nothing: str | None) -> None:
        """ASSEMBLE-10."""
        given = {**function(), "arguments": nothing}
        assert respond(added(given), done(given), ended()).calls == [("w", {})]

    def test_pieces_before_the_name(self) -> None:
        seen = respond(
            arguments('{"x":', 0), arguments("1}", 0), done({**function(), "arguments": ""}), ended()
        )
        assert seen.calls == [("w", {"x": 1})]

    def test_never_named(self) -> None:
        nameless = {**function(), "name": ""}
        seen = respond(added(nameless), arguments("{}"), done(nameless), ended())
        assert (seen.code, seen.started) == ("provider_bad_stream", [])

    def test_no_call_id(self) -> None:
        given = {**function(arguments="{}"), "call_id": None}
        seen = respond(added(given), done(given), ended())
        assert seen.started == [("minted_1", "w")]
        assert replay_of(added(given), done(given), ended())[0]["call_id"] == "minted_1"

    def test_malformed(self) -> None:
        seen = respond(added(function()), done(function(arguments='{"x":')), ended())
        assert [call.error for call in seen.ready] == ["invalid_json"]
        seen = respond(done(function(arguments="[1]")), ended())
        assert [call.error for call in seen.ready] == ["not_an_object"]

    def test_cut_by_the_limit(self) -> None:
        seen = respond(
            *whole_call(0, "a", "w", '{"x":1}'),
            added(function("b", "w", 1), 1),
            arguments('{"x', 1),
            ended("incomplete", incomplete_details={"reason": "max_output_tokens"}),
        )
        assert [call.error for call in seen.ready] == [None, "cut"]
        assert seen.reason == "length"

    @pytest.mark.parametrize(
        "kind", ["web_search_call", "mcp_call", "code_interpreter_call", "custom_tool_call", "program"]
    )
    def test_what_the_vendor_ran_itself_is_none(self, kind: str) -> None:
        ran = item(kind, 0, call_id="call_9", name="x")
        delta = event("custom_tool_call_input.delta", 0, delta="SELECT 1")
        seen = respond(added(ran), delta, done(ran), text("x", 1), done(message("x", 1), 1), ended())
        assert (seen.calls, seen.started, seen.reason, seen.text) == ([], [], "stop", "x")
        assert seen.finished is not None
        assert seen.finished.replay[0] == ran


class TestReplay:
    def test_items_in_their_order_as_they_came(self) -> None:
        """REPLAY-10: reasoning stays with what follows it, an empty summary stays."""
        r1 = item("reasoning", 0, summary=[], encrypted_content="E1")
        c1 = function("c1", at=1, arguments="{}")
        r2 = item("reasoning", 2, summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="E2")
        m1 = message("hello", 3)
        events = [
            event
            for at, given in enumerate((r1, c1, r2, m1))
            for event in (added(given, at), done(given, at))
        ]
        assert replay_of(*events, ended()) == [r1, c1, r2, m1]

    def test_by_place_where_the_ends_come_in_another_order(self) -> None:
        first, second = item("mcp_list_tools", 0), message("x", 1)
        assert replay_of(done(second, 1), done(first, 0), ended()) == [first, second]

    def test_items_that_only_the_end_holds_whole(self) -> None:
        listed = item("mcp_list_tools", 0, tools=[{"name": "t"}])
        events = [added(item("mcp_list_tools", 0, tools=[]), 0), text("x", 1), done(message("x", 1), 1)]
        assert replay_of(*events, ended(output=[listed, message("x", 1)])) == [listed, message("x", 1)]

    def test_the_last_word_of_an_item_counts_over_its_first(self) -> None:
        events = [
            added(item("reasoning", 0, encrypted_content="EARLY"), 0),
            done(item("reasoning", 0, encrypted_content="LATE"), 0),
        ]
        later = item("reasoning", 0, encrypted_content="FINAL")
        whole = [*events, text("x", 1), done(message("x", 1), 1), ended(output=[later, message("x", 1)])]
        assert replay_of(*whole)[0]["encrypted_content"] == "LATE"

    def test_reasoning_that_nothing_follows_does_not_go_back(self) -> None:
        reasoning = item("reasoning", 1, encrypted_content="E")
        cut = ended("incomplete", incomplete_details={"reason": "max_output_tokens"})
        assert replay_of(done(message("x", 0), 0), done(reasoning, 1), cut) == [message("x", 0)]
        assert replay_of(done(reasoning, 0), cut) is None

    def test_a_replaced_id_is_replaced_in_the_replay_too(self) -> None:
        asked = request(used_ids=frozenset({"call_1"}))
        events = whole_call(0, "call_1", "w", "{}")
        seen = respond(*events, ended(), asked=asked)
        assert [call.id for call in seen.ready] == ["minted_1"]
        assert seen.finished is not None
        assert seen.finished.replay == [{**function(arguments="{}"), "call_id": "minted_1"}]

    def test_unusable_arguments_go_back_as_an_empty_object(self) -> None:
        assert replay_of(done(function(arguments='{"x"')), ended())[0]["arguments"] == "{}"

    def test_nothing_where_an_item_is_not_known_whole(self) -> None:
        assert replay_of(added(item("message", 0)), text("x")) is None

    def test_a_call_without_its_end_is_known_all_the_same(self) -> None:
        assert replay_of(added(function()), arguments('{"x":1}'), ended()) == [
            {"type": "function_call", "call_id": "call_1", "name": "w", "arguments": '{"x":1}'}
        ]


class TestEnd:
    @pytest.mark.parametrize(
        ("reason", "label"),
        [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("max_tool_calls", "other")],
    )
    def test_incomplete(self, reason: str, label: str) -> None:
        cut = {"incomplete_details": {"reason": reason}}
        assert respond(text("x"), ended("incomplete", **cut)).reason == label
        completed = event("completed", response={"status": "incomplete", **cut})
        assert respond(text("x"), completed).reason == label

    def test_calls_decide_over_the_label(self) -> None:
        cut = ended("incomplete", incomplete_details={"reason": "max_output_tokens"})
        assert respond(*whole_call(0, "a", "w", "{}"), cut).reason == "tool_calls"

    def test_usage_and_model(self) -> None:
        usage = {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 3},
            "total_tokens": 15,
        }
        seen = respond(text("x"), ended(usage=usage, model="gpt-x"))
        assert seen.finished is not None
        assert seen.finished.usage == spec.Usage(10, 5, 15, 4, 2, 3)
        assert seen.finished.model == "gpt-x"

    def test_a_clean_end_before_the_last_event(self) -> None:
        assert respond(text("x")).reason == "stop"
        assert respond(*whole_call(0, "a", "w", "")).calls == [("w", {})]
        assert respond(added(function()), arguments('{"x"')).code == "provider_bad_stream"
        assert respond(added(function()), arguments('{"x"'), "[DONE]").code is None

    def test_nothing_came(self) -> None:
        assert respond().code == "provider_bad_stream"
        assert respond(event("created", response={"status": "in_progress"})).code == "provider_bad_stream"

    def test_the_sentinel_after_the_end(self) -> None:
        assert respond(text("x"), ended(), "[DONE]").text == "x"

    def test_what_follows_the_end_does_not_matter(self) -> None:
        decoder = RESPONSES.decoder(request())
        decoder.feed(sse(text("x"), ended()))
        assert decoder.done
        assert decoder.feed(sse({"type": "error", "error": {"message": "late"}})) == []


class TestFailures:
    @pytest.mark.parametrize(
        ("code", "mapped"),
        [
            ("rate_limit_exceeded", "provider_rate_limited"),
            ("insufficient_quota", "provider_rate_limited"),
            ("server_error", "provider_unavailable"),
            ("context_length_exceeded", "context_length_exceeded"),
            ("invalid_request_error", "provider_bad_request"),
        ],
    )
    def test_an_error_then_the_failed_response(self, code: str, mapped: str) -> None:
        """ERRLOST-02: one failure, after what was said before it."""
        error = {"code": code, "message": "m"}
        failed = ended("failed", error=error)
        for events in ([{"type": "error", "error": error}, failed], [{"type": "error", **error}], [failed]):
            seen = respond(text("par"), *events)
            assert (seen.code, seen.text) == (mapped, "par")

    def test_a_failed_response_without_a_reason(self) -> None:
        assert respond(ended("failed", error=None)).code == "provider_unavailable"
        assert respond(event("failed")).code == "provider_unavailable"
        assert respond(ended("cancelled")).error is not None
        assert respond(event("completed", response={"status": "cancelled"})).code == "provider_unavailable"

    def test_usage_of_a_failed_response(self) -> None:
        usage = {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
        decoder = RESPONSES.decoder(request())
        events = decoder.feed(sse(ended("failed", error={"code": "server_error"}, usage=usage)))
        assert events == [spec.UsageStated(spec.Usage(3, 1, 4))]
        assert decoder.failure is not None

    @pytest.mark.parametrize(
        "kind", ["response.thing_failed", "response.new.error", "response.new.incomplete"]
    )
    def test_unknown_events_that_say_failure(self, kind: str) -> None:
        assert respond(text("x"), {"type": kind, "message": "m"}).error is not None

    @pytest.mark.parametrize(
        "kind", ["response.thing.started", "keepalive", "response.content_part.added", 7]
    )
    def test_other_unknown_events_pass(self, kind: t.Any) -> None:
        assert respond({"type": kind}, text("x"), {"type": kind}, ended()).text == "x"

    @pytest.mark.parametrize("kind", ["response.mcp_call.failed", "response.mcp_list_tools.failed"])
    def test_a_failure_beside_the_answer_is_none_of_it(self, kind: str) -> None:
        assert respond({"type": kind, "item_id": "m"}, text("x"), ended()).reason == "stop"

    def test_an_error_without_a_type(self) -> None:
        assert respond(text("x"), {"error": {"code": 429, "message": "slow"}}).code == "provider_rate_limited"

    @pytest.mark.parametrize("junk", [None, 1, "x", [], [1], {"url": 3}])
    def test_members_of_the_wrong_kind_are_passed_over(self, junk: t.Any) -> None:
        events = [
            event("created", response=junk),
            event("output_item.added", junk, item=junk),
            event("output_text.delta", 0, delta=junk if not isinstance(junk, str) else 1),
            event("reasoning_text.delta", 0, delta=junk if not isinstance(junk, str) else 1),
            event("output_text.annotation.added", 0, annotation=junk),
            event("output_item.done", 0, item=junk),
            event("output_item.done", 1, item=item("message", 1, content=junk)),
            text("ok", 2),
            done(message("ok", 2), 2),
            ended(output=junk, usage=junk, model=junk, incomplete_details=None),
        ]
        assert (respond(*events).text, respond(*events).code) == ("ok", None)

    def test_an_end_without_a_response(self) -> None:
        assert respond(text("x"), event("completed", response=None)).reason == "stop"

    def test_waiting_is_no_progress(self) -> None:
        decoder = RESPONSES.decoder(request())
        decoder.feed(
            sse({"type": "keepalive"}, event("in_progress", response={}), event("queued", response={}))
        )
        assert not decoder.moved
        decoder.feed(sse(event("web_search_call.searching", 0)))
        assert decoder.moved


@pytest.mark.parametrize("size", [1, 7, 333])
def test_any_split_gives_the_same(size: int) -> None:
    events = [
        event("reasoning_summary_text.delta", 0, delta="hm 😀"),
        done(item("reasoning", 0, summary=[{"text": "hm 😀"}]), 0),
        text("Grüße ", 1),
        text("\ud83d", 1),
        text("\ude00", 1),
        done(message("Grüße 😀", 1), 1),
        *whole_call(2, "a", "w", json.dumps({"x": "\ud83d\ude00"})),
        ended(),
    ]
    body = sse(*events)
    seen, whole = decode(RESPONSES, split(body, size)), decode(RESPONSES, [body])
    assert (seen.text, seen.thinking, seen.calls) == ("Grüße 😀", "hm 😀", [("w", {"x": "😀"})])
    assert seen.finished == whole.finished

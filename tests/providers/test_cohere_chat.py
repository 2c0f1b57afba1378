"""Cohere's chat wire: recorded bodies, what vendors do beside them, and what goes out."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterable

import pytest

from providers import spec
from providers.auth import NoAuth
from providers.cohere_chat import WIRE
from providers.cohere_chat_request import build_body, build_request
from tests.providers.driving import Seen, decode, request, split, sse, tools
from tests.support.shared import find_shared, recordings, shared_path

Json = dict[str, t.Any]
#: Switches of a model that thinks, and of one that plans.
THINKS = {"thinking": "budget", "tool_choice": False, "tool_plan": False}
PLANS = {"thinking": "never", "tool_choice": True, "tool_plan": True}


def event(kind: str, message: t.Any = None, index: int = 0) -> Json:
    """One event around a ``message``."""
    return {"type": kind, "index": index, "delta": {"message": message or {}}}


def said(text: str, kind: str = "text") -> Json:
    """A piece of content."""
    return event("content-delta", {"content": {kind: text}})


def end(reason: str | None = "COMPLETE", **more: t.Any) -> Json:
    """The last event."""
    return {"type": "message-end", "delta": {"finish_reason": reason, **more}}


def answer(*values: t.Any, done: bool = True) -> Seen:
    """A body of these events."""
    return decode(WIRE, [sse(event("message-start"), *values, *(["[DONE]"] if done else []))])


def _names() -> list[str]:
    if find_shared() is None:
        shared_path("recordings")  # skips the module loudly; fails on CI
    return [name for name, case in recordings().items() if case["wire"] == "cohere-v2"]


def _recorded(name: str) -> tuple[Json, bytes]:
    case = recordings()[name]
    return case, shared_path("recordings", case["file"]).read_bytes()


class TestRecorded:
    @pytest.mark.parametrize("size", [0, 1, 7, 333])
    @pytest.mark.parametrize("name", [name for name in _names() if not name.startswith("errors/")])
    def test_streams(self, name: str, size: int) -> None:
        case, body = _recorded(name)
        expected = case["expected"]
        seen = decode(WIRE, split(body, size))
        assert seen.error is None
        assert (seen.text, seen.thinking, seen.order) == (
            expected["text"], expected["thinking"], expected["order"],
        )  # fmt: skip
        calls = [(call["id"], call["name"], call["input"]) for call in expected["tool_calls"]]
        assert [(call.id, call.name, call.arguments) for call in seen.ready] == calls
        assert seen.reason == {"COMPLETE": "stop", "TOOL_CALL": "tool_calls"}[expected["finish"]]
        assert seen.finished is not None
        usage, tokens = seen.finished.usage, expected["usage"]["tokens"]
        assert usage == spec.Usage(
            tokens["input_tokens"],
            tokens["output_tokens"],
            tokens["input_tokens"] + tokens["output_tokens"],
            cache_read=expected["usage"].get("cached_tokens"),
            reasoning=tokens.get("reasoning_tokens"),
        )

    def test_a_prompt_that_is_too_long(self) -> None:
        case, body = _recorded("errors/cohere-context-400")
        error = WIRE.error(case["status"], {}, body)
        assert (error.code, error.status) == ("context_length_exceeded", 400)
        assert case["expected"]["error"]["message"] == error.detail

    def test_every_recording_is_played(self) -> None:
        assert len(_names()) == 6


class TestStreams:
    def test_a_plan_comes_before_calls_and_goes_back(self) -> None:
        call = {"id": "c1", "type": "function", "function": {"name": "echo", "arguments": '{"a"'}}
        seen = answer(
            event("tool-plan-delta", {"tool_plan": "I "}),
            event("tool-plan-delta", {"tool_plan": "plan."}),
            event("tool-call-start", {"tool_calls": call}),
            event("tool-call-delta", {"tool_calls": {"function": {"arguments": ":1}"}}}),
            event("tool-call-end"),
            end("TOOL_CALL"),
        )
        assert (seen.thinking, seen.calls, seen.reason) == ("I plan.", [("echo", {"a": 1})], "tool_calls")
        assert seen.finished is not None
        assert seen.finished.replay == {"tool_plan": "I plan."}

    def test_calls_decide_whatever_the_label(self) -> None:
        call = {"id": "c1", "function": {"name": "echo", "arguments": ""}}
        assert answer(event("tool-call-start", {"tool_calls": call}), end("COMPLETE")).reason == "tool_calls"

    def test_calls_given_as_a_list_and_deltas_of_several(self) -> None:
        first, second = (
            {"id": f"c{n}", "function": {"name": name, "arguments": ""}}
            for n, name in enumerate(("one", "two"))
        )
        seen = answer(
            event("tool-call-start", {"tool_calls": [first]}, 0),
            event("tool-call-start", {"tool_calls": [second]}, 1),
            event("tool-call-delta", {"tool_calls": {"function": {"arguments": '{"n":1}'}}}, 0),
            event("tool-call-delta", {"tool_calls": {"function": {"arguments": '{"n":2}'}}}, 1),
            end("TOOL_CALL"),
        )
        assert seen.calls == [("one", {"n": 1}), ("two", {"n": 2})]

    def test_a_call_cut_by_the_limit(self) -> None:
        call = {"id": "c1", "function": {"name": "echo", "arguments": '{"a":'}}
        seen = answer(event("tool-call-start", {"tool_calls": call}), end("MAX_TOKENS"))
        assert [(call.error, call.arguments) for call in seen.ready] == [("cut", None)]
        assert seen.reason == "length"

    def test_a_call_without_a_name(self) -> None:
        seen = answer(event("tool-call-start", {"tool_calls": {"id": "c", "function": {}}}), end())
        assert seen.code == "provider_bad_stream"
        assert seen.started == []

    def test_text_at_the_start_of_a_part_and_two_parts(self) -> None:
        seen = answer(
            event("content-start", {"content": {"type": "thinking", "thinking": "T"}}),
            said("hink", "thinking"),
            event("content-start", {"content": {"type": "text", "text": "A"}}, 1),
            said("nswer"),
            end(),
        )
        assert (seen.thinking, seen.text, seen.order) == ("Think", "Answer", ["thinking", "text"])
        assert seen.finished is not None
        assert seen.finished.replay == {
            "content": [{"type": "thinking", "thinking": "Think"}, {"type": "text", "text": "Answer"}]
        }

    def test_sources_with_an_address_are_cited_once(self) -> None:
        def cited(**document: str) -> Json:
            sources = [{"type": "document", "id": "d", "document": document}]
            return event("citation-start", {"citations": {"text": "x", "sources": sources}})

        tool = [{"type": "tool", "id": "t", "tool_output": {"url": "https://b", "content": "c"}}]
        seen = answer(
            said("x"),
            cited(title="No address"),
            cited(url="https://a", title="A"),
            cited(url="https://a", title="A"),
            event("citation-start", {"citations": {"text": "x", "sources": tool}}),
            end(),
        )
        assert seen.sources == ["https://a", "https://b"]

    @pytest.mark.parametrize(
        ("label", "reason"),
        [
            ("COMPLETE", "stop"),
            ("stop_sequence", "stop"),
            ("MAX_TOKENS", "length"),
            ("ERROR_TOXIC", "content_filter"),
            ("USER_CANCEL", "other"),
            (None, "stop"),
        ],
    )
    def test_labels(self, label: str | None, reason: str) -> None:
        assert answer(said("x"), end(label)).reason == reason

    @pytest.mark.parametrize(
        ("last", "code"),
        [
            (end("ERROR"), "provider_unavailable"),
            (end("TIMEOUT"), "provider_unavailable"),
            (end("ERROR_LIMIT"), "context_length_exceeded"),
            (end("ERROR", error="upstream broke"), "provider_unavailable"),
            (end("ERROR", error={"error_type": "TOO_MANY_TOKENS"}), "context_length_exceeded"),
            ({"message": "rate limited", "status_code": 429}, "provider_rate_limited"),
        ],
    )
    def test_failures_keep_what_was_said(self, last: Json, code: str) -> None:
        seen = answer(said("x"), last)
        assert (seen.text, seen.code, seen.finished) == ("x", code, None)

    def test_ends(self) -> None:
        assert answer(said("x"), end(), done=False).reason == "stop"
        assert answer(said("x"), done=False).reason == "stop"
        assert answer(done=False).code == "provider_bad_stream"
        assert answer().code == "provider_bad_stream"

    def test_usage_is_never_what_is_billed(self) -> None:
        billed = {"billed_units": {"input_tokens": 1, "output_tokens": 2}}
        seen = answer(said("x"), end(usage=billed))
        assert seen.finished is not None
        assert seen.finished.usage is None


def body(messages: Iterable[spec.Message], dialect: Json, **more: t.Any) -> Json:
    """The body of one request."""
    return build_body(request(messages=list(messages), dialect=dialect, **more))


CALL = spec.ToolCall("c1", "echo", {"a": 1}, '{"a":1}')
RESULT = spec.ToolResult("c1", "echo", "42")


class TestRequests:
    def test_the_whole_of_it(self) -> None:
        built = body(
            [spec.UserMessage("hi")],
            PLANS,
            system="Be brief.",
            temperature=0.5,
            top_p=0.9,
            seed=7,
            max_tokens=50,
            stop=["END"],
            tools=tools("echo"),
        )
        assert built == {
            "model": "m",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
            "stream": True,
            "temperature": 0.5,
            "p": 0.9,
            "seed": 7,
            "max_tokens": 50,
            "stop_sequences": ["END"],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "echo",
                        "description": "Does echo.",
                        "parameters": {"type": "object"},
                    },
                }
            ],
        }

    @pytest.mark.parametrize(
        ("base", "url"),
        [
            ("https://api.cohere.com/v2", "https://api.cohere.com/v2/chat"),
            ("https://api.cohere.com/v1", "https://api.cohere.com/v2/chat"),
            ("https://api.cohere.com/v2/chat", "https://api.cohere.com/v2/chat"),
        ],
    )
    def test_addresses(self, base: str, url: str) -> None:
        http = build_request(request(), spec.Connection(base, NoAuth()))
        assert (http.method, http.url) == ("POST", url)

    def test_a_plan_goes_back_as_a_plan(self) -> None:
        turn = spec.AssistantMessage("", (CALL,), {"tool_plan": "I plan."}, "cohere_chat")
        _, assistant, result = body([spec.UserMessage("hi"), turn, RESULT], PLANS)["messages"]
        assert assistant == {
            "role": "assistant",
            "tool_plan": "I plan.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "echo", "arguments": '{"a":1}'}}
            ],
        }
        assert result == {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [{"type": "document", "document": {"data": {"content": "42"}}}],
        }

    def test_text_beside_calls_is_a_plan_or_a_thought(self) -> None:
        """The vendor refuses text content beside calls (vercel/ai issue 5794)."""
        turn = spec.AssistantMessage("Let me see.", (CALL,))
        planned = body([turn], PLANS)["messages"][0]
        assert planned["tool_plan"] == "Let me see."
        assert "content" not in planned
        thought = body([turn], THINKS)["messages"][0]
        assert thought["content"] == [{"type": "thinking", "thinking": "Let me see."}]
        assert "tool_plan" not in thought
        assert set(body([turn], THINKS, thinking="none")["messages"][0]) == {"role", "tool_calls"}

    def test_thinking_goes_back_unless_it_is_off(self) -> None:
        content = [{"type": "thinking", "thinking": "T"}, {"type": "text", "text": "A"}]
        turn = spec.AssistantMessage("A", (), {"content": content}, "cohere_chat")
        assert body([turn], THINKS)["messages"][0]["content"] == content
        assert body([turn], THINKS, thinking="none")["messages"][0]["content"] == "A"
        elsewhere = spec.AssistantMessage("A", (), {"content": content}, "openai_chat")
        assert body([elsewhere], THINKS)["messages"][0]["content"] == "A"

    def test_results_are_documents(self) -> None:
        def data(content: str, *, is_error: bool = False) -> t.Any:
            result = spec.ToolResult("c1", "echo", content, is_error)
            return body([result], PLANS)["messages"][0]["content"][0]["document"]["data"]

        assert data('{"title": "T", "url": "https://a"}') == {"title": "T", "url": "https://a"}
        assert data("[1]") == {"content": "[1]"}
        assert data("{}") == {"content": "{}"}
        assert data("no such tool", is_error=True) == {"error": "no such tool"}

    def test_choices(self) -> None:
        def chosen(choice: str, dialect: Json) -> tuple[list[str], t.Any]:
            built = body([spec.UserMessage("x")], dialect, tools=tools("a", "b"), tool_choice=choice)
            names = [tool["function"]["name"] for tool in built.get("tools", [])]
            return names, built.get("tool_choice")

        assert chosen("auto", PLANS) == (["a", "b"], None)
        assert chosen("required", PLANS) == (["a", "b"], "REQUIRED")
        assert chosen("b", PLANS) == (["b"], "REQUIRED")
        assert chosen("none", PLANS) == (["a", "b"], "NONE")
        assert chosen("auto", THINKS) == (["a", "b"], None)
        assert chosen("none", THINKS) == ([], None)

    def test_a_response_format_only_without_tools(self) -> None:
        schema = {"type": "object"}
        alone = body([spec.UserMessage("x")], PLANS, response_format=schema)
        assert alone["response_format"] == {"type": "json_object", "json_schema": schema}
        beside = body([spec.UserMessage("x")], PLANS, response_format=schema, tools=tools("a"))
        assert "response_format" not in beside
        assert json.dumps(schema, separators=(",", ":")) in beside["messages"][0]["content"]
        last = body(
            [spec.UserMessage("x")], THINKS, response_format=schema, tools=tools("a"), tool_choice="none"
        )
        assert last["response_format"]["json_schema"] == schema

    @pytest.mark.parametrize(
        ("level", "asked"),
        [
            (None, None),
            ("none", {"type": "disabled"}),
            ("auto", {"type": "enabled"}),
            ("low", {"type": "enabled", "token_budget": 2048}),
            ("max", {"type": "enabled", "token_budget": 31000}),
            (500, {"type": "enabled", "token_budget": 500}),
        ],
    )
    def test_thinking(self, level: t.Any, asked: t.Any) -> None:
        built = body([spec.UserMessage("x")], THINKS, thinking=level, show_thinking=True)
        assert built.get("thinking") == asked
        assert "thinking" not in body([spec.UserMessage("x")], PLANS, thinking=level)

    def test_files(self) -> None:
        files = (
            spec.FilePart("image", "image/png", b"\x89PNG", "a.png"),
            spec.FilePart("text", "text/plain", b"T\xc3\xbcr", "b.txt"),
        )
        content = body([spec.UserMessage("look", files)], THINKS)["messages"][0]["content"]
        assert content == [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            {"type": "text", "text": "b.txt:\nTür"},
            {"type": "text", "text": "look"},
        ]

    def test_arguments_that_were_none_go_back_as_an_object(self) -> None:
        turn = spec.AssistantMessage("", (spec.ToolCall("c1", "echo", None, "{oops"),))
        built = body([turn], PLANS)["messages"][0]["tool_calls"][0]["function"]
        assert json.loads(built["arguments"]) == {}

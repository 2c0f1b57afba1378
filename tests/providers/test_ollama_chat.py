"""Ollama's own wire: recorded bodies, what servers do beside them, and what goes out."""

from __future__ import annotations

import json
import typing as t

import pytest

from providers import spec
from providers.auth import NoAuth
from providers.ollama_chat import WIRE
from providers.ollama_chat_request import build_body, build_request
from tests.providers.driving import Seen, decode, request, split, tools
from tests.support.shared import find_shared, recordings, shared_path

Json = dict[str, t.Any]
#: Bodies up to this size are also fed byte by byte.
SMALL = 30_000


def line(message: t.Any = None, **more: t.Any) -> bytes:
    """One line around a ``message``."""
    value = {"model": "m", "message": {"role": "assistant", **(message or {"content": ""})}, "done": False}
    return json.dumps({**value, **more}).encode() + b"\n"


def last(reason: str | None = "stop", **more: t.Any) -> bytes:
    """The last line."""
    return line(done=True, **({} if reason is None else {"done_reason": reason}), **more)


def answer(*lines: bytes, **asked: t.Any) -> Seen:
    """A body of these lines."""
    return decode(WIRE, [b"".join(lines)], request(**asked))


def call(name: str = "echo", arguments: t.Any = None, **more: t.Any) -> bytes:
    """A line with one call."""
    return line({"content": "", "tool_calls": [{"function": {"name": name, "arguments": arguments}, **more}]})


def _names() -> list[str]:
    if find_shared() is None:
        shared_path("recordings")  # skips the module loudly; fails on CI
    return [name for name, case in recordings().items() if case["wire"] == "ollama"]


class TestRecorded:
    @pytest.mark.parametrize("size", [0, 1, 7, 333])
    @pytest.mark.parametrize("name", _names())
    def test_streams(self, name: str, size: int) -> None:
        case = recordings()[name]
        body = shared_path("recordings", case["file"]).read_bytes()
        expected = case["expected"]
        seen = decode(WIRE, split(body, 2048 if size == 1 and len(body) > SMALL else size))
        assert seen.error is None
        assert (seen.text, seen.thinking, seen.order) == (
            expected["text"], expected["thinking"], expected["order"],
        )  # fmt: skip
        calls = [(made["id"], made["name"], made["input"]) for made in expected["tool_calls"]]
        assert [(made.id, made.name, made.arguments) for made in seen.ready] == calls
        assert seen.reason == ("tool_calls" if calls else "stop")
        assert seen.finished is not None
        given, made_ = expected["usage"]["prompt_eval_count"], expected["usage"]["eval_count"]
        assert seen.finished.usage == spec.Usage(given, made_, given + made_)
        assert seen.finished.model == expected["models"][0]

    def test_every_recording_is_played(self) -> None:
        assert len(_names()) == 4


class TestStreams:
    def test_calls_without_ids_and_with_none_of_their_own(self) -> None:
        seen = answer(call("a", {"n": 1}), call("b", {"n": 2}), last())
        assert seen.started == [("minted_1", "a"), ("minted_2", "b")]
        assert seen.calls == [("a", {"n": 1}), ("b", {"n": 2})]
        assert seen.reason == "tool_calls"

    def test_arguments_of_every_kind(self) -> None:
        seen = answer(
            call(arguments={}), call(arguments=None), call(arguments='{"a":1}'), call(arguments=[1]), last()
        )
        assert [(made.arguments, made.error) for made in seen.ready] == [
            ({}, None),
            ({}, None),
            ({"a": 1}, None),
            (None, "not_an_object"),
        ]

    def test_an_id_inside_the_function_and_one_that_was_used(self) -> None:
        inside = line({"tool_calls": [{"function": {"id": "f1", "name": "echo", "arguments": {}}}]})
        assert answer(inside, last()).started == [("f1", "echo")]
        used = answer(call(id="old", arguments={}), last(), used_ids=frozenset({"old"}))
        assert used.started == [("minted_1", "echo")]

    def test_a_call_without_a_name(self) -> None:
        seen = answer(line({"content": "x", "tool_calls": [{"function": {"arguments": {}}}]}), last())
        assert (seen.text, seen.code, seen.started) == ("x", "provider_bad_stream", [])

    def test_half_a_character_in_arguments(self) -> None:
        body = b'{"message":{"tool_calls":[{"function":{"name":"echo","arguments":{"t":"\\ud83d"}}}]}}\n'
        assert answer(body, last()).calls == [("echo", {"t": "\ufffd"})]

    def test_thinking_comes_before_text_and_goes_back(self) -> None:
        seen = answer(line({"content": "", "thinking": "Hm"}), line({"content": "Yes"}), last())
        assert (seen.thinking, seen.text, seen.order) == ("Hm", "Yes", ["thinking", "text"])
        assert seen.finished is not None
        assert seen.finished.replay == {"thinking": "Hm"}

    def test_tags_in_the_text_of_older_servers(self) -> None:
        body = line({"content": "<think>Hm</think>"}), line({"content": "Yes"}), last()
        assert answer(*body).text == "<think>Hm</think>Yes"
        split_off = answer(*body, dialect={"inline_thinking": True})
        assert (split_off.thinking, split_off.text) == ("Hm", "Yes")

    @pytest.mark.parametrize(
        ("reason", "normal"), [("stop", "stop"), (None, "stop"), ("length", "length"), ("odd", "other")]
    )
    def test_reasons(self, reason: str | None, normal: str) -> None:
        assert answer(line({"content": "x"}), last(reason)).reason == normal

    def test_counts_that_are_not_there(self) -> None:
        none = answer(line({"content": "x"}), last()).finished
        assert none is not None
        assert none.usage is None
        cached = answer(line({"content": "x"}), last(eval_count=3)).finished
        assert cached is not None
        assert cached.usage == spec.Usage(None, 3)

    @pytest.mark.parametrize("reason", ["load", "unload"])
    def test_loading_a_model_is_no_answer(self, reason: str) -> None:
        assert answer(last(reason)).code == "provider_bad_stream"

    def test_an_error_after_text(self) -> None:
        seen = answer(
            line({"content": "x"}), b'{"error":"an error was encountered while running the model"}\n'
        )
        assert (seen.text, seen.code) == ("x", "provider_unavailable")
        assert seen.error is not None
        assert seen.error.detail == "an error was encountered while running the model"

    def test_ends(self) -> None:
        assert answer(line({"content": "x"})).reason == "stop"
        assert answer(line({"content": "x"}), b'{"model":"m","mess').code == "provider_bad_stream"
        assert answer(b"").code == "provider_bad_stream"
        assert answer(b"<html>busy</html>").code == "provider_bad_stream"

    def test_error_documents(self) -> None:
        document = answer(b'{\n "error": {"type": "rate_limit_error", "message": "slow down"}\n}\n')
        assert document.code == "provider_rate_limited"
        missing = WIRE.error(404, {}, b'{"error":"model \'x\' not found"}')
        assert (missing.code, missing.detail) == ("provider_bad_request", "model 'x' not found")

    def test_nothing_after_the_last_line_counts(self) -> None:
        assert answer(line({"content": "x"}), last(), line({"content": "y"})).text == "x"


CALL = spec.ToolCall("c1", "echo", {"a": 1}, '{"a":1}')


class TestRequests:
    def test_the_whole_of_it(self) -> None:
        built = build_body(
            request(
                system="Be brief.",
                temperature=0.5,
                top_p=0.9,
                seed=7,
                max_tokens=50,
                stop=["END"],
                tools=tools("echo"),
            )
        )
        assert built == {
            "model": "m",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
            "stream": True,
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
            "options": {"temperature": 0.5, "top_p": 0.9, "seed": 7, "num_predict": 50, "stop": ["END"]},
        }

    def test_a_format_beside_tools_is_put_into_words(self) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        assert build_body(request(response_format=schema))["format"] == schema
        beside = build_body(request(response_format=schema, tools=tools("echo"), system="Be brief."))
        assert "format" not in beside
        assert beside["messages"][0]["content"].startswith("Be brief.\n\nGive the final answer as one JSON")
        last = build_body(request(response_format=schema, tools=tools("echo"), tool_choice="none"))
        assert (last["format"], last["messages"][0]["role"]) == (schema, "user")

    def test_nothing_is_said_that_nobody_asked_for(self) -> None:
        assert set(build_body(request(show_thinking=True))) == {"model", "messages", "stream"}

    @pytest.mark.parametrize("base", ["http://h:11434", "http://h:11434/v1", "http://h:11434/api"])
    def test_addresses(self, base: str) -> None:
        http = build_request(request(), spec.Connection(base, NoAuth(), options={"num_ctx": "8192"}))
        assert (http.method, http.url) == ("POST", "http://h:11434/api/chat")
        assert json.loads(http.body)["options"] == {"num_ctx": 8192}

    def test_a_turn_with_calls_goes_back(self) -> None:
        turn = spec.AssistantMessage("", (CALL,), {"thinking": "Hm"}, "ollama_chat")
        result = spec.ToolResult("c1", "echo", "42")
        built = build_body(request(messages=[spec.UserMessage("hi"), turn, result]))["messages"]
        assert built[1:] == [
            {
                "role": "assistant",
                "content": "",
                "thinking": "Hm",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"index": 0, "name": "echo", "arguments": {"a": 1}},
                    }
                ],
            },
            {"role": "tool", "content": "42", "tool_name": "echo", "tool_call_id": "c1"},
        ]

    def test_thinking_of_another_wire_stays_away(self) -> None:
        turn = spec.AssistantMessage("A", (), {"thinking": "Hm"}, "openai_chat")
        assert build_body(request(messages=[turn]))["messages"] == [{"role": "assistant", "content": "A"}]

    @pytest.mark.parametrize(
        ("level", "think"),
        [("none", False), ("low", "low"), ("high", "high"), ("max", "max"), (1000, True), ("auto", None)],
    )
    def test_thinking(self, level: t.Any, think: t.Any) -> None:
        assert build_body(request(thinking=level)).get("think") == think

    def test_no_tools_where_none_may_be_called(self) -> None:
        assert "tools" not in build_body(request(tools=tools("a"), tool_choice="none"))

    def test_files(self) -> None:
        files = (
            spec.FilePart("image", "image/png", b"\x89PNG", "a.png"),
            spec.FilePart("text", "text/plain", b"T\xc3\xbcr", "b.txt"),
        )
        built = build_body(request(messages=[spec.UserMessage("look", files)]))["messages"]
        assert built == [{"role": "user", "content": "b.txt:\nTür\n\nlook", "images": ["iVBORw=="]}]

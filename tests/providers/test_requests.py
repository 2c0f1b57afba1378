"""The bodies that the two wires send."""

from __future__ import annotations

import json
import typing as t

import pytest

from providers import spec
from providers.auth import HeaderAuth, NoAuth, QueryAuth
from tests.providers.driving import ANTHROPIC, OPENAI, request, tools

USER = spec.UserMessage("hi")


def body(wire: t.Any, **changes: t.Any) -> dict[str, t.Any]:
    """The JSON that the wire would send."""
    connection = spec.Connection("http://vendor/v1", NoAuth(), headers={"X-Extra": "1"})
    built = wire.build(request(**changes), connection)
    assert built.headers["X-Extra"] == "1"
    return t.cast(dict[str, t.Any], json.loads(built.body))


def turn(
    wire: str, replay: t.Any = None, text: str = "", *, raw: str = '{"a":1}', cut: bool = False
) -> list[t.Any]:
    """A turn that called ``w`` as ``c1``, and its result."""
    called = spec.ToolCall("c1", "w", None if cut else json.loads(raw), raw)
    return [
        spec.AssistantMessage(text, (called,), replay, wire),
        spec.ToolResult("c1", "w", "42", is_error=cut),
    ]


class TestChat:
    def test_addresses(self) -> None:
        built = OPENAI.build(request(), spec.Connection("http://v/v1", NoAuth()))
        assert (built.method, built.url) == ("POST", "http://v/v1/chat/completions")

    def test_plain(self) -> None:
        assert body(OPENAI, system="be brief") == {
            "model": "m",
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def test_settings(self) -> None:
        sent = body(OPENAI, temperature=0.0, top_p=0.5, max_tokens=7, stop=("x",), seed=3)
        assert [sent[key] for key in ("temperature", "top_p", "max_tokens", "stop", "seed")] == [
            0.0,
            0.5,
            7,
            ["x"],
            3,
        ]

    def test_switches(self) -> None:
        dialect = {
            "max_tokens_field": "max_completion_tokens",
            "include_usage": False,
            "body": {"reasoning_format": "parsed"},
        }
        sent = body(OPENAI, system="s", max_tokens=7, dialect=dialect)
        assert sent["max_completion_tokens"] == 7
        assert "stream_options" not in sent
        assert sent["reasoning_format"] == "parsed"

    @pytest.mark.parametrize(
        ("choice", "sent"),
        [
            ("auto", None),
            ("required", "required"),
            ("w", {"type": "function", "function": {"name": "w"}}),
        ],
    )
    def test_tool_choice(self, choice: str, sent: t.Any) -> None:
        made = body(OPENAI, tools=tools("w"), tool_choice=choice, parallel_tool_calls=False)
        assert made.get("tool_choice") == sent
        assert made["parallel_tool_calls"] is False
        assert made["tools"] == [
            {
                "type": "function",
                "function": {"name": "w", "description": "Does w.", "parameters": {"type": "object"}},
            }
        ]

    def test_synthesis_turn_has_no_tools(self) -> None:
        sent = body(OPENAI, tools=tools("w"), tool_choice="none", parallel_tool_calls=True)
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(sent)

    def test_history(self) -> None:
        sent = body(OPENAI, messages=[USER, *turn("openai_chat", text="I look.")])
        assert sent["messages"][1:] == [
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "w", "arguments": '{"a":1}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
        ]

    @pytest.mark.parametrize(("raw", "cut"), [('{"a"', True), ("", False)])
    def test_arguments_that_were_none_go_back_as_an_object(self, raw: str, cut: bool) -> None:
        called = spec.ToolCall("c1", "w", None if cut else {}, raw)
        sent = body(OPENAI, messages=[USER, spec.AssistantMessage("", (called,))])
        assert sent["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"
        assert sent["messages"][1]["content"] is None

    def test_thinking_goes_back_in_the_loop(self) -> None:
        details = [{"type": "reasoning.text", "text": "r"}]
        replay = {"thinking": {"reasoning_content": "r"}, "reasoning_details": details}
        sent = body(OPENAI, messages=[USER, *turn("openai_chat", replay)])
        assert sent["messages"][1]["reasoning_content"] == "r"
        assert sent["messages"][1]["reasoning_details"] == details

    def test_thinking_is_dropped_in_a_new_user_turn_unless_the_family_keeps_it(self) -> None:
        history = [
            USER,
            *turn("openai_chat", {"thinking": {"reasoning_content": "r"}}),
            spec.UserMessage("more"),
        ]
        assert "reasoning_content" not in body(OPENAI, messages=history)["messages"][1]
        kept = body(OPENAI, messages=history, dialect={"replay_thinking": "always"})
        assert kept["messages"][1]["reasoning_content"] == "r"
        loop = history[:-1]
        never = body(OPENAI, messages=loop, dialect={"replay_thinking": "never"})
        assert "reasoning_content" not in never["messages"][1]

    def test_a_turn_without_thinking_carries_an_empty_field_where_it_is_required(self) -> None:
        history = [USER, *turn("openai_chat")]
        sent = body(OPENAI, messages=history, dialect={"thinking_required": "reasoning_content"})
        assert sent["messages"][1]["reasoning_content"] == ""
        assert "reasoning_content" not in body(OPENAI, messages=history)["messages"][1]

    def test_replay_of_another_wire_is_not_looked_at(self) -> None:
        sent = body(OPENAI, messages=[USER, *turn("anthropic_messages", [{"type": "thinking"}], "t")])
        assert set(sent["messages"][1]) == {"role", "content", "tool_calls"}

    def test_extras_of_calls_and_content_parts(self) -> None:
        parts = [
            {"type": "thinking", "thinking": [{"type": "text", "text": "r"}]},
            {"type": "text", "text": "t"},
        ]
        replay = {"calls": {"c1": {"extra_content": {"g": 1}}}, "parts": parts}
        made = body(OPENAI, messages=[USER, *turn("openai_chat", replay, "t")])["messages"][1]
        assert made["tool_calls"][0]["extra_content"] == {"g": 1}
        assert made["content"] == parts

    @pytest.mark.parametrize(
        ("level", "dialect", "sent"),
        [
            ("high", {}, {"reasoning_effort": "high"}),
            ("max", {}, {"reasoning_effort": "xhigh"}),
            ("auto", {}, {}),
            (2000, {}, {"reasoning_effort": "low"}),
            (None, {}, {}),
            (None, {"thinking": "effort"}, {"reasoning_effort": "medium"}),
            (None, {"thinking": "effort", "thinks_by_default": True}, {}),
            ("low", {"thinking": "effort", "levels": {"low": "minimal"}}, {"reasoning_effort": "minimal"}),
            ("low", {"thinking": "reasoning"}, {"reasoning": {"effort": "low"}}),
            (500, {"thinking": "reasoning"}, {"reasoning": {"max_tokens": 500}}),
            ("none", {"thinking": "reasoning"}, {"reasoning": {"enabled": False}}),
            ("none", {"thinking": "type"}, {"thinking": {"type": "disabled"}}),
            ("low", {"thinking": "type"}, {"thinking": {"type": "enabled"}}),
            (500, {"thinking": "enable"}, {"enable_thinking": True, "thinking_budget": 500}),
            ("none", {"thinking": "template"}, {"chat_template_kwargs": {"enable_thinking": False}}),
            ("high", {"thinking": "never"}, {}),
        ],
    )
    def test_asking_for_thinking(
        self, level: t.Any, dialect: dict[str, t.Any], sent: dict[str, t.Any]
    ) -> None:
        made = body(OPENAI, thinking=level, show_thinking=True, dialect=dialect)
        keys = (
            "reasoning_effort",
            "reasoning",
            "thinking",
            "enable_thinking",
            "thinking_budget",
            "chat_template_kwargs",
        )
        assert {key: made[key] for key in keys if key in made} == sent

    def test_thinking_nobody_sees_is_not_asked_for(self) -> None:
        assert "reasoning_effort" not in body(OPENAI, dialect={"thinking": "effort"})

    def test_response_format(self) -> None:
        closed = {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "required": ["a"],
            "additionalProperties": False,
        }
        sent = body(OPENAI, response_format=closed)["response_format"]
        assert sent == {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": closed, "strict": True},
        }
        open_ = {"type": "object", "properties": {"a": {"type": "string"}}}
        assert "strict" not in body(OPENAI, response_format=open_)["response_format"]["json_schema"]

    def test_halves_of_characters_are_made_whole(self) -> None:
        assert body(OPENAI, messages=[spec.UserMessage("a\ud83d")])["messages"][0]["content"] == "a\ufffd"


class TestMessages:
    def test_plain(self) -> None:
        built = ANTHROPIC.build(request(system="s"), spec.Connection("http://v/v1", NoAuth()))
        assert built.url == "http://v/v1/messages"
        assert built.headers["anthropic-version"] == "2023-06-01"
        assert json.loads(built.body) == {
            "model": "m",
            "max_tokens": 4096,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
            "stream": True,
            "system": "s",
        }

    def test_replay_verbatim_and_results_in_one_message(self) -> None:
        replay = [
            {"type": "thinking", "thinking": "", "signature": "s"},
            {"type": "redacted_thinking", "data": "ENC"},
            {"type": "tool_use", "id": "c1", "name": "w", "input": {"a": 1}},
            {"type": "tool_use", "id": "c2", "name": "w", "input": {}},
        ]
        calls = (spec.ToolCall("c1", "w", {"a": 1}, ""), spec.ToolCall("c2", "w", {}, ""))
        history = [
            USER,
            spec.AssistantMessage("", calls, replay, "anthropic_messages"),
            spec.ToolResult("c1", "w", "42"),
            spec.ToolResult("c2", "w", "no", is_error=True),
        ]
        assert body(ANTHROPIC, messages=history)["messages"][1:] == [
            {"role": "assistant", "content": replay},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "42"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "no", "is_error": True},
                ],
            },
        ]

    def test_a_turn_of_another_wire_is_rebuilt(self) -> None:
        called = spec.ToolCall("functions.w:0", "w", {"a": 1}, "")
        history = [
            USER,
            spec.AssistantMessage("t", (called,), {"thinking": {"reasoning": "r"}}, "openai_chat"),
            spec.ToolResult("functions.w:0", "w", "42"),
        ]
        sent = body(ANTHROPIC, messages=history)["messages"]
        assert sent[1]["content"] == [
            {"type": "text", "text": "t"},
            {"type": "tool_use", "id": "functions_w_0", "name": "w", "input": {"a": 1}},
        ]
        assert sent[2]["content"][0]["tool_use_id"] == "functions_w_0"

    def test_an_empty_turn_is_left_out(self) -> None:
        sent = body(ANTHROPIC, messages=[USER, spec.AssistantMessage(""), spec.UserMessage("more")])[
            "messages"
        ]
        assert [part["text"] for part in sent[0]["content"]] == ["hi", "more"]

    @pytest.mark.parametrize(
        ("choice", "parallel", "sent"),
        [
            ("auto", None, None),
            ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
            ("required", None, {"type": "any"}),
            ("w", None, {"type": "tool", "name": "w"}),
            ("none", False, {"type": "none"}),
        ],
    )
    def test_tool_choice(self, choice: str, parallel: bool | None, sent: t.Any) -> None:
        made = body(ANTHROPIC, tools=tools("w"), tool_choice=choice, parallel_tool_calls=parallel)
        assert made.get("tool_choice") == sent
        assert made["tools"] == [{"name": "w", "description": "Does w.", "input_schema": {"type": "object"}}]

    @pytest.mark.parametrize(
        ("level", "shown", "dialect", "sent"),
        [
            (None, False, {}, {"max_tokens": 100}),
            (None, True, {}, {"max_tokens": 8292, "thinking": {"type": "enabled", "budget_tokens": 8192}}),
            ("low", False, {}, {"max_tokens": 2148, "thinking": {"type": "enabled", "budget_tokens": 2048}}),
            (10, False, {}, {"max_tokens": 1124, "thinking": {"type": "enabled", "budget_tokens": 1024}}),
            ("none", True, {}, {"max_tokens": 100}),
            ("high", True, {"thinking": "never"}, {"max_tokens": 100}),
            (
                None,
                True,
                {"thinking": "adaptive"},
                {
                    "max_tokens": 100,
                    "thinking": {"type": "adaptive", "display": "summarized"},
                    "output_config": {"effort": "medium"},
                },
            ),
            (
                None,
                True,
                {"thinking": "adaptive", "thinking_off": "never"},
                {"max_tokens": 100, "thinking": {"type": "adaptive", "display": "summarized"}},
            ),
            (
                "max",
                False,
                {"thinking": "adaptive", "thinking_off": "disabled"},
                {"max_tokens": 100, "thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
            ),
            (
                "none",
                True,
                {"thinking": "adaptive", "thinking_off": "between_tools"},
                {"max_tokens": 100, "thinking": {"type": "between_tools"}},
            ),
            ("none", True, {"thinking": "adaptive", "thinking_off": "never"}, {"max_tokens": 100}),
        ],
    )
    def test_thinking(
        self, level: t.Any, shown: bool, dialect: dict[str, t.Any], sent: dict[str, t.Any]
    ) -> None:
        made = body(ANTHROPIC, thinking=level, show_thinking=shown, max_tokens=100, dialect=dialect)
        assert {key: made[key] for key in ("max_tokens", "thinking", "output_config") if key in made} == sent

    def test_a_budget_inside_the_agents_limit_adds_nothing(self) -> None:
        assert body(ANTHROPIC, thinking=2000, max_tokens=5000)["max_tokens"] == 5000

    def test_sampling_is_not_sent_with_thinking_or_where_it_is_refused(self) -> None:
        assert body(ANTHROPIC, temperature=0.5)["temperature"] == 0.5
        assert "temperature" not in body(ANTHROPIC, temperature=0.5, thinking="low")
        assert "temperature" not in body(ANTHROPIC, temperature=0.5, dialect={"sampling": False})

    def test_response_format_and_stop(self) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
        sent = body(ANTHROPIC, response_format=schema, stop=("x",))
        assert sent["output_config"] == {"format": {"type": "json_schema", "schema": schema}}
        assert sent["stop_sequences"] == ["x"]


class TestAuth:
    def apply(self, auth: spec.Auth, key: str | None) -> spec.HttpRequest:
        made = spec.HttpRequest("POST", "http://v/x?a=1", {}, b"")
        auth.apply(made, {} if key is None else {"api_key": key})
        return made

    def test_header(self) -> None:
        assert self.apply(HeaderAuth("Authorization", "Bearer "), " k\n").headers == {
            "Authorization": "Bearer k"
        }
        assert self.apply(HeaderAuth("x-api-key"), None).headers == {}

    def test_query(self) -> None:
        assert self.apply(QueryAuth("key"), "a&b").url == "http://v/x?a=1&key=a%26b"

    def test_none(self) -> None:
        made = self.apply(NoAuth(), "k")
        assert (made.headers, made.url) == ({}, "http://v/x?a=1")

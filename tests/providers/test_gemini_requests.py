"""The bodies that the Gemini wire sends."""

from __future__ import annotations

import base64
import json
import typing as t

import pytest

from providers import spec
from providers.auth import NoAuth
from providers.gemini import WIRE
from providers.gemini_request import build_body
from tests.providers.driving import decode, request, sse, tools

USER = spec.UserMessage("hi")


def body(**changes: t.Any) -> dict[str, t.Any]:
    built = WIRE.build(request(**changes), spec.Connection("http://v/v1beta", NoAuth()))
    return t.cast(dict[str, t.Any], json.loads(built.body))


def turn(replay: t.Any = None, wire: str = "", *, raw: str = '{"a":1}', error: bool = False) -> list[t.Any]:
    """A turn that called ``w`` as ``c1``, and its result."""
    called = spec.ToolCall("c1", "w", json.loads(raw) if raw else None, raw)
    return [
        spec.AssistantMessage("I look.", (called,), replay, wire),
        spec.ToolResult("c1", "w", "42", is_error=error),
    ]


class TestAddress:
    def test_default(self) -> None:
        built = WIRE.build(
            request(model="g-1"), spec.Connection("http://v/v1beta", NoAuth(), headers={"X": "1"})
        )
        assert (built.method, built.url) == (
            "POST",
            "http://v/v1beta/models/g-1:streamGenerateContent?alt=sse",
        )
        assert built.headers["X"] == "1"

    def test_a_path_of_the_family(self) -> None:
        dialect = {"path": "/projects/{project}/models/{model}:stream", "query": {"a": "b c"}}
        to = spec.Connection("http://v/v1", NoAuth(), options={"project": "p"})
        built = WIRE.build(request(model="a/b@1 ?x", dialect=dialect), to)
        assert built.url == "http://v/v1/projects/p/models/a/b@1%20%3Fx:stream?a=b+c"

    def test_a_setting_that_is_missing(self) -> None:
        with pytest.raises(spec.ProviderError, match="project"):
            WIRE.build(request(dialect={"path": "/{project}"}), spec.Connection("http://v", NoAuth()))


class TestBody:
    def test_plain(self) -> None:
        assert body(system="s") == {
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "systemInstruction": {"parts": [{"text": "s"}]},
        }

    def test_settings(self) -> None:
        made = body(temperature=0.0, top_p=0.5, max_tokens=7, stop=("x",), seed=3)
        assert made["generationConfig"] == {
            "temperature": 0.0,
            "topP": 0.5,
            "maxOutputTokens": 7,
            "seed": 3,
            "stopSequences": ["x"],
        }
        assert "generationConfig" not in body(temperature=0.0, top_p=0.5, dialect={"sampling": False})

    def test_files_come_first(self) -> None:
        files = (
            spec.FilePart("image", "image/png", b"\x89P", "a.png"),
            spec.FilePart("pdf", "application/pdf", b"%PDF", "b.pdf"),
            spec.FilePart("text", "text/csv", b"1,2", "c.csv"),
        )
        (content,) = body(messages=[spec.UserMessage("what", files)])["contents"]
        assert content["parts"] == [
            {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(b"\x89P").decode()}},
            {"inlineData": {"mimeType": "application/pdf", "data": base64.b64encode(b"%PDF").decode()}},
            {"text": "c.csv:\n1,2"},
            {"text": "what"},
        ]
        (content,) = body(messages=[spec.UserMessage("", files[:1])])["contents"]
        assert len(content["parts"]) == 1

    @pytest.mark.parametrize(
        ("choice", "sent"),
        [
            ("auto", None),
            ("required", {"mode": "ANY"}),
            ("w", {"mode": "ANY", "allowedFunctionNames": ["w"]}),
        ],
    )
    def test_tools(self, choice: str, sent: t.Any) -> None:
        made = body(tools=tools("w"), tool_choice=choice)
        (declared,) = made["tools"][0]["functionDeclarations"]
        assert declared == {"name": "w", "description": "Does w.", "parametersJsonSchema": {"type": "object"}}
        assert made.get("toolConfig", {}).get("functionCallingConfig") == sent

    def test_synthesis_turn_has_no_tools(self) -> None:
        assert not {"tools", "toolConfig"} & set(body(tools=tools("w"), tool_choice="none"))

    def test_response_format(self) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        config = {"responseMimeType": "application/json", "responseJsonSchema": schema}
        assert body(response_format=schema)["generationConfig"] == config
        beside = body(response_format=schema, tools=tools("w"))
        assert beside["generationConfig"] == config
        refused = {"dialect": {"schema_with_tools": False}, "response_format": schema}
        assert body(**refused)["generationConfig"] == config
        words = body(**refused, tools=tools("w"), system="s")
        assert "generationConfig" not in words
        assert words["systemInstruction"]["parts"][0]["text"].startswith("s\n\n")
        assert '"properties"' in words["systemInstruction"]["parts"][0]["text"]

    def test_members_of_the_family(self) -> None:
        assert body(dialect={"body": {"labels": {"a": "b"}}})["labels"] == {"a": "b"}


class TestThinking:
    @pytest.mark.parametrize(
        ("level", "show", "dialect", "sent"),
        [
            (None, False, {}, None),
            (None, True, {}, {"includeThoughts": True}),
            ("low", True, {}, {"thinkingLevel": "low", "includeThoughts": True}),
            ("low", False, {}, {"thinkingLevel": "low"}),
            ("auto", True, {}, {"includeThoughts": True}),
            (1000, False, {}, {"thinkingLevel": "low"}),
            (8000, False, {}, {"thinkingLevel": "medium"}),
            (9000, False, {}, {"thinkingLevel": "high"}),
            ("max", False, {"levels": {"max": "high"}}, {"thinkingLevel": "high"}),
            ("low", True, {"thinking": "never"}, None),
        ],
    )
    def test_levels(self, level: t.Any, show: bool, dialect: dict[str, t.Any], sent: t.Any) -> None:
        made = body(thinking=level, show_thinking=show, dialect=dialect)
        assert made.get("generationConfig", {}).get("thinkingConfig") == sent

    @pytest.mark.parametrize(
        ("level", "show", "more", "sent"),
        [
            (None, True, {}, {"includeThoughts": True}),
            (None, True, {"thinks_by_default": False}, {"thinkingBudget": 8192, "includeThoughts": True}),
            (None, False, {"thinks_by_default": False}, None),
            ("none", True, {}, {"thinkingBudget": 0}),
            ("low", True, {}, {"thinkingBudget": 1024, "includeThoughts": True}),
            ("auto", True, {}, {"thinkingBudget": -1, "includeThoughts": True}),
            ("high", False, {"budget_range": (512, 20_000)}, {"thinkingBudget": 20_000}),
            (10, False, {"budget_range": (512, 20_000)}, {"thinkingBudget": 512}),
            (700, False, {"budget_range": (512, 20_000)}, {"thinkingBudget": 700}),
        ],
    )
    def test_budgets(self, level: t.Any, show: bool, more: dict[str, t.Any], sent: t.Any) -> None:
        made = body(thinking=level, show_thinking=show, dialect={"thinking": "budget", **more})
        assert made.get("generationConfig", {}).get("thinkingConfig") == sent


class TestHistory:
    def test_parts_go_back_as_they_came(self) -> None:
        parts = [
            {"text": "t", "thought": True},
            {"functionCall": {"name": "w", "args": {"a": 1}, "id": "c1"}, "thoughtSignature": "g1"},
            {"text": "", "thoughtSignature": "g2"},
        ]
        made = body(messages=[USER, *turn(parts, "gemini")], dialect={"signed_calls": True})["contents"]
        assert made[1] == {"role": "model", "parts": parts}
        answer = {"name": "w", "response": {"output": "42"}, "id": "c1"}
        assert made[2] == {"role": "user", "parts": [{"functionResponse": answer}]}

    def test_without_the_vendors_id_no_id_goes_back(self) -> None:
        parts = [{"functionCall": {"name": "w", "args": {"a": 1}}}]
        made = body(messages=[USER, *turn(parts, "gemini", error=True)])["contents"]
        assert made[1]["parts"] == parts
        assert made[2]["parts"] == [{"functionResponse": {"name": "w", "response": {"error": "42"}}}]

    def test_a_turn_of_another_wire_is_rebuilt(self) -> None:
        made = body(messages=[USER, *turn([{"type": "x"}], "anthropic_messages")])["contents"]
        assert made[1]["parts"] == [{"text": "I look."}, {"functionCall": {"name": "w", "args": {"a": 1}}}]
        assert "id" not in made[2]["parts"][0]["functionResponse"]

    def test_an_unsigned_call_carries_the_documented_placeholder(self) -> None:
        called = [spec.ToolCall(f"c{n}", "w", {}, "{}") for n in (1, 2)]
        messages = [USER, spec.AssistantMessage("", tuple(called))]
        parts = body(messages=messages, dialect={"signed_calls": True})["contents"][1]["parts"]
        assert [part.get("thoughtSignature") for part in parts] == ["skip_thought_signature_validator", None]
        plain = body(messages=messages)["contents"][1]["parts"]
        assert [part.get("thoughtSignature") for part in plain] == [None, None]

    def test_a_signature_of_the_vendor_is_never_replaced(self) -> None:
        parts = [
            {"functionCall": {"name": "w", "args": {}}, "thoughtSignature": "g1"},
            {"functionCall": {"name": "w", "args": {}}},
        ]
        message = spec.AssistantMessage("", (), parts, "gemini")
        assert body(messages=[USER, message], dialect={"signed_calls": True})["contents"][1]["parts"] == parts

    def test_results_are_one_message_and_what_is_said_next_another(self) -> None:
        called = [spec.ToolCall(f"c{n}", f"w{n}", {}, "{}") for n in (1, 2)]
        messages = [
            USER,
            spec.AssistantMessage("", tuple(called)),
            spec.ToolResult("c1", "w1", "a"),
            spec.ToolResult("c2", "w2", "b"),
            spec.UserMessage("and?"),
        ]
        made = body(messages=messages)["contents"]
        assert [content["role"] for content in made] == ["user", "model", "user", "user"]
        assert [part["functionResponse"]["name"] for part in made[2]["parts"]] == ["w1", "w2"]

    def test_an_empty_turn_is_left_out(self) -> None:
        made = body(messages=[USER, spec.AssistantMessage(" "), spec.UserMessage("more")])["contents"]
        assert [content["role"] for content in made] == ["user", "user"]

    def test_arguments_that_were_none(self) -> None:
        made = body(messages=[USER, *turn(raw="")])["contents"]
        assert made[1]["parts"][1] == {"functionCall": {"name": "w", "args": {}}}


def test_a_tool_whose_name_begins_with_a_digit() -> None:
    """The vendor refuses it; it is declared under another, and called by its own."""
    asked = request(tools=tools("3d_print", "plain"), tool_choice="3d_print")
    sent = build_body(asked)
    declared = [each["name"] for each in sent["tools"][0]["functionDeclarations"]]
    assert declared == ["_3d_print", "plain"]
    assert sent["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"] == ["_3d_print"]
    part = {"functionCall": {"name": "_3d_print", "args": {}}, "thoughtSignature": "s"}
    seen = decode(
        WIRE, [sse({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]})], asked
    )
    assert [name for _, name in seen.started] == ["3d_print"]
    assert seen.finished is not None
    call = spec.ToolCall("minted_1", "3d_print", {}, "{}")
    turn = spec.AssistantMessage("", (call,), seen.finished.replay, "gemini")
    result = spec.ToolResult("minted_1", "3d_print", "done")
    again = build_body(request(messages=[spec.UserMessage("hi"), turn, result]))["contents"]
    assert again[1]["parts"] == [part]
    assert again[2]["parts"][0]["functionResponse"]["name"] == "_3d_print"

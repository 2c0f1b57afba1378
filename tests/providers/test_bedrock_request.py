"""The bodies that the ConverseStream wire sends, and what of an earlier turn goes back."""

from __future__ import annotations

import base64
import json
import typing as t

import pytest

from providers import spec
from providers.auth import NoAuth
from providers.bedrock_converse import WIRE
from tests.providers.aws_frames import event
from tests.providers.driving import decode, request, tools
from tests.support.shared import find_shared, recordings, shared_path

USER = spec.UserMessage("hi")
CLAUDE = {"send_back": "all", "result_status": True, "thinking": "budget"}


def body(**changes: t.Any) -> dict[str, t.Any]:
    """The JSON that the wire would send."""
    built = WIRE.build(request(**changes), spec.Connection("https://v", NoAuth()))
    return t.cast(dict[str, t.Any], json.loads(built.body))


def sent(*messages: spec.Message, **changes: t.Any) -> list[dict[str, t.Any]]:
    """The messages of the body."""
    return t.cast(list[dict[str, t.Any]], body(messages=messages, **changes)["messages"])


def turn(
    *calls: spec.ToolCall, text: str = "", replay: t.Any = None, wire: str = ""
) -> spec.AssistantMessage:
    """An earlier turn."""
    return spec.AssistantMessage(text, calls, replay, wire)


def call(call_id: str = "c1", **arguments: t.Any) -> spec.ToolCall:
    """A call of ``w``."""
    return spec.ToolCall(call_id, "w", arguments, json.dumps(arguments))


def result(call_id: str = "c1", content: str = "42", **more: t.Any) -> spec.ToolResult:
    """What a call of ``w`` gave."""
    return spec.ToolResult(call_id, "w", content, **more)


class TestBody:
    @pytest.mark.parametrize(
        ("model", "path"),
        [
            ("us.amazon.nova-pro-v1:0", "us.amazon.nova-pro-v1%3A0"),
            (
                "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.meta.llama3",
                "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.meta.llama3",
            ),
        ],
    )
    def test_address(self, model: str, path: str) -> None:
        connection = spec.Connection("https://v", NoAuth(), headers={"X-Extra": "1"})
        built = WIRE.build(request(model=model), connection)
        assert (built.method, built.url) == ("POST", f"https://v/model/{path}/converse-stream")
        assert built.headers["X-Extra"] == "1"

    def test_plain(self) -> None:
        assert body() == {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}

    def test_settings(self) -> None:
        made = body(system="be brief", temperature=0.0, top_p=0.5, max_tokens=7, stop=("x",), seed=3)
        assert made["system"] == [{"text": "be brief"}]
        assert made["inferenceConfig"] == {
            "maxTokens": 7,
            "temperature": 0.0,
            "topP": 0.5,
            "stopSequences": ["x"],
        }

    def test_what_a_model_refuses_is_not_sent(self) -> None:
        dialect = {"sampling": False, "stop": False}
        made = body(temperature=0.0, top_p=0.5, max_tokens=7, stop=("x",), dialect=dialect)
        assert made["inferenceConfig"] == {"maxTokens": 7}

    def test_a_schema_goes_as_text(self) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        text_format = body(response_format=schema)["outputConfig"]["textFormat"]
        assert text_format["type"] == "json_schema"
        sent = json.loads(text_format["structure"]["jsonSchema"]["schema"])
        assert sent == {**schema, "additionalProperties": False}

    def test_members_of_the_family(self) -> None:
        made = body(dialect={"body": {"serviceTier": {"type": "flex"}}})
        assert made["serviceTier"] == {"type": "flex"}


class TestThinking:
    def test_never_asked_for_unless_the_family_says_how(self) -> None:
        assert "additionalModelRequestFields" not in body(thinking="high", show_thinking=True)

    def test_a_budget(self) -> None:
        made = body(thinking="low", temperature=0.5, dialect=CLAUDE)
        assert made["additionalModelRequestFields"] == {
            "thinking": {"type": "enabled", "budget_tokens": 2048}
        }
        assert made["inferenceConfig"] == {"maxTokens": 2048 + 4096}
        assert made["additionalModelResponseFieldPaths"] == ["/usage/output_tokens_details"]

    @pytest.mark.parametrize(("most", "limit"), [(3000, 3000), (2048, 4096), (None, 6144)])
    def test_the_limit_leaves_room_for_an_answer(self, most: int | None, limit: int) -> None:
        assert body(thinking=2048, max_tokens=most, dialect=CLAUDE)["inferenceConfig"]["maxTokens"] == limit

    def test_asked_for_when_someone_may_see_it(self) -> None:
        assert "additionalModelRequestFields" not in body(dialect=CLAUDE)
        made = body(show_thinking=True, dialect=CLAUDE)["additionalModelRequestFields"]
        assert made["thinking"]["budget_tokens"] == 8192

    @pytest.mark.parametrize(
        ("level", "shown", "fields"),
        [
            ("high", False, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
            (
                None,
                True,
                {
                    "thinking": {"type": "adaptive", "display": "summarized"},
                    "output_config": {"effort": "medium"},
                },
            ),
            ("auto", False, {"thinking": {"type": "adaptive"}}),
            ("minimal", False, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
            ("none", True, None),
        ],
    )
    def test_adaptive(self, level: str | None, shown: bool, fields: t.Any) -> None:
        made = body(thinking=level, show_thinking=shown, dialect={"thinking": "adaptive"})
        assert made.get("additionalModelRequestFields") == fields

    @pytest.mark.parametrize(
        ("off", "level", "fields"),
        [
            ("disabled", "none", {"thinking": {"type": "disabled"}}),
            ("never", "none", None),
            ("disabled", None, {"thinking": {"type": "adaptive", "display": "summarized"}}),
        ],
    )
    def test_models_that_think_by_default(self, off: str, level: str | None, fields: t.Any) -> None:
        dialect = {"thinking": "adaptive", "thinking_off": off}
        made = body(thinking=level, show_thinking=True, temperature=0.5, dialect=dialect)
        assert made.get("additionalModelRequestFields") == fields
        assert "inferenceConfig" not in made  # sampling is excluded either way

    def test_effort(self) -> None:
        dialect = {"thinking": "effort"}
        made = body(thinking="high", temperature=0.5, dialect=dialect)
        assert made["additionalModelRequestFields"] == {"reasoning_effort": "high"}
        assert made["inferenceConfig"] == {"temperature": 0.5}
        assert "additionalModelRequestFields" not in body(show_thinking=True, dialect=dialect)
        assert "additionalModelRequestFields" not in body(thinking="none", dialect=dialect)

    def test_nova(self) -> None:
        dialect = {"thinking": "nova"}
        made = body(thinking="low", temperature=0.5, max_tokens=9, dialect=dialect)
        config = {"type": "enabled", "maxReasoningEffort": "low"}
        assert made["additionalModelRequestFields"] == {"reasoningConfig": config}
        assert made["inferenceConfig"] == {"maxTokens": 9, "temperature": 0.5}
        # At the highest effort the vendor refuses limits and sampling.
        made = body(thinking="high", temperature=0.5, max_tokens=9, stop=("x",), dialect=dialect)
        assert made["inferenceConfig"] == {"stopSequences": ["x"]}


class TestTools:
    def test_tools(self) -> None:
        assert body(tools=tools("w"))["toolConfig"] == {
            "tools": [
                {
                    "toolSpec": {
                        "name": "w",
                        "description": "Does w.",
                        "inputSchema": {"json": {"type": "object"}},
                    }
                }
            ]
        }

    @pytest.mark.parametrize(
        ("choice", "wanted"), [("required", {"any": {}}), ("w", {"tool": {"name": "w"}}), ("auto", None)]
    )
    def test_choice(self, choice: str, wanted: t.Any) -> None:
        assert body(tools=tools("w"), tool_choice=choice)["toolConfig"].get("toolChoice") == wanted

    def test_none_keeps_the_tools_only_where_the_conversation_names_them(self) -> None:
        assert "toolConfig" not in body(tools=tools("w"), tool_choice="none")
        made = body(tools=tools("w"), tool_choice="none", messages=[USER, turn(call()), result()])
        assert [tool["toolSpec"]["name"] for tool in made["toolConfig"]["tools"]] == ["w"]
        assert "toolChoice" not in made["toolConfig"]

    def test_a_conversation_whose_tools_are_gone_still_names_them(self) -> None:
        made = body(messages=[USER, turn(call()), result()], tool_choice="required")
        [tool] = made["toolConfig"]["tools"]
        assert tool["toolSpec"]["name"] == "w"
        assert "toolChoice" not in made["toolConfig"]

    def test_one_call_at_a_time(self) -> None:
        asked: dict[str, t.Any] = {"tools": tools("w"), "parallel_tool_calls": False}
        assert "additionalModelRequestFields" not in body(**asked)
        asked["dialect"] = {"serial_switch": True}
        fields = body(**asked)["additionalModelRequestFields"]
        assert fields == {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
        fields = body(**asked, tool_choice="w")["additionalModelRequestFields"]
        assert fields == {"tool_choice": {"disable_parallel_tool_use": True}}


class TestCache:
    ALL = ("tools", "system", "messages", "results")
    POINT: t.ClassVar[dict[str, t.Any]] = {"cachePoint": {"type": "default"}}

    def test_marks(self) -> None:
        made = body(cache=True, system="s", tools=tools("w"), dialect={"cache_points": self.ALL})
        assert made["system"][-1] == made["toolConfig"]["tools"][-1] == self.POINT
        assert made["messages"][-1]["content"] == [{"text": "hi"}, self.POINT]

    def test_only_where_the_model_takes_them(self) -> None:
        made = body(cache=True, system="s", tools=tools("w"))
        assert "cachePoint" not in json.dumps(made)
        assert "cachePoint" not in json.dumps(body(system="s", dialect={"cache_points": self.ALL}))
        after_results = [USER, turn(call()), result()]
        nova = {"cache_points": ("system", "messages")}
        assert self.POINT not in sent(*after_results, cache=True, dialect=nova)[-1]["content"]
        claude = {"cache_points": self.ALL}
        assert self.POINT in sent(*after_results, cache=True, dialect=claude)[-1]["content"]


class TestMessages:
    def test_results_of_a_turn_are_one_message(self) -> None:
        made = sent(USER, turn(call("a"), call("b", x=1)), result("a"), result("b", is_error=True))
        assert [message["role"] for message in made] == ["user", "assistant", "user"]
        assert made[1]["content"] == [
            {"toolUse": {"toolUseId": "a", "name": "w", "input": {}}},
            {"toolUse": {"toolUseId": "b", "name": "w", "input": {"x": 1}}},
        ]
        assert made[2]["content"] == [
            {"toolResult": {"toolUseId": "a", "content": [{"text": "42"}]}},
            {"toolResult": {"toolUseId": "b", "content": [{"text": "42"}]}},
        ]

    def test_status(self) -> None:
        made = sent(USER, turn(call("a")), result("a"), result("b", is_error=True), dialect=CLAUDE)
        assert [each["toolResult"]["status"] for each in made[2]["content"]] == ["success", "error"]

    def test_roles_take_turns(self) -> None:
        made = sent(USER, turn(), spec.UserMessage("again"), turn(text="yes"))
        assert [message["role"] for message in made] == ["user", "assistant"]
        assert made[0]["content"] == [{"text": "hi"}, {"text": "again"}]

    def test_a_tool_that_said_nothing(self) -> None:
        made = sent(USER, turn(call()), result(content=" \n"))
        assert made[2]["content"][0]["toolResult"]["content"] == [{"text": "(no output)"}]

    def test_ids_of_other_vendors(self) -> None:
        odd, long = "call/1|x", "x" * 65
        made = sent(USER, turn(call(odd), call(long)), result(odd), result(long))
        ids = [block["toolUse"]["toolUseId"] for block in made[1]["content"]]
        assert ids == [block["toolResult"]["toolUseId"] for block in made[2]["content"]]
        assert ids[0] == "call_1_x"
        assert len(ids[1]) == 64

    def test_files(self) -> None:
        files = (
            spec.FilePart("image", "image/png", b"\x89P", "a.png"),
            spec.FilePart("pdf", "application/pdf", b"%P", "The report_1.pdf"),
            spec.FilePart("pdf", "application/pdf", b"%Q", "The report 1.pdf"),
            spec.FilePart("text", "text/plain", "grün".encode(), "note.txt"),
        )
        [message] = sent(spec.UserMessage("what?", files))
        image, report, other, note, text = message["content"]
        assert image["image"] == {
            "format": "png",
            "source": {"bytes": base64.b64encode(b"\x89P").decode()},
        }
        assert report["document"]["format"] == "pdf"
        assert (report["document"]["name"], other["document"]["name"]) == ("The report 1", "The report 1 2")
        assert note == {"text": "note.txt:\ngrün"}
        assert text == {"text": "what?"}

    def test_a_document_has_a_text_beside_it(self) -> None:
        report = spec.FilePart("pdf", "application/pdf", b"%P", "报告.pdf")
        [message] = sent(spec.UserMessage("", (report,)))
        assert message["content"][0]["document"]["name"] == "document"
        assert message["content"][1] == {"text": "报告.pdf"}

    def test_a_picture_stands_alone(self) -> None:
        picture = spec.FilePart("image", "image/jpg", b"x")
        [message] = sent(spec.UserMessage("", (picture,)))
        assert [list(block) for block in message["content"]] == [["image"]]
        assert message["content"][0]["image"]["format"] == "jpeg"


class TestReplay:
    THOUGHT: t.ClassVar[dict[str, t.Any]] = {
        "reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}
    }
    REDACTED: t.ClassVar[dict[str, t.Any]] = {"reasoningContent": {"redactedContent": "QUJD"}}
    USE: t.ClassVar[dict[str, t.Any]] = {"toolUse": {"toolUseId": "c1", "name": "w", "input": {}}}

    def made(self, send_back: str | None) -> list[t.Any]:
        """How a turn goes back."""
        replay = [self.THOUGHT, self.REDACTED, {"text": "x"}, self.USE]
        message = turn(call(), text="x", replay=replay, wire=WIRE.name)
        dialect = {"send_back": send_back} if send_back else {}
        return t.cast(list[t.Any], sent(USER, message, result(), dialect=dialect)[1]["content"])

    def test_as_it_came(self) -> None:
        assert self.made("all") == [self.THOUGHT, self.REDACTED, {"text": "x"}, self.USE]

    def test_models_that_take_no_signature(self) -> None:
        unsigned = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
        assert self.made(None) == [unsigned, {"text": "x"}, self.USE]

    def test_models_that_take_no_thinking(self) -> None:
        assert self.made("none") == [{"text": "x"}, self.USE]

    def test_another_wires_turn_is_rebuilt(self) -> None:
        message = turn(call(a=1), text="x", replay=[{"type": "text"}], wire="anthropic_messages")
        assert sent(USER, message)[1]["content"] == [
            {"text": "x"},
            {"toolUse": {"toolUseId": "c1", "name": "w", "input": {"a": 1}}},
        ]

    def test_what_the_vendor_ran_itself_has_its_result_already(self) -> None:
        if find_shared() is None:
            shared_path("recordings")
        raw = shared_path(
            "recordings", recordings()["bedrock-converse/code-interpreter"]["file"]
        ).read_bytes()
        seen = decode(WIRE, [base64.b64decode(raw)])
        assert seen.finished is not None
        calls = [spec.ToolCall(each.id, each.name, each.arguments, each.raw) for each in seen.ready]
        message = turn(*calls, replay=seen.finished.replay, wire=WIRE.name)
        results = [spec.ToolResult(each.id, each.name, "Unknown tool.", True) for each in calls]
        made = sent(USER, message, *results)
        assert made[1]["content"] == seen.finished.replay
        assert [block["toolResult"]["toolUseId"] for block in made[2]["content"]] == [calls[1].id]

    @pytest.mark.parametrize("size", [1, 4096])
    def test_a_turn_with_everything_goes_back_byte_for_byte(self, size: int) -> None:
        deltas: list[tuple[int, dict[str, t.Any]]] = [
            (0, {"reasoningContent": {"text": "let "}}),
            (0, {"reasoningContent": {"text": "me"}}),
            (0, {"reasoningContent": {"signature": "sig=="}}),
            (1, {"reasoningContent": {"redactedContent": "QUJD"}}),
            (2, {"text": "Ich "}),
            (2, {"text": "schaue."}),
            (3, {"toolUse": {"input": '{"ort":"Köln"}'}}),
        ]
        start = {"toolUse": {"toolUseId": "tooluse_1", "name": "w"}}
        frames = [event("messageStart", {"role": "assistant"})]
        for index, delta in deltas:
            if "toolUse" in delta:
                frames.append(event("contentBlockStart", {"contentBlockIndex": index, "start": start}))
            frames.append(event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta}))
        frames.append(event("messageStop", {"stopReason": "tool_use"}))
        whole = b"".join(frames)
        seen = decode(WIRE, [whole[at : at + size] for at in range(0, len(whole), size)])
        assert seen.finished is not None
        calls = [spec.ToolCall(each.id, each.name, each.arguments, each.raw) for each in seen.ready]
        message = turn(*calls, text=seen.text, replay=seen.finished.replay, wire=WIRE.name)
        assert sent(USER, message, result("tooluse_1"), dialect=CLAUDE)[1] == {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "let me", "signature": "sig=="}}},
                {"reasoningContent": {"redactedContent": "QUJD"}},
                {"text": "Ich schaue."},
                {"toolUse": {"toolUseId": "tooluse_1", "name": "w", "input": {"ort": "Köln"}}},
            ],
        }

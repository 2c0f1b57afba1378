"""What other hosts of the Messages protocol and the prompt cache ask of a request."""

from __future__ import annotations

import base64
import json
import typing as t

from providers import spec
from providers.anthropic_messages import WIRE
from providers.auth import NoAuth
from tests.providers.driving import request, tools

USER = spec.UserMessage("hi")
MARK = {"type": "ephemeral"}


def body(**changes: t.Any) -> dict[str, t.Any]:
    built = WIRE.build(request(**changes), spec.Connection("http://v/v1", NoAuth()))
    return t.cast(dict[str, t.Any], json.loads(built.body))


class TestHosts:
    def test_the_model_in_the_path_and_the_version_in_the_body(self) -> None:
        dialect = {
            "path": "/projects/{project}/models/{model}:streamRawPredict",
            "model_in_body": False,
            "version_in_body": "vertex-2023-10-16",
        }
        to = spec.Connection("http://v/v1", NoAuth(), options={"project": "p"})
        built = WIRE.build(request(model="claude-x@1", dialect=dialect), to)
        assert built.url == "http://v/v1/projects/p/models/claude-x@1:streamRawPredict"
        assert "anthropic-version" not in built.headers
        made = json.loads(built.body)
        assert made["anthropic_version"] == "vertex-2023-10-16"
        assert "model" not in made
        assert made["stream"] is True

    def test_a_path_that_says_it_is_a_stream(self) -> None:
        assert "stream" not in body(dialect={"stream_in_body": False})


class TestFiles:
    def test_images_and_documents_come_first(self) -> None:
        files = (
            spec.FilePart("image", "image/png", b"\x89P", "a.png"),
            spec.FilePart("pdf", "application/pdf", b"%PDF", "b.pdf"),
            spec.FilePart("text", "text/csv", b"1,2"),
        )
        (message,) = body(messages=[spec.UserMessage("what", files)])["messages"]
        png, pdf = (base64.b64encode(data).decode() for data in (b"\x89P", b"%PDF"))
        assert message["content"] == [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": pdf},
                "title": "b.pdf",
            },
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "1,2"}},
            {"type": "text", "text": "what"},
        ]
        (message,) = body(messages=[spec.UserMessage("", files[:1])])["messages"]
        assert [block["type"] for block in message["content"]] == ["image"]


class TestCache:
    def test_no_marks_unless_asked(self) -> None:
        assert "cache_control" not in json.dumps(body(system="s", tools=tools("w")))

    def test_tools_system_and_the_conversation_up_to_here(self) -> None:
        called = spec.ToolCall("c1", "w", {}, "{}")
        thinking = [
            {"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "tool_use", "id": "c1", "name": "w", "input": {}},
        ]
        messages = [
            USER,
            spec.AssistantMessage("", (called,), thinking, WIRE.name),
            spec.ToolResult("c1", "w", "42"),
        ]
        made = body(system="s", tools=tools("v", "w"), messages=messages, cache=True)
        assert [tool.get("cache_control") for tool in made["tools"]] == [None, MARK]
        assert made["system"] == [{"type": "text", "text": "s", "cache_control": MARK}]
        assert made["messages"][0]["content"] == [{"type": "text", "text": "hi"}]
        assert made["messages"][1]["content"] == thinking
        assert made["messages"][2]["content"][-1]["cache_control"] == MARK
        assert json.dumps(made).count("cache_control") == 3
        again = body(system="s", messages=messages)
        assert "cache_control" not in json.dumps(again)

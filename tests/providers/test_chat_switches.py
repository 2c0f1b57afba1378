"""The switches of the chat-completions wire, one by one: what is sent, and what of an answer is read by them."""

from __future__ import annotations

import base64
import json
import typing as t

import pytest

from providers import spec
from providers.auth import HeaderAuth, NoAuth
from providers.openai_chat import WIRE as OPENAI
from tests.providers.driving import Seen, chat, chunk, request, tools

Json = dict[str, t.Any]


def built(connection: spec.Connection | None = None, **changes: t.Any) -> spec.HttpRequest:
    return OPENAI.build(request(**changes), connection or spec.Connection("http://v/v1", NoAuth()))


def body(**changes: t.Any) -> Json:
    return t.cast(Json, json.loads(built(**changes).body))


def turn(call_id: str, *, wire: str = "", replay: t.Any = None, names: str = "w") -> list[spec.Message]:
    calls = tuple(spec.ToolCall(f"{call_id}{name}", name, {}, "{}") for name in names)
    results = [spec.ToolResult(call.id, call.name, "42") for call in calls]
    return [spec.AssistantMessage("", calls, replay, wire), *results]


class TestAddress:
    def test_path_and_query_name_the_model_and_options(self) -> None:
        connection = spec.Connection("http://v", NoAuth(), options={"version": "2026-01-01", "region": "eu"})
        dialect = {
            "path": "/{region}/deployments/{model}/chat",
            "query": {"api-version": "{version}", "tier": "{tier}", "x": "1"},
        }
        made = built(connection, model="gpt 4", dialect=dialect)
        assert made.url == "http://v/eu/deployments/gpt%204/chat?api-version=2026-01-01&x=1"

    def test_another_name_is_sent(self) -> None:
        assert body(model="short", dialect={"model": "a/whole/name"})["model"] == "a/whole/name"

    def test_a_mark_of_the_keys_kind_is_left_out(self) -> None:
        made = built()
        HeaderAuth("Authorization", "Bearer ", mark="pat/").apply(made, {"api_key": " pat/k \n"})
        assert made.headers["Authorization"] == "Bearer k"


class TestFiles:
    IMAGE = spec.FilePart("image", "image/png", b"\x89PNG", "p.png")
    PDF = spec.FilePart("pdf", "application/pdf", b"%PDF", "d.pdf")
    TEXT = spec.FilePart("text", "text/plain", "grüße".encode(), "n.txt")

    def content(self, *files: spec.FilePart, text: str = "look", **dialect: t.Any) -> t.Any:
        return body(messages=[spec.UserMessage(text, files)], dialect=dialect)["messages"][0]["content"]

    def test_files_come_before_the_text(self) -> None:
        pdf = base64.b64encode(b"%PDF").decode()
        assert self.content(self.IMAGE, self.PDF, self.TEXT) == [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            {
                "type": "file",
                "file": {"filename": "d.pdf", "file_data": f"data:application/pdf;base64,{pdf}"},
            },
            {"type": "text", "text": "n.txt:\ngrüße"},
            {"type": "text", "text": "look"},
        ]

    def test_no_text_is_no_part(self) -> None:
        assert [part["type"] for part in self.content(self.IMAGE, text="")] == ["image_url"]

    @pytest.mark.parametrize(
        ("way", "part"),
        [
            (
                "document_url",
                {
                    "type": "document_url",
                    "document_url": "data:application/pdf;base64,JVBERg==",
                    "document_name": "d.pdf",
                },
            ),
            ("file_url", {"type": "file_url", "file_url": {"url": "JVBERg=="}, "file_name": "d.pdf"}),
        ],
    )
    def test_other_ways_of_a_pdf(self, way: str, part: Json) -> None:
        assert self.content(self.PDF, pdf=way)[0] == part

    def test_without_files_content_is_a_string(self) -> None:
        assert self.content() == "look"


class TestCache:
    HISTORY: t.ClassVar[list[spec.Message]] = [
        spec.UserMessage("one"),
        spec.AssistantMessage("ok"),
        spec.UserMessage("two"),
        *turn("c"),
    ]
    MARK: t.ClassVar[Json] = {"cache_control": {"type": "ephemeral"}}

    def test_marks_end_the_prefix_that_repeats(self) -> None:
        sent = body(system="s", messages=self.HISTORY, cache=True, dialect={"cache": "anthropic"})["messages"]
        assert sent[0]["content"] == [{"type": "text", "text": "s", **self.MARK}]
        assert sent[1]["content"] == "one"
        assert sent[3]["content"] == [{"type": "text", "text": "two", **self.MARK}]
        assert json.dumps(sent).count("cache_control") == 2

    def test_the_mark_is_on_the_last_part(self) -> None:
        message = spec.UserMessage("t", (TestFiles.IMAGE,))
        sent = body(messages=[message], cache=True, dialect={"cache": "anthropic"})["messages"][0]["content"]
        assert ["cache_control" in part for part in sent] == [False, True]

    @pytest.mark.parametrize(("cache", "dialect"), [(False, {"cache": "anthropic"}), (True, {})])
    def test_no_marks_unasked_or_unknown(self, cache: bool, dialect: Json) -> None:
        assert b"cache_control" not in built(system="s", cache=cache, dialect=dialect).body

    def test_the_conversation_goes_where_a_vendor_takes_it(self) -> None:
        assert "prompt_cache_key" not in body(conversation="c")
        dialect = {"conversation_field": "prompt_cache_key"}
        assert body(conversation="c", dialect=dialect)["prompt_cache_key"] == "c"
        assert "prompt_cache_key" not in body(dialect=dialect)


class TestThinking:
    def test_exclude_only_where_nobody_sees_it_and_nothing_goes_back(self) -> None:
        dialect = {"thinking": "reasoning"}
        assert body(thinking="low", dialect=dialect)["reasoning"] == {"effort": "low", "exclude": True}
        assert body(thinking="low", show_thinking=True, dialect=dialect)["reasoning"] == {"effort": "low"}
        assert body(thinking="low", tools=tools("w"), dialect=dialect)["reasoning"] == {"effort": "low"}
        assert body(thinking="none", dialect=dialect)["reasoning"] == {"enabled": False}

    @pytest.mark.parametrize(
        ("level", "max_tokens", "sent"),
        [
            ("low", None, {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 6144}),
            ("low", 100, {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 2148}),
            ("low", 9000, {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 9000}),
            ("none", 100, {"max_tokens": 100}),
            ("max", 100, {"max_tokens": 100}),
        ],
    )
    def test_a_budget_counts_into_the_answers_limit(
        self, level: str, max_tokens: int | None, sent: Json
    ) -> None:
        dialect = {"thinking": "anthropic", "budgets": {"low": 2048}}
        made = body(thinking=level, max_tokens=max_tokens, dialect=dialect)
        assert {name: made[name] for name in ("thinking", "max_tokens") if name in made} == sent


class TestTools:
    def test_a_vendors_word_and_a_refused_member(self) -> None:
        dialect = {"tool_choices": {"required": "any"}, "parallel_tool_calls": False}
        sent = body(tools=tools("w"), tool_choice="required", parallel_tool_calls=True, dialect=dialect)
        assert sent["tool_choice"] == "any"
        assert "parallel_tool_calls" not in sent

    def test_ids_of_others_are_brought_into_the_vendors_alphabet(self) -> None:
        foreign, own, fits = "call_0123456789", "chatcmpl-tool-9f14", "abcDEF123"
        history: list[spec.Message] = [
            spec.UserMessage("hi"),
            *turn(foreign, names="w"),
            *turn(own, wire="openai_chat"),
            *turn(fits[:-1], names=fits[-1]),
        ]
        sent = body(messages=history, dialect={"call_ids": "alnum9"})["messages"][1:]
        asked = [message["tool_calls"][0]["id"] for message in sent[::2]]
        assert asked == [message["tool_call_id"] for message in sent[1::2]]
        assert asked[1:] == [f"{own}w", fits]
        assert len(asked[0]) == 9
        assert asked[0].isalnum()
        plain = body(messages=history)["messages"][1]["tool_calls"][0]["id"]
        assert plain == f"{foreign}w"

    def test_calls_are_split_where_a_result_may_not_follow_a_result(self) -> None:
        history = [spec.UserMessage("hi"), *turn("c", names="abc"), spec.AssistantMessage("done")]
        sent = body(messages=history, dialect={"split_calls": True})["messages"][1:]
        shape = [
            (m["role"], m.get("tool_call_id") or [c["id"] for c in m.get("tool_calls", ())]) for m in sent
        ]
        assert shape == [
            ("assistant", ["ca"]),
            ("tool", "ca"),
            ("assistant", ["cb"]),
            ("tool", "cb"),
            ("assistant", ["cc"]),
            ("tool", "cc"),
            ("assistant", []),
        ]


class TestAnswers:
    def test_sources_beside_the_choices_come_once_and_with_their_titles(self) -> None:
        beside: Json = {
            "citations": ["http://a", "http://b"],
            "search_results": [{"title": "A", "url": "http://a"}, {"url": None}, "http://c"],
        }
        seen = chat(chunk({"content": "x"}), chunk({}, **beside), chunk({}, "stop", **beside))
        assert seen.sources == ["http://a", "http://c", "http://b"]

    def test_thinking_as_a_part_of_the_content(self) -> None:
        summary = [{"type": "summary_text", "text": "why", "signature": "s"}]
        seen = chat(
            chunk({"content": [{"type": "reasoning", "summary": summary}]}),
            chunk({"content": [{"type": "text", "text": "yes"}]}),
            chunk({}, "stop"),
        )
        assert (seen.thinking, seen.text) == ("why", "yes")
        assert seen.finished is not None
        assert seen.finished.replay is None

    @pytest.mark.parametrize(
        ("stated", "made", "total"),
        [
            ((10, 5, 35, 20), 25, 35),  # beside the completion
            ((10, 25, 35, 20), 25, 35),  # inside it
            ((10, 5, 15, 20), 5, 15),  # nobody knows
        ],
    )
    def test_thinking_counted_beside_the_completion(
        self, stated: tuple[int, int, int, int], made: int, total: int
    ) -> None:
        usage = {
            "prompt_tokens": stated[0],
            "completion_tokens": stated[1],
            "total_tokens": stated[2],
            "completion_tokens_details": {"reasoning_tokens": stated[3]},
        }
        seen = chat(chunk({"content": "x"}), chunk({}, "stop", usage=usage))
        assert seen.finished is not None
        assert seen.finished.usage is not None
        counts = seen.finished.usage
        assert (counts.output, counts.total, counts.reasoning) == (made, total, 20)


def thoughts(*pieces: str, field: str = "reasoning_content", dialect: Json | None = None) -> Seen:
    """A body whose thinking comes in these pieces."""
    asked = request(dialect={"cumulative": True} if dialect is None else dialect)
    deltas = [
        {field: [{"type": "reasoning.text", "text": piece}] if field == "reasoning_details" else piece}
        for piece in pieces
    ]
    return chat(*(chunk(delta) for delta in deltas), chunk({"content": "a"}), chunk({}, "stop"), asked=asked)


class TestSnapshots:
    CASES = pytest.mark.parametrize(
        ("pieces", "whole"),
        [
            (("The user", "The user asks", "The user asks why."), "The user asks why."),
            (("The user", " asks", " why."), "The user asks why."),
            (("The user", " asks", "The user"), "The user asksThe user"),
            (("a", "and", " so"), "aand so"),
            (("ha ha", "ha ha"), "ha haha ha"),
        ],
    )

    @CASES
    @pytest.mark.parametrize("field", ["reasoning_content", "reasoning_details"])
    def test_what_was_said_is_not_said_again(self, pieces: tuple[str, ...], whole: str, field: str) -> None:
        seen = thoughts(*pieces, field=field)
        assert seen.thinking == whole
        assert seen.finished is not None
        replay = seen.finished.replay
        if field == "reasoning_content":
            assert replay == {"thinking": {field: whole}}
        else:
            assert "".join(detail["text"] for detail in replay[field]) == whole

    @CASES
    def test_text_too(self, pieces: tuple[str, ...], whole: str) -> None:
        asked = request(dialect={"cumulative": True})
        assert chat(*(chunk({"content": piece}) for piece in pieces), asked=asked).text == whole

    def test_others_are_taken_at_their_word(self) -> None:
        assert thoughts("abc", "abcd", dialect={}).thinking == "abcabcd"

"""What the second request of every recorded conversation gives back to its vendor.

The expectation is worked out from the first answer's bytes with the standard library alone: the vendor's thinking
members in order of arrival, joined; ``reasoning_details`` as they came, one list; extras beside calls.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

import pytest

from plugins.families import (
    cerebras,
    deepseek,
    groq,
    huggingface,
    llama_cpp,
    minimax,
    mistral,
    moonshot,
    openai_compatible,
    openrouter,
    together,
    vllm,
    zai,
)
from plugins.spec import ProviderFamily
from providers import spec
from providers.auth import NoAuth
from providers.openai_chat import WIRE as OPENAI
from tests.providers.driving import Seen, decode, request
from tests.support.shared import recordings, shared_path

Json = dict[str, t.Any]

FAMILIES: dict[str, ProviderFamily] = {
    module.FAMILY.id: module.FAMILY
    for module in (
        cerebras, deepseek, groq, huggingface, minimax, mistral, moonshot, openai_compatible, openrouter,
        together, vllm, zai,
    )
}  # fmt: skip
FAMILIES["llama-cpp"] = llama_cpp.FAMILY
_PLAIN = ("reasoning_content", "reasoning")


def first_turns() -> list[str]:
    """Every recorded answer on this wire that called tools and has a successor, or stands for a vendor alone."""
    return [
        name
        for name, entry in recordings().items()
        if entry["wire"] == "openai-chat" and entry["status"] == 200 and entry["expected"]["tool_calls"]
    ]


def deltas(raw: bytes) -> Iterator[Json]:
    """The deltas of choice 0, by the letter of the format."""
    text = raw.decode().replace("\r\n", "\n").lstrip("\ufeff")
    for block in text.split("\n\n"):
        data = "\n".join(line[5:] for line in block.split("\n") if line.startswith("data:")).strip()
        if not data.startswith("{"):
            continue
        for choice in json.loads(data).get("choices") or ():
            if not choice.get("index") and choice.get("delta"):
                yield choice["delta"]


def expected(raw: bytes) -> Json:
    """What has to go back beside text and calls."""
    wanted: Json = {}
    for delta in deltas(raw):
        for field in _PLAIN:
            if delta.get(field):
                wanted[field] = wanted.get(field, "") + delta[field]
        if delta.get("reasoning_details"):
            wanted.setdefault("reasoning_details", []).extend(delta["reasoning_details"])
    return wanted


def dialect_of(name: str, model: str) -> Json:
    family = FAMILIES.get(name.partition("/")[0], openai_compatible.FAMILY)
    own = family.model_dialect(model) if family.model_dialect else {}
    return {**family.dialect, **own}


def second_request(name: str, seen: Seen, *more: spec.Message) -> list[Json]:
    """The messages of the request after the answer's tools ran."""
    assert seen.finished is not None
    calls = tuple(spec.ToolCall(c.id, c.name, c.arguments, c.raw) for c in seen.ready)
    model = seen.finished.model or "m"
    history = [
        spec.UserMessage("hi"),
        spec.AssistantMessage(seen.text, calls, seen.finished.replay, "openai_chat"),
        *(spec.ToolResult(call.id, call.name, "done") for call in calls),
        *more,
    ]
    asked = request(model=model, messages=history, dialect=dialect_of(name, model))
    return t.cast(
        list[Json], json.loads(OPENAI.build(asked, spec.Connection("http://v/v1", NoAuth())).body)["messages"]
    )


@pytest.fixture(params=first_turns())
def answer(request: pytest.FixtureRequest) -> tuple[str, bytes, Seen]:
    """A recorded first answer: its name, its bytes, what was understood of it."""
    name = request.param
    raw = shared_path("recordings", recordings()[name]["file"]).read_bytes()
    return name, raw, decode(OPENAI, [raw])


def test_the_vendors_own_members_go_back_unchanged_and_in_order(answer: tuple[str, bytes, Seen]) -> None:
    name, raw, seen = answer
    message = second_request(name, seen)[1]
    wanted = expected(raw)
    given = {key: message[key] for key in (*_PLAIN, "reasoning_details") if message.get(key)}
    assert given == wanted
    assert message["content"] == (seen.text or None)
    assert "<think" not in json.dumps(message)


def test_calls_and_results_go_back_under_the_vendors_ids(answer: tuple[str, bytes, Seen]) -> None:
    name, _, seen = answer
    messages = second_request(name, seen)
    truth = recordings()[name]["expected"]["tool_calls"]
    sent = messages[1]["tool_calls"]
    assert [call["function"]["name"] for call in sent] == [call["name"] for call in truth]
    assert [call["id"] for call in sent] == [call["id"] for call in truth]
    assert [json.loads(call["function"]["arguments"]) for call in sent] == [
        call["input"] or {} for call in truth
    ]
    assert [message["tool_call_id"] for message in messages[2:]] == [call["id"] for call in truth]


def test_a_new_user_turn_follows_the_familys_rule(answer: tuple[str, bytes, Seen]) -> None:
    name, raw, seen = answer
    after = second_request(name, seen, spec.AssistantMessage("so"), spec.UserMessage("and now?"))
    keeps = (
        dialect_of(name, (seen.finished and seen.finished.model) or "m").get("replay_thinking") == "always"
    )
    given = {key: after[1][key] for key in (*_PLAIN, "reasoning_details") if after[1].get(key)}
    assert given == (expected(raw) if keeps else {})


def test_a_turn_without_thinking_carries_the_member_that_is_required() -> None:
    called = spec.ToolCall("c1", "w", {}, "{}")
    turn = [spec.AssistantMessage("", (called,), None, "openai_chat"), spec.ToolResult("c1", "w", "42")]
    for family, model, required in (
        (deepseek.FAMILY, "deepseek-v4-flash", True),
        (moonshot.FAMILY, "kimi-k3", True),
        (groq.FAMILY, "openai/gpt-oss-120b", False),
        (zai.FAMILY, "glm-4.7", False),
        (openai_compatible.FAMILY, "m", False),
    ):
        asked = request(messages=[spec.UserMessage("hi"), *turn], dialect=dialect_of(f"{family.id}/x", model))
        built = json.loads(OPENAI.build(asked, spec.Connection("http://v/v1", NoAuth())).body)
        assert built["messages"][1].get("reasoning_content") == ("" if required else None)

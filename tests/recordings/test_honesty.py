"""What the recordings produced equals what the capability table claims, both ways.

The bytes of each recording go through the decoder of the family that people would use for it, with that family's
switches for that model. What a claim has no recording for is listed here with where it is stated instead; a listed
exception that a recording has caught up with is a failure, too.
"""

from __future__ import annotations

import base64
import typing as t
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import pytest

from app import builtins, config
from plugins.capabilities import rows, source_of
from plugins.manager import create_manager
from plugins.registry import Registry
from plugins.spec import Capabilities
from providers import spec
from tests.providers.driving import Seen, request, tools
from tests.recordings.cases import OTHER_WIRES, cases, environ, played
from tests.support.shared import recordings, shared_path

SHOWN = ("summary", "full", "as_sent")

_AS_ANTHROPIC = "the same models and events as at Anthropic, whose recordings show it"
#: Family and what it claims of thinking, where no recording of such a model shows any → where it is stated instead.
THINKING_ELSEWHERE: Mapping[tuple[str, str], str] = {
    ("mistral", "full"): "docs.mistral.ai: reasoning (no recording asked for reasoning_effort)",
    ("vertex", "full"): _AS_ANTHROPIC,
    (
        "vertex",
        "summary",
    ): "ai.google.dev: thinking (the recordings count thoughts and did not ask to see them)",
}
#: Families that claim tools without a recording of a call → where they are stated instead.
TOOLS_ELSEWHERE: Mapping[str, str] = {
    "moonshot": "platform.kimi.ai: use Kimi API for tool calls (its one recording is about thinking)",
    "vllm": "docs.vllm.ai: tool calling (its one recording is of a model without)",
}
#: Families that claim several calls at once without a recording of that → where it is stated instead.
PARALLEL_ELSEWHERE: Mapping[str, str] = {
    "azure": "learn.microsoft.com: function calling, parallel function calling",
    "cerebras": "inference-docs.cerebras.ai: tool calling",
    "deepseek": "api-docs.deepseek.com: function calling; tool_calls is a list",
    "huggingface": "the provider behind the router decides; its protocol is OpenAI's",
    "llama.cpp": "llama.cpp docs/function-calling.md: parallel_tool_calls",
    "mistral": "docs.mistral.ai: function calling, parallel_tool_calls",
    "moonshot": "platform.kimi.ai: use Kimi API for tool calls: which tool or tools",
    "ollama": "docs.ollama.com: tool calling, parallel tool calling",
    "together": "docs.together.ai: function calling, parallel",
    "vllm": "docs.vllm.ai: tool calling, parallel_tool_calls",
    "zai": "docs.z.ai: function calling; tool_calls is a list",
}
#: Recordings without usage of models that state it → why.
NO_USAGE: Mapping[str, str] = {
    "azure-openai/choice-without-delta": "recorded without stream_options.include_usage, which the wire sends",
    "azure-openai/text-emoji": "recorded without stream_options.include_usage, which the wire sends",
    "vllm/length-opt-125m": "recorded without stream_options.include_usage, which the wire sends",
}


@dataclass(frozen=True)
class Case:
    """One recording as its family decoded it."""

    name: str
    model: str
    claims: Capabilities
    seen: Seen

    @property
    def family(self) -> str:
        return self.model.partition("/")[0]


@cache
def registry() -> Registry:
    return Registry(create_manager(False, builtins.plugins(config.load({}))))


def _body(entry: Mapping[str, t.Any]) -> bytes:
    raw = shared_path("recordings", entry["file"]).read_bytes()
    return base64.b64decode(raw) if entry["file"].endswith(".b64") else raw


def _decoded(name: str) -> Case | None:
    """None for answers that are no stream: refusals by status."""
    entry = recordings()[name]
    if entry["status"] != 200:
        return None
    chosen = played(name)
    variables = environ("http://127.0.0.1:9") | (OTHER_WIRES if chosen.other_wire else {})
    resolved = registry().resolve(chosen.model, variables)
    declared = tools(*(tool["name"] for tool in entry.get("request_tools") or []))
    decoder = t.cast(t.Any, resolved.wire).decoder(
        request(model=resolved.model, dialect=resolved.dialect, tools=declared, show_thinking=True)
    )
    seen = Seen()
    for step in (lambda: decoder.feed(_body(entry)), decoder.end):
        if decoder.done:
            break
        try:
            events = step()
        except spec.ProviderError as error:
            seen.error = error
            break
        for event in events:
            seen.add(event)
        if decoder.failure is not None:
            seen.error = decoder.failure
            break
    return Case(name, chosen.model, resolved.capabilities, seen)


@pytest.fixture(scope="module")
def decoded() -> list[Case]:
    found = [case for case in map(_decoded, cases()) if case is not None]
    assert len(found) > 180
    return found


def _by(cases: Iterable[Case], key: str) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        found[getattr(case, key)].append(case)
    return found


def test_thinking_that_was_seen_is_claimed(decoded: list[Case]) -> None:
    undeclared = {
        case.name: (case.model, case.claims.thinking)
        for case in decoded
        if case.seen.thinking and case.claims.thinking not in SHOWN
    }
    assert undeclared == {}


def test_a_model_that_was_billed_for_thinking_is_not_said_not_to_think(decoded: list[Case]) -> None:
    wrong = {
        case.name: case.model
        for case in decoded
        if case.claims.thinking == "none" and case.seen.finished is not None
        if case.seen.finished.usage is not None and case.seen.finished.usage.reasoning
    }
    assert wrong == {}


def test_thinking_that_is_claimed_was_seen(decoded: list[Case]) -> None:
    claimed = {
        (case.family, case.claims.thinking) for case in decoded if case.claims.thinking in ("summary", "full")
    }
    seen = {(case.family, case.claims.thinking) for case in decoded if case.seen.thinking}
    assert claimed - seen == set(THINKING_ELSEWHERE)


def test_calls_that_were_seen_are_claimed(decoded: list[Case]) -> None:
    for case in decoded:
        if case.seen.started:
            assert case.claims.tools != "none", case
        if len(case.seen.started) > 1:
            assert case.claims.tools == "parallel", case


@pytest.mark.parametrize(
    ("wanted", "least", "elsewhere"),
    [(("serial", "parallel"), 1, TOOLS_ELSEWHERE), (("parallel",), 2, PARALLEL_ELSEWHERE)],
    ids=["tools", "several"],
)
def test_calls_that_are_claimed_were_seen(
    decoded: list[Case], wanted: tuple[str, ...], least: int, elsewhere: Mapping[str, str]
) -> None:
    unseen = {
        family
        for family, its in _by(decoded, "family").items()
        if any(case.claims.tools in wanted for case in its)
        and not any(len(case.seen.started) >= least for case in its)
    }
    assert unseen == set(elsewhere)


def test_usage_is_in_the_stream_where_that_is_claimed(decoded: list[Case]) -> None:
    silent = set()
    for case in decoded:
        if case.seen.finished is None:
            continue
        usage = case.seen.finished.usage
        stated = usage is not None and (usage.input is not None or usage.output is not None)
        if stated:
            assert case.claims.usage_in_stream, case
        elif case.claims.usage_in_stream:
            silent.add(case.name)
    assert silent == set(NO_USAGE)


def test_signed_thinking_comes_back_with_its_signature(decoded: list[Case]) -> None:
    for case in decoded:
        if case.claims.thinking_signed and case.seen.thinking and case.seen.finished is not None:
            assert case.seen.finished.replay, case


def test_every_claim_has_a_source() -> None:
    bare = [
        (row["id"], column)
        for row in rows(registry(), environ=None)
        for column in ("thinking", "tools", "structuredOutput", "inputs", "contextWindow", "price")
        if row[column] is not None and not source_of(row, column)
    ]
    assert bare == []

"""The bridge: how it reads chunks, what it asks, and, in a process with the real litellm, what it loses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from providers import spec
from providers.auth import NoAuth
from providers.litellm_bridge import WIRE, BridgeDecoder, arguments
from providers.litellm_errors import bridge_error
from tests.providers.driving import Seen, chunk, request, tools
from tests.support.shared import find_shared, recordings, shared_path

Json = dict[str, t.Any]
SCRIPT = Path(__file__).with_name("bridge_process.py")

_BEDROCK = "us.anthropic.claude-sonnet-4-20250514-v1:0"
#: Wire of a recording → litellm's model and the path of its address.
ROUTES = {
    "cohere-v2": "cohere_chat/command-a-03-2025@/v2/chat",
    "ollama": "ollama_chat/qwen3@",
    "bedrock-converse": f"bedrock/converse/{_BEDROCK}@",
    "bedrock-invoke-anthropic": f"bedrock/invoke/{_BEDROCK}@",
}
#: What differs from the ground truth, by recording; ``all``: nothing comes but an error. The same list, with reasons,
#: is in docs/decisions/0010-own-wires-and-the-bridge.md.
LOSSES: dict[str, set[str]] = {
    "cohere/text": {"all"},
    "cohere/plan-tool-1": {"all"},
    "cohere/plan-tool-2": {"all"},
    "cohere/plan-parallel": {"all"},
    "cohere/thinking-citations": {"all"},
    "ollama/generate-llama3": {"all"},
    "ollama/thinking-tool-two-args-qwen3.6": {"ids"},
}


def _jobs() -> dict[str, Json]:
    if find_shared() is None:
        shared_path("recordings")  # skips the module loudly; fails on CI
    return {
        name: case
        for name, case in recordings().items()
        if case["wire"] in ROUTES and case["status"] == 200 and not case["expected"].get("error")
    }


@pytest.fixture(scope="module")
def real() -> Json:
    """What one process with the real litellm says of every recording and of all that is tried beside them; nothing of
    this one's environment reaches it.
    """
    jobs = _jobs() if find_shared() is not None else {}
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    keys = {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION_NAME": "us-east-1",
    }
    done = subprocess.run(
        [
            sys.executable,
            str(SCRIPT),
            "0,7",
            *(f"{name}={ROUTES[case['wire']]}" for name, case in jobs.items()),
        ],
        env={**kept, **keys},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return t.cast(Json, json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("size", ["0", "7"])
def test_what_the_bridge_loses(size: str, real: Json) -> None:
    """Both ways: what is listed is lost, and nothing else is."""
    found = real["found"][size]
    differences = {name: _differences(found[name], case["expected"]) for name, case in _jobs().items()}
    assert {name: lost for name, lost in differences.items() if lost} == LOSSES


def _differences(said: Json, expected: Json) -> set[str]:
    if said["error"] is not None:
        return {"all"}
    calls = [[call["id"], call["name"], call["input"]] for call in expected["tool_calls"]]
    same = {
        "text": said["text"] == expected["text"],
        "thinking": said["thinking"] == expected["thinking"],
        "order": _folded(said["order"]) == _folded(expected["order"]),
        "calls": [call[1:] for call in said["calls"]] == [call[1:] for call in calls],
        "ids": [call[0] for call in said["calls"]] == [call[0] for call in calls],
        "usage": (said["usage"] is None) == (expected["usage"] is None),
    }
    return {what for what, as_it_was in same.items() if not as_it_was}


def _folded(order: list[str]) -> list[str]:
    kept = [kind for kind in order if kind in ("text", "thinking", "redacted", "tool")]
    return [kind for at, kind in enumerate(kept) if kind == "tool" or kept[at - 1 : at] != [kind]]


def test_the_decision_lists_the_losses() -> None:
    page = Path(__file__).parents[2] / "docs" / "decisions" / "0010-own-wires-and-the-bridge.md"
    text = page.read_text()
    assert [name for name in LOSSES if f"`{name}`" not in text] == []


def test_how_the_bridge_behaves(real: Json) -> None:
    assert real["ticks"] >= 5  # others ran while litellm was imported
    assert real["threads"] <= 0
    found = real["found"]["behaves"]
    assert found["cancelled"] == {"ended": ["Cancelled"], "left": True}
    assert found["idle"] == ["hi", "provider_idle", True]
    assert found["unread"] == ["provider_unavailable", True]
    assert (found["refused"]["error"], found["refused"]["retryAfter"]) == ("provider_rate_limited", 7.0)
    assert "slow down" in found["refused"]["detail"]
    assert found["nobody"]["error"] == "provider_unavailable"
    assert found["unknown"]["error"] == "provider_bad_request"
    assert (found["cut"]["text"], found["cut"]["error"]) == ("hi", "provider_bad_stream")
    assert all(
        "Traceback" not in case["detail"]
        for case in found.values()
        if isinstance(case, dict) and "detail" in case
    )
    assistant = found["replayed"][1]["content"]
    assert assistant[:2] == [
        {"type": "thinking", "thinking": "Hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
    ]
    assert (assistant[2]["type"], assistant[2]["input"]) == ("tool_use", {"a": 1})


# -- without litellm -----------------------------------------------------------------------------------


def read(*chunks: Json, usage: t.Any = None) -> Seen:
    """The bridge's decoder over these chunks, as litellm gives them."""
    decoder, seen = BridgeDecoder(request()), Seen()
    try:
        for value in chunks:
            for event in decoder.take(value):
                seen.add(event)
        for event in decoder.close(usage):
            seen.add(event)
    except spec.ProviderError as error:
        seen.error = error
    return seen


def thought(text: str = "", **block: t.Any) -> Json:
    """A chunk with a piece of a thinking block, which litellm gives beside its text."""
    whole = {"type": "thinking", "thinking": text, **block}
    return chunk({"reasoning_content": text, "thinking_blocks": [whole]})


class TestDecoder:
    @pytest.mark.parametrize("blocks", [7, "x", {"thinking": "x"}, [7, {"type": "thinking", "thinking": 7}]])
    def test_thinking_blocks_that_are_none(self, blocks: t.Any) -> None:
        seen = read(chunk({"thinking_blocks": blocks}), chunk({"content": "x"}), chunk({}, "stop"))
        assert (seen.text, seen.thinking) == ("x", "")

    def test_thinking_blocks_are_put_together_and_said_once(self) -> None:
        seen = read(
            thought("A"),
            thought("B"),
            thought(signature="s1"),
            thought("C"),
            thought(signature="s2"),
            chunk({"thinking_blocks": [{"type": "redacted_thinking", "data": "x"}]}),
            chunk({"content": "Yes"}),
            chunk({}, "stop"),
        )
        assert (seen.thinking, seen.text) == ("ABC", "Yes")
        assert seen.order == ["thinking", "redacted", "text"]
        assert seen.finished is not None
        assert seen.finished.replay["thinking_blocks"] == [
            {"type": "thinking", "thinking": "AB", "signature": "s1"},
            {"type": "thinking", "thinking": "C", "signature": "s2"},
            {"type": "redacted_thinking", "data": "x"},
        ]

    def test_only_what_the_vendor_stated_is_usage(self) -> None:
        counted = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}}
        answer = chunk({"content": "x"}), chunk({}, "stop"), counted
        unstated = read(*answer).finished
        assert unstated is not None
        assert unstated.usage is None
        stated = {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "cache_creation_input_tokens": 1,
            "completion_tokens_details": {"reasoning_tokens": 1},
        }
        found = read(*answer, usage=stated).finished
        assert found is not None
        assert found.usage == spec.Usage(3, 2, 5, cache_write=1)

    def test_an_end_without_an_answer_is_a_failure_whatever_litellm_calls_it(self) -> None:
        assert read(chunk({}, "stop")).code == "provider_bad_stream"
        assert read(thought("A"), chunk({}, "stop")).code == "provider_bad_stream"
        assert read(chunk({}, "length")).reason == "length"

    def test_calls_decide(self) -> None:
        function = {"name": "echo", "arguments": '{"a":1}'}
        seen = read(
            chunk({"tool_calls": [{"index": 0, "id": "c1", "function": function}]}), chunk({}, "stop")
        )
        assert (seen.calls, seen.reason) == ([("echo", {"a": 1})], "tool_calls")


class Library:
    """Just enough of litellm for :func:`arguments`."""

    def __init__(self, *supported: str) -> None:
        self.supported = supported

    def get_supported_openai_params(self, model: str) -> tuple[str, ...]:
        """What the vendor of ``model`` takes."""
        return self.supported


def asked(supported: tuple[str, ...] = (), base: str = "", key: str = "", **changes: t.Any) -> Json:
    """What ``litellm.completion`` would be called with."""
    connection = spec.Connection(base, NoAuth(), {"api_key": key} if key else {}, connect_s=3.0)
    return arguments(request(model="a/b", **changes), connection, Library(*supported))


class TestArguments:
    def test_nothing_is_retried_dropped_or_logged(self) -> None:
        given = asked()
        assert (given["model"], given["stream"]) == ("a/b", True)
        assert (given["num_retries"], given["max_retries"], given["drop_params"]) == (0, 0, False)
        assert given["no-log"] is True
        assert "api_key" not in given
        assert "api_base" not in given
        assert (given["timeout"].connect, given["timeout"].read) == (3.0, None)

    def test_address_and_key_of_ours(self) -> None:
        given = asked(base="http://h", key="k")
        assert (given["api_base"], given["api_key"]) == ("http://h", "k")

    def test_only_wishes_are_left_out(self) -> None:
        """What the agent sets is refused by litellm where a vendor does not take it, never dropped by us."""
        wished: Json = {"thinking": "low", "seed": 7, "tools": tools("echo"), "tool_choice": "required"}
        without = asked(**wished)
        assert {"reasoning_effort", "stream_options"}.isdisjoint(without)
        assert (without["seed"], without["tool_choice"]) == (7, "required")
        taken = asked(("reasoning_effort", "stream_options"), **wished)
        assert (taken["reasoning_effort"], taken["stream_options"]) == ("low", {"include_usage": True})

    def test_thinking_blocks_go_back_in_their_turn(self) -> None:
        block = {"type": "thinking", "thinking": "Hm", "signature": "s"}
        replay = {"thinking": {"reasoning_content": "Hm"}, "thinking_blocks": [block]}
        call = spec.ToolCall("c1", "echo", {}, "{}")
        mine = spec.AssistantMessage("", (call,), replay, WIRE.name)
        other = spec.AssistantMessage("said elsewhere", (), {"thinking_blocks": [block]}, "openai_chat")
        messages = [other, spec.UserMessage("hi"), mine, spec.ToolResult("c1", "echo", "1")]
        sent = asked(messages=messages)["messages"]
        assert "thinking_blocks" not in sent[0]
        assert (sent[2]["thinking_blocks"], sent[2]["reasoning_content"]) == ([block], "Hm")


def _library_error(name: str, status: int | None = None, message: str = "no", *bases: str) -> Exception:
    """An exception as litellm would raise, with its classes' names."""
    parent: type[Exception] = Exception
    for base in reversed(bases):
        parent = type(base, (parent,), {})
    error: Exception = type(name, (parent,), {"message": message})(message)
    if status is not None:
        vars(error)["status_code"] = status
    return error


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (_library_error("AuthenticationError", 401), "provider_auth"),
            (_library_error("RateLimitError", 429), "provider_rate_limited"),
            (_library_error("ContextWindowExceededError", 400, "no", "BadRequestError"), "context_length_exceeded"),
            (_library_error("BadRequestError", 400, "prompt is too long: 9 tokens"), "context_length_exceeded"),
            (_library_error("UnsupportedParamsError", 400, "no", "BadRequestError"), "provider_bad_request"),
            (_library_error("Timeout", 408), "provider_unavailable"),
            (_library_error("SomethingNew", 503), "provider_overloaded"),
            (_library_error("SomethingNew"), "provider_unavailable"),
        ],
    )  # fmt: skip
    def test_classes(self, error: Exception, code: str) -> None:
        assert bridge_error(error).code == code

    def test_what_was_thrown_into_the_wait_comes_out_as_itself(self) -> None:
        idle = spec.ProviderError("provider_idle", "silent")
        mapped = _library_error("APIConnectionError", 500)
        mapped.__context__ = idle  # as raising it while handling the other leaves it
        taken_over = _library_error("MidStreamFallbackError", 503)
        taken_over.__cause__ = mapped
        assert bridge_error(taken_over) is idle

    def test_the_vendors_failure_inside_a_takeover(self) -> None:
        outer = _library_error("MidStreamFallbackError", 503, "outer", "ServiceUnavailableError")
        vars(outer)["original_exception"] = _library_error("RateLimitError", 429, "inner")
        error = bridge_error(outer)
        assert (error.code, error.status, error.detail) == ("provider_rate_limited", 429, "inner")

    def test_a_torn_answer(self) -> None:
        torn = _library_error("APIConnectionError", 500, "gone\nTraceback (most recent call last)")
        torn.__cause__ = _library_error("RemoteProtocolError")
        error = bridge_error(torn, begun=True)
        assert (error.code, error.detail) == ("provider_bad_stream", "gone")
        assert bridge_error(torn).code == "provider_unavailable"

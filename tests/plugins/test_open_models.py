"""Which open-weight lines think, whatever a vendor calls them."""

from __future__ import annotations

import pytest

from plugins import open_models
from plugins.spec import Row


@pytest.mark.parametrize(
    ("model", "thinks"),
    [
        ("openai/gpt-oss-120b", "always"),
        ("accounts/fireworks/models/glm-5p2", "switch"),
        ("accounts/fireworks/models/qwen3-0p6b", "switch"),
        ("zai-glm-5-2", "switch"),
        ("zai-glm-5-3-flash", "always"),
        ("z-ai/glm-5-turbo-20260315", "switch"),
        ("zai-org/GLM-4.5-Air-FP8", "switch"),
        ("glm-4-32b-0414-128k", "never"),
        ("deepseek-ai/DeepSeek-V4.1-Flash-1017", "switch"),
        ("deepseek/deepseek-chat-v3.1:free", "switch"),
        ("deepseek-r1-distill-llama-70b", "always"),
        ("deepseek-coder", "never"),
        ("moonshotai/Kimi-K2-Instruct", "never"),
        ("moonshotai/kimi-k2-thinking:novita", "always"),
        ("databricks-kimi-k2-7", "always"),
        ("moonshotai/Kimi-K2.5-fp4", "switch"),
        ("moonshotai/Kimi-K3.1-Pro", "always"),
        ("Qwen/Qwen3-Next-80B-A3B-Thinking", "always"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "never"),
        ("Qwen/Qwen2.5-72B-Instruct", "never"),
        ("qwen3:8b", "switch"),
        ("MiniMaxAI/MiniMax-M3", "switch"),
        ("MiniMaxAI/MiniMax-M3.1-Flash", "always"),
        ("nvidia/nemotron-3-ultra-550b-a55b", "switch"),
        ("meta-llama/Llama-3.3-70B-Instruct-Turbo", "never"),
        ("facebook/opt-125m", "never"),
        ("acme/secret-1", None),
        ("acme/adopt-1b", None),
    ],
)
def test_lines(model: str, thinks: str | None) -> None:
    line = open_models.line(model)
    assert (line.thinks if line else None) == thinks


def test_the_registry_speaks_for_names_that_say_nothing() -> None:
    assert open_models.thinks("acme/secret-1", Row(supports_reasoning=True))
    assert not open_models.thinks("acme/secret-1", Row())
    assert not open_models.thinks("acme/secret-1", None)
    assert not open_models.thinks("llama-3.1-8b", Row(supports_reasoning=True))


def test_what_can_be_asked_for() -> None:
    assert open_models.control(open_models.line("gpt-oss-20b")) == ("low", "medium", "high", "auto")
    assert open_models.control(open_models.line("glm-5.2")) == ("none", "high", "max", "auto")
    assert open_models.control(open_models.line("glm-5.2"), switch=False) == ("high", "max", "auto")
    assert open_models.control(open_models.line("llama-3.1-8b")) == ()
    assert open_models.control(None) == ()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("gpt-oss-20b", {"minimal": "low", "low": "low", "medium": "medium", "xhigh": "high", "max": "high"}),
        ("kimi-k3", {"minimal": "low", "medium": "high", "high": "high", "xhigh": "max", "max": "max"}),
        ("glm-4.7", {"low": None, "high": None, "max": None}),
    ],
)
def test_levels_come_out_in_words_the_model_knows(model: str, words: dict[str, str | None]) -> None:
    found = open_models.efforts(open_models.line(model))
    assert {level: found[level] for level in words} == words
    assert (found["none"], found["auto"]) == (None, None)
    assert open_models.efforts(open_models.line(model), off="none")["none"] == "none"


@pytest.mark.parametrize(
    ("model", "seen"),
    [
        ("Qwen/Qwen2.5-VL-72B-Instruct", True),
        ("qwen2.5vl", True),
        ("llava-v1.6", True),
        ("google/gemma-3-27b-it", True),
        ("gemma3:270m", False),
        ("gemma3n:e4b", False),
        ("mistral-small3.2", True),
        ("meta-llama/Llama-3.3-70B-Instruct", False),
        ("vision-lab/qwen3-8b", False),
        ("somebody/own", None),
    ],
)
def test_who_sees(model: str, seen: bool | None) -> None:
    assert open_models.sees(model) is seen
    assert ("image" in open_models.inputs(model)) is (seen is not False)


SILENT = Row(mode="chat", max_input_tokens=32_768)


@pytest.mark.parametrize(
    ("model", "row", "tools"),
    [
        ("meta-llama/llama-prompt-guard-2-22m", SILENT, "none"),
        ("chronos-hermes-13b-v2", SILENT, "none"),
        ("code-llama-34b-python", SILENT, "none"),
        ("deepseek-coder-1b-base", SILENT, "none"),
        ("mistral-7b", SILENT, "none"),
        ("hermes-2-pro-mistral-7b", SILENT, "parallel"),
        ("llama-v3p3-70b-instruct", SILENT, "parallel"),
        ("deepseek-r1-distill-qwen-1p5b", SILENT, "parallel"),
        ("new", Row(mode="chat", max_input_tokens=512), "none"),
        ("new", Row(mode="completion"), "none"),
        ("chronos-hermes-13b-v2", None, "parallel"),
    ],
)
def test_tools_where_the_registry_is_silent(model: str, row: Row | None, tools: str) -> None:
    assert open_models.tools(model, row) == tools

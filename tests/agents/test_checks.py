"""What an agent asks for is held against what its model can do; every refusal says what there is."""

from __future__ import annotations

import typing as t

import pytest

from app.agents.checks import checker
from app.agents.config import AgentConfig
from plugins.spec import Capabilities

#: Capabilities by model; ``plain`` can do nothing but answer.
CAN = {
    "plain": Capabilities(),
    "levels": Capabilities(
        thinking="summary",
        thinking_control=("none", "low", "high", "auto"),
        tools="parallel",
        forced_tool_with_thinking=False,
        structured_output="native",
        inputs=("text", "image"),
    ),
    "always": Capabilities(
        thinking="full",
        thinking_control=("low", "budget"),
        tools="serial",
        forced_tool_with_thinking=False,
        structured_output="tool",
    ),
    "hidden": Capabilities(thinking="hidden", thinking_control=("low",), tools="parallel"),
    "auto-only": Capabilities(tools="parallel", forced_tool_choice=False, structured_output="native"),
    "generic": Capabilities(thinking="as_sent", tools="parallel", structured_output="native"),
}
TOOL = "clock"
CHECK = checker(CAN.__getitem__)


def said(model: str, **config: t.Any) -> dict[str, str]:
    return dict(CHECK(AgentConfig(model=model, **config)))


@pytest.mark.parametrize(
    ("model", "thinking", "words"),
    [
        ("plain", "high", "plain does not think; leave thinking out or set it to none."),
        ("plain", 2048, "plain does not think; leave thinking out or set it to none."),
        ("levels", "max", "levels has no thinking level max; it has: none, low, high, auto."),
        ("levels", 2048, "levels has no thinking token budget (2048); it has: none, low, high, auto."),
        ("always", "none", "always always thinks; it has: low, a token budget, auto."),
        ("always", "high", "always has no thinking level high; it has: low, a token budget, auto."),
        ("hidden", "none", "hidden always thinks; it has: low, auto."),
    ],
)
def test_a_level_that_a_model_lacks(model: str, thinking: t.Any, words: str) -> None:
    assert said(model, thinking=thinking) == {"thinking": words}


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("plain", "none"),
        ("plain", "auto"),
        ("plain", None),
        ("levels", "high"),
        ("levels", "none"),
        ("always", 2048),
        ("always", "auto"),
        ("generic", "xhigh"),
        ("generic", 5000),
        ("generic", "none"),
    ],
)
def test_a_level_that_it_has_and_a_wish(model: str, thinking: t.Any) -> None:
    assert said(model, thinking=thinking) == {}


def test_tools_of_a_model_that_has_none() -> None:
    found = said("plain", tools=[TOOL], tool_choice="required")
    assert list(found) == ["tools"]
    assert "it only answers" in found["tools"]
    assert said("plain") == {}


def test_the_tool_of_an_agent_that_keeps_the_thread_is_one_too() -> None:
    assert said("plain", capture=True) == {
        "capture": "plain cannot call tools, it only answers; so it never lets go; leave it out or choose a model "
        "that can."
    }
    assert said("auto-only", capture=True) == {}
    assert list(said("auto-only", capture=True, tool_choice="release")) == ["tool_choice"]


def test_a_forced_tool() -> None:
    assert said("levels", tools=[TOOL], tool_choice="required") == {}
    assert said("levels", tools=[TOOL], tool_choice=TOOL, thinking="none") == {}
    found = said("levels", tools=[TOOL], tool_choice=TOOL, thinking="low")
    assert found == {
        "tool_choice": "levels cannot be forced to call a tool while it thinks; "
        "set thinking to none or tool_choice to auto."
    }
    assert said("levels", tools=[TOOL], tool_choice="auto", thinking="low") == {}
    # It cannot be kept from thinking, so it never can be forced.
    found = said("always", tools=[TOOL], tool_choice="required")
    assert found == {
        "tool_choice": "always cannot be forced to call a tool while it thinks; set tool_choice to auto."
    }
    found = said("auto-only", tools=[TOOL], tool_choice="required")
    assert found == {"tool_choice": "auto-only cannot be forced to call a tool; it has: auto, none."}


def test_a_response_format() -> None:
    wanted = {"type": "object"}
    assert list(said("plain", response_format=wanted)) == ["response_format"]
    for model in ("levels", "always"):
        assert said(model, response_format=wanted) == {}


#: One transparent pixel.
PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQAB"
    "pfZFQAAAAABJRU5ErkJggg=="
)


def test_files_of_a_kind_that_is_not_taken() -> None:
    files = [{"text": "plain words"}, {"data": PNG}]
    assert said("levels", files=files) == {}
    found = said("plain", files=files)
    assert list(found) == ["files[1]"]
    assert "takes no image files; it takes: text" in found["files[1]"]
    assert said("plain", files="{{ input.files }}") == {}, "what a template gives is seen at the run"


def test_a_fallback_gets_the_same_request() -> None:
    found = said("levels", fallbacks=["generic", "plain"], thinking="low", tools=[TOOL])
    assert list(found) == ["fallbacks[1]"]
    assert all("plain" in message for message in found.values())


def test_models_that_cannot_be_are_told_elsewhere() -> None:
    assert said("nobody", thinking="max", fallbacks=["nobody either"]) == {}


def test_what_an_unknown_model_cannot_do_is_told_as_assumed() -> None:
    check = checker({"nonesuch": CAN["plain"]}.__getitem__, lambda model: f"there may be no {model}")
    config = AgentConfig(model="nonesuch", prompt="x", thinking="low", fallbacks=["nonesuch"])
    for _, message in check(config):
        assert message.startswith("there may be no nonesuch. As nothing is known of it, it is assumed that ")
    assert [member for member, _ in check(config)] == ["thinking", "fallbacks[0]"]

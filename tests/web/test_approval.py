"""Tools that need a person's approval: in this version nobody can give it, so no call of them runs."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import gevent
import pytest

from app.agents.calls import NO_APPROVAL
from plugins.spec import Tool
from tests.support.vendor import Call, Vendor, vendor
from tests.web.conftest import Studio, document

MODEL = "openai-compatible/field"
ANY: dict[str, t.Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    """A vendor that shows what it was asked."""
    with vendor() as made:
        monkeypatch.setenv("STUDIO_OPENAI_COMPATIBLE_API_BASE", made.base)
        yield made


@pytest.fixture
def ran(studio: Studio) -> list[str]:
    """The names of the registered tools ``pay``, ``clock_like`` and ``careful`` as they run."""
    names: list[str] = []

    def tool(name: str, **more: t.Any) -> None:
        def run(arguments: dict[str, t.Any], context: t.Any) -> str:
            names.append(name)
            return "done"

        studio.app.extensions["studio"].plugins.tools[name] = Tool(name, name, ANY, run, **more)

    tool("pay")
    tool("look")
    tool("careful", approval="always")
    return names


def call_tools(call: Call, *calls: tuple[str, str]) -> None:
    """A turn that asks for tools, each by name and arguments."""
    for place, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": arguments}
        call.send({"tool_calls": [{"index": place, "id": f"t{place}", "function": function}]})
    call.finish("tool_calls")


def results(call: Call) -> list[str]:
    return [message["content"] for message in call.body["messages"] if message["role"] == "tool"]


@pytest.mark.parametrize("approval", ["always", "ask_once"])
def test_no_call_that_needs_approval_runs_and_the_others_do(
    studio: Studio, upstream: Vendor, ran: list[str], approval: str
) -> None:
    tools = [
        {"name": "pay", "approval": approval},
        {"name": "send", "http": {"url": upstream.base}, "parameters": ANY, "approval": approval},
        {"name": "fixed", "result": "secret", "approval": approval},
        "look",
        "careful",
    ]
    workflow = studio.deploy(document(MODEL, tools=tools))
    running = gevent.spawn(studio.execute, workflow, {"input": "go"})
    names = ("pay", "send", "fixed", "look", "careful")
    call_tools(upstream.next_call(), *[(name, "{}") for name in names])
    second = upstream.next_call()  # the next request is the model's: the tool ``send`` made none
    assert second.path.endswith("/chat/completions")
    assert results(second) == [NO_APPROVAL, NO_APPROVAL, NO_APPROVAL, "done", NO_APPROVAL]
    second.text("So be it.")
    second.finish()
    body = running.get(timeout=20).get_json()
    assert body["output"]["content"] == "So be it."
    assert [(c["name"], c["status"]) for c in body["output"]["toolCalls"]["list"]] == [
        (name, "success" if name == "look" else "error") for name in names
    ]
    assert ran == ["look"]


def test_a_document_may_ask_for_more_approval_than_a_tool_and_not_for_less(
    studio: Studio, upstream: Vendor, ran: list[str]
) -> None:
    workflow = studio.deploy(document(MODEL, tools=[{"name": "careful", "approval": "never"}]))
    running = gevent.spawn(studio.execute, workflow, {"input": "go"})
    call_tools(upstream.next_call(), ("careful", "{}"))
    second = upstream.next_call()
    assert results(second) == [NO_APPROVAL]
    second.finish()
    running.get(timeout=20)
    assert ran == []


def test_nobody_is_asked_about_a_call_that_is_wrong(studio: Studio, upstream: Vendor, ran: list[str]) -> None:
    workflow = studio.deploy(document(MODEL, tools=[{"name": "pay", "approval": "always"}]))
    running = gevent.spawn(studio.execute, workflow, {"input": "go"})
    call_tools(upstream.next_call(), ("pay", '{"n": "x"}'), ("pay", "{"))
    second = upstream.next_call()
    assert [result.split(".")[0] for result in results(second)] == [
        "Invalid arguments",
        "Invalid arguments: they are not valid JSON",
    ]
    second.finish()
    running.get(timeout=20)
    assert ran == []


def test_a_participant_is_held_to_it_as_well(studio: Studio, upstream: Vendor, ran: list[str]) -> None:
    found = document(MODEL)
    agent = {"model": MODEL, "name": "ann", "tools": [{"name": "pay", "approval": "always"}]}
    found["blocks"][1] = {"id": "agent_1", "type": "sequential", "config": {"agents": [agent]}}
    workflow = studio.deploy(found)
    running = gevent.spawn(studio.execute, workflow, {"input": "go"})
    call_tools(upstream.next_call(), ("pay", "{}"))
    second = upstream.next_call()
    assert results(second) == [NO_APPROVAL]
    second.finish()
    running.get(timeout=20)
    assert ran == []


@pytest.mark.parametrize("tool", [{"name": "pay", "approval": "always"}, "careful"])
def test_a_tool_block_fails_before_it_calls(studio: Studio, ran: list[str], tool: t.Any) -> None:
    found = document(MODEL)
    found["blocks"][1] = {"id": "agent_1", "type": "tool", "config": {"tool": tool, "retries": 2}}
    answer = studio.execute(studio.deploy(found), {"input": "go"}).get_json()
    assert (answer["error"]["code"], answer["error"]["blockId"]) == ("approval_unavailable", "agent_1")
    assert studio.get(f"/api/runs/{answer['runId']}").get_json().get("toolCalls", {}) in ({}, {"agent_1": []})
    assert ran == []

"""What callers without a key get of a public workflow, on every route that lets them in."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

import pytest

from app.streams.public_texts import text_for
from tests.support import sse
from tests.web.conftest import TOOL, Studio, assert_error, document

NEGOTIATE = {"X-Studio-Stream-Protocol": "agent-events-v1"}
STREAM = {"Accept": "text/event-stream"}
NAME = "PRIVATE name"
#: Of what must not be seen.
PRIVATE = ("PRIVATE", "private", "scripted/", '"cost":{"total"', "byModel", "by_model")


def public(model: str, **agent: t.Any) -> dict[str, t.Any]:
    """A public workflow with names that are nobody's business."""
    made = document(model, settings={"public": True}, system="PRIVATE prompt", **agent)
    return {**made, "name": NAME, "blocks": [{**block, "name": NAME} for block in made["blocks"]]}


def asked(studio: Studio, workflow: str, key: str | None) -> dict[str, str]:
    """The answers of every surface, as text."""
    head = {} if key is None else {"X-API-Key": studio.keys[key]}

    def post(path: str, body: Mapping[str, t.Any], **headers: str) -> str:
        answer = studio.client.post(path, json=body, headers={**head, **headers})
        told = "".join(f"{name}: {value}\n" for name, value in answer.headers)
        return told + answer.get_data(as_text=True)

    run, flags = f"/api/workflows/{workflow}", {"includeThinking": True, "includeToolCalls": True}
    turn = {"messages": [{"role": "user", "content": "Hello"}], "workflow": workflow}
    graph = studio.client.get(f"/graph/topology?workflow={workflow}", headers=head)
    return {
        "waiting": post(f"{run}/execute", {"input": "Hello"}),
        "text": post(f"{run}/execute", {"input": "Hello", "stream": True}),
        "live": post(f"{run}/execute", {"input": "Hello", "stream": True, **flags}, **NEGOTIATE),
        "all of it": post(f"{run}/execute", {"input": "Hello", "selectedOutputs": ["agent_1"]}),
        "runs": post(f"{run}/runs", {"message": "Hello"}),
        "chat": post("/chat", turn),
        "graph": post("/chat", turn, **STREAM),
        "topology": graph.get_data(as_text=True),
    }


@pytest.mark.parametrize("model", ["scripted/tooling", "scripted/broken"])
def test_nothing_private_on_any_surface_without_a_key(studio: Studio, model: str) -> None:
    tools = [TOOL] if model == "scripted/tooling" else []
    workflow = studio.deploy(public(model, tools=tools))
    for surface, told in asked(studio, workflow, None).items():
        assert "agent_1" in told or surface == "chat", surface
        for word in PRIVATE:
            assert word not in told, (surface, told)
    with_key = "".join(asked(studio, workflow, "run").values())
    assert NAME in with_key
    assert "scripted/" in with_key


def test_a_failure_has_its_fixed_text_everywhere(studio: Studio) -> None:
    workflow = studio.deploy(public("scripted/broken"))
    neutral = text_for("provider_overloaded")
    told = asked(studio, workflow, None)
    for surface in ("waiting", "text", "live", "runs", "chat", "graph"):
        assert neutral in told[surface], surface
    assert '"code":"provider_overloaded"' in told["waiting"]


@pytest.mark.parametrize(
    "selector",
    [
        "agent_1.model",
        "agent_1.cost",
        "agent_1.toolCalls.list.0.arguments",
        "tool_1",
        "tool_1.result",
        "loop_1",
    ],
)
def test_what_is_not_shown_cannot_be_selected(studio: Studio, selector: str) -> None:
    workflow = studio.deploy(calling())
    answer = studio.execute(workflow, {"selectedOutputs": [selector]}, key=None)
    error = assert_error(answer, 400, "validation_failed", path="selectedOutputs")
    assert NAME not in str(error)
    assert studio.execute(workflow, {"selectedOutputs": [selector]}).get_json()["success"] is True


def calling() -> dict[str, t.Any]:
    """A tool and a loop around it, before an agent."""
    made = public("scripted/plain")
    tool = {"type": "tool", "config": {"tool": TOOL, "arguments": {"q": "PRIVATE"}}}
    blocks = [
        {"id": "tool_1", **tool},
        {"id": "loop_1", "type": "loop", "config": {"kind": "for", "times": 1}},
        {"id": "again", **tool},
    ]
    edges = [
        ("start", "tool_1", ""),
        ("tool_1", "loop_1", ""),
        ("loop_1", "again", "loop"),
        ("again", "loop_1", ""),
        ("loop_1", "agent_1", "exit"),
    ]
    return {
        **made,
        "blocks": [*made["blocks"], *blocks],
        "edges": [{"source": a, "target": b, **({"source_handle": h} if h else {})} for a, b, h in edges],
    }


def test_what_ends_the_workflow_can(studio: Studio) -> None:
    made = public("scripted/plain")
    tool = {"id": "tool_1", "type": "tool", "config": {"tool": TOOL, "arguments": {"q": "x"}}}
    edges = [{"source": "start", "target": "agent_1"}, {"source": "agent_1", "target": "tool_1"}]
    workflow = studio.deploy({**made, "blocks": [*made["blocks"], tool], "edges": edges})
    answer = studio.execute(workflow, {"selectedOutputs": ["tool_1.result"]}, key=None).get_json()
    assert answer["output"] == {"tool_1": {"result": {"found": "private answer"}}}


def test_a_response_is_as_its_author_wrote_it(studio: Studio) -> None:
    made = public("scripted/plain")
    config = {
        "status": 404,
        "headers": {"X-Model": "{{ blocks.agent_1.model }}"},
        "body": {"error": "None.", "code": "E7", "model": "Model T", "all": "{{ blocks.agent_1 }}"},
    }
    response = {"id": "response_1", "type": "response", "config": config}
    edges = [{"source": "start", "target": "agent_1"}, {"source": "agent_1", "target": "response_1"}]
    workflow = studio.deploy({**made, "blocks": [*made["blocks"], response], "edges": edges})
    output = studio.execute(workflow, {}, key=None).get_json()["output"]
    assert {name: output[name] for name in ("error", "code", "model")} == {
        "error": "None.",
        "code": "E7",
        "model": "Model T",
    }
    # What it hands on whole is an agent's output all the same.
    assert "model" not in output["all"]
    asked_for = {"selectedOutputs": ["response_1.status", "response_1.headers"]}
    chosen = studio.execute(workflow, asked_for, key=None).get_json()["output"]
    assert chosen == {"response_1": {"status": 404, "headers": {"X-Model": "plain"}}}


def test_a_workflow_that_is_not_ready_says_no_more(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    workflow = studio.deploy(public("openai/gpt-5-mini"))
    answer = studio.execute(workflow, {}, key=None)
    error = assert_error(answer, 503, "provider_not_configured")
    assert "OPENAI" not in str(error)
    assert "gpt" not in str(error)


def test_a_run_knows_that_its_starter_has_no_key(studio: Studio) -> None:
    workflow = studio.deploy(public("scripted/plain"))
    runs = studio.app.extensions["studio"].runs
    for key in (None, "run"):
        for path, body in ((f"/api/workflows/{workflow}/execute", {}), ("/chat", None)):
            turn = {"messages": [{"role": "user", "content": "Hello"}], "workflow": workflow}
            head = {} if key is None else {"X-API-Key": studio.keys[key]}
            answer = studio.client.post(path, json=turn if body is None else body, headers=head)
            assert runs.ended(answer.headers["X-Run-Id"]).request.public is (key is None)
        events = studio.client.post(
            f"/api/workflows/{workflow}/runs", json={"message": "Hello"}, headers=head
        )
        assert sse.parse(events.get_data())
        assert runs.ended(events.headers["X-Run-Id"]).request.public is (key is None)


def test_what_a_child_of_it_was_given_cannot_be_selected(studio: Studio) -> None:
    tool = {"id": "tool_1", "type": "tool", "config": {"tool": TOOL, "arguments": {"q": "x"}}}
    child = {
        "name": "Child",
        "blocks": [{"id": "start", "type": "start"}, tool],
        "edges": [{"source": "start", "target": "tool_1"}],
    }
    inner = studio.deploy(child, "child")
    made = public("scripted/plain")
    block = {"id": "wf_1", "type": "workflow", "config": {"workflow": inner}}
    edges = [{"source": "start", "target": "wf_1"}, {"source": "wf_1", "target": "agent_1"}]
    workflow = studio.deploy({**made, "blocks": [*made["blocks"], block], "edges": edges})
    for selector in ("wf_1", "wf_1.result", "wf_1/tool_1"):
        answer = studio.execute(workflow, {"selectedOutputs": [selector, "agent_1.content"]}, key=None)
        assert_error(answer, 400, "validation_failed", says=selector)
    assert studio.execute(workflow, {"selectedOutputs": ["wf_1.result"]}).status_code == 200

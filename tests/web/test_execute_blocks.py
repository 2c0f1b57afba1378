"""What execute shows of guardrails, of workflows inside a workflow, and refuses of them before the first byte."""

from __future__ import annotations

import typing as t

from tests.web.conftest import Studio, assert_error, document
from tests.web.test_execute import NEGOTIATE


def calling(workflow: str) -> dict[str, t.Any]:
    """A workflow whose block ``sub`` runs another one."""
    blocks = [
        {"id": "start", "type": "start"},
        {"id": "sub", "type": "workflow", "config": {"workflow": workflow}},
    ]
    return {"name": "Caller", "blocks": blocks, "edges": [{"source": "start", "target": "sub"}]}


def test_a_block_inside_a_workflow_inside_is_selected_by_its_path(studio: Studio) -> None:
    studio.deploy(document("scripted/plain"), "inner")
    outer = studio.deploy(calling("inner"))
    body = {"selectedOutputs": ["sub/Agent 1.content", "sub/agent_1.finishReason"]}
    for headers in (NEGOTIATE, {}):
        *chunks, final, sentinel = studio.stream(outer, body, headers=headers)
        assert {frame["blockId"] for frame in chunks} == {"sub/agent_1"}
        assert "".join(frame["chunk"] for frame in chunks) == "Hello there."
        assert final["data"]["output"] == {"sub/agent_1": {"finishReason": "stop"}}
        assert list(final["data"]["usage"]["byBlock"]) == ["sub/agent_1"]
        assert sentinel == "[DONE]"
    final, _ = studio.stream(outer, {}, headers=NEGOTIATE)
    assert final["data"]["output"]["content"] == "Hello there."
    assert_error(
        studio.execute(outer, {"selectedOutputs": ["sub/nobody.content"]}),
        400,
        "validation_failed",
        path="selectedOutputs[0]",
    )


def test_what_keeps_a_workflow_inside_from_running_is_a_400(studio: Studio) -> None:
    outer = studio.deploy(calling("inner"))
    assert_error(
        studio.execute(outer), 400, "validation_failed", path="blocks[1].config.workflow", says="no workflow"
    )
    studio.deploy(calling(outer), "inner")
    assert_error(studio.execute(outer), 400, "validation_failed", says="inside itself")
    studio.deploy({**document("nonesuch/model")}, "inner")
    assert_error(studio.execute(outer), 400, "validation_failed", says="nonesuch")
    studio.deploy(document("scripted/plain"), "inner")
    assert studio.execute(outer).get_json()["success"] is True


def test_a_refusal_is_a_success_and_reaches_every_reader(studio: Studio) -> None:
    guarded = document("scripted/plain")
    guard = {"checks": [{"kind": "contains", "values": ["bomb"]}], "refusal": "No."}
    guarded["blocks"].append({"id": "guard", "type": "guardrail", "config": guard})
    guarded["edges"] = [
        {"source": "start", "target": "guard"},
        {"source": "guard", "target": "agent_1", "source_handle": "true"},
    ]
    workflow = studio.deploy(guarded)
    for headers in (NEGOTIATE, {}):
        chunk, final, _ = studio.stream(workflow, {"input": "a bomb"}, headers=headers)
        assert chunk == {"blockId": "guard", "chunk": "No."}
        assert final["data"]["success"] is True
        assert final["data"]["output"]["decisions"] == [
            {"check": "contains", "passed": False, "reason": "contains a denied phrase (number 1)"}
        ]
    *chunks, _, _ = studio.stream(workflow, {"input": "a cake"}, headers=NEGOTIATE)
    assert {frame["blockId"] for frame in chunks} == {"agent_1"}

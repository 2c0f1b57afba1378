"""What execute answers: waiting and streaming, header by header, policy by policy."""

from __future__ import annotations

import typing as t

import pytest

from tests.support import sse
from tests.web.conftest import TOOL, Studio, assert_error, document

STUDIO = "X-Studio-Stream-Protocol"
SIM = "X-Sim-Stream-Protocol"
V1 = "agent-events-v1"
NEGOTIATE = {STUDIO: V1}


@pytest.fixture
def plain(studio: Studio) -> str:
    return studio.deploy(document("scripted/plain"))


@pytest.fixture
def tooling(studio: Studio) -> str:
    return studio.deploy(document("scripted/tooling", tools=[TOOL]))


# -- waiting -----------------------------------------------------------------------------------------


def test_waiting_gives_the_whole_answer(studio: Studio, plain: str) -> None:
    answer = studio.execute(plain, {"input": "hi"})
    body = answer.get_json()
    assert answer.status_code == 200
    assert list(body) == ["success", "runId", "status", "output", "usage"]
    assert body["success"] is True
    assert body["status"] == "completed"
    assert body["runId"] == answer.headers["X-Run-Id"]
    assert body["output"]["content"] == "Hello there."
    assert body["usage"]["tokens"]["input"] == 3


def test_waiting_with_selections_gives_their_map(studio: Studio, plain: str) -> None:
    body = studio.execute(plain, {"selectedOutputs": ["Agent 1.content", "agent_1.finishReason"]}).get_json()
    assert body["output"] == {"agent_1": {"content": "Hello there.", "finishReason": "stop"}}
    assert studio.execute(plain, {"selectedOutputs": []}).get_json()["output"] == {}


def test_waiting_for_a_failure_is_a_200_with_the_failure_in_band(studio: Studio) -> None:
    answer = studio.execute(studio.deploy(document("scripted/broken")))
    body = answer.get_json()
    assert answer.status_code == 200
    assert body["success"] is False
    assert body["status"] == "failed"
    assert body["error"]["code"] == "provider_overloaded"
    assert body["error"]["blockId"] == "agent_1"
    assert "detail" not in body["error"]


def test_waiting_is_bounded_by_the_callers_time(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/silent", settings={"timeout_s": 1}))
    body = studio.execute(workflow, {"timeoutSeconds": 600}).get_json()
    assert body["status"] == "timed_out"
    assert body["error"]["code"] == "timed_out"


@pytest.mark.parametrize(
    ("sent", "seen"),
    [("hi", {"message": "hi"}), (None, {}), ({"a": [1, None]}, {"a": [1, None]}), ([1], [1]), (7, 7)],
    ids=str,
)
def test_input_is_passed_as_sent(studio: Studio, plain: str, sent: t.Any, seen: t.Any) -> None:
    run = studio.execute(plain, {"input": sent}).get_json()["runId"]
    assert studio.get(f"/api/runs/{run}").get_json()["input"] == seen


def test_a_version_can_be_named(studio: Studio, plain: str) -> None:
    studio.deploy(document("scripted/thinker"), plain)
    for version, text in ((1, "Hello there."), (2, "Done."), (None, "Done.")):
        body = {} if version is None else {"version": version}
        assert studio.execute(plain, body).get_json()["output"]["content"] == text


def test_a_model_that_calls_tools_it_was_not_given_comes_to_an_end(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/caller", max_batches=2))
    body = studio.execute(workflow).get_json()
    assert body["output"]["content"] == "Once more."
    assert [call["status"] for call in body["output"]["toolCalls"]["list"]] == ["error"] * 3


# -- cadence -----------------------------------------------------------------------------------------


def test_without_the_header_one_settled_chunk_and_no_event_names(studio: Studio, tooling: str) -> None:
    answer = studio.execute(tooling, {"stream": True})
    assert STUDIO not in answer.headers
    assert SIM not in answer.headers
    assert b"id: " not in answer.get_data()
    frames = [frame.json() for frame in sse.parse(answer.get_data()) if frame.comment is None]
    assert frames[0] == {"blockId": "agent_1", "chunk": "It is settled."}
    assert frames[1]["event"] == "final"
    assert frames[2:] == ["[DONE]"]


def test_with_the_header_text_is_live_and_taken_back(studio: Studio, tooling: str) -> None:
    answer = studio.execute(tooling, {"stream": True}, headers=NEGOTIATE)
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache, no-transform"
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert answer.headers[STUDIO] == V1
    run = answer.headers["X-Run-Id"]
    parsed = [frame for frame in sse.parse(answer.get_data()) if frame.comment is None]
    assert all((frame.id or run).startswith(run) for frame in parsed)
    frames = [frame.json() for frame in parsed]
    assert {"blockId": "agent_1", "event": "chunk_reset", "reason": "tool_turn"} in frames
    assert sse.standing(parsed) == {"agent_1": "It is settled."}
    assert not [
        frame for frame in frames if isinstance(frame, dict) and frame.get("event") in ("thinking", "tool")
    ]


@pytest.mark.parametrize(
    ("headers", "echo"),
    [
        ({STUDIO: " AGENT-EVENTS-V1 "}, {STUDIO}),
        ({SIM: V1}, {SIM}),
        ({STUDIO: f"v9, {V1}"}, {STUDIO}),
        ({STUDIO: V1, SIM: V1}, {STUDIO, SIM}),
        ({STUDIO: "v9", SIM: V1}, {STUDIO, SIM}),
        ({STUDIO: ""}, set()),
        ({}, set()),
    ],
)
def test_each_sent_name_is_echoed_with_the_one_token(
    studio: Studio, plain: str, headers: dict[str, str], echo: set[str]
) -> None:
    answer = studio.execute(plain, {"stream": True}, headers=headers)
    assert answer.status_code == 200
    assert {name for name in (STUDIO, SIM) if name in answer.headers} == echo
    assert all(answer.headers[name] == V1 for name in echo)


def test_without_stream_the_header_is_ignored_and_not_echoed(studio: Studio, plain: str) -> None:
    answer = studio.execute(plain, headers={STUDIO: V1, SIM: "v9"})
    assert answer.mimetype == "application/json"
    assert STUDIO not in answer.headers
    assert SIM not in answer.headers


# -- exposure ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("thinking", [True, False])
def test_thinking_needs_header_and_flag(studio: Studio, thinking: bool) -> None:
    workflow = studio.deploy(document("scripted/thinker"))
    frames = studio.stream(workflow, {"includeThinking": thinking}, headers=NEGOTIATE)
    thought = [
        frame["data"] for frame in frames if isinstance(frame, dict) and frame.get("event") == "thinking"
    ]
    assert "".join(thought) == ("Hm, let me see." if thinking else "")


@pytest.mark.parametrize("tools", [True, False])
def test_tool_frames_need_header_and_flag_and_never_hold_payloads(
    studio: Studio, tooling: str, tools: bool
) -> None:
    frames = studio.stream(tooling, {"includeToolCalls": tools}, headers=NEGOTIATE)
    shown = [frame for frame in frames if isinstance(frame, dict) and frame.get("event") == "tool"]
    if tools:
        assert shown == [
            {"blockId": "agent_1", "event": "tool", "phase": "start", "id": "call_1", "name": "secretive"},
            {
                "blockId": "agent_1",
                "event": "tool",
                "phase": "end",
                "id": "call_1",
                "name": "secretive",
                "status": "success",
            },
        ]
    else:
        assert shown == []


def test_a_key_gets_payloads_in_the_end_the_public_does_not(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/tooling", tools=[TOOL], settings={"public": True}))
    selected = {"selectedOutputs": ["agent_1.toolCalls", "agent_1.providerTiming", "agent_1"]}
    for body in ({"stream": True}, {"stream": True, **selected}, {}, selected):
        with_key = studio.execute(workflow, body).get_data(as_text=True)
        without = studio.execute(workflow, body, key=None).get_data(as_text=True)
        assert "It is settled." in with_key
        assert "It is settled." in without
        assert "private question" in with_key
        assert "private" not in without


def test_nothing_selected_gives_the_final_frame_only(studio: Studio, tooling: str) -> None:
    frames = studio.stream(tooling, {"selectedOutputs": []}, headers=NEGOTIATE)
    assert [frame["event"] for frame in frames[:-1]] == ["final"]
    assert frames[0]["data"]["output"] == {}
    assert frames[0]["data"]["toolCalls"]["agent_1"]["count"] == 1


# -- ends --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, NEGOTIATE], ids=["settled", "live"])
def test_a_failure_is_one_error_frame_and_the_sentinel(studio: Studio, headers: dict[str, str]) -> None:
    workflow = studio.deploy(document("scripted/broken"))
    frames = studio.stream(workflow, {}, headers=headers)
    ends = [frame for frame in frames if isinstance(frame, dict) and frame.get("event") in ("final", "error")]
    assert len(ends) == 1
    assert frames[-2:] == [ends[0], "[DONE]"]
    assert isinstance(ends[0]["error"], str)
    assert ends[0].get("code") == ("provider_overloaded" if headers else None)


def test_what_never_became_final_is_partial_text_of_the_record_only(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/broken"))
    run = studio.execute(workflow).get_json()["runId"]
    record = studio.get(f"/api/runs/{run}").get_json()
    assert record["partialText"] == {"agent_1": "Half "}
    assert "output" not in record
    assert record["error"]["code"] == "provider_overloaded"


def test_the_vendors_own_words_are_for_scope_read_only(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/broken"))
    run = studio.execute(workflow).get_json()["runId"]
    for key in ("read", "admin"):
        assert studio.get(f"/api/runs/{run}", key=key).get_json()["error"]["detail"] == "Too busy."
    assert "detail" not in studio.get(f"/api/runs/{run}", key="run").get_data(as_text=True)


def test_an_emptied_folder_of_scripts_is_a_400_not_a_failed_run(studio: Studio, plain: str) -> None:
    settings = studio.app.extensions["studio"].settings
    assert studio.execute(plain).status_code == 200
    (settings.scripts_dir / "plain.yaml").unlink()
    assert_error(studio.execute(plain), 400, "validation_failed", path="blocks[1].config.model")

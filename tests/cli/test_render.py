"""The three views, fed frames."""

from __future__ import annotations

import json
import typing as t

import pytest

from app.cli import render

FINAL: dict[str, t.Any] = {
    "event": "final",
    "data": {
        "success": True,
        "runId": "run_1",
        "status": "completed",
        "output": {},
        "toolCalls": {},
        "usage": {},
    },
}
RETRACTED: list[t.Any] = [
    {"blockId": "a", "event": "thinking", "data": "Let me see"},
    {"blockId": "a", "chunk": "I will look"},
    {"blockId": "a", "event": "tool", "phase": "start", "id": "c1", "name": "clock"},
    {"blockId": "a", "event": "chunk_reset", "reason": "tool_turn"},
    {"blockId": "a", "event": "tool", "phase": "end", "id": "c1", "name": "clock", "status": "success"},
    {"blockId": "a", "chunk": "It is "},
    {"blockId": "a", "chunk": "noon."},
    FINAL,
]


def shown(view: render.View, frames: list[t.Any]) -> None:
    for frame in frames:
        view.show(frame)
    view.close()


def test_a_pipe_gets_the_standing_answer_only(capsys: pytest.CaptureFixture[str]) -> None:
    shown(render.Plain(), RETRACTED)
    assert capsys.readouterr() == ("It is noon.\n", "")


def test_a_pipe_keeps_text_as_it_is_and_blocks_apart(capsys: pytest.CaptureFixture[str]) -> None:
    shown(
        render.Plain(), [{"blockId": "a", "chunk": "\x1b[31mred"}, {"blockId": "b", "chunk": "two\n"}, FINAL]
    )
    assert capsys.readouterr().out == "\x1b[31mred\n\ntwo\n"


def test_a_failed_run_leaves_a_pipe_empty(capsys: pytest.CaptureFixture[str]) -> None:
    shown(
        render.Plain(),
        [{"blockId": "a", "chunk": "half"}, {"event": "error", "error": "It broke.", "code": "internal"}],
    )
    assert capsys.readouterr() == ("", "It broke. (internal)\n")


def test_output_that_was_no_text_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    final = {"event": "final", "data": {**FINAL["data"], "output": {"n": 1}}}  # type: ignore[dict-item]
    shown(render.Plain(), [final])
    assert capsys.readouterr().out == '{"n":1}\n'


def test_json_is_one_document_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    shown(render.Json("run_1"), RETRACTED)
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    body = json.loads(out)
    assert body["success"] is True
    assert body["text"] == {"a": "It is noon."}
    assert body["thinking"] == {"a": "Let me see"}


@pytest.mark.parametrize(
    ("code", "status"), [("timed_out", "timed_out"), ("cancelled", "cancelled"), ("provider_idle", "failed")]
)
def test_json_tells_how_a_run_ended(capsys: pytest.CaptureFixture[str], code: str, status: str) -> None:
    shown(render.Json("run_1"), [{"event": "error", "error": "Over.", "code": code, "blockId": "a"}])
    assert json.loads(capsys.readouterr().out) == {
        "success": False,
        "runId": "run_1",
        "status": status,
        "error": {"code": code, "message": "Over.", "blockId": "a"},
    }


def test_a_terminal_shows_what_was_taken_back_as_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    shown(render.Terminal(colour=True), RETRACTED)
    out = capsys.readouterr().out
    assert "\x1b[2mLet me see\n\x1b[0mI will look\n\x1b[2m▸ clock …\n" in out
    assert "↩ taken back: \x1b[0m\x1b[2;9mI will look\n\x1b[0m" in out
    assert out.endswith("\x1b[0m")
    assert out.index("taken back") < out.index("✓ clock") < out.index("It is noon.\n")


def test_a_terminal_does_not_obey_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    frames = [
        {"blockId": "a", "event": "tool", "phase": "start", "id": "c", "name": "x\x1b]0;title\x07"},
        {"blockId": "a", "chunk": "\x1b[2J\x07\x9b31mhello\r\nworld\n"},
        {"event": "error", "error": "bad \x1b[1m", "code": "internal"},
    ]
    shown(render.Terminal(colour=False), frames)
    out = capsys.readouterr().out
    assert not set(out) & {"\x1b", "\x07", "\x9b", "\r"}
    assert "hello\nworld\n" in out


def test_a_terminal_passes_over_frames_of_later_versions(capsys: pytest.CaptureFixture[str]) -> None:
    shown(
        render.Terminal(colour=False),
        [{"event": "status", "state": "working"}, {"event": "line", "x": 1}, FINAL],
    )
    assert "completed" in capsys.readouterr().out


def test_a_terminal_does_not_call_a_run_complete_that_waits_for_a_person(
    capsys: pytest.CaptureFixture[str],
) -> None:
    paused = {"event": "final", "data": {**FINAL["data"], "status": "paused"}}
    shown(render.Terminal(colour=False), [{"blockId": "a", "chunk": "Hello."}, paused])
    assert capsys.readouterr().out == "Hello.\n‖ paused · run_1\n"

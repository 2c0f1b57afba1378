"""A detector that fails ends the run, whatever else would take the failure up; nothing unfiltered is told or kept."""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Iterator

import pytest

from app import events as ev
from app.engine.recompiled import compiled
from app.engine.redaction import FAILED, MESSAGE
from app.engine.run_request import RunRequest
from app.engine.services import Services
from app.redaction import finders, log_lines
from plugins.spec import Tool
from tests.engine.redacted import Model, ended, everything, rig
from tests.streams.generate import violations
from tests.support.engine import Recorder, agent, start

MARK = "the-marker-that-nobody-may-see"


class Breaks:
    """Fails at the text a test names."""

    name = "breaks"
    longest = 20

    def __init__(self) -> None:
        self.at = "nowhere"
        self.how = "raise"

    def find(self, text: str) -> t.Iterable[tuple[int, int]]:
        if self.at not in text:
            return []
        if self.how == "raise":
            raise RuntimeError(f"could not look at {text}")
        if self.how == "slow":
            return iter(self)  # type: ignore[call-overload, no-any-return]
        return [(0, len(text) + 1)]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        sum(range(300_000))
        return iter(())


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def broken() -> Breaks:
    return Breaks()


@pytest.fixture(scope="module")
def made(model: Model, broken: Breaks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    tool = Tool("look", "Looks.", {"type": "object"}, lambda arguments, context: f"found {MARK} in-result")
    with rig(tmp_path_factory.mktemp("broken"), model, [tool], [broken]) as opened:
        yield opened


#: What is said, in order.
WORDS = {
    "input": "in-input",
    "thinking": "in-thinking",
    "text": "in-text",
    "arguments": "in-arguments",
    "result": "in-result",
    "answer": "in-answer",
}


def document(mode: str, **settings: t.Any) -> dict[str, t.Any]:
    made = agent("said/x", tools=["look"], redact={"mode": mode, "detectors": ["breaks"]})
    made["blocks"][1]["config"] |= settings
    made["blocks"].append({"id": "after", "type": "set", "config": {"values": {"took": "it up"}}})
    made["edges"].append({"source": "agent_1", "target": "after", "source_handle": "error"})
    return made


@pytest.mark.parametrize("how", ["raise", "nonsense"])
@pytest.mark.parametrize("mode", ["live", "strict"])
@pytest.mark.parametrize("where", WORDS)
def test_the_run_fails_and_nothing_of_it_is_told(
    made: Services,
    model: Model,
    broken: Breaks,
    mode: str,
    where: str,
    how: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    broken.at, broken.how = WORDS[where], how
    model.turns = [
        [
            ("thinking", f"{MARK} in-thinking {MARK} x{'y' * 30}"),
            ("text", f"{MARK} in-text {MARK} x{'y' * 30}"),
            ("call", ("look", {"a": f"{MARK} in-arguments"})),
        ],
        [("text", f"{MARK} in-answer {MARK}")],
    ]
    started, recorder = start(made, document(mode, retries=2), {"message": f"{MARK} in-input"})
    ended(started)
    terminal = recorder.envelopes[-1].event
    assert isinstance(terminal, ev.RunFailed)
    assert (terminal.code, terminal.message, terminal.block) == (FAILED, MESSAGE, None)
    assert violations(recorder.envelopes) == []
    assert all(state.status != "executed" for name, state in started.state.blocks.items() if name == "after")
    order = list(WORDS.values())
    told = everything(made, started, recorder) + caplog.text
    # What came before it failed had been searched, and holds nothing that is masked.
    assert [word for word in order[order.index(WORDS[where]) :] if word in told] == []
    row = made.store.runs.get(started.id)
    assert row is not None
    assert (row["status"], row["error"]["code"], row["output"], row["input"]) == (
        "failed",
        FAILED,
        None,
        row["input"],
    )
    assert row["input"] is None or "in-input" in row["input"]["message"]
    assert "the detector breaks failed" in caplog.text


def test_the_log_as_it_is_written_names_the_detector(made: Services, model: Model, broken: Breaks) -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.emit = lambda record: lines.append(handler.format(record))  # type: ignore[method-assign]
    logger = logging.getLogger("studio.runs")
    logger.addHandler(handler)
    broken.at, broken.how = "in-answer", "raise"
    model.turns = [[("text", f"{MARK} in-answer {MARK}")]]
    try:
        with log_lines.masked([handler], tuple):
            started, _ = start(made, document("live"))
            ended(started)
    finally:
        logger.removeHandler(handler)
    told = "the detector breaks failed: RuntimeError; it ends, and nothing more of it is told"
    assert f"run {started.id}: {told}" in lines
    assert MARK not in "".join(lines)


def test_one_that_takes_too_long_is_a_failure(
    made: Services, model: Model, broken: Breaks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finders, "LIMIT_S", 0.0)
    broken.at, broken.how = "in-answer", "slow"
    model.turns = [[("text", f"{MARK} in-answer {MARK}")]]
    started, recorder = start(made, document("live"))
    ended(started)
    assert isinstance(recorder.envelopes[-1].event, ev.RunFailed)
    assert recorder.envelopes[-1].event.code == FAILED


def test_a_detector_that_is_gone_is_a_failure(made: Services, model: Model) -> None:
    model.turns = [[("text", MARK)]]
    workflow = compiled(document("live"), made.plugins)
    recorder = Recorder()
    request = RunRequest(made.clock.new_id("run"), "wf_test", 1, workflow, {"message": MARK}, 30.0)
    gone = made.plugins.detectors.pop("breaks")
    try:
        started = ended(made.runs.start(request, (recorder,)))
    finally:
        made.plugins.detectors["breaks"] = gone
    terminal = recorder.envelopes[-1].event
    assert isinstance(terminal, ev.RunFailed)
    assert terminal.code == FAILED
    assert MARK not in everything(made, started, recorder)

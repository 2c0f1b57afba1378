"""Metrics: what runs add to them, and how their files come and go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.engine.observe import folder
from app.engine.observe.metrics import MODELS, Metrics
from app.engine.observe.observer import Observing
from app.engine.services import Services
from tests.support.engine import agent, start
from tests.support.graphs import alone, ended, graph, playing
from tests.support.servers import wait_until
from tests.support.shared import ROOT

SCRIPTS = {
    "says": {"turns": [{"steps": [{"text": "hi"}, {"usage": {"input": 10, "output": 5}}]}]},
    "calls": {
        "turns": [
            {"steps": [{"tool_call": {"name": "calculator", "arguments": {"expression": "1 + 1"}}}]},
            {"steps": [{"tool_call": {"name": "marigold", "arguments": {}}}]},
            {"steps": [{"text": "2"}]},
        ]
    },
    "busy": {"turns": [{"steps": [{"error": {"code": "provider_overloaded", "message": "Later."}}]}]},
    "silent": {"turns": [{"steps": [{"stall": True}]}]},
}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def made(tmp_path: Path, metrics: Metrics) -> Iterator[Services]:
    with playing(tmp_path, SCRIPTS) as opened:
        opened.observing = Observing(None, metrics)
        yield opened


def values(metrics: Metrics) -> dict[str, float]:
    """Every sample that is not zero, but for buckets and times."""
    found = re.findall(r"^studio_(\S+(?: \S+)*) (\S+)$", metrics.text().decode(), re.MULTILINE)
    left_out = ("_bucket", "_created", "_sum")
    return {
        name: float(value) for name, value in found if float(value) and not any(x in name for x in left_out)
    }


def test_a_run_is_counted_once_at_each_of_its_boundaries(made: Services, metrics: Metrics) -> None:
    run, _ = start(made, agent("scripted/calls", tools=["calculator"]), origin={"surface": "json"})
    assert run.done.wait(20)
    found = values(metrics)
    tokens = {name: found.pop(name) for name in list(found) if name.startswith("model_tokens")}
    assert set(tokens) == {
        f'model_tokens_total{{family="scripted",kind="{kind}",model="calls"}}' for kind in ("input", "output")
    }
    assert found == {
        'runs_started_total{surface="json"}': 1,
        'runs_ended_total{cause="",status="completed",surface="json"}': 1,
        'run_duration_seconds_count{status="completed"}': 1,
        'run_active_seconds_count{status="completed"}': 1,
        "run_queue_seconds_count": 1,
        'blocks_ended_total{status="executed",type="start"}': 1,
        'blocks_ended_total{status="executed",type="agent"}': 1,
        'model_calls_total{family="scripted",model="calls",outcome="ok"}': 3,
        'model_call_seconds_count{family="scripted"}': 3,
        'model_first_token_seconds_count{family="scripted"}': 3,
        'tool_calls_total{status="success"}': 1,
        'tool_calls_total{status="error"}': 1,
        "tool_call_seconds_count": 2,
    }


def test_counts_of_tokens_are_those_of_the_run(made: Services, metrics: Metrics) -> None:
    ended(made, agent("scripted/says"))
    ended(made, agent("scripted/says"))
    found = values(metrics)
    assert found['model_tokens_total{family="scripted",kind="input",model="says"}'] == 20
    assert found['model_tokens_total{family="scripted",kind="output",model="says"}'] == 10


def test_ends_are_told_by_status_and_cause(made: Services, metrics: Metrics) -> None:
    ended(made, agent("scripted/busy", retries=1))
    run, _ = start(made, agent("scripted/silent"))
    wait_until(lambda: run.state.open_blocks(), "it runs")
    run.cancel("stop_requested")
    assert run.done.wait(20)
    late, _ = start(made, agent("scripted/silent"), timeout_s=0.2)
    assert late.done.wait(20)
    found = values(metrics)
    ends = {name: count for name, count in found.items() if name.startswith("runs_ended")}
    assert ends == {
        'runs_ended_total{cause="provider_overloaded",status="failed",surface="other"}': 1,
        'runs_ended_total{cause="stop_requested",status="cancelled",surface="other"}': 1,
        'runs_ended_total{cause="execution_timeout",status="timed_out",surface="other"}': 1,
    }
    calls = 'model_calls_total{family="scripted",model="busy",outcome="provider_overloaded"}'
    assert found[calls] == 2
    assert found['model_calls_total{family="scripted",model="silent",outcome="cancelled"}'] >= 1


def test_of_a_secret_vote_only_what_all_used_together_is_counted(made: Services, metrics: Metrics) -> None:
    voters = [{"model": f"scripted/{name}", "name": name} for name in ("says", "calls")]
    ended(made, alone("vote", {"voters": voters, "options": ["hi", "2"], "secret": True, "abstain": True}))
    found = values(metrics)
    assert not any(name.startswith(("model_calls", "tool_calls")) for name in found)
    assert {name for name in found if name.startswith("model_tokens")} == {
        f'model_tokens_total{{family="several",kind="{kind}",model=""}}' for kind in ("input", "output")
    }


def test_no_name_that_anybody_made_up_is_a_label(made: Services, metrics: Metrics) -> None:
    doc = graph(
        [("marigold_block", "agent", {"model": "scripted/calls", "tools": ["calculator"]})],
        "start > marigold_block",
    )
    ended(made, {**doc, "name": "marigold"}, {"message": "marigold"})
    assert "marigold" not in metrics.text().decode()


def test_models_beyond_a_hundred_are_one(metrics: Metrics) -> None:
    labels = [metrics.model(f"family/model-{n}") for n in range(MODELS + 50)]
    assert labels[MODELS - 1] == ("family", f"model-{MODELS - 1}")
    assert set(labels[MODELS:]) == {("family", "other")}
    assert metrics.model("family/model-0") == ("family", "model-0"), "the first ones stay"


def test_a_loop_that_comes_late_is_seen(metrics: Metrics) -> None:
    metrics.looks["streams_open"] = lambda: 7
    metrics.sample(100.0)
    metrics.sample(101.3)
    text = metrics.text().decode()
    assert 'studio_loop_lag_seconds_bucket{le="0.25"} 0.0' in text
    assert 'studio_loop_lag_seconds_bucket{le="0.5"} 1.0' in text
    assert "studio_streams_open 7.0" in text


def test_what_is_asked_for_is_asked_when_somebody_reads(metrics: Metrics) -> None:
    asked = iter([3, 4])
    metrics.asked["decisions_open"] = ("Questions that wait.", lambda: next(asked))
    assert "studio_decisions_open 3.0" in metrics.text().decode()
    assert "studio_decisions_open 4.0" in metrics.text().decode()
    text = metrics.text().decode()
    assert "studio_decisions_open" not in text, "nobody could say"
    assert "studio_runs_live 0.0" in text


# -- files ---------------------------------------------------------------------------------------


def test_a_folder_of_the_operator_s_own_goes_first(tmp_path: Path) -> None:
    environ: dict[str, str] = {}
    assert folder.choose(environ, tmp_path, 8000) == tmp_path / "metrics" / "8000"
    assert environ[folder.VARIABLE] == str(tmp_path / "metrics" / "8000")
    assert folder.choose({folder.VARIABLE: str(tmp_path / "mine")}, tmp_path, 8000) == tmp_path / "mine"


def test_only_metrics_are_ever_removed(tmp_path: Path) -> None:
    names = [
        "counter_1.db",
        "histogram_1.db",
        "gauge_livesum_1.db",
        "gauge_livesum_12.db",
        "studio.db",
        "secrets.key",
    ]
    for name in names:
        (tmp_path / name).touch()

    def left() -> set[str]:
        return {path.name for path in tmp_path.iterdir()}

    folder.leave(tmp_path, 1)
    assert left() == set(names) - {"gauge_livesum_1.db"}
    folder.empty(tmp_path)
    assert left() == {"studio.db", "secrets.key"}
    folder.remove(tmp_path)
    assert left() == {"studio.db", "secrets.key"}


def test_a_folder_of_our_own_goes_with_the_server(tmp_path: Path) -> None:
    folder.empty(tmp_path / "metrics" / "1")
    (tmp_path / "metrics" / "1" / "counter_1.db").touch()
    folder.remove(tmp_path / "metrics" / "1")
    assert not (tmp_path / "metrics" / "1").exists()
    folder.remove(tmp_path / "never" / "was")


def test_the_page_names_every_metric_and_no_other(metrics: Metrics) -> None:
    metrics.asked["decisions_open"] = ("Questions that wait.", lambda: 0)
    kinds = re.findall(r"^# TYPE (studio_\w+) (\w+)$", metrics.text().decode(), re.MULTILINE)
    there = {name for name, _ in kinds if not name.endswith("_created")}
    page = (ROOT / "docs" / "observability.md").read_text()
    told = {
        name
        for row in re.findall(r"^\| `studio_.*$", page, re.MULTILINE)
        for name in re.findall(r"studio_\w+", row)
    }
    assert told == there

"""``DELETE /api/runs/{id}``: a run goes, everywhere; and runs whose time is over go by themselves."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from app.store.errors import StoreFailed
from tests.support import sse
from tests.support.servers import wait_until
from tests.web.conftest import TOOL, Studio, assert_error, document, opened
from tests.web.managing import ok, send
from tests.web.test_runs import start_silent


@pytest.fixture
def ended(studio: Studio) -> str:
    """The id of a run that has ended, whose log is still kept."""
    workflow = studio.deploy(document("scripted/tooling", tools=[TOOL]))
    return t.cast(str, ok(studio.execute(workflow, {"input": "Hi", "conversationId": "mine"}))["runId"])


def delete(studio: Studio, run: str, key: str = "run") -> t.Any:
    return send(studio, "DELETE", f"/api/runs/{run}", key=key)


@pytest.mark.parametrize("key", ["run", "admin"])
def test_a_deleted_run_is_nowhere(studio: Studio, ended: str, key: str) -> None:
    runs = studio.app.extensions["studio"].runs
    assert runs.ended(ended) is not None
    assert delete(studio, ended, key).status_code == 204
    assert runs.ended(ended) is None
    for way in ("", "/events", "/events?protocol=runs", "/values/input"):
        assert_error(studio.get(f"/api/runs/{ended}{way}"), 404, "not_found")
    for method, way, body in (
        ("DELETE", "", None),
        ("POST", "/cancel", None),
        ("POST", "/resume", {"decision": "approve"}),
    ):
        assert_error(send(studio, method, f"/api/runs/{ended}{way}", body, key="run"), 404, "not_found")
    assert ok(studio.get("/api/runs"))["items"] == []
    assert ok(studio.get("/api/threads"))["items"] == []
    audited = ok(studio.get(f"/api/audit?subject=run:{ended}", "admin"))["items"]
    assert [row["action"] for row in audited] == ["run.delete"]


def test_a_log_that_another_process_deleted_is_not_told(studio: Studio, ended: str) -> None:
    assert studio.app.extensions["studio"].runs.ended(ended) is not None
    assert studio.store.retention.forget(ended)
    assert_error(studio.get(f"/api/runs/{ended}/events"), 404, "not_found")


def test_a_log_whose_run_never_came_to_the_store_is_told(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not deleted: nothing could be written."""
    workflow = studio.deploy(document("scripted/tooling", tools=[TOOL]))
    runs = studio.store.runs

    def broken(*given: t.Any) -> t.NoReturn:
        raise StoreFailed("The disk is full.")

    monkeypatch.setattr(runs, "started", lambda row: None)
    monkeypatch.setattr(runs, "finished", broken)
    run = ok(studio.execute(workflow, {"input": "Hi"}))["runId"]
    assert runs.status(run) is None
    for _ in range(2):
        answer = studio.get(f"/api/runs/{run}/events")
        assert answer.status_code == 200, answer.text
        assert '"final"' in answer.text


def test_a_stream_of_it_that_goes_on_ends_well(studio: Studio, ended: str) -> None:
    answer = studio.client.get(
        f"/api/runs/{ended}/events", headers={"X-API-Key": studio.keys["read"]}, buffered=False
    )
    chunks = iter(answer.response)
    first = next(chunks)
    assert delete(studio, ended).status_code == 204
    frames = [frame for frame in sse.parse(b"".join([first, *chunks])) if frame.comment is None]
    assert frames[-1].data == "[DONE]" or frames[-1].json()


def test_one_that_goes_on_is_a_409(studio: Studio) -> None:
    answer, run = start_silent(studio)
    wait_until(lambda: studio.store.runs.status(run), "its row is there")
    assert_error(delete(studio, run), 409, "run_not_ended", says="cancel")
    assert studio.get(f"/api/runs/{run}").status_code == 200
    send(studio, "POST", f"/api/runs/{run}/cancel", key="run")
    answer.get_data()
    wait_until(lambda: studio.app.extensions["studio"].runs.get(run) is None, "it has ended")
    assert delete(studio, run).status_code == 204


def test_others_runs_are_not_there(studio: Studio, ended: str) -> None:
    _, other = studio.store.keys.create("other", ["run"])
    assert_error(delete(studio, ended, other), 404, "not_found")
    assert_error(delete(studio, ended, "read"), 403, "forbidden")
    assert_error(delete(studio, "run_none"), 404, "not_found")
    assert_error(
        send(studio, "DELETE", f"/api/runs/{ended}", {"why": 1}, key="run"), 400, "validation_failed"
    )
    assert studio.get(f"/api/runs/{ended}").status_code == 200


@pytest.mark.parametrize("days", [0, 30])
def test_runs_are_kept_for_as_long_as_is_set(tmp_path: Path, days: int) -> None:
    with opened(tmp_path, {"STUDIO_RUN_RETENTION_DAYS": str(days)}) as studio:
        workflow = studio.deploy(document("scripted/plain"))
        run = ok(studio.execute(workflow))["runId"]
        services = studio.app.extensions["studio"]
        services.runs._sweep_kept()
        assert studio.store.runs.status(run) == "completed"
        now = services.clock.now_ms()
        studio.store.retention._clock = t.cast(t.Any, _At)(now + 31 * 86_400_000)
        services.runs._sweep_kept()
        assert (studio.store.runs.status(run) is None) == bool(days)


class _At:
    """A clock that stands."""

    def __init__(self, now: int) -> None:
        self._now = now

    def now_ms(self) -> int:
        """See above."""
        return self._now

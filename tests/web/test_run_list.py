"""The list of runs: who sees which, filters, pages, runs that are still going on."""

from __future__ import annotations

import typing as t

import pytest

from app.engine.run import Run
from tests.support.servers import wait_until
from tests.web.conftest import TOOL, Studio, assert_error, document
from tests.web.test_runs import start_silent


def ids(answer: t.Any) -> list[str]:
    assert answer.status_code == 200, answer.get_data()
    return [item["runId"] for item in answer.get_json()["items"]]


def run(studio: Studio, workflow: str, key: str = "run", **body: t.Any) -> str:
    return t.cast(str, studio.execute(workflow, body, key=key).get_json()["runId"])


def test_newest_first_in_pages(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/plain"))
    made = [run(studio, workflow) for _ in range(5)]
    answer = studio.get("/api/runs?limit=2")
    pages = [ids(answer)]
    while "nextCursor" in (body := answer.get_json()):
        answer = studio.get(f"/api/runs?limit=2&cursor={body['nextCursor']}")
        pages.append(ids(answer))
    assert [len(page) for page in pages] == [2, 2, 1]
    flat = [name for page in pages for name in page]
    assert flat == sorted(made, reverse=True)
    assert ids(studio.get("/api/runs")) == flat


def test_an_item_is_the_record_without_what_was_said(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/tooling", tools=[TOOL]))
    made = run(studio, workflow, input="my question", conversationId="c-1")
    answer = studio.get("/api/runs", key="run")
    (item,) = answer.get_json()["items"]
    record = studio.get(f"/api/runs/{made}", key="run").get_json()
    said = {"input", "output", "partialText", "toolCalls", "blocks"}
    details = {"modelCalls"}
    assert item == {name: value for name, value in record.items() if name not in said | details}
    (call, *_) = record["modelCalls"]
    assert call["estimated"] is True  # a script without counts
    assert (call["blockId"], call["model"]) == ("agent_1", "scripted/tooling")
    for text in ("my question", "private", "settled"):
        assert text not in answer.get_data(as_text=True)


def test_the_vendors_words_are_for_readers_only(studio: Studio) -> None:
    run(studio, studio.deploy(document("scripted/broken")))
    (seen,) = studio.get("/api/runs", key="read").get_json()["items"]
    (own,) = studio.get("/api/runs", key="run").get_json()["items"]
    assert seen["error"].pop("detail")
    assert seen["error"].pop("model") == "scripted/broken"
    assert own == seen


def test_failed_attempts_are_in_the_record_for_readers(studio: Studio) -> None:
    made = run(studio, studio.deploy(document("scripted/broken", fallbacks=["scripted/tooling"])))
    seen = studio.get(f"/api/runs/{made}", key="read").get_json()
    (failed,) = seen["modelFailures"]
    assert failed.pop("at") >= seen["startedAt"]
    assert failed == {
        "blockId": "agent_1",
        "model": "scripted/broken",
        "code": "provider_overloaded",
        "attempt": 1,
    }
    assert "modelFailures" not in studio.get(f"/api/runs/{made}", key="run").get_json()


def test_a_key_sees_its_own_runs_only(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/plain"))
    _, other = studio.store.keys.create("other", frozenset({"run"}))
    mine, theirs = run(studio, workflow), run(studio, workflow, other)
    public = studio.deploy(document("scripted/plain", settings={"public": True}))
    nobodys = studio.execute(public, key=None).get_json()["runId"]
    assert ids(studio.get("/api/runs", key="run")) == [mine]
    assert ids(studio.get(f"/api/runs?workflowId={workflow}", key=other)) == [theirs]
    assert ids(studio.get(f"/api/runs?cursor={nobodys}", key=other)) == [theirs]
    for key in ("read", "admin"):
        assert set(ids(studio.get("/api/runs", key=key))) == {mine, theirs, nobodys}


def test_filters(studio: Studio) -> None:
    plain, broken = (studio.deploy(document(f"scripted/{name}")) for name in ("plain", "broken"))
    first, second = run(studio, plain, conversationId="c 1"), run(studio, plain)
    failed = run(studio, broken, conversationId="c 1")
    assert ids(studio.get(f"/api/runs?workflowId={plain}")) == sorted([first, second], reverse=True)
    assert ids(studio.get("/api/runs?status=failed")) == [failed]
    assert ids(studio.get("/api/runs?conversationId=c%201")) == sorted([first, failed], reverse=True)
    assert ids(studio.get(f"/api/runs?conversationId=c%201&status=completed&workflowId={plain}")) == [first]
    assert ids(studio.get(f"/api/runs?status=failed&workflowId={plain}")) == []
    assert ids(studio.get("/api/runs?workflowId=nonesuch")) == []


def test_a_run_that_goes_on_is_listed_at_once_and_once(studio: Studio) -> None:
    answer, silent = start_silent(studio)
    workflow = studio.get("/api/runs").get_json()["items"][0]["workflowId"]
    done = run(studio, studio.deploy(document("scripted/plain")))
    for query, expected in (
        ("", [done, silent]),
        ("?limit=1", [done]),
        (f"?cursor={done}", [silent]),
        ("?status=running", [silent]),
        ("?status=cancelled", []),
        (f"?workflowId={workflow}", [silent]),
        (f"?cursor={silent}", []),
    ):
        for key in ("read", "run"):
            assert ids(studio.get(f"/api/runs{query}", key=key)) == expected, query
    (item,) = studio.get("/api/runs?status=running").get_json()["items"]
    assert item["status"] == "running"
    assert "endedAt" not in item
    _, other = studio.store.keys.create("other", frozenset({"run"}))
    assert ids(studio.get("/api/runs", key=other)) == []
    studio.client.post(f"/api/runs/{silent}/cancel", headers={"X-API-Key": studio.keys["run"]})
    answer.get_data()
    wait_until(lambda: ids(studio.get("/api/runs?status=cancelled")) == [silent], "the end")
    assert ids(studio.get("/api/runs?status=running")) == []


def test_live_runs_that_fill_a_page_move_its_end(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of the store that no longer fit come on the next page."""
    workflow = studio.deploy(document("scripted/plain"))
    older = run(studio, workflow)
    streams = [start_silent(studio) for _ in range(3)]
    monkeypatch.setattr(studio.store.run_list, "page", _only(older, studio))
    seen: list[str] = []
    path = "/api/runs?limit=2"
    while path:
        answer = studio.get(path)
        seen += ids(answer)
        cursor = answer.get_json().get("nextCursor")
        path = f"/api/runs?limit=2&cursor={cursor}" if cursor else ""
    assert seen == [*sorted((name for _, name in streams), reverse=True), older]
    for stream, name in streams:
        live = t.cast(Run, studio.app.extensions["studio"].runs.get(name))
        live.cancel("stop_requested")
        stream.get_data()


def _only(name: str, studio: Studio) -> t.Any:
    """A store that holds one run: rows of the others are still on their way."""
    real = studio.store.run_list.page

    def page(wanted: t.Any, before: str | None, limit: int) -> t.Any:
        rows, _ = real(wanted, before, 100)
        return [row for row in rows if row["id"] == name][:limit], None

    return page


@pytest.mark.parametrize(
    ("query", "path", "says"),
    [
        ("state=failed", "state", "workflowId"),
        ("status=gone", "status", "timed_out"),
        ("status=failed&status=running", "status", "once"),
        ("status=", "status", "empty"),
        ("workflowId=", "workflowId", "empty"),
        ("limit=0", "limit", "100"),
        ("limit=101", "limit", "100"),
        ("limit=-1", "limit", "100"),
        ("limit=ten", "limit", "100"),
        ("limit=", "limit", "100"),
        ("limit=%D9%A1", "limit", "100"),
        ("cursor=", "cursor", "nextCursor"),
        ("cursor=x%00", "cursor", "nextCursor"),
        ("cursor=key_1", "cursor", "nextCursor"),
    ],
)
def test_a_query_that_means_nothing_is_refused(studio: Studio, query: str, path: str, says: str) -> None:
    assert_error(studio.get(f"/api/runs?{query}"), 400, "validation_failed", path=path, says=says)


def test_everything_wrong_is_told_at_once(studio: Studio) -> None:
    error = assert_error(studio.get("/api/runs?limit=0&status=x&y=1&cursor=z"), 400, "validation_failed")
    assert [detail["path"] for detail in error["details"]] == ["y", "status", "limit", "cursor"]

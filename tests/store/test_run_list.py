"""Lists of runs: newest first, in pages that look at a bounded number of runs."""

from __future__ import annotations

import pytest

from app.store import pages
from app.store.run_list import SUMMARY_COLUMNS, RunFilter
from tests.store import rows

ANY = RunFilter()


def _fill(store, *runs):
    for run in runs:
        store.runs.started(rows.started(**run))
    store.keys.create("comes after")  # what was queued is written


def _all(store, wanted, limit):
    """The ids of every page."""
    pages, before = [], None
    while True:
        found, before = store.run_list.page(wanted, before, limit)
        pages.append([row["id"] for row in found])
        if before is None:
            return pages


def test_newest_first_page_by_page(store):
    _fill(store, *({"run_id": f"run_{n:02}"} for n in range(7)))
    assert _all(store, ANY, 3) == [
        ["run_06", "run_05", "run_04"],
        ["run_03", "run_02", "run_01"],
        ["run_00"],
    ]
    assert _all(store, ANY, 7) == [[f"run_{n:02}" for n in range(6, -1, -1)]]
    assert _all(store, ANY, 100) == _all(store, ANY, 7)


def test_an_empty_list_has_one_empty_page(store):
    assert store.run_list.page(ANY, None, 10) == ([], None)
    assert store.run_list.page(RunFilter(status="failed"), "run_9", 10) == ([], None)


def test_a_row_says_nothing_of_what_the_run_said(store):
    store.runs.started(rows.started("run_1"))
    store.runs.finished(
        rows.ended("run_1", error={"code": "x", "message": "y"}), [rows.block("agent_1")]
    ).wait()
    (found,), _ = store.run_list.page(ANY, None, 1)
    whole = store.runs.get("run_1")
    assert found == {name: whole[name] for name in SUMMARY_COLUMNS}
    assert not {"input", "output", "partial_text", "tool_calls", "blocks"} & set(found)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (RunFilter(key_id="key_a"), "5420"),
        (RunFilter(workflow_id="wf_b"), "54"),
        (RunFilter(conversation_id="c\0"), "3"),
        (RunFilter(conversation_id="c-1", key_id="key_a"), "0"),
        (RunFilter(conversation_id="c-1"), "10"),
        (RunFilter(status="failed"), "42"),
        (RunFilter(key_id="key_a", status="failed", workflow_id="wf_b"), "4"),
        (RunFilter(key_id="key_a", status="failed", workflow_id="wf_b", conversation_id="c-2"), "4"),
        (RunFilter(key_id="' OR 1=1 --"), ""),
        (RunFilter(key_id="key_\ud800"), ""),
    ],
)
def test_filters_are_all_met(store, wanted, expected):
    _fill(
        store,
        {"run_id": "run_0", "key_id": "key_a", "conversation_id": "c-1"},
        {"run_id": "run_1", "key_id": None, "conversation_id": "c-1"},
        {"run_id": "run_2", "key_id": "key_a", "status": "failed", "conversation_id": None},
        {"run_id": "run_3", "key_id": "key_b", "conversation_id": "c\0"},
        {
            "run_id": "run_4",
            "key_id": "key_a",
            "workflow_id": "wf_b",
            "status": "failed",
            "conversation_id": "c-2",
        },
        {"run_id": "run_5", "key_id": "key_a", "workflow_id": "wf_b", "conversation_id": "c-3"},
    )
    for limit in (1, 2, 10):
        found = [name for page in _all(store, wanted, limit) for name in page]
        assert "".join(name.removeprefix("run_") for name in found) == expected


def test_a_rare_filter_goes_on_over_empty_pages(store, monkeypatch):
    monkeypatch.setattr(pages, "WINDOW", 4)
    _fill(store, *({"run_id": f"run_{n:02}", "status": "failed" if n == 1 else "running"} for n in range(10)))
    assert _all(store, RunFilter(status="failed"), 5) == [[], [], ["run_01"]]
    assert _all(store, RunFilter(status="failed", key_id="key_1"), 5) == [[], [], ["run_01"]]


@pytest.mark.parametrize("filters", [{}, {"key_id": "k"}, {"workflow_id": "w"}, {"conversation_id": "c"}])
def test_no_page_reads_the_whole_table(sqlite_settings, open_store, filters):
    """Whatever else is asked: the runs to look at come from an index."""
    store = open_store(sqlite_settings)
    for more in ({}, {"status": "failed"}, {"key_id": "k"}, {"key_id": "k", "status": "failed"}):
        asked = {**filters, **more}
        statement = store._backend.prepare(store.run_list._pages._page(frozenset(asked)))
        statement.sql = f"EXPLAIN QUERY PLAN {statement.sql}"
        plan = [
            row[3]
            for row in store._backend.rows(statement, {**asked, "before": "z", "limit": 5, "window": 9})
        ]
        assert [step for step in plan if step.startswith("SCAN") and step != "SCAN seen"] == []

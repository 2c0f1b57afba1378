"""The retrieve block: quotes with source and span; an unknown collection and a stop while it searches."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import events as ev
from app.engine.services import Services
from app.store.documents import Draft
from tests.engine.flows import document, ended, finished, problems, stopped
from tests.engine.switches import cancelled_at
from tests.support.engine import Recorder, services, start
from tests.support.servers import wait_until

PAGES = {
    "leave.md": "Every employee has 30 days of holidays a year.\n\nSick leave is paid from the first day.",
    "travel.md": "Trains are booked in first class. Planes need the approval of a manager.",
}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with services(tmp_path) as opened:
        for source, text in PAGES.items():
            opened.store.documents.put("handbook", Draft(source, text, title=source.title()))
        yield opened


class _Endless:
    sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

    def bind(self, values: t.Any) -> tuple[t.Any, ...]:
        return ()


_ENDLESS = _Endless()


def flow(*edges: str, **config: t.Any) -> dict[str, t.Any]:
    blocks = [
        ("find", "retrieve", {"collection": "handbook", **config}),
        ("caught", "set", {"values": {"code": "{{ blocks.find.code }}"}}),
    ]
    return document([b for b in blocks if any(b[0] in e for e in ("find", *edges))], "start > find", *edges)


def output(made: Services, given: t.Any, **config: t.Any) -> dict[str, t.Any]:
    end, _ = ended(made, flow(**config), given)
    assert isinstance(end, ev.RunCompleted)
    return dict(end.output)


def test_it_quotes_with_source_and_span(made: Services) -> None:
    found = output(made, {"message": "How many holidays do employees have?"})
    [result] = found["results"]
    text = PAGES["leave.md"]
    row = made.store.documents.find("handbook", "leave.md")
    assert row is not None
    assert result.pop("score") > 0
    assert result == {
        "index": 1,
        "text": text,
        "source": "leave.md",
        "title": "Leave.Md",
        "documentId": row.id,
        "start": 0,
        "end": len(text),
    }
    assert found["context"] == f"[1] leave.md\n{text}"
    assert found["citations"] == [
        {
            "index": 1,
            "source": "leave.md",
            "title": "Leave.Md",
            "documentId": row.id,
            "start": 0,
            "end": len(text),
            "score": found["citations"][0]["score"],
        }
    ]
    assert (found["query"], found["count"]) == ("How many holidays do employees have?", 1)


def test_top_k_and_min_score_bound_what_is_found(made: Services) -> None:
    asked = {"message": "trains, planes, employees"}
    both = output(made, asked)["results"]
    assert [r["source"] for r in both] == ["travel.md", "leave.md"]
    assert [r["index"] for r in both] == [1, 2]
    assert output(made, asked, top_k=1)["results"] == both[:1]
    assert output(made, asked, min_score=both[0]["score"])["results"] == both[:1]


@pytest.mark.parametrize(
    ("query", "given", "sources"),
    [
        ("{{ input.a }} approval", {"a": "manager"}, ["travel.md"]),
        (None, {"topic": "sick"}, ["leave.md"]),
        ("{{ input.missing }}", {}, []),
        ('" OR NEAR( *', {}, []),
    ],
)
def test_queries(made: Services, query: str | None, given: t.Any, sources: list[str]) -> None:
    found = output(made, given, **({} if query is None else {"query": query}))
    assert [r["source"] for r in found["results"]] == sources
    assert found["context"] == "" or sources


def test_the_collection_may_be_a_template(made: Services) -> None:
    given = {"message": "sick", "where": "handbook"}
    assert output(made, given, collection="{{ input.where }}")["count"] == 1


def test_an_unknown_collection_fails_the_block_and_tells_nothing_of_others(made: Services) -> None:
    end, _ = ended(made, flow(collection="handbok"))
    assert isinstance(end, ev.RunFailed)
    assert end.code == "collection_unknown"
    assert "no collection 'handbok'" in end.message
    assert "handbook" not in end.message  # whoever started the run may be anybody
    end, recorder = ended(made, flow("find -error> caught", collection="handbok"))
    assert isinstance(end, ev.RunCompleted)
    assert end.output == {"code": "collection_unknown"}
    assert ("find", "failed", 1) in finished(recorder)


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"collection": ""}, "blocks[1].config.collection"),
        ({"top_k": 0}, "blocks[1].config.top_k"),
        ({"top_k": 51}, "blocks[1].config.top_k"),
        ({"mode": "words"}, "blocks[1].config.mode"),
        ({"embedding_model": "scripted/bag-of-words"}, "blocks[1].config.embedding_model"),
        ({"limit": 3}, "blocks[1].config.limit"),
    ],
)
def test_bad_configs_are_found_before_a_run(made: Services, config: dict[str, t.Any], path: str) -> None:
    assert list(problems(made, flow(**config))) == [path]


def test_a_stop_ends_a_search_at_once(made: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search itself goes on for ever; the run does not wait for it."""
    backend = t.cast(t.Any, made.store)._backend
    real, searching, left = backend.slow, [], []

    def slow(statement: t.Any, values: t.Any, run: t.Any) -> t.Any:
        if "MATCH" not in statement.sql:
            return real(statement, values, run)

        def endless(rows: t.Any, stop: t.Any) -> t.Any:
            return run(lambda: (searching.append(True), rows())[1], lambda: (left.append(True), stop()))

        return real(_ENDLESS, {}, endless)

    monkeypatch.setattr(backend, "slow", slow)
    run, recorder = start(made, flow(), {"message": "holidays"})
    wait_until(lambda: searching, "it searches")
    stopped(run, recorder)
    assert left == [True]
    assert finished(recorder)[-1] == ("find", "failed", 1)
    monkeypatch.undo()
    assert output(made, {"message": "holidays"})["count"] == 1


@pytest.mark.leak_check
def test_cancelled_at_every_switch_point_a_run_ends_once_and_searching_goes_on(made: Services) -> None:
    output(made, {"message": "holidays"})  # threads are there, imports done
    endings: list[type] = []
    point, count = 0, 1
    while point < count:  # past the last point a run ends by itself
        point += 1
        recorder, count = _cancelled_at(made, point)
        (terminal,) = recorder.of(ev.Terminal)
        assert recorder.envelopes[-1].event is terminal
        endings.append(type(terminal))
        assert point < 1_000
    assert ev.RunCancelled in endings
    assert set(endings) <= {ev.RunCancelled, ev.RunCompleted}
    assert output(made, {"message": "holidays"})["count"] == 1


def _cancelled_at(made: Services, point: int) -> tuple[Recorder, int]:
    """A run that is cancelled at a switch point; also how many of them there were."""
    _, recorder, count = cancelled_at(
        lambda: start(made, flow(), {"message": "holidays"}), {point: "stop_requested"}
    )
    return recorder, count

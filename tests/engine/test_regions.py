"""Loops, branches and conditions: what runs, how often, in which order, and what comes out."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import events as ev
from app.encoding import dumps
from app.engine.services import Services
from app.state import plain
from tests.support.engine import services, start

pytestmark = pytest.mark.leak_check


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with services(tmp_path) as opened:
        yield opened


def edge(text: str) -> dict[str, str]:
    """``a -handle> b`` or ``a > b``."""
    left, target = (part.strip() for part in text.split(">"))
    source, _, handle = left.partition(" -")
    return {"source": source.strip(), "target": target, **({"source_handle": handle} if handle else {})}


def document(blocks: list[tuple[str, str, dict[str, t.Any]]], *edges: str) -> dict[str, t.Any]:
    placed = [{"id": name, "type": kind, "config": config} for name, kind, config in blocks]
    return {
        "name": "test",
        "blocks": [{"id": "start", "type": "start"}, *placed],
        "edges": [edge(text) for text in edges],
    }


def ended(made: Services, doc: dict[str, t.Any], given: t.Any = None) -> tuple[t.Any, t.Any]:
    run, recorder = start(made, doc, given)
    assert run.done.wait(20)
    return recorder.envelopes[-1].event, recorder


def finished(recorder: t.Any) -> list[tuple[str, str, int]]:
    return [(e.block, e.status, e.execution) for e in recorder.of(ev.BlockFinished)]


def test_a_condition_takes_one_edge_and_the_other_path_is_dead(made: Services) -> None:
    doc = document(
        [
            ("ask", "condition", {"expression": "input.n > 3"}),
            ("big", "set", {"values": {"size": "big"}}),
            ("small", "set", {"values": {"size": "small"}}),
            ("after", "response", {"body": "{{ blocks.big.size or blocks.small.size }}"}),
        ],
        "start > ask",
        "ask -true> big",
        "ask -false> small",
        "big > after",
        "small > after",
    )
    for n, size, other in ((5, "big", "small"), (1, "small", "big")):
        end, recorder = ended(made, doc, {"n": n})
        assert end.output == size
        assert (other, "skipped", 1) in finished(recorder)


def test_a_while_loop_runs_its_body_until_the_condition_fails(made: Services) -> None:
    doc = document(
        [
            ("again", "loop", {"kind": "while", "condition": "loop.index < 3"}),
            ("count", "set", {"values": {"n": "{{ loop.iteration }}"}}),
        ],
        "start > again",
        "again -loop> count",
        "count > again",
    )
    end, recorder = ended(made, doc)
    assert end.output == {
        "iterations": 3,
        "capped": False,
        "results": [{"n": 1}, {"n": 2}, {"n": 3}],
        "last": {"n": 3},
    }
    assert [e for e in finished(recorder) if e[0] == "count"] == [("count", "executed", n) for n in (1, 2, 3)]
    assert [(e.iteration, e.path) for e in recorder.of(ev.LoopIteration)] == [
        (1, "loop"),
        (2, "loop"),
        (3, "loop"),
        (3, "exit"),
    ]


@pytest.mark.parametrize(
    ("kind", "config"), [("loop", {"kind": "for", "times": 1}), ("parallel", {"items": [0]})]
)
def test_what_bodies_in_bodies_come_to_is_told_once(
    made: Services, kind: str, config: dict[str, t.Any]
) -> None:
    """Twice at each of twenty levels would be a million times."""
    once: dict[str, t.Any] = {"kind": "for", "times": 1}
    levels = [(f"l{n}", "loop", once) if n % 2 else (f"l{n}", kind, config) for n in range(20)]
    inward = [f"l{n} -loop> l{n + 1}" for n in range(19)]
    outward = [f"l{n + 1} -exit> l{n}" for n in range(19)]
    deep = ("deep", "set", {"values": {"x": 1}})
    doc = document([*levels, deep], "start > l0", *inward, *outward, "l19 -loop> deep", "deep > l19")
    end, recorder = ended(made, doc)
    assert isinstance(end, ev.RunCompleted)
    assert len(dumps(end.output)) < 4_000
    told = {plain(e.block): e.output for e in recorder.of(ev.BlockFinished)}
    assert told["l19"] == {"iterations": 1, "capped": False, "results": [{"x": 1}], "last": {"x": 1}}
    assert told["l18"]["results"] == [{"iterations": 1, "capped": False, "results": [{"x": 1}]}]


def test_the_cap_is_a_way_out(made: Services) -> None:
    doc = document(
        [
            ("again", "loop", {"kind": "while", "condition": "true", "max_iterations": 2}),
            ("work", "set", {"values": {"x": 1}}),
            ("after", "response", {"body": "{{ blocks.again.capped }}"}),
        ],
        "start > again",
        "again -loop> work",
        "work > again",
        "again -exit> after",
    )
    assert ended(made, doc)[0].output is True


def test_an_answer_in_a_loop_stands_once_and_is_retracted_before_each_next(made: Services) -> None:
    doc = document(
        [
            ("each", "loop", {"kind": "for_each", "items": ["a", "b"]}),
            ("say", "agent", {"model": "scripted/echo", "prompt": "{{ loop.item }}"}),
        ],
        "start > each",
        "each -loop> say",
        "say > each",
    )
    end, recorder = ended(made, doc)
    assert [result["content"] for result in end.output["results"]] == ["a", "b"]
    assert [(e.block, e.reason) for e in recorder.of(ev.AnswerRetracted)] == [("say", "iteration")]
    assert [(e.block, e.text) for e in recorder.of(ev.AnswerSettled)] == [("say", "b")]
    kinds = [type(e.event).__name__ for e in recorder.envelopes]
    last_exit = max(n for n, e in enumerate(recorder.envelopes) if isinstance(e.event, ev.LoopIteration))
    assert kinds.index("AnswerSettled") > last_exit


def test_items_in_parallel_have_instances_and_keep_their_order(made: Services) -> None:
    doc = document(
        [
            ("all", "parallel", {"items": "{{ input.words }}"}),
            ("say", "agent", {"model": "scripted/echo", "prompt": "{{ loop.item }}"}),
            ("shout", "set", {"values": {"loud": "{{ blocks.say.content | upper }}"}}),
        ],
        "start > all",
        "all -loop> say",
        "say > shout",
        "shout > all",
    )
    end, recorder = ended(made, doc, {"words": ["x", "y", "z"]})
    assert end.output == {"results": [{"loud": "X"}, {"loud": "Y"}, {"loud": "Z"}], "errors": {}}
    assert {name for name, _, _ in finished(recorder)} >= {f"say[{n}]" for n in range(3)}
    assert sorted(e.text for e in recorder.of(ev.AnswerSettled)) == ["x", "y", "z"]


def test_branches_run_at_once_and_a_join_behind_them_waits_for_all(made: Services) -> None:
    doc = document(
        [
            ("fan", "parallel", {"branches": ["a", "b"]}),
            ("a1", "set", {"values": {"v": 1}}),
            ("a2", "set", {"values": {"v": "{{ blocks.a1.v + 1 }}"}}),
            ("b1", "set", {"values": {"v": 10}}),
            ("join", "set", {"values": {"sum": "{{ blocks.a2.v + blocks.b1.v }}"}}),
        ],
        "start > fan",
        "fan -branch:a> a1",
        "a1 > a2",
        "fan -branch:b> b1",
        "a2 > join",
        "b1 > join",
    )
    end, recorder = ended(made, doc)
    assert end.output == {"sum": 12}
    order = [name for name, _, _ in finished(recorder)]
    assert order.index("join") > max(order.index(name) for name in ("a2", "b1", "fan"))


def test_a_branch_that_fails_ends_the_run_or_is_noted(made: Services) -> None:
    def doc(on_error: str) -> dict[str, t.Any]:
        return document(
            [
                ("fan", "parallel", {"branches": ["a", "b"], "on_error": on_error}),
                ("a1", "agent", {"model": "scripted/error-before", "retries": 0}),
                ("b1", "set", {"values": {"v": 10}}),
            ],
            "start > fan",
            "fan -branch:a> a1",
            "fan -branch:b> b1",
        )

    end, _ = ended(made, doc("fail"))
    assert isinstance(end, ev.RunFailed)
    assert end.block == "a1"
    end, _ = ended(made, doc("continue"))
    assert end.output["branches"] == {"a": None, "b": {"v": 10}}
    assert end.output["errors"]["a"]["code"].startswith("provider_")


def test_an_error_edge_out_of_a_branch_is_taken_only_when_it_is(made: Services) -> None:
    def doc(model: str) -> dict[str, t.Any]:
        return document(
            [
                ("fan", "parallel", {"branches": ["a", "b"]}),
                ("a1", "agent", {"model": model, "retries": 0}),
                ("b1", "agent", {"model": model, "retries": 0}),
                ("caught", "set", {"values": {"caught": True}}),
            ],
            "start > fan",
            "fan -branch:a> a1",
            "fan -branch:b> b1",
            "a1 -error> caught",
            "b1 -error> caught",
        )

    _, recorder = ended(made, doc("scripted/error-before"))
    assert ("caught", "executed", 1) in finished(recorder)
    _, recorder = ended(made, doc("scripted/echo"))
    assert ("caught", "skipped", 1) in finished(recorder)


def test_loops_nest(made: Services) -> None:
    doc = document(
        [
            ("outer", "loop", {"kind": "for", "times": 2}),
            ("inner", "loop", {"kind": "for_each", "items": ["a", "b"]}),
            ("note", "set", {"values": {"v": "{{ loop.item }}"}}),
        ],
        "start > outer",
        "outer -loop> inner",
        "inner -loop> note",
        "note > inner",
        "inner -exit> outer",
    )
    end, recorder = ended(made, doc)
    assert end.output["iterations"] == 2
    assert [e[2] for e in finished(recorder) if e[0] == "note"] == [1, 2, 3, 4]
    assert [e[2] for e in finished(recorder) if e[0] == "inner"] == [1, 2]


@pytest.mark.parametrize(
    ("times", "done"),
    [(2, 2), ("3", 3), (2.0, 2), (-1, 0), (2.5, None), (True, None), ("x", None), (None, None), ([1], None)],
)
def test_how_often_is_a_whole_number(made: Services, times: t.Any, done: int | None) -> None:
    doc = document(
        [("l", "loop", {"kind": "for", "times": "{{ input.n }}"}), ("a", "set", {"values": {"x": 1}})],
        "start > l",
        "l -loop> a",
        "a > l",
    )
    end, _ = ended(made, doc, {"n": times})
    if done is None:
        assert isinstance(end, ev.RunFailed)
        assert end.code == "loop_invalid"
    else:
        assert end.output["iterations"] == done

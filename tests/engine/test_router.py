"""Routers: which way is taken, why, and what happens when none is."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import events as ev
from app.engine.services import Services
from tests.streams.generate import violations
from tests.support.graphs import ended, graph, playing, stopped, told

pytestmark = pytest.mark.leak_check

CHOICE = json.dumps({"route": "billing", "reason": "It is about money."})
SCRIPTS = {
    "chooses": CHOICE,
    "lost": json.dumps({"route": "nowhere", "reason": "?"}),
    "tells": json.dumps({"route": "billing", "reason": "{{message}}"}),
    "stalls": {"turns": [{"steps": [{"thinking": "hm"}, {"stall": True}]}]},
    "fails": {"turns": [{"steps": [{"error": {"code": "provider_bad_request", "message": "No."}}]}]},
}
ROUTES = [
    {"name": "billing", "description": "Money, for {{ vars.firm or 'us' }}."},
    {"name": "other", "description": "The rest."},
]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with playing(tmp_path, SCRIPTS) as opened:
        yield opened


def routed(config: dict[str, t.Any], *more: str) -> dict[str, t.Any]:
    """A router whose routes ``billing`` and ``other`` lead to a block each, and ``caught`` takes its error up."""
    blocks = [
        ("choose", "router", config),
        ("billing", "set", {"values": {"went": "billing"}}),
        ("other", "set", {"values": {"went": "other"}}),
        ("caught", "set", {"values": {"why": "{{ blocks.choose.code }}"}}),
    ]
    edges = ["start > choose", "choose -route:billing> billing", "choose -route:other> other"]
    return graph(blocks, *edges, *(more or ("choose -error> caught",)))


def by_expression(*whens: str | None) -> dict[str, t.Any]:
    routes = [
        {"name": n, **({"when": w} if w else {})} for n, w in zip(("billing", "other"), whens, strict=True)
    ]
    return {"mode": "expression", "routes": routes}


def by_model(model: str, **more: t.Any) -> dict[str, t.Any]:
    return {"mode": "model", "model": f"scripted/{model}", "routes": ROUTES, **more}


@pytest.mark.parametrize(("n", "went"), [(5, "billing"), (2, "other"), (9, "billing")])
def test_the_first_route_that_holds_is_taken(made: Services, n: int, went: str) -> None:
    end, recorder = ended(made, routed(by_expression("input.n > 3", "{{ input.n > 1 }}")), {"n": n})
    assert end.output == {"went": went}
    assert [(e.block, e.route, e.reason) for e in recorder.of(ev.RouteChosen)] == [("choose", went, None)]
    skipped = {e.block for e in recorder.of(ev.BlockFinished) if e.status == "skipped"}
    assert skipped == {"billing", "other", "caught"} - {went}


def test_the_last_route_may_do_without_a_condition(made: Services) -> None:
    assert ended(made, routed(by_expression("input.n > 3", None)), {"n": 0})[0].output == {"went": "other"}


def test_without_a_route_that_fits_it_fails(made: Services) -> None:
    end, recorder = ended(made, routed(by_expression("false", "no")))
    assert end.output == {"why": "no_route"}
    assert recorder.of(ev.RouteChosen) == []


def test_a_route_without_an_edge_ends_there(made: Services) -> None:
    doc = graph([("choose", "router", by_expression("true", "true"))], "start > choose")
    assert ended(made, doc)[0].output == {"route": "billing"}


def test_a_model_chooses_and_says_why(made: Services) -> None:
    end, recorder = ended(made, routed(by_model("chooses")))
    assert end.output == {"went": "billing"}
    (chosen,) = recorder.of(ev.RouteChosen)
    assert (chosen.route, chosen.reason) == ("billing", "It is about money.")
    assert recorder.of(ev.TextDelta) == []
    assert recorder.of(ev.AnswerSettled) == []
    assert set(end.usage["byBlock"]) == {"choose"}
    assert end.outputs["choose"]["reason"] == "It is about money."
    assert violations(recorder.envelopes) == []


def test_it_is_given_the_message_or_its_prompt(made: Services) -> None:
    assert ended(made, routed(by_model("tells")))[1].of(ev.RouteChosen)[0].reason == "hi"
    doc = routed(by_model("tells", prompt="{{ input.message | upper }}"))
    assert ended(made, doc)[1].of(ev.RouteChosen)[0].reason == "HI"


@pytest.mark.parametrize(
    ("model", "code"),
    [("lost", "route_undecided"), ("echo", "route_undecided"), ("fails", "provider_bad_request")],
)
def test_a_model_that_names_no_route_fails_it(made: Services, model: str, code: str) -> None:
    end, recorder = ended(made, routed(by_model(model, retries=0)))
    assert end.output == {"why": code}
    assert recorder.of(ev.RouteChosen) == []
    asked = len(recorder.of(ev.UsageReported))
    assert asked == (2 if code == "route_undecided" else 0), "it is asked once more"
    assert violations(recorder.envelopes) == []


def test_a_stop_while_it_is_asked_takes_no_route(made: Services) -> None:
    recorder = stopped(made, routed(by_model("stalls")), lambda event: isinstance(event, ev.ThinkingDelta))
    assert recorder.of(ev.RouteChosen) == []
    assert violations(recorder.envelopes) == []


def test_bad_routers_are_refused(made: Services) -> None:
    inside = "blocks[1].config"

    def found(config: dict[str, t.Any]) -> set[str]:
        return set(told(made, graph([("choose", "router", config)], "start > choose"))[0])

    assert found(by_expression(None, None)) == {f"{inside}.routes[0].when"}
    assert found({**by_expression("a", "b"), "model": "scripted/echo"}) == {f"{inside}.model"}
    assert found({"mode": "model", "routes": ROUTES}) == {f"{inside}.model"}
    assert found(by_model("gone")) == {f"{inside}.model"}
    bare = [
        {"name": "a b"},
        {"name": "a", "when": "x", "description": "d"},
        {"name": "a", "description": "d"},
    ]
    assert found({**by_model("echo"), "routes": bare}) == {
        f"{inside}.routes[0].name",
        f"{inside}.routes[0].description",
        f"{inside}.routes[1].when",
        f"{inside}.routes[2].name",
    }
    assert found({"mode": "expression", "routes": [{"name": "a", "when": "{{ x"}]}) == {
        f"{inside}.routes[0].when"
    }
    assert found({"mode": "expression", "routes": []}) == {f"{inside}.routes"}


def test_an_edge_must_name_a_route(made: Services) -> None:
    found, _ = told(made, routed(by_expression("a", "b"), "choose -route:biling> caught"))
    (message,) = found.values()
    assert '"route:billing"' in message

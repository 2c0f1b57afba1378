"""What the search has found once, as cases of their own: each played to every reader that it was told to."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from app.events import RouteChosen
from app.streams import public
from tests.leaks.cases import Case
from tests.leaks.judge import leaks
from tests.leaks.play import play
from tests.leaks.world import World, worlds


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, World]]:
    with worlds(tmp_path_factory.mktemp("found")) as made:
        yield made


def case(config: dict[str, t.Any], steps: list[list[t.Any]], hidden: list[str], **more: t.Any) -> Case:
    """A workflow of one agent."""
    blocks = [
        {"id": "start", "type": "start"},
        {"id": "agent_1", "type": "agent", "config": {"model": "scripted/%%m1%%", "retries": 0, **config}},
    ]
    document = {
        "name": "%%n1%%",
        "blocks": blocks,
        "edges": [{"source": "start", "target": "agent_1"}],
        "settings": {"public": True, **more},
    }
    chat = {"include_thinking": False, "include_tool_calls": False, "hidden": []}
    scripts = {"%%m1%%": {"turns": [{"steps": turn} for turn in steps]}}
    return Case(document, "So.", "So", chat, True, 0, scripts, hidden=hidden)


def waiting() -> Case:
    """Beside a question a model fails whose vendor repeats the key; nothing in it is masked, so nothing is sealed."""
    made = case({"model": "openai-compatible/%%m2%%"}, [[{"text": "So."}]], [])
    made.secrets = False
    made.document["blocks"] += [
        {"id": "both", "type": "parallel", "config": {"branches": ["a", "b"], "on_error": "continue"}},
        {"id": "ask", "type": "approval", "config": {"prompt": "So?", "draft": "So."}},
    ]
    made.document["edges"] = [
        {"source": "start", "target": "both"},
        {"source": "both", "source_handle": "branch:a", "target": "ask"},
        {"source": "both", "source_handle": "branch:b", "target": "agent_1"},
    ]
    return made


def routed() -> Case:
    """A model says why it chose a way, which the stream of runs tells to those with a key."""
    made = case({}, [[{"text": '{"route": "one", "reason": "So %%x1%%"}'}]], [])
    ways = [{"name": "one", "description": "So."}, {"name": "two", "description": "No."}]
    router = {"mode": "model", "model": "scripted/%%m1%%", "prompt": "So?", "routes": ways}
    made.document["blocks"] = [
        {"id": "start", "type": "start"},
        {"id": "router_1", "type": "router", "config": router},
        {"id": "set_1", "type": "set", "config": {"values": {"text": "So."}}},
    ]
    made.document["edges"] = [
        {"source": "start", "target": "router_1"},
        {"source": "router_1", "source_handle": "route:one", "target": "set_1"},
        {"source": "router_1", "source_handle": "route:two", "target": "set_1"},
    ]
    return made


FAILED = {"error": {"code": "provider_bad_stream", "message": "%%Pip:1%% So %%e1%%"}}
ECHO = {
    "name": "asked",
    "description": "%%d1%%",
    "parameters": {"type": "object"},
    "http": {
        "method": "POST",
        "url": "%%HOST%%/echo?status=500",
        "headers": {"Authorization": "Bearer {{ secrets.S2 }}"},
        "body": {"back": "%%r1%%"},
    },
}
CALL = {"tool_call": {"name": "asked", "arguments": {}, "id": "call_1"}}
FOUND: dict[str, Case] = {
    "the output of a failed block, where the policy leaves answers out": case(
        {}, [[FAILED]], ["%%Pip:1%%"], redact={"mode": "strict", "applies": ["thinking"]}
    ),
    "a secret in a JSON text inside of JSON": case({"tools": [ECHO]}, [[CALL], [{"text": "So."}]], []),
    "the key of a vendor in what a run goes on with": waiting(),
    "why a way was chosen": routed(),
}


@pytest.mark.parametrize("name", FOUND)
def test_it_is_not_told_again(both: dict[bool, World], name: str) -> None:
    found = FOUND[name]
    for plan in range(8):
        found.plan = plan
        assert not leaks(play(both[found.secrets], found))


def test_why_a_way_was_chosen_is_found_where_it_is_told(
    both: dict[bool, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random cases meet it too seldom for one seed: a model that routes, read on that stream without a key."""
    monkeypatch.setitem(t.cast("dict[t.Any, t.Any]", public.SEEN), RouteChosen, public._same)
    found = routed()
    told: list[str] = []
    for plan in range(8):
        found.plan = plan
        told += leaks(play(both[True], found))
    assert {line.split(" / ")[2][0] for line in told} == {"x"}

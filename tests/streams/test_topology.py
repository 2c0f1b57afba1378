"""The compiled graph as a page draws it: blocks and edges as they are, where it begins, ends, repeats and waits."""

from __future__ import annotations

import json
import typing as t
from collections import Counter
from pathlib import Path

import pytest

from app import builtins, config
from app.engine.recompiled import compiled
from app.streams.chat_response import Turn
from app.streams.graph_events import GraphEvents, GraphEventsOptions
from app.streams.rights import Rights
from app.streams.topology import Topology, outline, topology
from app.workflows.document import parse
from plugins.registry import Registry
from tests.support import sse
from tests.support.engine import services
from tests.support.graphs import ended
from tests.support.shared import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.fixture(scope="module")
def plugins() -> Registry:
    servers = str(ROOT / "examples" / "mcp_servers.json")
    return builtins.registry(config.load({"STUDIO_MCP_SERVERS": servers}), "0")


def drawn(plugins: Registry, example: str) -> tuple[dict[str, t.Any], Topology]:
    found = topology(compiled(parse((ROOT / "examples" / f"{example}.yaml").read_text()), plugins), Rights())
    return json.loads(found.data), found


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_block_is_a_node_and_every_edge_an_edge(plugins: Registry, file: Path) -> None:
    document = parse(file.read_text())
    graph, found = drawn(plugins, file.stem)
    assert [node["id"] for node in graph["nodes"]] == [block["id"] for block in document["blocks"]]
    assert [node["type"] for node in graph["nodes"]] == list(found.types.values())
    pairs = [(edge["source"], edge["target"]) for edge in graph["edges"]]
    assert pairs == [(edge["source"], edge["target"]) for edge in document["edges"]]
    assert graph["flags"]["entry"] in found.types
    assert graph["flags"]["exits"]


def test_a_loops_body_is_named_and_repeats(plugins: Registry) -> None:
    graph, found = drawn(plugins, "jury")
    body = {"node": "deliberation", "handle": "loop", "nodes": ["discussion", "ballot"]}
    assert graph["flags"] == {"entry": "start", "exits": ["foreman"], "bodies": [body]}
    assert found.repeated == {"discussion", "ballot"}
    ways = {(e["source"], e["target"]): (e.get("label"), e.get("conditional")) for e in graph["edges"]}
    assert ways["deliberation", "discussion"] == ("loop", True)
    assert ways["ballot", "deliberation"] == (None, None)
    assert ways["deliberation", "foreman"] == ("exit", None)


def test_ways_that_may_not_be_taken_are_conditional(plugins: Registry) -> None:
    for example, labels in {
        "router": {None: None},
        "guardrail": {"true": True, None: None},
        "retrieve": {"true": True, "false": True, "error": True, None: None},
    }.items():
        graph, _ = drawn(plugins, example)
        seen = {edge.get("label"): edge.get("conditional") for edge in graph["edges"]}
        assert labels.items() <= seen.items(), example


def test_a_guardrail_that_refuses_is_an_exit(plugins: Registry) -> None:
    assert drawn(plugins, "guardrail")[0]["flags"]["exits"] == ["question", "answer"]


def test_nodes_of_instances_and_of_what_runs_inside() -> None:
    found = Topology(b"{}", {"a": "agent", "sub": "subgraph", "sub/b": "node"})
    assert [found.node(each) for each in ("a", "a[2]", "a[1][0]", "sub/b", "sub[0]/b", "a/x/y", "z")] == [
        "a",
        "a",
        "a",
        "sub/b",
        "sub/b",
        "a",
        "z",
    ]
    assert [found.shows(each) for each in ("a[2]", "sub/b", "a/x", "z")] == [True, True, False, False]


def test_the_outline_of_a_workflow_that_is_gone() -> None:
    assert json.loads(outline((), ()).data) == {"nodes": [], "edges": [], "flags": {"entry": "", "exits": []}}


def test_a_loops_nodes_are_lit_once_for_each_iteration(tmp_path: Path) -> None:
    document = parse((ROOT / "examples" / "jury.yaml").read_text())
    with services(tmp_path) as made:
        _, recorder = ended(made, document, {"message": "Was it he?"})
        graph = topology(compiled(document, made.plugins), Rights())
    reader = GraphEvents(GraphEventsOptions(Turn("run_1", "", "0" * 32, 0), graph, Rights()))
    frames = sse.parse(b"".join(reader.frames(envelope) for envelope in recorder.envelopes))
    ends = [frame.json() for frame in frames if frame.event == "node_completed"]
    assert Counter(end["node"] for end in ends) == {
        "start": 1,
        "deliberation": 1,
        "discussion": 2,
        "ballot": 2,
        "foreman": 1,
    }
    assert [end["iteration"] for end in ends if end["node"] == "ballot"] == [1, 2]
    assert all("iteration" not in end for end in ends if end["node"] in ("start", "foreman", "deliberation"))
    path = frames[-1].json()["path"]
    assert [entry["node"] for entry in path] == [end["node"] for end in ends]

"""What is wrong with a thing that a plugin contributes, as a sentence for its report; None when nothing is."""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Mapping
from dataclasses import fields

from plugins.spec.blocks import BlockType
from plugins.spec.detectors import Detector
from plugins.spec.families import ProviderFamily
from plugins.spec.runners import RunnerGraph, WorkflowRunner
from plugins.spec.tools import Tool
from plugins.wires import EMBEDDING_WIRES, WIRES
from plugins.wording import listed

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RUNNER = re.compile(r"[a-z][a-z0-9-]{0,31}:[A-Za-z0-9_-]{1,64}")
_NODE = re.compile(r"[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64}){0,8}")


def of_wires(family: ProviderFamily) -> str | None:
    """Wires that a family names have to be there."""
    whose = f'family "{family.id}"'
    if isinstance(family.wire, str) and family.wire not in WIRES:
        return f'{whose}: unknown wire "{family.wire}"; use {listed(WIRES)} or an object'
    if unknown := [wire for wire in family.other_wires if wire not in WIRES]:
        return f'{whose}: unknown wire "{unknown[0]}" in other_wires; use {listed(WIRES)}'
    wire = family.embeddings.wire if family.embeddings is not None else None
    if isinstance(wire, str) and wire not in EMBEDDING_WIRES:
        return f'{whose}: unknown wire "{wire}" in embeddings; use {listed(EMBEDDING_WIRES)} or an object'
    return None


def of_name(name: str, item: object, plugin: str) -> str | None:
    """Names of tools, block types and detectors."""
    if _NAME.fullmatch(name):
        return None
    return f'{type(item).__name__} name "{name}" must be 1 to 64 letters, digits, "_" or "-"'


def of_tool(name: str, tool: Tool, plugin: str) -> str | None:
    """A tool needs what the model is told of it, and something to run."""
    given: t.Any = tool
    try:
        told = isinstance(given.description, str) and isinstance(given.parameters, Mapping)
        json.dumps(dict(given.parameters))
    except (TypeError, ValueError, RecursionError):
        told = False
    if told and callable(given.run) and given.runs in ("greenlet", "thread"):
        return of_name(name, tool, plugin)
    return f'tool "{name}": needs a text as description, a JSON Schema as parameters, and a function'


def of_block_type(name: str, block_type: BlockType, plugin: str) -> str | None:
    """A block type needs a configuration that documents can be read into."""
    try:
        fields(block_type.config)
    except TypeError:
        return f'block type "{name}": config has to be a dataclass'
    return of_name(name, block_type, plugin)


def of_detector(name: str, detector: Detector, plugin: str) -> str | None:
    """A detector has to say how far a match can reach."""
    longest: object = detector.longest
    if isinstance(longest, int) and not isinstance(longest, bool) and longest > 0:
        return of_name(name, detector, plugin)
    return f'detector "{name}": longest must be the most characters a match can have, a positive number'


def of_runner(name: str, runner: WorkflowRunner, plugin: str) -> str | None:
    """A runner needs a graph whose edges lead from node to node."""
    if not _RUNNER.fullmatch(name):
        return f'workflow runner "{name}": its id has to be "<kind>:<name>", such as "langgraph:support"'
    graph = runner.topology()
    nodes = {node.id: node for node in graph.nodes}
    if len(nodes) != len(graph.nodes) or not nodes:
        return f'workflow runner "{name}": needs nodes, each with an id of its own'
    for node in nodes:
        if not _NODE.fullmatch(node) or (node.rpartition("/")[0] or node) not in nodes:
            return f'workflow runner "{name}": "{node}" cannot be the id of a node'
    return _dangling(name, graph)


def _dangling(name: str, graph: RunnerGraph) -> str | None:
    nodes = {node.id for node in graph.nodes}
    for edge in graph.edges:
        if edge.source not in nodes or edge.target not in nodes:
            return f'workflow runner "{name}": an edge leads from "{edge.source}" to "{edge.target}", which is no node'
    if not graph.entries or not nodes.issuperset(graph.entries):
        return f'workflow runner "{name}": its entries have to be nodes'
    return None

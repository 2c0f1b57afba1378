"""From document to :class:`CompiledWorkflow`, or every problem at once.

Law of this room: nothing here stops at the first problem, and nothing but ``ValidationFailed`` leaves it,
whatever JSON comes in. Each problem has its JSON path and the cure; they come in document order. What
block types, models and tools exist is told by the caller.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Collection, Mapping

from app.errors import Problem, ValidationFailed
from app.redaction.loading import load_policy
from app.schemas import derive, json_schema
from app.schemas.paths import did_you_mean, in_document_order, join, shown
from app.workflows import edge_rules, graph, regions, secret_places
from app.workflows.compiled import CompiledBlock, CompiledWorkflow, Edge, WorkflowSettings
from app.workflows.config_checks import CheckAgent, CheckModel, ConfigChecks, Findings, Known
from app.workflows.document import parse
from app.workflows.ids import ID
from app.workflows.mcp_entries import NO_SERVERS
from app.workflows.shapes import COMMON_KEYS, BlockShape, DocumentShape, EdgeShape
from plugins import wording
from plugins.spec.blocks import BlockType
from plugins.spec.mcp import McpServers

MAX_BLOCKS = 500
MAX_EDGES = 2_000
#: Of how many different names of a document it is told what was probably meant.
_HINTS = 50


def compile_document(
    document: t.Any,
    block_types: Mapping[str, BlockType],
    check_model: CheckModel,
    tool_names: Collection[str],
    settings: WorkflowSettings | None = None,
    *,
    check_agent: CheckAgent | None = None,
    detectors: Collection[str] | None = None,
    servers: McpServers = NO_SERVERS,
    check_embedding: CheckModel | None = None,
    held_tools: Collection[str] = (),
    pause: Callable[[], None] = lambda: None,
) -> CompiledWorkflow:
    """Check a document and make of it what the engine runs.

    :param document: as of ``app.workflows.document.parse`` (a mapping is checked and copied).
    :param block_types: by ``type``.
    :param check_model: judges ``model`` of any config; a ``RegistryError`` or ``LookupError`` is a problem, a
        returned text a warning.
    :param tool_names: the registered tools.
    :param settings: what ``settings`` that the document leaves unset are; the documented defaults when None.
    :param check_agent: further rules on an agent's config, beside its type's own ``check``.
    :param detectors: names of the detectors of personal data; None: not judged.
    :param servers: the MCP servers it may use.
    :param check_embedding: as ``check_model``, of models that make vectors; None: not judged.
    :param held_tools: the registered tools whose calls a person has to allow.
    :param pause: called now and then, so that others may go on.
    :raises ValidationFailed: with every problem.
    """
    known = Known(
        block_types, check_model, tool_names, check_agent, detectors, servers, check_embedding, held_tools
    )
    work = _Compiler(known, pause)
    tree = parse(document, pause)
    with wording.at_most(_HINTS), json_schema.pausing(pause):
        compiled = work.compile(tree, settings or WorkflowSettings())
    if compiled is None:
        problems = in_document_order(tree, work.findings.problems)
        raise ValidationFailed(problems, warnings=in_document_order(tree, work.findings.warnings))
    return compiled


class _Compiler:
    """One pass over one document; its problems and warnings are in ``findings``."""

    def __init__(self, known: Known, pause: Callable[[], None]) -> None:
        self._types = known.block_types
        self._pause = pause
        self._servers = known.servers
        self._detectors = known.detectors
        self.findings = Findings()
        self._configs = ConfigChecks(known, self.findings, pause)

    def compile(self, tree: dict[str, t.Any], defaults: WorkflowSettings) -> CompiledWorkflow | None:
        """The workflow, or None when problems were found."""
        shape, problems = derive.load(DocumentShape, tree)
        self.findings.problems += problems
        raw_blocks = _list(tree.get("blocks"))[:MAX_BLOCKS]
        raw_edges = _list(tree.get("edges"))[:MAX_EDGES]
        self._sizes(tree)
        chosen = self._settings(tree.get("settings"), defaults)
        entries = [self._entry(raw, index) for index, raw in enumerate(raw_blocks)]
        self._duplicates(entries)
        types = {e.id: self._types.get(e.type) for e in entries if e is not None}
        edges = self._edges(raw_edges, types, all_known=None not in entries)
        blocks = list(self._blocks(entries))
        good = [block for block in blocks if block is not None]
        containers = {block.id: block.bodies for block in good if block.bodies}
        entry = self._graph(entries, types, edges, containers)
        self.findings.problems += edge_rules.named_handles(edges, good)
        if None not in entries:
            self.findings.problems += edge_rules.needed_handles(edges, blocks)
        self._configs.warn_of_reads(types)
        if entry is None or self.findings.problems:
            return None
        inside = regions.bodies(entry, edges.values(), containers)
        self.findings.problems += edge_rules.bodies(inside, types, edges)
        self.findings.problems += edge_rules.captures(inside, blocks)
        if self.findings.problems or shape is None or chosen is None:
            return None
        return CompiledWorkflow(
            name=shape.name,
            document=tree,
            blocks={block.id: block for block in good},
            edges=tuple(edges.values()),
            incoming=graph.grouped(edges.values(), lambda edge: edge.target),
            outgoing=graph.grouped(edges.values(), lambda edge: edge.source),
            entry=entry,
            variables=shape.variables,
            settings=chosen,
            inside=inside,
            regions=regions.regions(types, tuple(edges.values()), entry, inside),
            warnings=tuple(in_document_order(tree, self.findings.warnings)),
            secrets=tuple(self._secrets(entries)),
        )

    def _blocks(self, entries: list[BlockShape | None]) -> t.Iterator[CompiledBlock | None]:
        for index, entry in enumerate(entries):
            self._pause()
            if entry is not None:
                yield self._configs.block(entry, index)

    def _secrets(self, entries: list[BlockShape | None]) -> t.Iterator[tuple[str, str]]:
        for index, entry in enumerate(entries):
            if entry is not None:
                kind = self._types[entry.type].config
                yield from secret_places.used(kind, entry.config, ("blocks", index, "config"), self._servers)

    def _sizes(self, tree: Mapping[str, t.Any]) -> None:
        blocks, edges = tree.get("blocks"), tree.get("edges")
        if isinstance(blocks, list) and not blocks:
            self.findings.say("blocks", "must have at least one block; add an agent")
        for key, value, most in (("blocks", blocks, MAX_BLOCKS), ("edges", edges, MAX_EDGES)):
            if isinstance(value, list) and len(value) > most:
                self.findings.say(key, f"must have at most {most} entries; it has {len(value)}")

    def _settings(self, raw: t.Any, defaults: WorkflowSettings) -> WorkflowSettings | None:
        if raw is None:
            return defaults
        if not isinstance(raw, Mapping):
            self.findings.say("settings", f"must be an object, not {shown(raw)}")
            return None
        base = {entry.name: getattr(defaults, entry.name) for entry in dataclasses.fields(defaults)}
        given = {key: value for key, value in raw.items() if value is not None}
        chosen, problems = derive.load(WorkflowSettings, {**base, **given}, "settings")
        if isinstance(given.get("redact"), Mapping):
            problems += load_policy(given["redact"], "settings.redact", self._detectors)[1]
        self.findings.problems += problems
        return chosen

    def _entry(self, raw: t.Any, index: int) -> BlockShape | None:
        self._pause()
        path = join("blocks", index)
        entry, problems = derive.load(BlockShape, raw, path)
        if isinstance(raw, Mapping):
            for key in COMMON_KEYS:
                if key in raw:
                    problems = [p for p in problems if p.path != join(path, key)]
                    problems.append(Problem(join(path, key), "belongs into the block's config"))
        self.findings.problems += problems
        if entry is None and isinstance(raw, Mapping):
            # Without its wrong keys, so that the rest of the block is still looked at.
            bad = {p.path for p in problems}
            entry, _ = derive.load(
                BlockShape, {k: v for k, v in raw.items() if join(path, k) not in bad}, path
            )
        if entry is None:
            return None
        if not ID.fullmatch(entry.id):
            self.findings.say(join(path, "id"), f"must match {ID.pattern}, not {shown(entry.id)}")
        if entry.type not in self._types:
            near = did_you_mean(entry.type, sorted(self._types))
            self.findings.say(
                join(path, "type"), f"there is no block type {shown(entry.type)}. {near}".rstrip()
            )
        return entry

    def _duplicates(self, entries: list[BlockShape | None]) -> None:
        first: dict[str, int] = {}
        for index, entry in enumerate(entries):
            if entry is None:
                continue
            if entry.id in first:
                message = f"{shown(entry.id)} is the id of {join('blocks', first[entry.id])} already; ids must differ"
                self.findings.say(join("blocks", index, "id"), message)
            first.setdefault(entry.id, index)

    def _edges(
        self, raw_edges: list[t.Any], types: Mapping[str, BlockType | None], all_known: bool
    ) -> dict[str, Edge]:
        """The good edges by their path. ``all_known``: no block was too broken to have an id."""
        found: dict[str, Edge] = {}
        seen: set[Edge] = set()
        for index, raw in enumerate(raw_edges):
            self._pause()
            path = join("edges", index)
            entry, problems = derive.load(EdgeShape, raw, path)
            self.findings.problems += problems
            if entry is None:
                continue
            edge = Edge(entry.source, entry.source_handle, entry.target)
            ends = (("source", edge.source), ("target", edge.target))
            dangling = [(key, name) for key, name in ends if name not in types]
            for key, name in dangling if all_known else ():
                self.findings.say(
                    join(path, key), f"there is no block {shown(name)}. {did_you_mean(name, types)}".rstrip()
                )
            if dangling:
                continue
            self.findings.problems += edge_rules.handle(edge, types[edge.source], join(path, "source_handle"))
            if edge in seen:
                self.findings.say(path, "is there twice; remove one")
                continue
            seen.add(edge)
            found[path] = edge
        return found

    def _graph(
        self,
        entries: list[BlockShape | None],
        types: Mapping[str, BlockType | None],
        edges: Mapping[str, Edge],
        containers: Mapping[str, tuple[str, ...]],
    ) -> str | None:
        broken = any(problem.path.startswith("edges") for problem in self.findings.problems)
        if not types or None in entries or broken:
            return None  # what is connected is not known while blocks, their ids or edges are missing
        places: dict[str, str] = {}
        for index, known in enumerate(entries):
            if known is not None:
                places.setdefault(known.id, join("blocks", index))
        returning = {  # a loop whose config is wrong is a loop all the same
            name: [handle for handle in containers.get(name, kind.returns) if handle in kind.returns]
            for name, kind in types.items()
            if kind is not None and kind.returns
        }

        def leading_back(start: str, given: t.Iterable[Edge]) -> set[Edge]:
            return regions.back_edges(given, regions.bodies(start, given, returning))

        entry, problems = graph.check(places, types, edges, leading_back)
        self.findings.problems += problems
        return entry


def _list(value: t.Any) -> list[t.Any]:
    return value if isinstance(value, list) else []

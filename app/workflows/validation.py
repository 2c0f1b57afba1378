"""From document to :class:`CompiledWorkflow`, or every problem at once.

Law of this room: nothing here stops at the first problem, and nothing but ``ValidationFailed`` leaves it,
whatever JSON comes in. Each problem has its JSON path and the cure; they come in document order. What
block types, models and tools exist is told by the caller.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from app.errors import Problem, ValidationFailed
from app.schemas import derive
from app.schemas.paths import did_you_mean, in_document_order, join, shown, split
from app.workflows import edge_rules, graph, nested, regions, secret_places
from app.workflows.agent_rules import agent_problems, agent_warnings, is_not_supported
from app.workflows.compiled import AGENT, CompiledBlock, CompiledWorkflow, Edge, WorkflowSettings
from app.workflows.document import parse
from app.workflows.mcp_entries import NO_SERVERS
from app.workflows.template_syntax import ANY_BLOCK, NAMES, inspect
from app.workflows.tool_entries import (
    NOT_SUPPORTED,
    entry_problems,
    entry_warnings,
    template_problems,
)
from plugins.connections import RegistryError
from plugins.spec.blocks import BlockType, Use
from plugins.spec.mcp import McpServers

#: What ``check_model`` does: raises with the message for a model that cannot be, returns a warning or None.
CheckModel = Callable[[str], str | None]
#: Rules of the caller on an agent's config: (path inside the config, message) pairs.
CheckAgent = Callable[[t.Any], list[tuple[str, str]]]

ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_BLOCKS = 500
MAX_EDGES = 2_000


@dataclass(frozen=True, slots=True)
class _Document:
    """Top level of a document."""

    blocks: tuple[t.Any, ...]
    name: str = field(default="Untitled", metadata={"nonempty": True, "most": 255})
    edges: tuple[t.Any, ...] = ()
    variables: Mapping[str, t.Any] = field(default_factory=dict)
    settings: t.Any = None


@dataclass(frozen=True, slots=True)
class _Block:
    """One entry of ``blocks``."""

    id: str
    type: str
    name: str | None = field(default=None, metadata={"nonempty": True, "most": 255})
    config: Mapping[str, t.Any] = field(default_factory=dict)
    position: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class _Edge:
    """One entry of ``edges``."""

    source: str
    target: str
    source_handle: str = ""


@dataclass(frozen=True, slots=True)
class _Common:
    """Keys that every block's config takes."""

    timeout_s: float | None = field(
        default=None,
        metadata={"doc": "Longest one execution may take, in seconds.", "above": 0, "high": 604800},
    )
    retries: int = field(
        default=0, metadata={"doc": "Further attempts after a failure.", "low": 0, "high": 10}
    )
    on_error: t.Literal["fail", "continue"] = field(
        default="fail", metadata={"doc": "fail ends the run; continue goes on without this block's output."}
    )


#: Rows for the reference of every block type.
COMMON_CONFIG: type = _Common
_COMMON_KEYS = tuple(entry.name for entry in dataclasses.fields(_Common))


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
    :raises ValidationFailed: with every problem; code ``not_supported`` when all of them are about things that
        are documented and not built.
    """
    work = _Compiler(block_types, check_model, tool_names, check_agent, detectors, servers, check_embedding)
    tree = parse(document)
    compiled = work.compile(tree, settings or WorkflowSettings())
    if compiled is None:
        problems = in_document_order(tree, work.problems)
        unbuilt = all(is_not_supported(problem) for problem in problems)
        raise ValidationFailed(
            problems,
            code="not_supported" if unbuilt else "validation_failed",
            warnings=in_document_order(tree, work.warnings),
        )
    return compiled


class _Compiler:
    """One pass over one document; collects problems and warnings."""

    def __init__(
        self,
        block_types: Mapping[str, BlockType],
        check_model: CheckModel,
        tool_names: Collection[str],
        check_agent: CheckAgent | None,
        detectors: Collection[str] | None,
        servers: McpServers,
        check_embedding: CheckModel | None,
    ) -> None:
        self._types = block_types
        self._check_model = check_model
        self._tools = tool_names
        self._check_agent = check_agent
        self._detectors = detectors
        self._servers = servers
        self._check_embedding = check_embedding
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._reads: list[tuple[str, str, tuple[str, ...]]] = []

    def compile(self, tree: dict[str, t.Any], defaults: WorkflowSettings) -> CompiledWorkflow | None:
        """The workflow, or None with ``problems`` filled."""
        shape, problems = derive.load(_Document, tree)
        self.problems += problems
        raw_blocks = _list(tree.get("blocks"))[:MAX_BLOCKS]
        raw_edges = _list(tree.get("edges"))[:MAX_EDGES]
        self._sizes(tree)
        chosen = self._settings(tree.get("settings"), defaults)
        entries = [self._entry(raw, index) for index, raw in enumerate(raw_blocks)]
        self._duplicates(entries)
        types = {e.id: self._types.get(e.type) for e in entries if e is not None}
        edges = self._edges(raw_edges, types, all_known=None not in entries)
        blocks = [self._block(e, index) for index, e in enumerate(entries) if e is not None]
        containers = {block.id: block.bodies for block in blocks if block is not None and block.bodies}
        entry = self._graph(entries, types, edges, containers)
        self.problems += edge_rules.named_handles(edges, [block for block in blocks if block is not None])
        if None not in entries:
            self.problems += edge_rules.needed_handles(edges, blocks)
        self._check_reads(types)
        if entry is None or self.problems:
            return None
        inside = regions.bodies(entry, edges.values(), containers)
        self.problems += edge_rules.bodies(inside, types, edges)
        self.problems += edge_rules.captures(inside, blocks)
        if self.problems or shape is None or chosen is None:
            return None
        return CompiledWorkflow(
            name=shape.name,
            document=tree,
            blocks={block.id: block for block in blocks if block is not None},
            edges=tuple(edges.values()),
            incoming=graph.grouped(edges.values(), lambda edge: edge.target),
            outgoing=graph.grouped(edges.values(), lambda edge: edge.source),
            entry=entry,
            variables=shape.variables,
            settings=chosen,
            inside=inside,
            regions=regions.regions(types, tuple(edges.values()), entry, inside),
            warnings=tuple(in_document_order(tree, self.warnings)),
            secrets=tuple(self._secrets(entries)),
        )

    def _secrets(self, entries: list[_Block | None]) -> t.Iterator[tuple[str, str]]:
        for index, entry in enumerate(entries):
            if entry is not None:
                kind = self._types[entry.type].config
                yield from secret_places.used(kind, entry.config, ("blocks", index, "config"))

    def _say(self, path: str, message: str) -> None:
        self.problems.append(Problem(path, message))

    def _sizes(self, tree: Mapping[str, t.Any]) -> None:
        blocks, edges = tree.get("blocks"), tree.get("edges")
        if isinstance(blocks, list) and not blocks:
            self._say("blocks", "must have at least one block; add an agent")
        for key, value, most in (("blocks", blocks, MAX_BLOCKS), ("edges", edges, MAX_EDGES)):
            if isinstance(value, list) and len(value) > most:
                self._say(key, f"must have at most {most} entries; it has {len(value)}")

    def _settings(self, raw: t.Any, defaults: WorkflowSettings) -> WorkflowSettings | None:
        if raw is None:
            return defaults
        if not isinstance(raw, Mapping):
            self._say("settings", f"must be an object, not {shown(raw)}")
            return None
        base = {entry.name: getattr(defaults, entry.name) for entry in dataclasses.fields(defaults)}
        given = {key: value for key, value in raw.items() if value is not None}
        chosen, problems = derive.load(WorkflowSettings, {**base, **given}, "settings")
        self.problems += problems
        if raw.get("durable") is True:
            self._say(
                "settings.durable", f"durable runs are {NOT_SUPPORTED}; leave durable out or set it to false"
            )
        return chosen

    def _entry(self, raw: t.Any, index: int) -> _Block | None:
        path = join("blocks", index)
        entry, problems = derive.load(_Block, raw, path)
        if isinstance(raw, Mapping):
            for key in _COMMON_KEYS:
                if key in raw:
                    problems = [p for p in problems if p.path != join(path, key)]
                    problems.append(Problem(join(path, key), "belongs into the block's config"))
        self.problems += problems
        if entry is None and isinstance(raw, Mapping):
            # Without its wrong keys, so that the rest of the block is still looked at.
            bad = {p.path for p in problems}
            entry, _ = derive.load(_Block, {k: v for k, v in raw.items() if join(path, k) not in bad}, path)
        if entry is None:
            return None
        if not ID.fullmatch(entry.id):
            self._say(join(path, "id"), f"must match {ID.pattern}, not {shown(entry.id)}")
        if entry.type not in self._types:
            near = did_you_mean(entry.type, sorted(self._types))
            self._say(join(path, "type"), f"there is no block type {shown(entry.type)}. {near}".rstrip())
        return entry

    def _duplicates(self, entries: list[_Block | None]) -> None:
        first: dict[str, int] = {}
        for index, entry in enumerate(entries):
            if entry is None:
                continue
            if entry.id in first:
                message = f"{shown(entry.id)} is the id of {join('blocks', first[entry.id])} already; ids must differ"
                self._say(join("blocks", index, "id"), message)
            first.setdefault(entry.id, index)

    def _edges(
        self, raw_edges: list[t.Any], types: Mapping[str, BlockType | None], all_known: bool
    ) -> dict[str, Edge]:
        """The good edges by their path. ``all_known``: no block was too broken to have an id."""
        found: dict[str, Edge] = {}
        seen: set[Edge] = set()
        for index, raw in enumerate(raw_edges):
            path = join("edges", index)
            entry, problems = derive.load(_Edge, raw, path)
            self.problems += problems
            if entry is None:
                continue
            edge = Edge(entry.source, entry.source_handle, entry.target)
            ends = (("source", edge.source), ("target", edge.target))
            dangling = [(key, name) for key, name in ends if name not in types]
            for key, name in dangling if all_known else ():
                self._say(
                    join(path, key), f"there is no block {shown(name)}. {did_you_mean(name, types)}".rstrip()
                )
            if dangling:
                continue
            self.problems += edge_rules.handle(edge, types[edge.source], join(path, "source_handle"))
            if edge in seen:
                self._say(path, "is there twice; remove one")
                continue
            seen.add(edge)
            found[path] = edge
        return found

    def _block(self, entry: _Block, index: int) -> CompiledBlock | None:
        block_type = self._types.get(entry.type)
        path = join("blocks", index, "config")
        if block_type is None:
            return None
        own = {f.name for f in dataclasses.fields(block_type.config)}
        common_keys = [key for key in _COMMON_KEYS if key not in own]
        common, problems = derive.load(
            _Common, {key: entry.config[key] for key in common_keys if key in entry.config}, path
        )
        config: t.Any
        rest = {k: v for k, v in entry.config.items() if k not in common_keys}
        config, more = derive.load(t.cast("type[t.Any]", block_type.config), rest, path)
        problems += more
        if block_type.type_name == AGENT:
            told = {problem.path for problem in problems}
            found = agent_problems(entry.config, path, self._tools, self._servers)
            problems += [p for p in found if p.path not in told]
            self.warnings += agent_warnings(entry.config, path)
        problems += self._nested(
            block_type.config, entry.config, path, {problem.path for problem in problems}
        )
        problems += self._templates(block_type.config, entry.config, path)
        if config is not None:
            problems += self._own_rules(block_type, config, path)
        self.problems += problems
        if "model" in own:
            self._model(entry.config.get("model"), join(path, "model"))
        fallbacks = entry.config.get("fallbacks") if "fallbacks" in own else None
        for place, model in enumerate(_list(fallbacks)):
            self._model(model, join(path, "fallbacks", place))
        uses = block_type.uses(config) if config is not None and block_type.uses is not None else ()
        for use in uses:
            self._use(use, join(path, *use.path))
        if config is None or common is None:
            return None
        structured = getattr(config, "response_format", None) is not None
        return CompiledBlock(
            entry.id, block_type, entry.name or entry.id, config,
            common.timeout_s, common.retries, common.on_error, structured,
            block_type.bodies(config) if block_type.bodies is not None else (),
            next((use.value for use in uses if use.kind == "workflow"), None),
        )  # fmt: skip

    def _use(self, use: Use, path: str) -> None:
        """What a config names outside of the document. Workflows are looked up where they are stored."""
        if use.kind == "model":
            self._model(use.value, path)
        elif use.kind == "embedding" and self._check_embedding is not None:
            self._judge(self._check_embedding, use.value.model, path)
        elif use.kind == "tool":
            self.problems += entry_problems(use.value, path, self._tools, self._servers)
            self.warnings += entry_warnings(use.value, path)
        elif use.kind == "detector" and self._detectors is not None and use.value not in self._detectors:
            near = did_you_mean(use.value, sorted(self._detectors))
            self._say(path, f"there is no detector {shown(use.value)}. {near}".rstrip())

    def _own_rules(self, block_type: BlockType, config: t.Any, path: str) -> list[Problem]:
        found = []
        if block_type.check is not None:
            found = [Problem(where, message) for where, message in block_type.check(config, path)]
        if self._check_agent is not None and block_type.type_name == AGENT:
            for inner, message in self._check_agent(config):
                found.append(Problem(join(path, *split(inner)), message))
        if self._check_agent is not None:
            for agent in nested.agents(block_type.config, config):
                for inner, message in self._check_agent(agent.config):
                    found.append(Problem(join(path, *agent.path, *split(inner)), message))
        return found

    def _nested(
        self, kind: type, config: Mapping[str, t.Any], path: str, told: Collection[str]
    ) -> list[Problem]:
        """What is wrong with the agents inside a config, by the rules of agent blocks."""
        found: list[Problem] = []
        for agent in nested.agents(kind, config):
            where = join(path, *agent.path)
            inner = nested.problems(agent.config, where, self._tools, self._servers)
            found += [p for p in inner if p.path not in told]
            found += self._templates(agent.kind, agent.config, where, agent.names)
            self.warnings += agent_warnings(agent.config, where)
        return found

    def _templates(
        self, kind: type, config: Mapping[str, t.Any], path: str, names: tuple[str, ...] = ()
    ) -> list[Problem]:
        """What is wrong with the templates of a config. ``names``: what they see beside the usual names."""
        problems = []
        for entry in dataclasses.fields(kind):
            if entry.metadata.get("template"):
                key = entry.metadata.get("key", entry.name)
                problems += template_problems(
                    config.get(key),
                    join(path, key),
                    secret_safe=bool(entry.metadata.get("secret_safe")),
                    look=lambda where, source: self._reads.append((where, source, names)),
                )
        return problems

    def _model(self, model: t.Any, where: str) -> None:
        self._judge(self._check_model, model, where)

    def _judge(self, check: CheckModel, model: t.Any, where: str) -> None:
        if not isinstance(model, str):
            return
        try:
            warning = check(model)
        except (RegistryError, LookupError, ValueError) as error:
            self._say(where, str(error.args[0]) if error.args else str(error))
        else:
            if isinstance(warning, str):
                self.warnings.append(Problem(where, warning))

    def _graph(
        self,
        entries: list[_Block | None],
        types: Mapping[str, BlockType | None],
        edges: Mapping[str, Edge],
        containers: Mapping[str, tuple[str, ...]],
    ) -> str | None:
        broken = any(problem.path.startswith("edges") for problem in self.problems)
        if not types or None in entries or broken:
            return None  # what is connected is not known while blocks, their ids or edges are missing
        places: dict[str, str] = {}
        for index, known in enumerate(entries):
            if known is not None:
                places.setdefault(known.id, join("blocks", index))
        returning = {
            name: [
                handle for handle in handles if (kind := types[name]) is not None and handle in kind.returns
            ]
            for name, handles in containers.items()
        }

        def leading_back(start: str, given: t.Iterable[Edge]) -> set[Edge]:
            return regions.back_edges(given, regions.bodies(start, given, returning))

        entry, problems = graph.check(places, types, edges, leading_back)
        self.problems += problems
        return entry

    def _check_reads(self, blocks: Collection[str]) -> None:
        for path, source, names in self._reads:
            template = inspect(source)
            for name in template.unknown:
                if name in names:
                    continue
                near = did_you_mean(name, (*NAMES, *names))
                self.warnings.append(Problem(path, f"{shown(name)} is set nowhere and renders empty. {near}"))
            for block in sorted(template.blocks):
                if block != ANY_BLOCK and block not in blocks:
                    near = did_you_mean(block, blocks)
                    self.warnings.append(
                        Problem(path, f"there is no block {shown(block)}; it renders empty. {near}")
                    )


def _list(value: t.Any) -> list[t.Any]:
    return value if isinstance(value, list) else []

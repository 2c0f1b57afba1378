"""What a block's config holds: its fields, the agents and templates inside, what it names outside of the document.

Law of this room: a config is judged by what its fields say of themselves and by its type's own rules, never by the
type's name; the agent block alone has rules written here. Problems and warnings go into the :class:`Findings` of the
caller, in the order they are met.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.errors import Problem
from app.schemas import derive
from app.schemas.paths import Segment, did_you_mean, join, shown, split
from app.workflows import nested
from app.workflows.agent_rules import agent_problems, agent_warnings
from app.workflows.asking import asks
from app.workflows.compiled import AGENT, CompiledBlock
from app.workflows.mcp_entries import NO_SERVERS
from app.workflows.shapes import COMMON_KEYS, BlockShape, CommonConfig
from app.workflows.template_syntax import ANY_BLOCK, NAMES, in_braces, inspect
from app.workflows.tool_entries import entry_problems, template_problems
from plugins.connections import RegistryError
from plugins.spec.blocks import BlockType, Use
from plugins.spec.mcp import McpServers

#: What ``check_model`` does: raises with the message for a model that cannot be, returns a warning or None.
CheckModel = Callable[[str], str | None]
#: Rules of the caller on an agent's config: (path inside the config, message) pairs.
CheckAgent = Callable[[t.Any], list[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Known:
    """What exists outside of the document; see :func:`app.workflows.validation.compile_document`."""

    block_types: Mapping[str, BlockType]
    check_model: CheckModel
    tool_names: Collection[str]
    check_agent: CheckAgent | None = None
    detectors: Collection[str] | None = None
    servers: McpServers = NO_SERVERS
    check_embedding: CheckModel | None = None
    held_tools: Collection[str] = ()


@dataclass(slots=True)
class Findings:
    """What was found so far: ``problems`` refuse a document, ``warnings`` do not."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def say(self, path: str, message: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(path, message))

    def warn(self, path: str, message: str) -> None:
        """Add a warning."""
        self.warnings.append(Problem(path, message))


class ConfigChecks:
    """Compiles blocks one by one, and remembers which names their templates read."""

    def __init__(self, known: Known, findings: Findings, pause: Callable[[], None]) -> None:
        self._known = known
        self._findings = findings
        self._pause = pause
        self._reads: list[tuple[str, str, tuple[str, ...]]] = []

    def block(self, entry: BlockShape, index: int) -> CompiledBlock | None:
        """The block with its config as its type wants it; None when there is no such type or config.

        :param index: its place in ``blocks``.
        """
        block_type = self._known.block_types.get(entry.type)
        path = join("blocks", index, "config")
        if block_type is None:
            return None
        own = {f.name for f in dataclasses.fields(block_type.config)}
        common, config, problems = _loaded(block_type, entry.config, own, path)
        problems += self._agents(block_type, entry.config, path, {problem.path for problem in problems})
        problems += self._templates(block_type.config, entry.config, path)
        right, wrong = (
            (config, ()) if config is not None else _in_part(block_type, entry.config, problems, path)
        )
        if right is not None:
            found = self._own_rules(block_type, right, path)
            problems += [problem for problem in found if not _below(problem.path, wrong)]
        self._findings.problems += problems
        self._models(entry.config, own, path)
        uses = block_type.uses(right) if right is not None and block_type.uses is not None else ()
        for use in uses:
            where = join(path, *use.path)
            if not _below(where, wrong):
                self._use(use, where)
        if config is None or common is None:
            return None
        structured = getattr(config, "response_format", None) is not None
        return CompiledBlock(
            entry.id, block_type, entry.name or entry.id, config,
            common.timeout_s, common.retries, common.on_error, structured,
            block_type.bodies(config) if block_type.bodies is not None else (),
            next((use.value for use in uses if use.kind == "workflow"), None),
            asks(block_type, config, uses, self._known.held_tools),
        )  # fmt: skip

    def warn_of_reads(self, blocks: Collection[str]) -> None:
        """Warn of what the templates read and nothing sets.

        :param blocks: ids of the document's blocks.
        """
        for path, source, names in self._reads:
            self._pause()
            template = inspect(source)
            for name in template.unknown:
                if name not in names:
                    near = did_you_mean(name, (*NAMES, *names))
                    self._findings.warn(path, f"{shown(name)} is set nowhere and renders empty. {near}")
            for block in sorted(template.blocks):
                if block != ANY_BLOCK and block not in blocks:
                    near = did_you_mean(block, blocks)
                    self._findings.warn(path, f"there is no block {shown(block)}; it renders empty. {near}")

    def _agents(
        self, block_type: BlockType, config: Mapping[str, t.Any], path: str, told: Collection[str]
    ) -> list[Problem]:
        """What is wrong with an agent block, and with the agents inside a config, by the same rules.

        :param told: paths that have a problem already.
        """
        known = self._known.tool_names, self._known.servers, self._known.detectors
        found: list[Problem] = []
        if block_type.type_name == AGENT:
            found += [p for p in agent_problems(config, path, *known) if p.path not in told]
            self._findings.warnings += agent_warnings(config, path)
        told = {*told, *(problem.path for problem in found)}
        for agent in nested.agents(block_type.config, config):
            where = join(path, *agent.path)
            inner = nested.problems(agent.config, where, *known)
            found += [p for p in inner if p.path not in told]
            found += self._templates(agent.kind, agent.config, where, agent.names)
            self._findings.warnings += agent_warnings(agent.config, where)
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
                    in_braces(config.get(key), entry.metadata.get("expression", False)),
                    join(path, key),
                    secret_safe=bool(entry.metadata.get("secret_safe")),
                    look=lambda where, source: self._reads.append((where, source, names)),
                )
        return problems

    def _own_rules(self, block_type: BlockType, config: t.Any, path: str) -> list[Problem]:
        """What the type's own check and the caller's rules on agents say."""
        found = []
        if block_type.check is not None:
            found = [Problem(where, message) for where, message in block_type.check(config, path)]
        check_agent = self._known.check_agent
        if check_agent is None:
            return found
        agents: list[tuple[tuple[Segment, ...], t.Any]] = []
        if block_type.type_name == AGENT:
            agents.append(((), config))
        agents += [(agent.path, agent.config) for agent in nested.agents(block_type.config, config)]
        for place, agent in agents:
            for inner, message in check_agent(agent):
                found.append(Problem(join(path, *place, *split(inner)), message))
        return found

    # -- what is named outside of the document -----------------------------------------------

    def _models(self, config: Mapping[str, t.Any], own: Collection[str], path: str) -> None:
        """Judge ``model`` and ``fallbacks`` where the type has such fields. ``own``: names of its fields."""
        if "model" in own:
            self._judge(self._known.check_model, config.get("model"), join(path, "model"))
        fallbacks = config.get("fallbacks") if "fallbacks" in own else None
        for place, model in enumerate(fallbacks if isinstance(fallbacks, list) else ()):
            self._judge(self._known.check_model, model, join(path, "fallbacks", place))

    def _use(self, use: Use, path: str) -> None:
        """What a config names outside of the document. Workflows are looked up where they are stored."""
        known = self._known
        if use.kind == "model":
            self._judge(known.check_model, use.value, path)
        elif use.kind == "embedding" and known.check_embedding is not None:
            self._judge(known.check_embedding, use.value.model, path)
        elif use.kind == "tool":
            self._findings.problems += entry_problems(use.value, path, known.tool_names, known.servers)
        elif use.kind == "detector" and known.detectors is not None and use.value not in known.detectors:
            near = did_you_mean(use.value, sorted(known.detectors))
            self._findings.say(path, f"there is no detector {shown(use.value)}. {near}".rstrip())

    def _judge(self, check: CheckModel, model: t.Any, where: str) -> None:
        if not isinstance(model, str):
            return
        try:
            warning = check(model)
        except (RegistryError, LookupError, ValueError) as error:
            self._findings.say(where, str(error.args[0]) if error.args else str(error))
        else:
            if isinstance(warning, str):
                self._findings.warn(where, warning)


def _loaded(
    block_type: BlockType, given: Mapping[str, t.Any], own: Collection[str], path: str
) -> tuple[CommonConfig | None, t.Any, list[Problem]]:
    """The keys that every block has, the type's config (each None when it is wrong), and the problems of both."""
    shared = [key for key in COMMON_KEYS if key not in own]
    common, problems = derive.load(CommonConfig, {key: given[key] for key in shared if key in given}, path)
    rest = {key: value for key, value in given.items() if key not in shared}
    config: t.Any
    config, more = derive.load(t.cast("type[t.Any]", block_type.config), rest, path)
    return common, config, problems + more


def _in_part(
    block_type: BlockType, given: Mapping[str, t.Any], problems: Sequence[Problem], path: str
) -> tuple[t.Any, tuple[str, ...]]:
    """The config without its wrong keys, so that the rest is still looked at, and the paths of those; None when it
    cannot do without them.
    """
    own = {entry.metadata.get("key", entry.name) for entry in dataclasses.fields(block_type.config)}
    wrong = {key for key in given if any(_below(problem.path, [join(path, key)]) for problem in problems)}
    right = {key: value for key, value in given.items() if key in own - wrong}
    config: t.Any = derive.load(t.cast("type[t.Any]", block_type.config), right, path)[0]
    return config, tuple(join(path, key) for key in wrong)


def _below(path: str, places: Iterable[str]) -> bool:
    """Whether a path is one of ``places``, or leads to something inside of one."""
    return any(path == place or path.startswith((f"{place}.", f"{place}[")) for place in places)

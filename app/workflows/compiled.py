"""A workflow that was checked: what the engine runs.

Law of this room: values only. Everything that can be known before a run is known here; whoever holds a
:class:`CompiledWorkflow` never looks into the document again.
"""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from app.errors import Problem
from app.events import BlockInfo
from app.schemas.limits import RunBudget
from app.state import plain
from app.workflows.template_syntax import ANY_BLOCK, references, strings_in
from plugins.spec.blocks import BlockType, Child
from plugins.spec.runners import WorkflowRunner

#: The block types this room has to know by name: their outputs make the run's answer.
AGENT = "agent"
RESPONSE = "response"
GUARDRAIL = "guardrail"
#: The block type that is itself a question to a person.
APPROVAL = "approval"
#: Types that let a text of others through, or do not: they speak in its place. The config field that names the text.
RELEASES: Mapping[str, str] = {GUARDRAIL: "input", APPROVAL: "draft"}
#: How deep workflows may run inside one another: the children, their children, and so on.
MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Edge:
    """A connection. ``handle`` is the source's; the empty string is the plain edge."""

    source: str
    handle: str
    target: str


@dataclass(frozen=True, slots=True)
class Region:
    """The blocks that are scheduled together, in document order, and the edges between them.

    The way into the region leads to ``entries``; they start when the other ways to them are known. ``leaves``: the
    handles by which this body's blocks lead out of it.
    """

    blocks: tuple[str, ...]
    incoming: Mapping[str, tuple[Edge, ...]]
    outgoing: Mapping[str, tuple[Edge, ...]]
    entries: tuple[str, ...]
    leaves: tuple[Edge, ...] = ()


@dataclass(frozen=True, slots=True)
class CompiledBlock:
    """A block with its type and its config as an instance of the type's dataclass.

    ``timeout_s`` bounds one execution (seconds), ``retries`` counts further attempts. ``on_error``: ``fail`` ends
    the run unless an ``error`` edge leaves the block, ``continue`` goes on without its output. A type whose config
    has one of these three fields itself gets the value there, and the default stays here.
    ``structured``: the output is made from a response format, its text is never streamed live. ``bodies``: the
    handles behind which blocks hang that this block runs. ``child``: the workflow it runs. ``asks``: a person may have
    to decide in it.
    """

    id: str
    type: BlockType
    name: str
    config: t.Any
    timeout_s: float | None = None
    retries: int = 0
    on_error: t.Literal["fail", "continue"] = "fail"
    structured: bool = False
    bodies: tuple[str, ...] = ()
    child: Child | None = None
    asks: bool = False

    @property
    def onward(self) -> str | None:
        """The handle by which it goes on whatever it came to; None where that is what it decides."""
        return next((handle for handle in ("", "exit") if handle in self.type.handles), None)


@dataclass(frozen=True, slots=True)
class WorkflowSettings:
    """``settings`` of a document (contract section 2)."""

    timeout_s: float = field(
        default=300, metadata={"doc": "Longest a run may take, in seconds.", "low": 1, "high": 604800}
    )
    on_disconnect: t.Literal["cancel", "continue"] = field(
        default="cancel", metadata={"doc": "What happens to a run whose last reader has left."}
    )
    disconnect_grace_s: float = field(
        default=0.0,
        metadata={"doc": "How long readers may be gone before that, in seconds.", "low": 0, "high": 604800},
    )
    durable: bool = field(
        default=False,
        metadata={
            "doc": "Runs survive the end of their process: what they have done is written down, and another process "
            "goes on from there. Always so where a person may have to approve something."
        },
    )
    public: bool = field(default=False, metadata={"doc": "Anyone may run it, without an API key."})
    redact: Mapping[str, t.Any] | None = field(
        default=None,
        metadata={
            "doc": "Personal data is masked in every block: `{mode: strict | live, detectors, mask, applies}`; see "
            "[Redaction](../redaction.md). Default: only where an agent has a `redact` of its own, or what it is "
            "deployed as."
        },
    )
    budget: RunBudget | None = field(
        default=None,
        metadata={"doc": "What a run may use, {tokens, cost}; one that uses more ends as budget_exceeded."},
    )


@dataclass(frozen=True, eq=False)
class Pinned:
    """A version of a workflow that a run of another one has fixed. ``version`` None: it was never saved."""

    workflow_id: str
    version: int | None
    workflow: CompiledWorkflow


@dataclass(frozen=True, eq=False)
class CompiledWorkflow:
    """A workflow ready to run.

    :ivar document: the parsed document it was made from.
    :ivar blocks: by id, in document order.
    :ivar incoming: edges by target, in document order; a block without any is left out.
    :ivar outgoing: edges by source, likewise.
    :ivar entry: id of the block a run begins with.
    :ivar inside: the blocks of each body, nested bodies included. :ivar regions: what is scheduled together, by body;
        the root's under None.
    :ivar warnings: what may be a mistake but can run.
    :ivar children: what its blocks run of other workflows, by block; filled where workflows are stored.
    :ivar secrets: (JSON path, name) of the secrets it uses.
    :ivar runner: what runs it, where no document does; see :mod:`app.workflows.runner_graph`.
    :ivar size: bytes it takes, by estimate, without its children; 0 where nobody keeps it.
    """

    name: str
    document: Mapping[str, t.Any]
    blocks: Mapping[str, CompiledBlock]
    edges: tuple[Edge, ...]
    incoming: Mapping[str, tuple[Edge, ...]]
    outgoing: Mapping[str, tuple[Edge, ...]]
    entry: str
    variables: Mapping[str, t.Any]
    settings: WorkflowSettings
    inside: Mapping[tuple[str, str], frozenset[str]]
    regions: Mapping[tuple[str, str] | None, Region]
    warnings: tuple[Problem, ...] = ()
    children: Mapping[str, Pinned] = field(default_factory=dict)
    secrets: tuple[tuple[str, str], ...] = ()
    runner: WorkflowRunner | None = None
    size: int = 0

    @property
    def weight(self) -> int:
        """Bytes it takes, by estimate, with its children."""
        return self.size + sum(child.workflow.weight for child in self.children.values())

    @functools.cached_property
    def durable(self) -> bool:
        """Whether its runs outlive their process: it says so, or a person may have to decide in it or in a child."""
        return (
            self.settings.durable
            or any(block.asks for block in self.blocks.values())
            or any(child.workflow.durable for child in self.children.values())
        )

    @property
    def root(self) -> Region:
        """The region that lies in no body."""
        return self.regions[None]

    def infos(self) -> tuple[BlockInfo, ...]:
        """The blocks as ``RunStarted`` tells them, in document order."""
        return self._infos

    @functools.cached_property
    def _infos(self) -> tuple[BlockInfo, ...]:
        return tuple(BlockInfo(b.id, b.type.type_name, b.name, b.structured) for b in self.blocks.values())

    def predecessors(self, block: str) -> tuple[str, ...]:
        """Ids of the blocks with an edge into ``block``, each once, in document order."""
        return self._predecessors.get(block, ())

    @functools.cached_property
    def _predecessors(self) -> Mapping[str, tuple[str, ...]]:
        places = {block: place for place, block in enumerate(self.blocks)}
        return {
            block: tuple(sorted({edge.source for edge in edges}, key=places.__getitem__))
            for block, edges in self.incoming.items()
        }

    def in_body(self, block: str) -> bool:
        """Whether another block runs it, as a loop does; any node of a runner may be one of several at once."""
        return self._homes[block] is not None or self.runner is not None

    def home(self, block: str) -> str | None:
        """The block in whose body ``block`` lies; None where it lies in none, and for one that is not here."""
        body = self._homes.get(block)
        return None if body is None else body[0]

    def find(self, path: str) -> CompiledBlock | None:
        """The block behind an instance path, in this workflow or in one that it runs."""
        if self.runner is not None:
            return self.blocks.get(plain(path))
        head, _, rest = path.partition("/")
        block = head.partition("[")[0]
        if not rest:
            return self.blocks.get(block)
        child = self.children.get(block)
        return None if child is None else child.workflow.find(rest)

    def leads_on(self, block: str, handle: str) -> bool:
        """Whether an edge leaves ``block`` by ``handle``, other than back to the block in whose body it lies."""
        return handle in self._further(block)

    def exits(self) -> tuple[str, ...]:
        """The blocks a run may end with, in document order."""
        return tuple(b.id for b in self.blocks.values() if self._homes[b.id] is None and self._ends(b))

    def _further(self, block: str) -> set[str]:
        home = self._homes[block]
        around = None if home is None else home[0]
        return {edge.handle for edge in self.outgoing.get(block, ()) if edge.target != around}

    def answer_agents(self) -> tuple[str, ...]:
        """Blocks that speak and whose output reaches the run's output, in document order (contract 3.4,
        ``selectedOutputs`` absent): agents, and what speaks in their place.

        With response blocks: those whose output they hand on. Without: those that may come last, also in the body of a
        block that does. A guardrail or an approval speaks for what it looks at, so that nothing of it is shown before
        it has passed.
        """
        return self._answer_agents

    @functools.cached_property
    def _answer_agents(self) -> tuple[str, ...]:
        if self.runner is not None:
            return tuple(block.id for block in self.blocks.values() if block.config.answers)
        return tuple(
            b.id
            for b in self.blocks.values()
            if b.type.answers
            and (
                b.id in self.handed_on
                or (self._may_be_last(b) and (not self._responding or b.type.type_name == GUARDRAIL))
            )
        )

    @functools.cached_property
    def handed_on(self) -> frozenset[str]:
        """Blocks that speak and whose ``content`` a response block hands on: those its templates read, or its
        direct predecessors when it has no body.
        """
        found = {b.id for b in self.blocks.values() if b.type.answers and self._is_read(b)}
        return frozenset(self._through_releases(found))

    def reaches_output(self, block: str) -> bool:
        """Whether what a block gives is in the run's output, or a response block hands it on."""
        found = self.blocks[block]
        return self._is_read(found) if self._responding else self._may_be_last(found)

    def hands_on(self, block: str) -> bool:
        """Whether all that a block gives is in the run's output whenever it ran: nothing chooses what is shown."""
        found = self.blocks[block]
        if self._responding:
            return not self._handed_whole.isdisjoint({block, *self._carriers(found)})
        return self._may_be_last(found)

    def _is_read(self, block: CompiledBlock) -> bool:
        if self._read & {block.id, ANY_BLOCK}:
            return True
        return not self._handed_whole.isdisjoint(self._carriers(block))

    @functools.cached_property
    def _responding(self) -> bool:
        return any(b.type.type_name == RESPONSE for b in self.blocks.values())

    @functools.cached_property
    def _read(self) -> frozenset[str]:
        """What response blocks read, by their templates or without any."""
        bodies = (
            getattr(b.config, "body", None) for b in self.blocks.values() if b.type.type_name == RESPONSE
        )
        return self._handed_whole.union(*map(_read_by, bodies))

    @functools.cached_property
    def _handed_whole(self) -> frozenset[str]:
        """What response blocks without a body hand on: the whole output of the blocks before them."""
        without = (
            block.id
            for block in self.blocks.values()
            if block.type.type_name == RESPONSE and getattr(block.config, "body", None) is None
        )
        return frozenset().union(*map(self.predecessors, without))

    def _through_releases(self, found: set[str]) -> set[str]:
        """``found`` with what others look at before it is let through replaced by those, the last one of a chain."""
        gone: set[str] = set()
        while True:
            behind = {
                checked: guard.id
                for guard in self.blocks.values()
                if guard.type.type_name in RELEASES and guard.id not in gone
                for checked in self._checked_by(guard, found) - {guard.id}
            }
            if not behind:
                return found
            gone |= behind.keys()
            found = (found | set(behind.values())) - gone

    def _checked_by(self, guard: CompiledBlock, found: set[str]) -> set[str]:
        template = getattr(guard.config, RELEASES[guard.type.type_name], None)
        checked = set(self.predecessors(guard.id) if template is None else references(template))
        return found if ANY_BLOCK in checked else checked & found

    def _may_be_last(self, block: CompiledBlock) -> bool:
        """Whether the run may end with it, or with a block whose output holds what this one gave."""
        outermost = ([block.id, *self._carriers(block)])[-1]
        return self._homes[outermost] is None and self._ends(self.blocks[outermost])

    def carriers(self, block: str) -> tuple[str, ...]:
        """The blocks whose output holds what ``block`` gives, from the inside out."""
        return tuple(self._carriers(self.blocks[block]))

    def _carriers(self, block: CompiledBlock) -> Iterator[str]:
        """The blocks whose output holds what a block in their body gives, from the inside out."""
        while (home := self._homes[block.id]) is not None and self._ends(block):
            block = self.blocks[home[0]]
            yield block.id

    def _ends(self, block: CompiledBlock) -> bool:
        """Whether what it lies in may end with it: one of its ways leads nowhere, or only back to what runs the body.

        An error edge is taken instead of an answer, so it does not make the answer an intermediate one.
        """
        return not _ways(block) <= self._further(block.id)

    @functools.cached_property
    def _homes(self) -> Mapping[str, tuple[str, str] | None]:
        """The body each block lies in."""
        return {block: body for body, region in self.regions.items() for block in region.blocks}


def _ways(block: CompiledBlock) -> set[str]:
    """The handles by which a block that has not failed goes on."""
    kind = block.type
    named = kind.named(block.config) if kind.named is not None else ()
    fixed = {handle for handle in kind.handles if not handle.endswith(":")}
    return (fixed | set(named)) - {"error", *kind.returns, *kind.fails_without, *block.bodies}


def _read_by(body: t.Any) -> set[str]:
    read: set[str] = set()
    for _, text in strings_in(body):
        read |= references(text)
    return read

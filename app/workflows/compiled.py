"""A workflow that was checked: what the engine runs.

Law of this room: values only. Everything that can be known before a run is known here; whoever holds a
:class:`CompiledWorkflow` never looks into the document again.
"""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.errors import Problem
from app.events import BlockInfo
from app.workflows.template_syntax import ANY_BLOCK, references, strings_in
from plugins.spec.blocks import BlockType

#: The block types this room has to know by name: their outputs make the run's answer.
AGENT = "agent"
RESPONSE = "response"


@dataclass(frozen=True, slots=True)
class Edge:
    """A connection. ``handle`` is the source's; the empty string is the plain edge."""

    source: str
    handle: str
    target: str


@dataclass(frozen=True, slots=True)
class Region:
    """The blocks that are scheduled together, in document order, and the edges between them.

    ``entries`` start at once. ``leaves``: the handles by which this body's blocks lead out of it.
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
    handles behind which blocks hang that this block runs.
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
        default=False, metadata={"doc": "Runs survive a restart of the server. Not supported yet."}
    )
    public: bool = field(default=False, metadata={"doc": "Anyone may run it, without an API key."})


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
        sources = {edge.source for edge in self.incoming.get(block, ())}
        return tuple(b for b in self.blocks if b in sources)

    def answer_agents(self) -> tuple[str, ...]:
        """Agents whose output reaches the run's output, in document order (contract 3.4, ``selectedOutputs`` absent).

        With response blocks: the agents their templates read, or the direct predecessors of one without a body.
        Without: the agents that may come last.
        """
        return self._answer_agents

    @functools.cached_property
    def _answer_agents(self) -> tuple[str, ...]:
        reached: set[str] = set()
        responses = [b for b in self.blocks.values() if b.type.type_name == RESPONSE]
        for block in responses:
            body = getattr(block.config, "body", None)
            if body is None:
                reached.update(self.predecessors(block.id))
            else:
                for _, text in strings_in(body):
                    reached |= references(text)
        if not responses:
            reached = {b for b in self.blocks if self._may_be_last(b)}
        agents = (b.id for b in self.blocks.values() if b.type.type_name == AGENT)
        return tuple(b for b in agents if b in reached or ANY_BLOCK in reached)

    def _may_be_last(self, block: str) -> bool:
        # An error edge is taken instead of an answer, so it does not make the answer an intermediate one.
        return all(edge.handle == "error" for edge in self.outgoing.get(block, ()))

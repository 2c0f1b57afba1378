"""What the order of a run has to be, told from its document and its events alone.

Law of this room: nothing of the engine is used here, neither its regions nor its scheduler. A block lies in a body
when no way leads to it but through the body's handle; it starts when all ways to it are known and one was taken; it is
skipped when all are known and none was. All else follows from that.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app import events as ev

Document = Mapping[str, t.Any]
#: A container and the handle its body hangs on; None is what lies in no body.
Body = tuple[str, str] | None
_INSTANCE = re.compile(r"(.*/)?([^/\[]+)((?:\[\d+\])*)")


class Plan:
    """What a document says of its blocks.

    :ivar homes: the innermost body of each block.
    """

    def __init__(self, document: Document) -> None:
        self.blocks: dict[str, t.Any] = {block["id"]: block for block in document["blocks"]}
        self.edges = [(e["source"], e.get("source_handle", ""), e["target"]) for e in document["edges"]]
        starts = [name for name, block in self.blocks.items() if block["type"] == "start"]
        targets = {target for _, _, target in self.edges}
        self.entry = (starts or [name for name in self.blocks if name not in targets])[0]
        everything = self._reached(self.edges)
        self.bodies = {
            body: everything - self._reached([e for e in self.edges if e[:2] != body]) - {body[0]}
            for body in self._handles()
        }
        self.homes: dict[str, Body] = {
            name: min(
                (body for body, inside in self.bodies.items() if name in inside),
                key=lambda body: len(self.bodies[body]),
                default=None,
            )
            for name in self.blocks
        }

    def config(self, block: str) -> Mapping[str, t.Any]:
        """A block's config."""
        found: Mapping[str, t.Any] = self.blocks[block].get("config", {})
        return found

    def bodies_of(self, block: str) -> list[tuple[str, str]]:
        """The bodies that a block runs."""
        return [body for body in self.bodies if body[0] == block]

    def members(self, body: Body) -> set[str]:
        """Blocks of a body that lie in no deeper one."""
        return {name for name, home in self.homes.items() if home == body}

    def incoming(self, block: str) -> list[tuple[str, str]]:
        """Sources and handles of the ways to a block, without those that only lead back to it."""
        own = set().union(*(self.bodies[body] for body in self.bodies_of(block)))
        return [
            (source, handle) for source, handle, target in self.edges if target == block and source not in own
        ]

    def leads_on(self, block: str, handle: str) -> bool:
        """Whether an edge leaves a block by a handle."""
        return any(edge[:2] == (block, handle) for edge in self.edges)

    def goes_on(self, block: str) -> bool:
        """Whether a block that failed is passed over; a parallel block's ``on_error`` is about its branches."""
        found = self.blocks[block]["type"] != "parallel" and self.config(block).get("on_error") == "continue"
        return bool(found)

    def many(self, block: str) -> bool:
        """Whether it runs its body for several items at once."""
        return self.blocks[block]["type"] == "parallel" and self.config(block).get("items") is not None

    def _handles(self) -> Iterable[tuple[str, str]]:
        for name, block in self.blocks.items():
            if block["type"] == "loop" or (block["type"] == "parallel" and self.many(name)):
                yield name, "loop"
            elif block["type"] == "parallel":
                yield from ((name, f"branch:{branch}") for branch in self.config(name)["branches"])

    def _reached(self, edges: Sequence[tuple[str, str, str]]) -> set[str]:
        reached, stack = {self.entry}, [self.entry]
        while stack:
            source = stack.pop()
            new = {target for found, _, target in edges if found == source} - reached
            reached |= new
            stack += new
        return reached


@dataclass
class _Once:
    """One run through a body. ``ends``: the handles that each block's end took; None while it runs.

    ``failed``: a block's failure ended it; ``cut``: what is around it ended it.
    """

    plan: Plan
    body: Body
    members: set[str]
    owner: str | None
    ends: dict[str, frozenset[str] | None] = field(default_factory=dict)
    failed: bool = False
    cut: bool = False

    @property
    def over(self) -> bool:
        return self.failed or self.cut

    @property
    def complete(self) -> bool:
        return not self.over and set(self.ends) == self.members and None not in self.ends.values()


def disorder(
    document: Document, children: Mapping[str, Document], envelopes: Iterable[ev.Envelope]
) -> list[str]:
    """Everything about the order of a run that its document does not allow; empty for a run as it should be.

    :param children: documents of the workflows that ``workflow`` blocks name, by id.
    """
    judge = _Judge(document, children)
    for envelope in envelopes:
        handler = judge.handlers.get(type(envelope.event))
        if handler is not None:
            handler(envelope.event)
        elif isinstance(envelope.event, ev.Terminal):
            judge.end(envelope.event)
    return judge.problems


class _Judge:
    """Follows the events. Regions are known by path, body and suffix."""

    def __init__(self, document: Document, children: Mapping[str, Document]) -> None:
        self.problems: list[str] = []
        self._children = {name: Plan(child) for name, child in children.items()}
        self._plans: dict[str, Plan] = {"": Plan(document)}
        self._regions: dict[tuple[str, Body, str], _Once] = {}
        self._executions: dict[str, int] = {}
        self._routes: dict[str, str] = {}
        self._iterations: dict[str, int] = {}
        self._exited: set[str] = set()
        self.handlers: dict[type, t.Callable[[t.Any], object]] = {
            ev.RunStarted: lambda event: self._open("", None, "", None),
            ev.ChildStarted: self._child,
            ev.LoopIteration: self._iteration,
            ev.RouteChosen: lambda event: self._routes.update({event.block: event.route}),
            ev.BlockStarted: self._started,
            ev.BlockFinished: self._finished,
        }

    def end(self, terminal: ev.Terminal) -> None:
        """The run has ended."""
        root = self._regions["", None, ""]
        if isinstance(terminal, ev.RunCompleted) and not root.complete:
            self._say(f"completed, but not all of it ended: {_left(root)}")
        if isinstance(terminal, ev.RunFailed) is not root.failed and not isinstance(
            terminal, ev.RunCancelled | ev.RunTimedOut
        ):
            self._say(f"{type(terminal).__name__}, though the run's own blocks say otherwise")

    def _say(self, problem: str) -> None:
        self.problems.append(problem)

    # -- where things are --------------------------------------------------------------------

    def _open(self, path: str, body: Body, suffix: str, owner: str | None) -> _Once:
        plan = self._plans[path]
        made = _Once(plan, body, plan.members(body), owner)
        self._regions[path, body, suffix] = made
        return made

    def _place(self, name: str) -> tuple[str, str, str, Plan]:
        found = _INSTANCE.fullmatch(name)
        assert found is not None
        path = found[1] or ""
        return path, found[2], found[3], self._plans[path]

    def _region(self, name: str, starts: bool) -> tuple[str, _Once] | None:
        """The id of a block and the run through a body that it belongs to; a body is entered by its first event."""
        path, block, suffix, plan = self._place(name)
        body = plan.homes[block]
        region = self._regions.get((path, body, suffix))
        if region is not None and not (starts and block in region.ends):
            return block, region
        if body is None or plan.blocks[body[0]]["type"] == "loop":
            self._say(f"{name} again, or where nothing is run")
            return None
        owner = f"{path}{body[0]}{suffix.rpartition('[')[0] if plan.many(body[0]) else suffix}"
        if region is not None and not self._retried(owner):
            self._say(f"{name} runs again, and nothing around it does")
            return None
        return block, self._open(path, body, suffix, owner)

    def _retried(self, owner: str) -> bool:
        """Whether what a block ran may be run again: a branch has failed, all have ended. Then it is forgotten."""
        path, block, suffix, plan = self._place(owner)
        keys = [key for body in plan.bodies_of(block) for key in self._bodies(path, body, suffix)]
        ran = [self._regions[key] for key in keys]
        fits = any(region.over for region in ran) and not any(None in region.ends.values() for region in ran)
        if fits and plan.config(block).get("retries"):
            for key in keys:
                del self._regions[key]
            return True
        return False

    def _bodies(self, path: str, body: tuple[str, str], suffix: str) -> list[tuple[str, Body, str]]:
        return [key for key in self._regions if key[:2] == (path, body) and key[2].startswith(suffix)]

    def _around(self, region: _Once) -> t.Iterator[_Once]:
        """The regions around one, from the inside out."""
        while region.owner is not None:
            path, block, suffix, plan = self._place(region.owner)
            region = self._regions[path, plan.homes[block], suffix]
            yield region

    # -- what happens ------------------------------------------------------------------------

    def _child(self, event: ev.ChildStarted) -> None:
        _, block, _, plan = self._place(event.block)
        inside = f"{event.block}/"
        before = self._regions.get((inside, None, ""))
        if before is not None and None in before.ends.values():
            self._say(f"the workflow of {event.block} runs twice at once")
        self._plans[inside] = self._children[plan.config(block)["workflow"]]
        for key in [key for key in self._regions if key[0].startswith(inside)]:
            del self._regions[key]
        self._open(inside, None, "", event.block)

    def _iteration(self, event: ev.LoopIteration) -> None:
        path, block, suffix, plan = self._place(event.block)
        before = self._regions.get((path, (block, "loop"), suffix))
        done = self._iterations.get(event.block, 0)
        if done and before is not None and not before.complete and not before.over:
            self._say(f"{event.block} goes on before its body has ended: {_left(before)}")
        if event.path == "exit":
            if event.iteration != done or event.block in self._exited:
                self._say(f"{event.block} exits after {event.iteration} iterations, {done} were begun")
            self._exited.add(event.block)
            return
        again = event.iteration == 1 and plan.config(block).get("retries")
        if event.iteration != done + 1 and not again:
            self._say(f"iteration {event.iteration} of {event.block} after {done}")
        self._iterations[event.block] = event.iteration
        self._open(path, (block, "loop"), suffix, event.block)

    def _started(self, event: ev.BlockStarted) -> None:
        self._count(event)
        self._iterations.pop(event.block, None)
        self._exited.discard(event.block)
        found = self._region(event.block, True)
        if found is None:
            return
        block, region = found
        if True not in (ways := self._ways(event.block, block, region)) or None in ways:
            self._say(f"{event.block} started, and the ways to it are {ways}")
        for around in (region, *self._around(region)):
            if around.over:
                self._say(f"{event.block} started after what is around it had ended")
        if region.owner is not None and self._at(region.owner) is not _RUNS:
            self._say(f"{event.block} started, and {region.owner} does not run")
        region.ends[block] = None
        path, _, suffix, plan = self._place(event.block)
        for body in plan.bodies_of(block):
            for key in self._bodies(path, body, suffix):  # left from an execution before
                del self._regions[key]

    def _count(self, event: ev.BlockStarted | ev.BlockFinished) -> None:
        expected = self._executions.get(event.block, 0) + 1
        if event.execution != expected:
            self._say(f"execution {event.execution} of {event.block} where {expected} is due")
        self._executions[event.block] = event.execution

    def _at(self, name: str) -> t.Any:
        """What is known of the end of an instance."""
        path, block, suffix, plan = self._place(name)
        region = self._regions.get((path, plan.homes[block], suffix))
        if region is None or block not in region.ends:
            return None
        return _RUNS if region.ends[block] is None else region.ends[block]

    def _ways(self, name: str, block: str, region: _Once) -> list[bool | None]:
        """For each way to a block: taken, dead, or not known yet."""
        path, _, suffix, plan = self._place(name)
        if block == plan.entry:
            return [True]
        return [self._way(path, suffix, region, *edge) for edge in plan.incoming(block)]

    def _way(self, path: str, suffix: str, region: _Once, source: str, handle: str) -> bool | None:
        plan = region.plan
        if (source, handle) == region.body:
            return True
        taken, at = True, source
        while plan.homes[at] != region.body:  # out of a branch: known once the branches have been joined
            home = plan.homes[at]
            assert home is not None
            inner = self._regions.get((path, home, suffix))
            ends = None if inner is None or inner.over else inner.ends.get(at)
            taken = taken and ends is not None and (at != source or handle in ends)
            at = home[0]
        if at not in region.ends or (ends := region.ends[at]) is None:
            return None
        return handle in ends if at == source else taken and "exit" in ends

    def _finished(self, event: ev.BlockFinished) -> None:
        if event.status == "skipped":
            self._skipped(event)
            return
        if event.execution != self._executions.get(event.block):
            self._say(f"{event.block} ended as execution {event.execution}")
        found = self._region(event.block, False)
        if found is None:
            return
        block, region = found
        if region.ends.get(block, _RUNS) is not None:
            self._say(f"{event.block} ended and was not running")
        if event.status == "executed":
            self._inside_is_over(event, block, region.plan)
            region.ends[block] = self._taken(event, block, region.plan)
        else:
            region.ends[block] = self._after_failure(event, block, region)

    def _skipped(self, event: ev.BlockFinished) -> None:
        self._count(event)
        found = self._region(event.block, True)
        if found is None:
            return
        block, region = found
        ways = self._ways(event.block, block, region)
        if True in ways or None in ways:
            self._say(f"{event.block} was skipped, and the ways to it are {ways}")
        region.ends[block] = frozenset()

    def _taken(self, event: ev.BlockFinished, block: str, plan: Plan) -> frozenset[str]:
        kind, output = plan.blocks[block]["type"], event.output or {}
        if kind == "condition":
            return frozenset({self._routes[event.block]})
        if kind == "router":
            return frozenset({f"route:{self._routes[event.block]}"})
        if kind == "guardrail":
            return frozenset({"true" if output["passed"] else "false"})
        if kind == "approval":
            ways = {"reject": "rejected", "expired": "expired"}
            return frozenset({ways.get(output["decision"], "approved")})
        if kind == "work":  # of a test's own
            return frozenset(output["ways"])
        if kind in ("loop", "parallel"):
            return frozenset({"exit", *(handle for _, handle in plan.bodies_of(block))})
        return frozenset({""})

    def _after_failure(self, event: ev.BlockFinished, block: str, region: _Once) -> frozenset[str]:
        if region.over or any(around.over for around in self._around(region)):
            return frozenset()
        if event.code in ("cancelled", "timed_out"):
            region.cut = True
        elif region.plan.leads_on(block, "error"):
            return frozenset({"error"})
        elif region.plan.goes_on(block):
            return frozenset({"exit" if region.plan.blocks[block]["type"] == "loop" else ""})
        else:
            region.failed = True
        return frozenset()

    def _inside_is_over(self, event: ev.BlockFinished, block: str, plan: Plan) -> None:
        """What a block has run is complete; only a failed branch of a parallel block that goes on may not be."""
        path, _, suffix, _ = self._place(event.block)
        kind, forgiving = plan.blocks[block]["type"], plan.config(block).get("on_error") == "continue"
        if kind == "workflow":
            keys: list[tuple[str, Body, str]] = [(f"{event.block}/", None, "")]
        elif kind == "loop":
            keys = [(path, (block, "loop"), suffix)] if self._iterations.get(event.block) else []
        elif plan.many(block):
            count = len((event.output or {})["results"])
            keys = [(path, (block, "loop"), f"{suffix}[{index}]") for index in range(count)]
        else:
            keys = [(path, body, suffix) for body in plan.bodies_of(block) if plan.members(body)]
        if kind == "loop" and event.block not in self._exited:
            self._say(f"{event.block} ended without its exit")
        for key in keys:
            inside = self._regions.get(key)
            if inside is None or not (
                inside.complete or (inside.failed and forgiving and kind == "parallel")
            ):
                self._say(f"{event.block} ended before what it runs: {key}, {inside and _left(inside)}")


#: Stands for the end of a block that runs.
_RUNS = object()


def _left(region: _Once) -> list[str]:
    return sorted(name for name in region.members if region.ends.get(name) is None)

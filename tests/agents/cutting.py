"""A block's context whose process may end at any moment, and begin again with what was written down.

Law of this room: the journal goes through the bytes a store would keep; what was told is folded as a run folds it, so a
fact that is told twice breaks the fold. What tools did to the world is outside of it all and is never taken back.
"""

from __future__ import annotations

import copy
import random
import typing as t
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import msgspec

from app import events as ev
from app.agents import rows, templates
from app.engine.journal import Journal
from app.state import RunState
from plugins.spec import Capabilities, ProviderFamily, ResolvedModel, Tool
from plugins.spec.decisions import Answer, Ask
from providers import spec

CAN = Capabilities(tools="parallel", thinking="full", structured_output="native", price=(1.0, 2.0))
BLOCK = "b"
Says = Callable[[spec.ModelRequest], Iterable[spec.ModelEvent]]


class Cut(BaseException):
    """The process ends here."""


class Paused(BaseException):
    """Nobody has answered yet: the run leaves the process."""


class Model(t.NamedTuple):
    """A wire of the test's making. ``says``: what is answered to a request."""

    says: Says
    name: str = "made"

    def stream(
        self, request: spec.ModelRequest, connection: t.Any, waits: spec.Waits
    ) -> Iterator[list[spec.ModelEvent]]:
        """One event after the other, each waited for; an id that is spoken for is replaced, as every wire does."""
        minted: dict[str, str] = {}
        for event in self.says(request):
            with waits.wait():
                pass
            if isinstance(event, (spec.ToolCallStarted, spec.ToolCallReady)):
                if event.id in request.used_ids and event.id not in minted:
                    minted[event.id] = request.mint_id()
                event = msgspec.structs.replace(event, id=minted.get(event.id, event.id))
            yield [event]


class World:
    """What outlives a process.

    :ivar ran: tool calls that were really made, in order. :ivar asked: what people were asked, by key.
    :ivar answers: what they answer, by key; those without one have not answered yet.
    """

    def __init__(
        self,
        says: Says,
        tools: Sequence[Tool] = (),
        variables: Mapping[str, t.Any] | None = None,
    ) -> None:
        self.says = says
        self.tools = {tool.name: tool for tool in tools}
        self.variables = {"input": {"message": "go"}, "blocks": {}, "vars": {}, **(variables or {})}
        self.journal = Journal()
        self.told: list[ev.RunEvent] = [ev.BlockStarted(BLOCK, "agent", "B")]
        self.ran: list[tuple[str, t.Any]] = []
        self.asked: dict[str, Ask] = {}
        self.answers: dict[str, Answer] = {}
        self.answer: Callable[[Ask], Answer | None] = lambda ask: self.answers.get(ask.key)
        self.approved: set[str] = set()
        self.edges: frozenset[str] = frozenset()
        self.taken: tuple[str, ...] = ()
        self.ids = 0
        #: Questions whose answer was handed on: it is not given twice.
        self.told_answers: frozenset[str] = frozenset()
        #: The journal, the events and what was handed on, as they were when they last had to be stored.
        self.stored: tuple[Journal, int, frozenset[str]] = Journal(), 1, frozenset()

    def fold(self) -> RunState:
        """What was told, as a run has it. Breaks on what may not come."""
        state = RunState()
        for seq, event in enumerate(self.told, 1):
            state.apply(ev.Envelope(seq, 0, event))
        return state

    def store(self) -> None:
        """Everything up to here is kept."""
        self.stored = _copied(self.journal), len(self.told), self.told_answers

    def restart(self, lost: bool) -> None:
        """A new process: ``lost``: with what had to be stored only, else with everything."""
        if lost:
            journal, count, self.told_answers = self.stored
            self.journal, self.told = _copied(journal), self.told[:count]
        else:
            self.journal = _copied(self.journal)
        state = self.fold().blocks[BLOCK]
        if state.turn < 0:
            return
        self.told.append(ev.TurnEnded(BLOCK, state.turn, "intermediate", "resumed"))
        for call in state.calls.values():
            if call.status is None and call.turn == state.turn:
                self.told.append(
                    ev.ToolFinished(BLOCK, call.turn, call.id, call.name, "error", None, None, 0, 0)
                )


class Waits:
    """Ends the process at one wait. ``left``: how many come before that; None: never."""

    def __init__(self, left: int | None) -> None:
        self.left = left
        self.count = 0

    @contextmanager
    def wait(self) -> Iterator[None]:
        """See :class:`providers.spec.Waits`."""
        self.step()
        yield

    def step(self) -> None:
        """One more."""
        if self.left == self.count:
            raise Cut
        self.count += 1

    def idle_limit(self, seconds: float) -> t.Any:
        """See :class:`providers.spec.Waits`."""
        return nullcontext()


class Process:
    """See :class:`plugins.spec.BlockContext`. What it lacks, the blocks under test have no use for."""

    run_id, name, execution, attempt = "run_1", "B", 1, 1
    block = BLOCK
    show_thinking = True
    can_ask = True
    conversation = "c"
    observer = budget = None
    predecessors: Sequence[str] = ("before",)

    def __init__(self, world: World, left: int | None = None) -> None:
        self.world = world
        self.waits = Waits(left)
        self.journal = world.journal.bind(BLOCK, 1)
        self.settings = SimpleNamespace(
            tool_timeout_s=1, max_tool_batches=20, model_retries=0, model_call_s=9, http_allow=()
        )

    def emit(self, event: t.Any) -> None:
        """Tell, and see that it may come."""
        self.world.told.append(event)
        self.world.fold()

    def flush(self) -> None:
        """Nothing to send."""

    def take(self, *handles: str) -> None:
        """Leave by these."""
        self.world.taken = handles

    def leaves_by(self, handle: str) -> bool:
        """Whether there is such an edge."""
        return handle in self.world.edges

    def variables(self) -> Mapping[str, t.Any]:
        """What templates see."""
        return self.world.variables

    def render(self, template: str, **extra: t.Any) -> str:
        """A rendered template."""
        return templates.render(template, {**self.variables(), **extra})

    def secrets(self) -> Mapping[str, str]:
        """None."""
        return {}

    def resolve_model(self, model: str, idle_s: float | None = None) -> ResolvedModel:
        """The one model there is."""
        family = t.cast(ProviderFamily, SimpleNamespace(id="made"))
        return ResolvedModel(
            family, model.partition("/")[2], Model(self.world.says), t.cast(t.Any, None), CAN, {}
        )

    def tool(self, name: str) -> Tool | None:
        """One of the world's; it notes that it ran."""
        found = self.world.tools.get(name)
        if found is None:
            return None
        inner = found

        def run(arguments: dict[str, t.Any], context: t.Any) -> t.Any:
            self.world.ran.append((name, arguments))
            with context.waits.wait():
                pass
            return inner.run(arguments, context)

        return _with_run(inner, run)

    def now_ms(self) -> int:
        """Time stands still, so that outputs can be compared."""
        return 0

    def new_id(self, prefix: str) -> str:
        """One that nobody had before."""
        self.world.ids += 1
        return f"{prefix}_{self.world.ids}"

    def sleep(self, seconds: float) -> None:
        """A moment in which the process may end."""
        self.waits.step()

    @contextmanager
    def slot(self, model: t.Any) -> Iterator[int]:
        """There is always one."""
        self.waits.step()
        yield 0

    def limited(self, seconds: float, make: t.Any) -> t.Any:
        """No limit."""
        return nullcontext()

    def bounded(self, waits: t.Any, seconds: float, fn: Callable[[t.Any], t.Any]) -> t.Any:
        """No limit."""
        return fn(waits)

    def gather(self, jobs: Sequence[Callable[[t.Any], None]]) -> None:
        """One after the other."""
        for job in jobs:
            job(self.waits)

    def at_once(self, jobs: Sequence[Callable[[t.Any], None]]) -> None:
        """One after the other; those that wait for people keep nobody from going on."""
        paused = False
        for job in jobs:
            try:
                job(copy.copy(self))
            except Paused:
                paused = True
        if paused:
            raise Paused

    def tell(self, key: str, *events: t.Any) -> None:
        """See the engine's."""
        if self.journal.find(0, key) is None:
            self.journal.write(0, key, "told", "done")
            for event in events:
                self.emit(event)

    def steer(self, key: str, choose: Callable[[], t.Any]) -> t.Any:
        """See the engine's."""
        known = self.journal.find(0, key) or self.journal.write(0, key, "chosen", "done", [choose()])
        return known.value[0]

    def commit(self) -> None:
        """Everything up to here is stored; the process may end right before and right after."""
        self.waits.step()
        self.world.store()
        self.waits.step()

    def approve(self, subject: str) -> None:
        """Take it down."""
        self.world.approved.add(subject)

    def decide(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """What people have answered. A question is stored before it is shown, and never asked twice."""
        self.waits.step()
        new = [ask for ask in asks if ask.key not in self.world.asked]
        if free := [ask for ask in new if ask.subject in self.world.approved]:
            return [Answer(ask.key, "approve", 0, by="thread") for ask in free]
        for ask in asks:
            known = self.world.asked.setdefault(ask.key, ask)
            assert known == ask, "what is asked again is what was asked"
        self.world.store()
        self.waits.step()
        left = [ask for ask in asks if ask.key not in self.world.told_answers]
        found = [answer for ask in left if (answer := self.world.answer(ask)) is not None]
        if not found:
            raise Paused
        self.world.told_answers |= {answer.key for answer in found}
        return found


def played(world: World, block: Callable[[t.Any], t.Any]) -> t.Any:
    """What a block comes to when nothing happens to its process."""
    return block(Process(world))


def cuts(
    make: Callable[[], World], block: Callable[[t.Any], t.Any], lost: bool
) -> Iterator[tuple[World, t.Any]]:
    """The block once for every moment in which its process may end: what it comes to in a second process.

    :param lost: whether all is lost that did not have to be stored.
    """
    for left in range(10_000):
        world = make()
        try:
            block(Process(world, left))
        except Cut:
            world.restart(lost)
        else:
            return
        yield world, block(Process(world))


def many_cuts(make: Callable[[], World], block: Callable[[t.Any], t.Any], seed: int) -> tuple[World, t.Any]:
    """The block in as many processes as it takes, each of which may end at any moment."""
    world, source = make(), random.Random(seed)
    while True:
        try:
            return world, block(Process(world, source.randrange(0, 40)))
        except Cut:
            world.restart(lost=source.random() < 0.5)


def _copied(journal: Journal) -> Journal:
    """As it comes back from the store."""
    made = Journal()
    for steps in journal._steps.values():
        for step in steps.values():
            value = None if step.value is None else rows.unpacked(step.kind, rows.packed(step.value))
            made.write(
                step.path, step.execution, step.turn, step.key, step.kind, step.state, value, step.input_hash
            )
    return made


def _with_run(tool: Tool, run: t.Any) -> Tool:
    return Tool(
        tool.name,
        tool.description,
        tool.parameters,
        run,
        idempotent=tool.idempotent,
        approval=tool.approval,
    )

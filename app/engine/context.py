"""The engine's side of :class:`plugins.spec.BlockContext`: all a block may use, bound to one instance.

Law of this room: a thin door; it decides nothing.
"""

from __future__ import annotations

import copy
import hashlib
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice

from app.agents import retrieval, templates
from app.engine import approvals, instances
from app.engine.following import Bodies, Interrupted
from app.engine.frames import Frame
from app.engine.journal import BlockJournal
from app.engine.mcp_use import server_use
from app.engine.memory import memory_of
from app.engine.replay import BlockEnd, Fault
from app.engine.scope import Cancelled, RunScope, gather
from app.engine.seen import seen_by
from app.errors import BlockError, RunError
from app.store.errors import StaleOwner
from plugins.connections import NotConfigured, RegistryError
from plugins.spec import Detector, Passage, ResolvedEmbedding, ResolvedModel, StoredFile, Tool, ToolFailed
from plugins.spec.blocks import BodyResult
from plugins.spec.budget import BudgetMeter
from plugins.spec.decisions import Answer, Ask
from plugins.spec.memory import Memory
from providers.spec import Waits

if t.TYPE_CHECKING:
    from app.engine.run import Run
    from app.workflows.compiled import CompiledBlock

_T = t.TypeVar("_T")


class RunningBlock:
    """See :class:`plugins.spec.BlockContext`."""

    def __init__(
        self,
        run: Run,
        block: CompiledBlock,
        frame: Frame,
        execution: int,
        scope: RunScope,
        take: Callable[[frozenset[str]], None],
        attempt: int = 1,
    ) -> None:
        services = run.services
        self._run = run
        self._services = services
        self._frame = frame
        self._take = take
        self._config = block
        self.run_id = run.id
        self.block = frame.name(block.id)
        self.name = block.name
        self.execution = execution
        self.attempt = attempt
        self.scope = scope
        self.waits: Waits = scope
        self.show_thinking = run.request.show_thinking
        self.predecessors: Sequence[str] = run.request.workflow.predecessors(block.id)
        self.settings = services.settings
        self.observer = run.observer
        self.budget: BudgetMeter | None = run.meter
        self.emit = run.emitter.emit
        self.flush = run.emitter.flush
        self.now_ms = services.clock.now_ms
        self.new_id = services.clock.new_id
        self._journal = run.journal.bind(self.block, self.execution)
        self._durable = run.durable
        self._due: dict[tuple[str, int | None], None] = {}
        self._inner: dict[str, int] = {}
        self._max_concurrency = 0

    @property
    def journal(self) -> BlockJournal:
        """Rows of this execution."""
        return self._journal

    def tell(self, key: str, *events: t.Any) -> None:
        """Emit what this execution has not told yet."""
        if self._journal.find(0, key) is not None:
            return
        self._journal.write(0, key, "told", "done")
        for event in events:
            self.emit(event)

    def commit(self) -> None:
        """Wait until the journal is stored; one in memory has nothing to wait for."""
        if self._durable is None:
            return
        try:
            self._durable.keeper.commit()
        except StaleOwner:
            raise Cancelled("owner_lost") from None

    @property
    def can_ask(self) -> bool:
        """Whether the run is durable."""
        return self._durable is not None

    def approve(self, subject: str) -> None:
        """Take down that a person has approved it for the rest of the thread, or of the run."""
        approvals.approve(self._run, subject)

    def decide(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """Put questions to people and wait for an answer."""
        if self._durable is None:
            raise BlockError(
                "approval_unavailable",
                f"{self.name} needs a person's decision, and nobody can be asked in this run.",
            )
        return self._durable.people.decide(self, asks)

    @property
    def conversation(self) -> str:
        """A hash: names of workflows and of callers' conversations are nobody else's business."""
        request = self._run.request
        named = "\0".join(
            (request.workflow_id, request.thread_id or request.conversation_id or self.run_id, self.block)
        )
        return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def memory(self, key: str | None = None) -> Memory:
        """What is remembered under a name of this workflow's, or under this instance's own path."""
        name = self.block if key is None else f"{self._frame.path}{key}"
        return memory_of(self._run, self.block, name)

    def variables(self) -> Mapping[str, t.Any]:
        """What templates see: ``input``, ``blocks.<id>.<field>``, ``vars``, and ``loop`` inside of one."""
        return seen_by(self._run, self._frame)

    def take(self, *handles: str) -> None:
        """Leave by these handles instead of the plain edge."""
        self._take(frozenset(handles))

    def body(
        self,
        handle: str,
        *,
        loop: Mapping[str, t.Any] | None = None,
        index: int | None = None,
        waits: Waits | None = None,
    ) -> BodyResult:
        """Run the body behind ``handle`` once."""
        self._due.pop((handle, index), None)
        region = self._run.request.workflow.regions[self._config.id, handle]
        frame, outer = self._within(index, loop), t.cast(RunScope, waits or self.scope)
        if self._durable is None:
            return self._run.body(region, frame, outer)
        place = handle if index is None else f"{handle}[{index}]"
        with self._once(place, frame, handle):
            return self._run.body(region, frame, outer)

    @contextmanager
    def _once(self, place: str, frame: Frame, handle: str | None) -> Iterator[None]:
        """While open, something of the run runs inside of this block: it moves in its place, and what it failed with
        stands.

        :param place: tells it apart; of several at the same place, the order does.
        :raises BlockError: it failed in an earlier process.
        """
        durable = self._durable
        assert durable is not None
        number = self._inner[place] = self._inner.get(place, 0) + 1
        key = f"{self.attempt} {place} {number}"
        before = durable.replay.failed(self.block, self.execution, key)
        if before is not None:
            raise before
        try:
            with durable.motion.aside():
                yield
        except BlockError as error:
            visits = durable.replay.inside(instances.inside(self._run, self._config, frame, handle))
            end = BlockEnd("failed", visits=visits, fault=Fault.of(error))
            durable.replay.write(self.block, self.execution, end, key=key)
            raise

    def _within(self, index: int | None, loop: Mapping[str, t.Any] | None) -> Frame:
        """Where a body of this block runs."""
        suffix = self._frame.suffix if index is None else f"{self._frame.suffix}[{index}]"
        decides = index is None and loop is not None
        return Frame(
            suffix,
            self._frame.loop if loop is None else loop,
            self._frame.looping or decides or self._config.retries > 0,  # it may run again
            self._frame.path,
            self.block,
        )

    def expect(self, bodies: Sequence[tuple[str, int | None]], max_concurrency: int) -> None:
        """Say which bodies will run."""
        self._due = dict.fromkeys(bodies)
        self._max_concurrency = max_concurrency

    def standing(self) -> Bodies:
        """What it has yet to run, for :func:`app.engine.following.following`."""
        regions = self._run.request.workflow.regions
        due = [
            Interrupted(regions[self._config.id, handle], {}, self._within(index, None))
            for handle, index in islice(self._due, self._max_concurrency)
        ]
        return Bodies(not self._max_concurrency, due, self._max_concurrency)

    def child(self, given: t.Any) -> t.Any:
        """Run the workflow this block's config names."""
        if self._durable is None:
            return self._run.child(self._config, self._frame, given, self.scope)
        with self._once("child", self._frame, None):
            key = f"{self.attempt} begins {self._inner['child']}"
            told = self._journal.find(0, key) is not None
            if not told:
                self._journal.write(0, key, "told", "done")
            return self._run.child(self._config, self._frame, given, self.scope, told)

    def leads_on(self, handle: str) -> bool:
        """Whether an edge leaves this block by ``handle``."""
        return self._run.request.workflow.leads_on(self._config.id, handle)

    def leaves_by(self, handle: str) -> bool:
        """Whether any edge leaves this block by ``handle``."""
        edges = self._run.request.workflow.outgoing.get(self._config.id, ())
        return any(edge.handle == handle for edge in edges)

    @property
    def answers(self) -> bool:
        """Whether a ``response`` block hands this block's ``content`` on."""
        return self._config.id in self._run.request.workflow.handed_on

    def render(self, template: str, **extra: t.Any) -> str:
        """A rendered template."""
        return templates.render(template, {**self.variables(), **extra})

    def secrets(self) -> Mapping[str, str]:
        """Stored secrets by name."""
        return self._services.store.secrets.values()

    def resolve_model(self, model: str, idle_s: float | None = None) -> ResolvedModel:
        """What is behind a model id."""
        settings = self.settings
        with _told_as_run_error():
            return self._services.plugins.resolve(
                model, idle_s=idle_s or settings.idle_s, connect_s=settings.connect_s
            )

    def resolve_embedding(self, model: str) -> ResolvedEmbedding:
        """What is behind the id of a model that makes vectors."""
        settings = self.settings
        with _told_as_run_error():
            return self._services.plugins.embedders.resolve(
                model, idle_s=settings.idle_s, connect_s=settings.connect_s
            )

    def tool(self, name: str) -> Tool | None:
        """A registered tool."""
        return self._services.plugins.tools.get(name)

    def mcp(
        self, server: str | Mapping[str, t.Any], waits: Waits, *, fresh: bool = False
    ) -> tuple[Tool, ...]:
        """The tools of an MCP server."""
        services = self._services
        use = server_use(server, services.plugins.mcp, self.variables(), self.secrets)
        seconds = self.settings.mcp_start_s
        try:
            return self.bounded(waits, seconds, lambda inner: services.mcp.tools(use, inner, fresh))
        except TimeoutError:
            message = f"The MCP server {use.server.title} did not name its tools within {seconds:g} s."
            raise ToolFailed(message) from None

    def detector(self, name: str) -> Detector | None:
        """A detector of personal data."""
        return self._services.plugins.detectors.get(name)

    def search(
        self,
        collection: str,
        query: str,
        limit: int,
        *,
        mode: t.Literal["text", "embedding"] = "text",
        model: str | None = None,
    ) -> Sequence[Passage]:
        """The best passages of a collection."""
        asked = retrieval.Asked(collection, query, limit, mode, model)
        return retrieval.passages(self, self._services.store.documents, asked)

    def file(self, file_id: str) -> StoredFile | None:
        """A file of whoever started the run."""
        store, owner = self._services.store.files, self._run.request.key_id
        row = store.get(file_id)
        if row is None or owner is None or row.key_id != owner:
            return None
        with self.waits.wait():
            data = store.read(row.id)
        return None if data is None else StoredFile(row.name, row.media_type, data)

    def sleep(self, seconds: float) -> None:
        """Wait by the clock."""
        with self.scope.wait():
            self._services.clock.sleep(seconds)

    def slot(self, model: ResolvedModel | ResolvedEmbedding) -> AbstractContextManager[int]:
        """A slot of the model's family."""
        return self._services.limits.slot(
            model.family.id, model.max_concurrency, self.run_id, self.scope, self.now_ms, self._run.queue_time
        )

    def limited(self, seconds: float, make: Callable[[], BaseException]) -> AbstractContextManager[t.Any]:
        """A limit on a whole step."""
        return self.scope.limit(seconds, make)

    def gather(self, jobs: Sequence[Callable[[Waits], None]]) -> None:
        """Run jobs concurrently."""
        if self._durable is None:
            gather(self.scope, jobs)
            return
        with self._durable.motion.aside(len(jobs)) as ended:
            gather(self.scope, [_counted(job, ended) for job in jobs])

    def at_once(self, jobs: Sequence[Callable[[RunningBlock], None]]) -> None:
        """Run jobs concurrently, each with a context of its own."""
        time = self._run.queue_time

        def bound(job: Callable[[RunningBlock], None]) -> Callable[[Waits], None]:
            def run(waits: Waits) -> None:
                inner = copy.copy(self)
                inner.waits = inner.scope = t.cast(RunScope, waits)
                time.block(1)
                try:
                    job(inner)
                finally:
                    time.block(-1)

            return run

        time.block(-1)  # meanwhile this block only waits
        try:
            self.gather([bound(job) for job in jobs])
        finally:
            time.block(1)

    def bounded(self, waits: Waits, seconds: float, fn: Callable[[Waits], _T]) -> _T:
        """Run ``fn`` under a deadline."""
        outer = t.cast(RunScope, waits)
        with outer.child() as scope:
            scope.deadline(seconds, "tool_timeout")
            try:
                return fn(scope)
            except Cancelled:
                if scope.cause == "tool_timeout" and outer.cause is None:
                    raise TimeoutError from None
                raise

    def run_blocking(self, fn: Callable[[], _T], waits: Waits) -> _T:
        """Run ``fn`` in the tool threads."""
        return self._services.threads.run(fn, t.cast(RunScope, waits))


@contextmanager
def _told_as_run_error() -> Iterator[None]:
    """A model that cannot be resolved any more, though it could when the run was accepted."""
    try:
        yield
    except NotConfigured as error:
        raise RunError("provider_not_configured", error.message) from error
    except RegistryError as error:
        raise RunError("model_unknown", error.message) from error


def _counted(job: Callable[[Waits], None], ended: Callable[[], None]) -> Callable[[Waits], None]:
    def run(waits: Waits) -> None:
        try:
            job(waits)
        finally:
            ended()

    return run

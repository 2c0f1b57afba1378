"""The engine's side of :class:`plugins.spec.BlockContext`: all a block may use, bound to one instance.

Law of this room: a thin door; it decides nothing.
"""

from __future__ import annotations

import hashlib
import typing as t
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from app.agents import templates
from app.engine.emitter import Emitter
from app.engine.journal import BlockJournal, Journal
from app.engine.limits import QueueTime
from app.engine.scope import Cancelled, RunScope, gather
from app.engine.services import Services
from app.errors import RunError
from plugins.connections import NotConfigured, RegistryError
from plugins.spec import ResolvedModel, Tool
from providers.spec import Waits


class RunningBlock:
    """See :class:`plugins.spec.BlockContext`."""

    def __init__(
        self,
        services: Services,
        run_id: str,
        block: str,
        name: str,
        scope: RunScope,
        emitter: Emitter,
        journal: Journal,
        variables: Callable[[], Mapping[str, t.Any]],
        show_thinking: bool,
        predecessors: Sequence[str],
        conversation: tuple[str, str],
        queue_time: QueueTime,
    ) -> None:
        self._services = services
        self._variables = variables
        self._conversation = conversation
        self._queue_time = queue_time
        self.run_id = run_id
        self.block = block
        self.name = name
        self.execution = 1
        self.scope = scope
        self.waits: Waits = scope
        self.show_thinking = show_thinking
        self.predecessors = predecessors
        self.settings = services.settings
        self.emit = emitter.emit
        self.flush = emitter.flush
        self.now_ms = services.clock.now_ms
        self.new_id = services.clock.new_id
        self._journal = journal.bind(block, self.execution)

    @property
    def journal(self) -> BlockJournal:
        """Rows of this execution."""
        return self._journal

    @property
    def conversation(self) -> str:
        """A hash: names of workflows and of callers' conversations are nobody else's business."""
        named = "\0".join((*self._conversation, self.block))
        return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def variables(self) -> Mapping[str, t.Any]:
        """What templates see."""
        return self._variables()

    def render(self, template: str, **extra: t.Any) -> str:
        """A rendered template."""
        return templates.render(template, {**self._variables(), **extra})

    def resolve_model(self, model: str, idle_s: float | None = None) -> ResolvedModel:
        """What is behind a model id."""
        try:
            return self._services.plugins.resolve(
                model, idle_s=idle_s or self.settings.idle_s, connect_s=self.settings.connect_s
            )
        except NotConfigured as error:  # it was configured when the run was accepted
            raise RunError("provider_not_configured", error.message) from error
        except RegistryError as error:
            raise RunError("model_unknown", error.message) from error

    def tool(self, name: str) -> Tool | None:
        """A registered tool."""
        return self._services.plugins.tools.get(name)

    def sleep(self, seconds: float) -> None:
        """Wait by the clock."""
        with self.scope.wait():
            self._services.clock.sleep(seconds)

    def slot(self, model: ResolvedModel) -> AbstractContextManager[int]:
        """A slot of the model's family."""
        return self._services.limits.slot(
            model.family.id, model.max_concurrency, self.run_id, self.scope, self.now_ms, self._queue_time
        )

    def limited(self, seconds: float, make: Callable[[], BaseException]) -> AbstractContextManager[t.Any]:
        """A limit on a whole step."""
        return self.scope.limit(seconds, make)

    def gather(self, jobs: Sequence[Callable[[Waits], None]]) -> None:
        """Run jobs concurrently."""
        gather(self.scope, jobs)

    def bounded(self, waits: Waits, seconds: float, fn: Callable[[Waits], t.Any]) -> t.Any:
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

    def run_blocking(self, fn: Callable[[], t.Any], waits: Waits) -> t.Any:
        """Run ``fn`` in the tool threads."""
        return self._services.threads.run(fn, t.cast(RunScope, waits))

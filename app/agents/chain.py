"""The models of one agent, in the order they are asked.

Law of this room: the run stays with the model that answered last; which one that was stands in the journal.
A fallback that cannot be used when its turn comes is passed over with a line in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.agents.config import AgentConfig
from app.agents.quiet import log
from app.errors import RunError
from plugins.spec import BlockContext, ResolvedModel


class Chain:
    """The primary model and its fallbacks.

    :param usable: raises RunError for a model that cannot take what it would be asked.
    :param answered: id of the model that answered last; None begins with the first.
    :raises RunError: the model to begin with is not there or cannot be used.
    """

    def __init__(
        self,
        context: BlockContext,
        config: AgentConfig,
        usable: Callable[[ResolvedModel], None],
        answered: str | None = None,
    ) -> None:
        self._context = context
        self._ids: Sequence[str] = (config.model, *config.fallbacks)
        self._idle_s = config.idle_s
        self._usable = usable
        self._at = self._ids.index(answered) if answered in self._ids else 0
        self.current: ResolvedModel = self._resolve()

    def next(self) -> ResolvedModel | None:
        """Move on to the next model that can be used; None when there is none left."""
        while self._at + 1 < len(self._ids):
            self._at += 1
            try:
                self.current = self._resolve()
            except RunError as error:
                log.warning(
                    "fallback passed over run=%s block=%s model=%s code=%s: %s",
                    self._context.run_id,
                    self._context.block,
                    self._ids[self._at],
                    error.code,
                    error.message,
                )
            else:
                return self.current
        return None

    def _resolve(self) -> ResolvedModel:
        found = self._context.resolve_model(self._ids[self._at], idle_s=self._idle_s)
        self._usable(found)
        return found

"""Callbacks in the greenlets of nodes: they make a graph's own threads interruptible, and know whose tool a call is.

A worker runs on greenlets, so the thread pools of langgraph are greenlets too. Nobody tells us which they are: each is
adopted when something begins in it. Cancelling the one that reads the stream would only make it wait for the others.
"""

from __future__ import annotations

import typing as t
from collections import deque
from uuid import UUID

from greenlet import getcurrent
from langchain_core.callbacks import BaseCallbackHandler

from plugins.spec.runners import RunnerContext

try:
    # Between two attempts of a node with a retry policy nothing runs that could tell us: this frame shows it.
    from langgraph.pregel._retry import run_with_retry

    _RETRYING: t.Any = run_with_retry.__code__
except ImportError:  # then a node that waits for its next attempt is given up after the clean-up time
    _RETRYING = None


class Watcher(BaseCallbackHandler):
    """Of one run."""

    run_inline = True
    raise_error = True

    def __init__(self, context: RunnerContext) -> None:
        self._context = context
        self._greenlets: dict[UUID, t.Any] = {}
        self._depths: dict[t.Any, int] = {}
        #: The places of tools that began, by the id of their call, oldest first.
        self._places: dict[str, deque[str]] = {}

    def place_of(self, call: str) -> str:
        """Where in the graph a call was made; asked once per start."""
        places = self._places.get(call)
        return places.popleft() if places else ""

    def _enter(self, run_id: UUID) -> None:
        greenlet = getcurrent()
        self._context.adopt(self._inside)
        self._greenlets[run_id] = greenlet
        self._depths[greenlet] = self._depths.get(greenlet, 0) + 1

    def _leave(self, run_id: UUID) -> None:
        greenlet = self._greenlets.pop(run_id, None)
        if greenlet is None:
            return
        left = self._depths[greenlet] - 1
        if left:
            self._depths[greenlet] = left
        else:
            del self._depths[greenlet]

    def _inside(self, greenlet: t.Any) -> bool:
        """Whether it stands in code of the graph's author, and not in langgraph's book-keeping."""
        if greenlet in self._depths:
            return True
        frame = greenlet.gr_frame
        while frame is not None:
            if frame.f_code is _RETRYING:
                return True
            frame = frame.f_back
        return False

    # -- what begins and ends ----------------------------------------------------------------

    def on_chain_start(
        self, serialized: t.Any, inputs: t.Any, *, run_id: UUID, metadata: t.Any = None, **kwargs: t.Any
    ) -> None:
        """A node, or something in one."""
        if metadata and "langgraph_node" in metadata:  # else the graph itself, in the run's own greenlet
            self._enter(run_id)

    def on_chat_model_start(
        self, serialized: t.Any, messages: t.Any, *, run_id: UUID, **kwargs: t.Any
    ) -> None:
        """A model."""
        self._enter(run_id)

    def on_llm_start(self, serialized: t.Any, prompts: t.Any, *, run_id: UUID, **kwargs: t.Any) -> None:
        """A model of the older kind."""
        self._enter(run_id)

    def on_retriever_start(self, serialized: t.Any, query: t.Any, *, run_id: UUID, **kwargs: t.Any) -> None:
        """A search."""
        self._enter(run_id)

    def on_tool_start(
        self, serialized: t.Any, input_str: str, *, run_id: UUID, metadata: t.Any = None, **kwargs: t.Any
    ) -> None:
        """A tool."""
        self._enter(run_id)
        call = kwargs.get("tool_call_id") or str(run_id)
        self._places.setdefault(call, deque()).append(
            str((metadata or {}).get("langgraph_checkpoint_ns", ""))
        )

    def on_llm_new_token(self, token: t.Any, *, run_id: UUID, **kwargs: t.Any) -> None:
        """A token: the reader may be too slow for more, or gone."""
        self._context.waits.gate()
        self._context.adopt(self._inside)

    def on_chain_end(self, outputs: t.Any, *, run_id: UUID, **kwargs: t.Any) -> None:
        """Well."""
        self._leave(run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: t.Any) -> None:
        """Not so."""
        self._leave(run_id)

    def on_llm_end(self, response: t.Any, *, run_id: UUID, **kwargs: t.Any) -> None:
        """Well."""
        self._leave(run_id)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: t.Any) -> None:
        """Not so."""
        self._leave(run_id)

    def on_retriever_end(self, documents: t.Any, *, run_id: UUID, **kwargs: t.Any) -> None:
        """Well."""
        self._leave(run_id)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: t.Any) -> None:
        """Not so."""
        self._leave(run_id)

    def on_tool_end(self, output: t.Any, *, run_id: UUID, **kwargs: t.Any) -> None:
        """Well."""
        self._leave(run_id)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: t.Any) -> None:
        """Not so."""
        self._leave(run_id)

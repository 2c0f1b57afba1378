"""Documents compiled once, for whoever runs them.

Law of this room: a compiled workflow is what its document and this process make it, and nobody changes it; so one is
enough for every surface, for drafts and versions that say the same, and for runs that are taken up again. What a store
or a request may change is none of it. Models come and go: what names one that is gone is compiled anew, and refused
then.
"""

from __future__ import annotations

import hashlib
import json
import threading
import typing as t
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from app.engine.recompiled import compiled
from app.errors import Problem, ValidationFailed
from app.workflows import named_models
from app.workflows.compiled import CompiledWorkflow
from app.workflows.runner_graph import compile_runner
from plugins.connections import RegistryError
from plugins.registry import Registry

_T = t.TypeVar("_T")

#: Bytes, by estimate, of all that a process keeps compiled.
MOST_BYTES = 32 * 1024 * 1024
#: Bytes that one takes, measured: beside its texts, which it holds parsed and compiled.
_EACH, _BLOCK = 4_096, 2_560


class Recent(t.Generic[_T]):
    """What was asked for last, as far as it fits.

    :param most: bytes of all of it, by estimate. :ivar bytes: of what is there.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, tuple[_T, int]] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> _T | None:
        """What is there under ``key``; it goes last then."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def keep(self, key: Hashable, value: _T, size: int) -> None:
        """Put something in; what was not asked for the longest makes room.

        :param size: bytes; what is larger than all may be is left out.
        """
        self.drop(key)
        if size > self._most:
            return
        self._kept[key] = value, size
        self.bytes += size
        while self.bytes > self._most:
            self.drop(next(iter(self._kept)))

    def drop(self, key: Hashable) -> None:
        """Let go of what is there under ``key``, if anything is."""
        self.bytes -= self._kept.pop(key, (None, 0))[1]

    def clear(self) -> None:
        """Let go of everything."""
        self._kept.clear()
        self.bytes = 0


class Queues:
    """Who wants what another one is just making waits for it."""

    def __init__(self) -> None:
        self._queues: weakref.WeakValueDictionary[Hashable, _Queue] = weakref.WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._queues)

    @contextmanager
    def turn(self, key: Hashable) -> Iterator[None]:
        """Inside is one at a time."""
        queue = self._queues.setdefault(key, _Queue())
        with queue.lock:
            yield


class _Queue:
    """Those who want one thing; it goes with the last of them."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Made:
    """``types``: of blocks. ``models``: those it names. ``lists``: what servers had said of their models by then."""

    workflow: CompiledWorkflow
    types: frozenset[str]
    models: frozenset[str]
    lists: int


class Compiler:
    """Compiles against the plugins of one process.

    :param most: see :class:`Recent`.
    """

    def __init__(self, plugins: Registry, most: int = MOST_BYTES) -> None:
        self._plugins = plugins
        self._made: Recent[_Made] = Recent(most)
        self._runners: dict[str, tuple[t.Any, CompiledWorkflow]] = {}
        self._queues = Queues()

    def __call__(self, document: Mapping[str, t.Any]) -> CompiledWorkflow:
        """``document`` compiled, without its children; what says the same in the same order is the same object.

        :raises ValidationFailed: see :func:`app.engine.recompiled.compiled`.
        """
        text = _text(document)
        if text is None:
            return compiled(document, self._plugins)
        key = hashlib.sha256(text).digest()
        if (found := self._get(key)) is not None:
            return found
        # To compile a large one takes a while, in which others go on: who wants the same waits for it.
        with self._queues.turn(key):
            if (found := self._get(key)) is not None:
                return found
            lists = self._plugins.listings.generation
            workflow = compiled(document, self._plugins)
            workflow = replace(workflow, size=_EACH + 2 * len(text) + _BLOCK * len(workflow.blocks))
            models = frozenset(model for _, model in named_models.of_blocks(workflow.blocks))
            types = frozenset(block.type.type_name for block in workflow.blocks.values())
            self._made.keep(key, _Made(workflow, types, models, lists), workflow.size)
            return workflow

    def runner(self, name: str) -> CompiledWorkflow:
        """A workflow that no document makes: it is what it is as long as its runner is.

        :raises ValidationFailed: this process has none of that name.
        """
        runner = self._plugins.runners.get(name)
        if runner is None:
            message = f"there is no workflow {name} in this process; configure it as where the run began"
            raise ValidationFailed([Problem("runner", message)])
        made, found = self._runners.get(name, (None, None))
        if found is None or made is not runner:
            found = compile_runner(runner)
            self._runners[name] = runner, found
        return found

    def _get(self, key: bytes) -> CompiledWorkflow | None:
        found = self._made.get(key)
        if found is None:
            return None
        plugins = self._plugins
        known = found.types <= plugins.block_types.keys() and found.lists == plugins.listings.generation
        if known and all(map(self._is_there, found.models)):
            return found.workflow
        self._made.drop(key)
        return None

    def _is_there(self, model: str) -> bool:
        try:
            self._plugins.capabilities_of(model)
        except (LookupError, RegistryError):
            return False
        return True


def _text(document: t.Any) -> bytes | None:
    """What tells documents apart, to the last digit and in the order of their members; None: it cannot be told."""
    try:
        return json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        return None

"""Saved workflows, compiled and ready to run.

Law of this room: which version runs is what the store said last (``Store.generation()``); what it compiles to is
:mod:`app.engine.compiler`'s, and outlives changes of the store. What a workflow runs of others is fixed with it, so a
run never meets a version that was deployed after it began. One catalog serves all surfaces of an application: what
differs by who asks is never in it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.config.files import shipped
from app.engine.compiler import Compiler, Queues, Recent
from app.errors import ApiError, Problem, ValidationFailed
from app.schemas.paths import join
from app.workflows import named_models
from app.workflows.compiled import MAX_DEPTH, CompiledWorkflow, Pinned
from app.workflows.document import parse
from plugins.registry import Registry
from plugins.spec import VectorSearch

if t.TYPE_CHECKING:
    from app.store import Store

_T = t.TypeVar("_T")

#: The workflow that comes with the program: it is there under this id until another one is deployed under it.
ASSISTANT = "assistant"
_TOO_DEEP = f"workflows may run inside one another up to {MAX_DEPTH} deep; put some of it into one workflow"


@dataclass(frozen=True, slots=True)
class Runnable:
    """One version of one workflow. ``models``: (JSON path, model id) of every block that calls one, ``secrets``: (JSON
    path, name) of those it uses, ``searches``: (JSON path, search by vectors), its children's included. ``depth``: how
    deep its children nest; 0 without any.
    """

    workflow_id: str
    version: int | None
    workflow: CompiledWorkflow
    models: tuple[tuple[str, str], ...]
    depth: int = 0
    secrets: tuple[tuple[str, str], ...] = ()
    searches: tuple[tuple[str, VectorSearch], ...] = ()


class Parts(t.Protocol):
    """What a catalog needs of the services."""

    @property
    def store(self) -> Store:
        """Where the workflows are."""

    @property
    def plugins(self) -> Registry:
        """What they are compiled against."""


class ChildUnavailable(ValidationFailed):
    """A workflow that a block names is not stored or has no live version; it may be one day."""


def packaged() -> dict[str, t.Any]:
    """The document of :data:`ASSISTANT`."""
    return parse(shipped(f"examples/{ASSISTANT}.yaml").read_text(encoding="utf-8"))


def runnable(workflow_id: str, version: int | None, workflow: CompiledWorkflow) -> Runnable:
    """A compiled workflow with the models its blocks call; its children are not looked at."""
    searches = [
        (join("blocks", index, "config", *use.path), use.value)
        for index, block in enumerate(workflow.blocks.values())
        for use in (block.type.uses(block.config) if block.type.uses is not None else ())
        if use.kind == "embedding"
    ]
    models = tuple(named_models.of_blocks(workflow.blocks))
    return Runnable(
        workflow_id, version, workflow, models, secrets=workflow.secrets, searches=tuple(searches)
    )


class Catalog:
    """The workflows of one store.

    :param compiler: compiles them; None: one of its own.
    """

    def __init__(self, parts: Parts, compiler: Compiler | None = None) -> None:
        self._store = parts.store
        self._plugins = parts.plugins
        self._compiler = compiler or Compiler(parts.plugins)
        self._generation = -1
        self._known: Recent[Runnable] = Recent()
        self._queues = Queues()

    def find(self, workflow_id: str, version: int | None = None, generation: int | None = None) -> Runnable:
        """The workflow's live version, or a named one.

        :param generation: the store's, when this request has read it already.
        :raises ApiError: 404 unknown workflow or version, 409 ``not_deployed`` none is live, 400 the stored
            document no longer compiles (a family, model or tool that was there is gone).
        """
        if workflow_id in self._plugins.runners:
            return self._runner(workflow_id, version)
        self._refresh(generation)
        found = self._known.get((workflow_id, version))
        if found is not None:
            return found
        with self._queues.turn((workflow_id, version)):
            return self._find(workflow_id, version, ())

    def _runner(self, workflow_id: str, version: int | None) -> Runnable:
        if version is not None:
            message = (
                f"The workflow '{workflow_id}' has no versions: it is no stored document. Leave version out."
            )
            raise ApiError(404, "not_found", message)
        return Runnable(workflow_id, None, self._compiler.runner(workflow_id), ())

    def of(self, workflow_id: str, document: dict[str, t.Any]) -> Runnable:
        """A document that need not be stored, with what it runs of stored workflows.

        :param workflow_id: the id it has or will have; it cannot run inside itself.
        :raises ChildUnavailable: a block names a workflow that is not there or not deployed.
        :raises ValidationFailed: see :func:`app.engine.recompiled.compiled`; or its children form a cycle, or nest too
            deeply.
        """
        self._refresh(None)
        return self._pinned(runnable(workflow_id, None, self._compiler(document)), ())

    def _refresh(self, generation: int | None) -> None:
        if generation is None:
            generation = self._store.generation()
        if generation != self._generation:
            self._known.clear()
            self._generation = generation

    def _find(self, workflow_id: str, version: int | None, above: tuple[str, ...]) -> Runnable:
        """:param above: ids of the workflows that this one is to run inside of."""
        found = self._known.get((workflow_id, version))
        if found is None:
            generation = self._generation
            found = self._pinned(self._load(workflow_id, version), above)
            if generation == self._generation:  # else this may be the version of before a change
                self._known.keep((workflow_id, version), found, found.workflow.weight)
        return found

    def _pinned(self, found: Runnable, above: tuple[str, ...]) -> Runnable:
        """``found`` with the versions of what it runs.

        :raises ValidationFailed: with every child that cannot be run.
        """
        children: dict[str, Pinned] = {}
        models = {model: path for path, model in reversed(found.models)}
        secrets = {name: path for path, name in reversed(found.secrets)}
        searches = {search: path for path, search in reversed(found.searches)}
        failed: list[tuple[Problem, bool]] = []
        depth = 0
        for index, block in enumerate(found.workflow.blocks.values()):
            if block.child is None:
                continue
            path = join("blocks", index, "config", "workflow")
            try:
                child = self._child(block.child.workflow_id, block.child.version, (*above, found.workflow_id))
            except ApiError as error:
                missing = isinstance(error, ChildUnavailable) or error.status in (404, 409)
                failed.append((Problem(path, error.message), missing))
                continue
            children[block.id] = Pinned(child.workflow_id, child.version, child.workflow)
            depth = max(depth, child.depth + 1)
            for inner, model in child.models:
                models.setdefault(model, f"{path}/{inner}")
            for inner, name in child.secrets:
                secrets.setdefault(name, f"{path}/{inner}")
            for inner, search in child.searches:
                searches.setdefault(search, f"{path}/{inner}")
        if failed:
            kind = ChildUnavailable if all(missing for _, missing in failed) else ValidationFailed
            raise kind([problem for problem, _ in failed])
        if not children:
            return found
        workflow = replace(found.workflow, children=children)
        return replace(
            found,
            workflow=workflow,
            models=_by_path(models),
            depth=depth,
            secrets=_by_path(secrets),
            searches=_by_path(searches),
        )

    def _child(self, workflow_id: str, version: int | None, above: tuple[str, ...]) -> Runnable:
        if workflow_id in above:
            ring = " → ".join((*above[above.index(workflow_id) :], workflow_id))
            raise ValidationFailed([Problem("", f"a workflow cannot run inside itself ({ring})")])
        if len(above) > MAX_DEPTH:
            raise ValidationFailed([Problem("", _TOO_DEEP)])
        child = self._find(workflow_id, version, above)
        if len(above) + child.depth > MAX_DEPTH:
            raise ValidationFailed([Problem("", _TOO_DEEP)])
        return child

    def unversioned(self, workflow_id: str) -> bool:
        """Whether a run of it without a version ran what it is, and no draft."""
        if workflow_id in self._plugins.runners:
            return True
        return workflow_id == ASSISTANT and self._store.workflows.live(workflow_id) is None

    def is_public(self, workflow_id: str, version: int | None = None) -> bool:
        """Whether the workflow may run for callers without a key; unknown and undeployed ones may not."""
        try:
            return self.find(workflow_id, version).workflow.settings.public
        except ApiError:
            return False

    def _load(self, workflow_id: str, version: int | None) -> Runnable:
        row = self._store.workflows.get(workflow_id)
        if workflow_id == ASSISTANT and version is None and self._store.workflows.live(workflow_id) is None:
            return runnable(workflow_id, None, self._compiler(packaged()))
        if row is None:
            message = f"There is no workflow '{workflow_id[:100]}'. See: studio workflow list"
            raise ApiError(404, "not_found", message)
        if version is None:
            live = self._store.workflows.live(workflow_id)
            if live is None:
                message = (
                    f"The workflow '{workflow_id}' has no live version. "
                    f"Deploy it: studio workflow deploy {workflow_id}"
                )
                raise ApiError(409, "not_deployed", message)
        else:
            live = self._store.workflows.version(workflow_id, version)
            if live is None:
                cure = f"See: studio workflow show {workflow_id}"
                message = f"The workflow '{workflow_id}' has no version {version}. {cure}"
                raise ApiError(404, "not_found", message)
        return runnable(workflow_id, live.version, self._compiler(live.document))


def _by_path(places: Mapping[_T, str]) -> tuple[tuple[str, _T], ...]:
    """(path, thing) pairs of paths by thing, each thing once."""
    return tuple((path, name) for name, path in places.items())

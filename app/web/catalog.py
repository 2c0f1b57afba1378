"""Saved workflows, compiled and ready to run.

Law of this room: a compiled workflow is reused until anything in the store changes
(``Store.generation()``); whether a model can be called is asked anew for every run, because
addresses and keys come from the environment of the moment. What a workflow runs of others is fixed with it, so a
run never meets a version that was deployed after it began.
"""

from __future__ import annotations

import threading
import typing as t
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from app import shipped
from app.engine.recompiled import compiled
from app.errors import ApiError, Problem, ValidationFailed
from app.schemas.paths import join
from app.workflows import named_models
from app.workflows.compiled import MAX_DEPTH, CompiledWorkflow, Pinned
from app.workflows.document import parse
from app.workflows.runner_graph import compile_runner
from plugins.connections import NotConfigured, RegistryError
from plugins.registry import Registry
from plugins.spec import VectorSearch

if t.TYPE_CHECKING:
    from app.store import Store

_T = t.TypeVar("_T")

_MAX_CACHED = 512
#: The workflow that comes with the program: it is there under this id until another one is deployed under it.
ASSISTANT = "assistant"
_NOT_READY = "This workflow cannot run at the moment. Ask whoever published it."
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


def runnable(
    workflow_id: str, version: int | None, document: dict[str, t.Any], plugins: Registry
) -> Runnable:
    """``document`` compiled, with the models its blocks call.

    :raises ValidationFailed: see :func:`compiled`.
    """
    workflow = compiled(document, plugins)
    models = named_models.of_blocks(workflow.blocks)
    searches = [
        (join("blocks", index, "config", *use.path), use.value)
        for index, block in enumerate(workflow.blocks.values())
        for use in (block.type.uses(block.config) if block.type.uses is not None else ())
        if use.kind == "embedding"
    ]
    return Runnable(
        workflow_id, version, workflow, tuple(models), secrets=workflow.secrets, searches=tuple(searches)
    )


def check_configured(models: Iterable[tuple[str, str]], plugins: Registry, public: bool) -> None:
    """Find a missing vendor key or address before the first byte.

    :param models: as of :class:`Runnable`.
    :param public: the caller has no key: it learns that the workflow is not ready, not what is missing.
    :raises ApiError: 400 ``provider_not_configured`` naming the variable (503 without it for the public),
        400 ``validation_failed`` for a model that is gone since the workflow was compiled (503
        ``workflow_unavailable`` for the public).
    """
    for path, model in models:
        _check_configured(path, partial(plugins.resolve, model), public)


def _check_configured(path: str, resolve: Callable[[], object], public: bool) -> None:
    try:
        resolve()
    except NotConfigured as error:
        if public:
            raise ApiError(503, "provider_not_configured", _NOT_READY) from None
        details = [Problem(path, error.message)]
        raise ApiError(400, "provider_not_configured", error.message, details) from None
    except RegistryError as error:
        if public:
            raise ApiError(503, "workflow_unavailable", _NOT_READY) from None
        raise ValidationFailed([Problem(path, error.message)]) from None


def check_searches(searches: Iterable[tuple[str, VectorSearch]], parts: Parts, public: bool) -> None:
    """Find a search by vectors that would fail: with another model than the collection's, or one without its key.

    :param searches: as of :class:`Runnable`; what only the run knows is left to it.
    :raises ApiError: as :func:`check_configured`.
    """
    for path, search in searches:
        has = parts.store.documents.vectors.model(search.collection) if search.collection else None
        if has is not None and search.model is not None and has != search.model:
            if public:
                raise ApiError(503, "workflow_unavailable", _NOT_READY)
            from app.store.vectors import ModelDiffers  # here: checking a document needs no database

            differs = ModelDiffers(str(search.collection), has, search.model)
            raise ValidationFailed([Problem(path, differs.message)])
        if (model := search.model or has) is not None:
            _check_configured(path, partial(parts.plugins.embedders.resolve, model), public)


def missing_secrets(secrets: Iterable[tuple[str, str]], store: Store) -> list[Problem]:
    """A problem for every secret that is used and not stored.

    :param secrets: as of :class:`Runnable`.
    """
    used = list(secrets)
    stored = store.secrets.values() if used else ()
    return [
        Problem(path, f"there is no secret {name}; store it: studio secret set {name}")
        for path, name in used
        if name not in stored
    ]


def missing_collections(workflow: CompiledWorkflow, store: Store) -> list[Problem]:
    """A problem for every collection that a block searches and that has no documents yet."""
    from app.store.documents import CollectionUnknown  # here: checking a document needs no database

    problems = []
    for index, block in enumerate(workflow.blocks.values()):
        for use in block.type.uses(block.config) if block.type.uses is not None else ():
            if use.kind != "collection":
                continue
            try:
                store.documents.collection_id(use.value)
            except CollectionUnknown as unknown:
                problems.append(Problem(join("blocks", index, "config", *use.path), unknown.message))
    return problems


def check_ready(found: Runnable, parts: Parts, public: bool) -> None:
    """Find out before the first byte what a run would fail for.

    :param public: the caller has no key: it learns that the workflow is not ready, not what is missing.
    :raises ApiError: see :func:`check_configured`; 400 ``secret_unknown`` naming what is missing (503 without it for
        the public), 503 ``secrets_locked`` secrets are there and their key is not.
    """
    check_configured(found.models, parts.plugins, public)
    check_searches(found.searches, parts, public)
    if not found.secrets:
        return
    from app.store.sealing import SecretsLocked  # here: checking a document needs no database

    missing = missing_secrets(found.secrets, parts.store)
    if missing and public:
        raise ApiError(503, "secret_unknown", _NOT_READY)
    if missing:
        raise ApiError(400, "secret_unknown", f"{missing[0].path}: {missing[0].message}", missing)
    try:
        for _, name in found.secrets:
            parts.store.secrets.values()[name]
    except SecretsLocked as locked:
        raise ApiError(503, locked.code, _NOT_READY if public else locked.message) from None


class _Queue:
    """Those who want one workflow; it goes with the last of them."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Catalog:
    """The workflows of one store, compiled on first use."""

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store
        self._plugins = parts.plugins
        self._generation = -1
        self._known: dict[tuple[str, int | None], Runnable] = {}
        self._runners: dict[str, Runnable] = {}
        self._queues: weakref.WeakValueDictionary[tuple[str, int | None], _Queue] = (
            weakref.WeakValueDictionary()
        )

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
        # To compile a large one takes a while, in which others go on: who wants the same waits for it.
        queue = self._queues.setdefault((workflow_id, version), _Queue())
        with queue.lock:
            return self._find(workflow_id, version, ())

    def _runner(self, workflow_id: str, version: int | None) -> Runnable:
        """A workflow that no document makes: it is what it is for the life of the process."""
        if version is not None:
            message = (
                f"The workflow '{workflow_id}' has no versions: it is no stored document. Leave version out."
            )
            raise ApiError(404, "not_found", message)
        found = self._runners.get(workflow_id)
        if found is None:
            workflow = compile_runner(self._plugins.runners[workflow_id])
            found = self._runners[workflow_id] = Runnable(workflow_id, None, workflow, ())
        return found

    def of(self, workflow_id: str, document: dict[str, t.Any]) -> Runnable:
        """A document that need not be stored, with what it runs of stored workflows.

        :param workflow_id: the id it has or will have; it cannot run inside itself.
        :raises ChildUnavailable: a block names a workflow that is not there or not deployed.
        :raises ValidationFailed: see :func:`compiled`, or its children form a cycle or nest too deeply.
        """
        self._refresh(None)
        return self._pinned(runnable(workflow_id, None, document, self._plugins), ())

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
            if len(self._known) >= _MAX_CACHED:
                self._known.clear()
            if generation == self._generation:  # else this may be the version of before a change
                self._known[workflow_id, version] = found
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
            return runnable(workflow_id, None, packaged(), self._plugins)
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
        return runnable(workflow_id, live.version, live.document, self._plugins)


def _by_path(places: Mapping[_T, str]) -> tuple[tuple[str, _T], ...]:
    """(path, thing) pairs of paths by thing, each thing once."""
    return tuple((path, name) for name, path in places.items())

"""What keeps a workflow from running, found before the first byte.

Law of this room: whether a model can be called is asked anew for every run, because addresses and keys come from the
environment of the moment; so it is with what is stored beside the workflow.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable
from functools import partial

from app.engine.catalog import Parts, Runnable
from app.errors import ApiError, Problem, ValidationFailed
from app.schemas.paths import join
from app.workflows.compiled import CompiledWorkflow
from plugins.connections import NotConfigured, RegistryError
from plugins.registry import Registry
from plugins.spec import VectorSearch

if t.TYPE_CHECKING:
    from app.store import Store

_NOT_READY = "This workflow cannot run at the moment. Ask whoever published it."


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

"""Saved workflows, compiled and ready to run.

Law of this room: a compiled workflow is reused until anything in the store changes
(``Store.generation()``); whether a model can be called is asked anew for every run, because
addresses and keys come from the environment of the moment.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable
from dataclasses import dataclass

from app.agents.checks import checker
from app.errors import ApiError, Problem, ValidationFailed
from app.workflows.compiled import CompiledWorkflow
from app.workflows.validation import compile_document
from plugins.connections import NotConfigured, RegistryError
from plugins.registry import Registry

if t.TYPE_CHECKING:
    from app.engine.services import Services

_MAX_CACHED = 512


@dataclass(frozen=True, slots=True)
class Runnable:
    """One version of one workflow. ``models``: (JSON path, model id) of every block that calls one."""

    workflow_id: str
    version: int | None
    workflow: CompiledWorkflow
    models: tuple[tuple[str, str], ...]


def compiled(document: dict[str, t.Any], plugins: Registry) -> CompiledWorkflow:
    """``document`` compiled against what the plugins offer.

    :raises ValidationFailed: with every problem, as JSON path and cure.
    """
    return compile_document(
        document,
        plugins.block_types,
        plugins.check_model,
        frozenset(plugins.tools),
        check_agent=checker(plugins.capabilities_of, plugins.check_model),
    )


def runnable(
    workflow_id: str, version: int | None, document: dict[str, t.Any], plugins: Registry
) -> Runnable:
    """``document`` compiled, with the models its blocks call.

    :raises ValidationFailed: see :func:`compiled`.
    """
    workflow = compiled(document, plugins)
    models = []
    for index, block in enumerate(workflow.blocks.values()):
        model = getattr(block.config, "model", None)
        if isinstance(model, str) and model:
            models.append((f"blocks[{index}].config.model", model))
        for place, fallback in enumerate(getattr(block.config, "fallbacks", ())):
            models.append((f"blocks[{index}].config.fallbacks[{place}]", fallback))
    return Runnable(workflow_id, version, workflow, tuple(models))


def check_configured(models: Iterable[tuple[str, str]], plugins: Registry, public: bool) -> None:
    """Find a missing vendor key or address before the first byte.

    :param models: as of :class:`Runnable`.
    :param public: the caller has no key: it learns that the workflow is not ready, not what is missing.
    :raises ApiError: 400 ``provider_not_configured`` naming the variable (503 without it for the public),
        400 ``validation_failed`` for a model that is gone since the workflow was compiled.
    """
    for path, model in models:
        try:
            plugins.resolve(model)
        except NotConfigured as error:
            if public:
                message = "This workflow cannot run at the moment. Ask whoever published it."
                raise ApiError(503, "provider_not_configured", message) from None
            details = [Problem(path, error.message)]
            raise ApiError(400, "provider_not_configured", error.message, details) from None
        except RegistryError as error:
            raise ValidationFailed([Problem(path, error.message)]) from None


class Catalog:
    """The workflows of one store, compiled on first use."""

    def __init__(self, services: Services) -> None:
        self._store = services.store
        self._plugins = services.plugins
        self._generation = -1
        self._known: dict[tuple[str, int | None], Runnable] = {}

    def find(self, workflow_id: str, version: int | None = None, generation: int | None = None) -> Runnable:
        """The workflow's live version, or a named one.

        :param generation: the store's, when this request has read it already.
        :raises ApiError: 404 unknown workflow or version, 409 ``not_deployed`` none is live, 400 the stored
            document no longer compiles (a family, model or tool that was there is gone).
        """
        if generation is None:
            generation = self._store.generation()
        if generation != self._generation:
            self._known.clear()
            self._generation = generation
        found = self._known.get((workflow_id, version))
        if found is None:
            found = self._load(workflow_id, version)
            if len(self._known) >= _MAX_CACHED:
                self._known.clear()
            self._known[workflow_id, version] = found
        return found

    def is_public(self, workflow_id: str, version: int | None = None) -> bool:
        """Whether the workflow may run for callers without a key; unknown and undeployed ones may not."""
        try:
            return self.find(workflow_id, version).workflow.settings.public
        except ApiError:
            return False

    def _load(self, workflow_id: str, version: int | None) -> Runnable:
        row = self._store.workflows.get(workflow_id)
        if row is None:
            message = f"There is no workflow '{workflow_id[:100]}'. See: studio workflow list"
            raise ApiError(404, "not_found", message)
        if version is None:
            live = self._store.workflows.live(workflow_id)
            if live is None:
                message = (
                    f"The workflow '{workflow_id}' has no live version. "
                    "Deploy it: studio workflow import FILE --deploy"
                )
                raise ApiError(409, "not_deployed", message)
        else:
            live = self._store.workflows.version(workflow_id, version)
            if live is None:
                cure = f"See: studio workflow show {workflow_id}"
                message = f"The workflow '{workflow_id}' has no version {version}. {cure}"
                raise ApiError(404, "not_found", message)
        return runnable(workflow_id, live.version, live.document, self._plugins)

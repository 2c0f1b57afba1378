"""What the plugins of one app add up to: families, block types and tools by id, and models resolved.

Law of this room: a model id is ``<family>/<model>``. Addresses and credentials are read from the
environment at every request and never stored; the connection object is reused while the values it
was made from stay the same. Every error names the thing, what is near it and the cure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from plugins import model_map, problems, wires
from plugins.capabilities import Origin
from plugins.connections import (
    NotConfigured,
    RegistryError,
    Variables,
    chosen_wire,
    connect,
    dialect_of,
    first,
    max_concurrency,
    variable_prefix,
)
from plugins.contributions import Contributions, Wanted
from plugins.embedders import Embedders
from plugins.listing import Job, Listings
from plugins.manager import PluginManager
from plugins.spec.blocks import BlockType
from plugins.spec.checks import family_problem
from plugins.spec.detectors import Detector
from plugins.spec.families import Capabilities, ProviderFamily, ResolvedModel
from plugins.spec.mcp import McpServers
from plugins.spec.runners import WorkflowRunner
from plugins.spec.tools import Tool
from plugins.wires import WIRES, load_wire
from plugins.wording import did_you_mean, listed, such_as
from providers.spec import Wire

_FAMILY_ID = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_CACHE_LIMIT = 1024
#: Of claims more are kept: the capability table has one for every model that is known by name.
_CLAIMS_LIMIT = 8192
_NO_SERVERS = McpServers()


class UnknownFamily(RegistryError):
    """The part before the first slash is no family of this app, or there is no slash."""


class UnknownModel(RegistryError):
    """A closed family lacks the model, or the model's name is empty."""


class Registry:
    """Everything the plugins of ``manager`` contribute.

    :ivar families: by id. :ivar block_types: by type name. :ivar tools: by name.
    :ivar detectors: of personal data, by name.
    :ivar listings: what servers said that they have. :ivar embedders: models that make vectors.
    :ivar mcp: the MCP servers documents may use. :ivar runners: workflows that no document makes, by id.
    """

    def __init__(self, manager: PluginManager, mcp: McpServers = _NO_SERVERS) -> None:
        self.manager = manager
        self.mcp = mcp
        self.listings = Listings()
        self._capabilities: dict[tuple[str, str, str], Capabilities] = {}
        self._resolved: dict[
            tuple[str, float | None, float], tuple[tuple[str | None, ...], ResolvedModel]
        ] = {}
        given = self._given = Contributions(manager)
        self.families: dict[str, ProviderFamily] = {}
        given.collect(
            Wanted("provider_families", ProviderFamily, lambda family: family.id, self._family_problem),
            self.families,
        )
        self._variables = {family.id: Variables(family) for family in self.families.values()}
        self.embedders = Embedders(self.families, self._variables, self._split)
        self.block_types: dict[str, BlockType] = given.collect(
            Wanted("block_types", BlockType, lambda block_type: block_type.type_name, problems.of_block_type)
        )
        self.tools: dict[str, Tool] = given.collect(
            Wanted("tools", Tool, lambda tool: tool.name, problems.of_tool)
        )
        self.detectors: dict[str, Detector] = given.collect(
            Wanted(
                "pii_detectors",
                Detector,  # type: ignore[type-abstract]  # a protocol, asked by isinstance
                lambda detector: detector.name,
                problems.of_detector,
            )
        )
        self.runners: dict[str, WorkflowRunner] = given.collect(
            Wanted(
                "workflow_runners",
                WorkflowRunner,  # type: ignore[type-abstract]  # a protocol, asked by isinstance
                lambda runner: runner.id,
                problems.of_runner,
            )
        )

    def _family_problem(self, family_id: str, family: ProviderFamily, plugin: str) -> str | None:
        if not _FAMILY_ID.fullmatch(family_id):
            return f'family id "{family_id}" must be lower-case letters, digits, dots and hyphens'
        if (problem := family_problem(family)) is not None:
            return problem
        if (problem := problems.of_wires(family)) is not None:
            return problem
        for other in self.families:
            if other != family_id and variable_prefix(other) == variable_prefix(family_id):
                return (
                    f'family "{family_id}" of plugin "{plugin}" would share the variables '
                    f'{variable_prefix(other)}_* with "{other}" of plugin "{self.owner(other)}"; '
                    "rename one"
                )
        return None

    def owner(self, family_id: str) -> str:
        """The plugin that a family is of."""
        return self._given.owner("provider_families", family_id)

    def resolve(
        self,
        model_id: str,
        environ: Mapping[str, str] = os.environ,
        idle_s: float | None = None,
        connect_s: float = 10.0,
    ) -> ResolvedModel:
        """Everything a call of ``model_id`` needs, with the address and credentials of this moment.

        :param environ: where ``STUDIO_<FAMILY>_API_BASE``, ``_API_KEY`` and the family's own names are read.
        :param idle_s: seconds without progress a call may take; None: what the family says.
        :param connect_s: seconds connecting may take.
        :raises UnknownFamily: no such family.
        :raises UnknownModel: a closed family lacks it.
        :raises NotConfigured: an address or a required credential is missing or malformed.
        """
        family, model = self._find(model_id)
        values = tuple(map(environ.get, self._variables[family.id].all))
        cached = self._resolved.get((model_id, idle_s, connect_s))
        if cached is not None and cached[0] == values:
            return cached[1]
        variables = self._variables[family.id]
        connection = connect(family, variables, environ)
        resolved = ResolvedModel(
            family=family,
            model=model,
            wire=self._wire(family, model, environ),
            connection=replace(connection, idle_s=idle_s or connection.idle_s, connect_s=connect_s),
            capabilities=self.capabilities(family, model, environ),
            dialect=dialect_of(family, model, variables, environ),
            max_concurrency=max_concurrency(family, variables, environ),
        )
        if len(self._resolved) >= _CACHE_LIMIT:
            self._resolved.clear()
        self._resolved[model_id, idle_s, connect_s] = (values, resolved)
        return resolved

    def check_model(self, model_id: str) -> str | None:
        """Whether ``model_id`` can exist, without looking at the environment's keys; for validation.

        :returns: a warning sentence for a name an open family has not heard of, else None.
        :raises UnknownFamily: no such family.
        :raises UnknownModel: a closed family lacks it.
        """
        family, model = self._find(model_id)
        if family.models is not None:
            return None
        if family.list_models is not None and not family.connection.key_required:
            known = self.listings.names(family.id)  # of the reader's own server nobody else knows what it has
        else:
            known = (*self.models(family)[0], *self.listings.names(family.id))
        if not known or model_map.is_known(model, known):
            return None
        near = did_you_mean(model, known)
        return f'{family.title} may not have a model "{model}"{near}; it is asked for as written'

    def capabilities_of(self, model_id: str) -> Capabilities:
        """What the model behind ``<family>/<model>`` can do.

        :raises UnknownFamily: no such family.
        :raises UnknownModel: a closed family lacks it.
        """
        return self.capabilities(*self._find(model_id))

    def capabilities(
        self, family: ProviderFamily, model: str, environ: Mapping[str, str] = os.environ
    ) -> Capabilities:
        """What ``model`` can do over the wire that ``environ`` chooses, by the family's rule; cached.

        A rule that raises is reported and claims nothing.
        """
        wire = first(self._variables[family.id].wire, environ)[1] if family.on_wire is not None else ""
        key = (family.id, model, wire)
        found = self._capabilities.get(key)
        if found is None:
            try:
                found = family.capabilities(
                    model, model_map.lookup(family.registry_prefix, family.registry_providers, model)
                )
                if wire in family.other_wires and family.on_wire is not None:
                    found = family.on_wire(wire, found)
            except Exception as error:
                self._failed(family, "capabilities", error, model)
                found = Capabilities()
            if len(self._capabilities) >= _CLAIMS_LIMIT:
                self._capabilities.clear()
            self._capabilities[key] = found
        return found

    def models(self, family: ProviderFamily) -> tuple[Sequence[str], Origin]:
        """The models ``family`` is shown with, and who named them; none when nobody can.

        A closed family's own list, else what its server says that needs no key (it is the reader's own), else those
        it has heard of, else the model registry's, else its server's. A vendor's list stands last, since it may name
        what only the holder of the key should know, and the table is open.
        """
        if family.models is not None:
            try:
                return tuple(family.models() if callable(family.models) else family.models), "closed"
            except Exception as error:
                self._failed(family, "models", error)
                return (), "closed"
        listed = self.listings.names(family.id)
        if listed and not family.connection.key_required:
            return listed, "server"
        if family.known:
            return tuple(family.known), "known"
        if names := model_map.names(family.registry_prefix, family.registry_providers):
            return names, "registry"
        return listed, "server" if listed else "any"

    def shows_its_list(self, family: ProviderFamily) -> bool:
        """Whether the rows of ``family`` are those that its server names, once it has named some."""
        if family.list_models is None or family.models is not None:
            return False
        return not family.connection.key_required or self.models(family)[1] in ("server", "any")

    def wire_names(self, family: ProviderFamily, models: Iterable[str]) -> tuple[str, ...]:
        """The wires by which ``models`` are called when no variable says otherwise, the family's own first."""
        names = dict.fromkeys([wires.name_of(family.wire)])
        if family.model_wire is not None:
            try:
                found = [family.model_wire(model) for model in models]
            except Exception as error:
                self._failed(family, "model_wire", error)
                found = []
            names.update(dict.fromkeys(wires.name_of(wire) for wire in found if wire is not None))
        return tuple(names)

    def lists_due(
        self, environ: Mapping[str, str] = os.environ, families: Iterable[str] | None = None
    ) -> list[Job]:
        """A job for every configured family whose server's list is not fresh; see :class:`plugins.listing.Listings`.

        :param families: only those of these ids.
        """
        jobs = []
        wanted = self.families if families is None else set(families)
        for family in self.families.values():
            if family.list_models is None or family.id not in wanted:
                continue
            try:
                connection = connect(family, self._variables[family.id], environ)
            except NotConfigured:
                continue
            if (job := self.listings.job(family, connection)) is not None:
                jobs.append(job)
        return jobs

    def _failed(self, family: ProviderFamily, what: str, error: Exception, model: str = "") -> None:
        whose = f"{family.id}/{model}" if model else family.id
        self.manager.failed(self.owner(family.id), f'{what} of "{whose}": {type(error).__name__}: {error}')

    def variables(self) -> frozenset[str]:
        """Every environment variable by which a family of this app is configured."""
        return frozenset(name for each in self._variables.values() for name in each.all)

    def missing(
        self, family: ProviderFamily, environ: Mapping[str, str] = os.environ
    ) -> NotConfigured | None:
        """What keeps ``family`` from being called right now, or None."""
        variables = self._variables[family.id]
        try:
            connect(family, variables, environ)
            chosen_wire(family, variables, environ)
            max_concurrency(family, variables, environ)
        except NotConfigured as error:
            return error
        return None

    def malformed(self, environ: Mapping[str, str] = os.environ) -> list[NotConfigured]:
        """What the environment says of families and is no possible value, whether they are to be called or not."""
        problems = []
        for family in self.families.values():
            for read in (chosen_wire, max_concurrency):
                try:
                    read(family, self._variables[family.id], environ)
                except NotConfigured as error:
                    problems.append(error)
        return problems

    def _wire(self, family: ProviderFamily, model: str, environ: Mapping[str, str]) -> Wire:
        """The wire of one model: as ``STUDIO_<FAMILY>_WIRE`` says, else the model's own, else the family's."""
        if name := chosen_wire(family, self._variables[family.id], environ):
            return load_wire(name)
        own = family.model_wire(model) if family.model_wire is not None else None
        if isinstance(own, str) and own not in WIRES:
            self._failed(family, "model_wire", LookupError(f'no wire "{own}" for "{model}"'))
            own = None
        return load_wire(own or family.wire)

    def _split(self, model_id: str) -> tuple[ProviderFamily, str]:
        """The family of a model id and the model's name, whether it has such a model or not."""
        family_id, slash, model = model_id.partition("/")
        family = self.families.get(family_id)
        if family is None or not slash:
            raise UnknownFamily(self._unknown_family(model_id, family_id, bool(slash)))
        if not model:
            raise UnknownModel(
                f'"{model_id}" names no model after the slash; write "{family_id}/<model>"'
                f"{such_as(family_id, self.models(family)[0])}"
            )
        if not model.isprintable():  # it would go into logs, headers and addresses
            raise UnknownModel(
                f"a model's name cannot hold a line break or a control character, as in {model_id[:100]!r}"
            )
        return family, model

    def _find(self, model_id: str) -> tuple[ProviderFamily, str]:
        family, model = self._split(model_id)
        if family.models is not None and not self._has(family, model):
            names = sorted(self.models(family)[0])
            raise UnknownModel(
                f'{family.title} has no model "{model}"{did_you_mean(model, names)}; '
                f"it has {listed(f'{family.id}/{name}' for name in names)}"
            )
        return family, model

    def _has(self, family: ProviderFamily, model: str) -> bool:
        """Whether a closed family has ``model``. Asked at every request, so a sequence that can tell is not read."""
        if family.models is None or callable(family.models):
            return model in self.models(family)[0]
        try:
            return model in family.models
        except Exception as error:
            self._failed(family, "models", error)
            return False

    def _unknown_family(self, model_id: str, family_id: str, slash: bool) -> str:
        known = sorted(self.families)
        if not slash:
            hint = f'"{family_id}/<model>"' if family_id in self.families else '"<family>/<model>"'
            return f'"{model_id}" is not a model id; write {hint}, with one of the families {listed(known)}'
        near = did_you_mean(family_id, known)
        return (
            f'unknown family "{family_id}" in "{model_id}"{near}; '
            f"there are {listed(known)}, and more by plugins"
        )

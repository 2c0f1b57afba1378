"""One model of a family, resolved as a run would, pointed at the kit's server."""

from __future__ import annotations

import typing as t
from collections.abc import Callable
from urllib.parse import urlsplit

from plugins.conformance.calling import Broken, Heard, call, request_for
from plugins.conformance.recordings import Ground
from plugins.conformance.server import Answer, ByteServer, Exchange
from plugins.conformance.waits import KitWaits
from plugins.connections import Variables
from plugins.hookspecs import hookimpl
from plugins.manager import create_manager
from plugins.registry import Registry
from plugins.spec import ProviderFamily, ResolvedModel
from providers.auth import HeaderAuth, QueryAuth
from providers.spec import ModelRequest

#: The key every family is called with.
KEY = "conformance-key-2718"
#: Seconds of silence a call may take; the kit fires the limit itself.
IDLE_S = 31.0


class _OneFamily:
    """A plugin of one family, so that it is resolved by the same code as at run time."""

    plugin_name = "conformance"

    def __init__(self, family: ProviderFamily) -> None:
        self._family = family

    @hookimpl
    def provider_families(self) -> list[ProviderFamily]:
        """The family."""
        return [self._family]


def registry_of(family: ProviderFamily) -> Registry:
    """A registry of one family.

    :raises Broken: Studio refuses it.
    """
    made = Registry(create_manager(False, [_OneFamily(family)]))
    if refused := made.manager.report()[0].error:
        raise Broken(f"Studio refuses the family: {refused}")
    return made


class Rig:
    """What the scenarios of one model share.

    :ivar speaks: the wire sends requests to the kit's server; others are called without bytes.
    """

    def __init__(self, family: ProviderFamily, model: str, server: ByteServer, ground: Ground) -> None:
        self.family = family
        self.server = server
        self.registry = registry_of(family)
        environ = environment(family, server.base, ground)
        self.resolved: ResolvedModel = self.registry.resolve(f"{family.id}/{model}", environ, idle_s=IDLE_S)
        self.speaks = True

    def ask(self, answer: Answer | None, **request: t.Any) -> tuple[Heard, KitWaits]:
        """One whole call that is answered with ``answer``."""
        return self.listen(answer, KitWaits(), lambda heard: True, **request)

    def listen(
        self,
        answer: Answer | None,
        waits: KitWaits,
        on_events: Callable[[Heard], bool],
        **request: t.Any,
    ) -> tuple[Heard, KitWaits]:
        """One call; see :func:`plugins.conformance.calling.call`."""
        if answer is not None:
            self.server.plan = answer
        return call(self.resolved, self.request(**request), waits, on_events), waits

    def request(self, **changes: t.Any) -> ModelRequest:
        """A request to the model."""
        return request_for(self.resolved, **changes)

    @property
    def last(self) -> Exchange | None:
        """The last request that reached the server."""
        return self.server.exchanges[-1] if self.server.exchanges else None

    def checks_key(self) -> bool:
        """Whether the key itself has to be in the request (a signature does not carry it)."""
        return self.family.connection.key_required and isinstance(self.family.auth, (HeaderAuth, QueryAuth))


def environment(family: ProviderFamily, base: str, ground: Ground) -> dict[str, str]:
    """The variables that point ``family`` at ``base``: address, key, and every setting it requires."""
    variables = Variables(family)
    default = family.connection.default_base
    path = urlsplit(default).path.rstrip("/") if isinstance(default, str) and "{" not in default else ""
    found = {variables.base[0]: base + path, variables.key[0]: KEY}
    for setting in family.connection.settings:
        names = variables.settings[setting.name]
        if setting.required and setting.default is None and not ground.environ.keys() & set(names):
            found[names[0]] = "conformance"
    found.update({name: value.replace("{base}", base) for name, value in ground.environ.items()})
    return {name: value for name, value in found.items() if value}

"""Agents over a vendor whose every byte the test decides, with a clock that sleeps for nobody."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from app.engine.services import Services
from plugins.hookspecs import hookimpl
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily
from providers.auth import HeaderAuth
from tests.field.rig import Live, environ
from tests.support.engine import Awake, agent, services, start
from tests.support.vendor import Call, Vendor
from tests.support.vendor import vendor as one_vendor

#: Price per million tokens in and out, and of cache reads and writes.
PRICED = Capabilities(
    tools="parallel",
    inputs=("text", "image", "pdf"),
    price=(2.0, 10.0),
    cache_price=(0.2, 2.5),
    structured_output="native",
)
PLAIN = Capabilities(tools="parallel", price=(1.0, 1.0))


def family(name: str, can: Capabilities, **more: t.Any) -> ProviderFamily:
    """A family on the chat-completions wire whose address is ``STUDIO_<NAME>_API_BASE``."""
    return ProviderFamily(
        id=name,
        title=name,
        wire="openai_chat",
        auth=HeaderAuth("Authorization", "Bearer "),
        connection=ConnectionSpec(key_required=False),
        capabilities=lambda model, row: can,
        **more,
    )


class Families:
    """A plugin with the families of these tests."""

    @hookimpl
    def provider_families(self) -> list[ProviderFamily]:
        """``priced`` takes every kind of file, ``plain`` none; ``narrow`` has one slot."""
        return [family("priced", PRICED), family("plain", PLAIN), family("narrow", PLAIN, max_concurrency=1)]


class Agents:
    """Starts agents; the vendor answers by the test's hand."""

    def __init__(self, made: Services, vendor: Vendor, clock: Awake) -> None:
        self.services, self.vendor, self.clock = made, vendor, clock

    def start(self, model: str, given: t.Any = None, **settings: t.Any) -> Live:
        """Start one agent; ``conversation_id`` and the like go to the run."""
        options = {key: settings.pop(key) for key in ("conversation_id", "key_id") if key in settings}
        document = agent(model, **settings)
        return Live(t.cast(t.Any, self), *start(self.services, document, given, **options))

    def run(self, model: str, *turns: t.Callable[[Call], t.Any], **settings: t.Any) -> Live:
        """Run one agent to its end, each model call answered by the next of ``turns``."""
        live = self.start(model, **settings)
        for turn in turns:
            turn(live.call())
        return live.end()


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    """One vendor behind every family."""
    with one_vendor() as made:
        yield made
        assert made.calls.empty(), "a request came that the test did not expect"


@pytest.fixture
def more_environ() -> Mapping[str, str]:
    """Further settings; a test module overrides it."""
    return {}


@pytest.fixture
def agents(
    tmp_path: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch, more_environ: Mapping[str, str]
) -> Iterator[Agents]:
    """Agents in this process."""
    bases = {f"STUDIO_{name}_API_BASE": vendor.base for name in ("PRICED", "PLAIN", "NARROW")}
    given = {**environ(vendor), **bases, **more_environ}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = {name: value for name, value in given.items() if not name.endswith(("_API_BASE", "_API_KEY"))}
    with services(tmp_path, settings, plugins=(Families(),)) as opened:
        opened.clock = clock = Awake()
        yield Agents(opened, vendor, clock)

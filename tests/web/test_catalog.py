"""Compiled workflows: one is made once, whoever asks meanwhile."""

from __future__ import annotations

import typing as t
from pathlib import Path

import gevent

from app.web.catalog import Catalog
from plugins.hookspecs import hookimpl
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily
from providers.auth import NoAuth
from tests.engine.redacted import Model
from tests.support.engine import agent, services


class Slow:
    """A family whose models take a while to be listed, and which counts how often they were."""

    def __init__(self) -> None:
        self.asked = 0

    def models(self) -> list[str]:
        self.asked += 1
        gevent.sleep(0.01)
        return ["x"]

    @hookimpl
    def provider_families(self) -> list[ProviderFamily]:
        return [
            ProviderFamily(
                "slow",
                "Slow",
                Model(),
                NoAuth(),
                ConnectionSpec(default_base="", key_required=False),
                lambda name, row: Capabilities(),
                models=self.models,
            )
        ]


def test_those_who_want_the_same_workflow_wait_for_the_one_who_makes_it(tmp_path: Path) -> None:
    slow = Slow()
    with services(tmp_path, plugins=(slow,)) as made:
        workflow = made.store.workflows.save(agent("slow/x"), "Test")
        made.store.workflows.deploy(workflow)
        Catalog(made).find(workflow)
        once, slow.asked = slow.asked, 0
        catalog = Catalog(made)
        found: list[t.Any] = []
        asking = [gevent.spawn(lambda: found.append(catalog.find(workflow))) for _ in range(5)]
        gevent.joinall(asking, raise_error=True)
        assert len(found) == 5
        assert all(each is found[0] for each in found)
        assert slow.asked == once
        assert not catalog._queues

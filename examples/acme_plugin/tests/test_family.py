"""The family keeps what it claims, by Studio's own kit, and asks as Acme wants to be asked."""

from __future__ import annotations

import typing as t

from acme_studio.family import FAMILY, capabilities

pytest_plugins = ("plugins.conformance.pytest_plugin",)


def test_the_family_conforms(conformance: t.Any) -> None:
    verdicts = conformance(FAMILY)
    assert [verdict.model for verdict in verdicts] == ["acme-large", "acme-small"]


def test_models_of_tomorrow_are_taken_for_small_ones() -> None:
    assert capabilities("acme-tiny", None).thinking == "none"
    assert capabilities("acme-large-2", None).thinking == "full"

"""The kit for pytest.

In a test module, or in the ``conftest.py`` beside it::

    pytest_plugins = ("plugins.conformance.pytest_plugin",)


    def test_the_family_conforms(conformance):
        conformance(FAMILY)

Law of this room: the only module of the kit that imports pytest.
"""

from __future__ import annotations

import typing as t

import pytest

from plugins.conformance import Verdict, check, render
from plugins.spec import ProviderFamily


class Conformance(t.Protocol):
    """What the fixture ``conformance`` is."""

    def __call__(self, family: ProviderFamily, *given: t.Any, **options: t.Any) -> list[Verdict]:
        """See :func:`plugins.conformance.check`; fails the test with the report when a verdict is not good."""


@pytest.fixture
def conformance() -> Conformance:
    """Checks a family and fails the test with the kit's report when it does not conform."""

    def run(family: ProviderFamily, *given: t.Any, **options: t.Any) -> list[Verdict]:
        verdicts = check(family, *given, **options)
        if not all(verdict.ok for verdict in verdicts):
            pytest.fail("\n" + render(verdicts), pytrace=False)
        return verdicts

    return run

"""Acme for Studio: what this package contributes, and nothing else.

The entry point ``acme`` of the group ``studio`` names this module (see ``setup.cfg``). What a hook gives is imported
inside it, so that a part which fails to import takes only itself along.
"""

from __future__ import annotations

from studio_plugin import Detector, ProviderFamily, Tool, hookimpl


@hookimpl
def provider_families() -> list[ProviderFamily]:
    """The family ``acme``."""
    from acme_studio.family import FAMILY

    return [FAMILY]


@hookimpl
def tools() -> list[Tool]:
    """The tool ``acme_part``."""
    from acme_studio.tools import PART

    return [PART]


@hookimpl
def pii_detectors() -> list[Detector]:
    """The detector ``acme-customer``."""
    from acme_studio.detectors import CustomerNumbers

    return [CustomerNumbers()]

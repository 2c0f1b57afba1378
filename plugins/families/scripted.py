"""``scripted``: scripts that play the part of a model. Facts only; deterministic, plainly named, free."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping
from pathlib import Path

from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily
from providers.auth import NoAuth
from providers.scripted import ScriptedWire, Scripts

_CAPABILITIES = Capabilities(
    thinking="full",
    thinking_control=("none", "minimal", "low", "medium", "high", "xhigh", "max", "auto", "budget"),
    tools="parallel",
    structured_output="native",
    price=(0.0, 0.0),
    notes="Plays a script, whatever is asked; no model runs.",
    source="this program: providers/scripts, and STUDIO_SCRIPTS_DIR",
)


def _capabilities(model: str, row: Mapping[str, t.Any] | None) -> Capabilities:
    return _CAPABILITIES


def family(folder: Callable[[], Path | None] = lambda: None) -> ProviderFamily:
    """The family over the built-in scripts and those of ``folder()``, which is asked each time."""
    scripts = Scripts(folder)
    return ProviderFamily(
        id="scripted",
        title="Scripted",
        wire=ScriptedWire(scripts),
        auth=NoAuth(),
        connection=ConnectionSpec(default_base="", key_required=False),
        capabilities=_capabilities,
        models=scripts,
    )

"""``scripted``: scripts that play the part of a model. Facts only; deterministic, plainly named, free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row
from providers.auth import NoAuth
from providers.script_schema import ScriptInvalid
from providers.scripted import ScriptedWire, Scripts
from providers.scripted_embeddings import MODEL as BAG_OF_WORDS
from providers.scripted_embeddings import WIRE as EMBEDDING_WIRE

_CAPABILITIES = Capabilities(
    thinking="full",
    thinking_control=("none", "minimal", "low", "medium", "high", "xhigh", "max", "auto", "budget"),
    tools="parallel",
    structured_output="native",
    price=(0.0, 0.0),
    source="this program: providers/scripts, and STUDIO_SCRIPTS_DIR",
)


def family(folder: Callable[[], Path | None] = lambda: None) -> ProviderFamily:
    """The family over the built-in scripts and those of ``folder()``, which is asked each time."""
    scripts = Scripts(folder)

    def capabilities(model: str, row: Row | None) -> Capabilities:
        return replace(_CAPABILITIES, notes=_description(scripts, model))

    return ProviderFamily(
        id="scripted",
        title="Scripted",
        wire=ScriptedWire(scripts),
        auth=NoAuth(),
        connection=ConnectionSpec(default_base="", key_required=False),
        capabilities=capabilities,
        models=scripts,
        embeddings=Embeddings(
            wire=EMBEDDING_WIRE,
            source="this program: words are counted, no model runs",
            models=(BAG_OF_WORDS,),
            price=0.0,
        ),
    )


def _description(scripts: Scripts, name: str) -> str:
    try:
        return scripts.load(name).description or "A script; no model runs."
    except ScriptInvalid as error:
        return error.message
    except KeyError:
        return ""

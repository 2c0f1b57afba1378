"""``xai``: xAI's Grok models. Facts only.

From Grok 4.20 on the models are called over the Responses protocol, which xAI recommends: it streams a summary
of the thinking from 4.3 on and takes the encrypted reasoning back. Older ones are called over chat
completions, where Grok 3 mini and Grok Code stream their thinking whole and Grok 4 keeps it to itself.
``STUDIO_XAI_WIRE`` chooses one protocol for all. Sources: docs.x.ai, reasoning and comparison of the two APIs;
the efforts of 4.5 and 4.6, and that they stream summaries, as measured by theopenco/llmgateway#3669.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from plugins.claims import claims
from plugins.openai_models import OTHERWISE
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import BEARER

SOURCE = "docs.x.ai: reasoning, comparison with chat completions"

KNOWN = (
    "grok-4.7",
    "grok-4.6",
    "grok-4.5",
    "grok-4.3",
    "grok-4.20-reasoning",
    "grok-4.20-non-reasoning",
    "grok-4.20-multi-agent",
    "grok-build-latest",
)
_VERSION = re.compile(r"grok-(\d+)(?:[.-](\d{1,2}))?(?![0-9])")
#: Efforts by version, as a decimal: 4.20 came before 4.3. The newest version not above the model's counts.
_LEVELS: tuple[tuple[float, tuple[str, ...]], ...] = (
    (4.3, ("none", "low", "medium", "high")),
    (4.5, ("low", "medium", "high")),
    (4.6, ("low", "medium", "high", "xhigh")),
)


@dataclass(frozen=True, slots=True)
class _Model:
    """What a name says. ``thinking`` is a claim; ``responses``: called over the Responses protocol."""

    thinking: t.Literal["none", "hidden", "summary", "full"]
    levels: tuple[str, ...] = ()
    responses: bool = False
    note: str = ""


def _model(name: str) -> _Model:
    match = _VERSION.match(name)
    version = float(f"{match[1]}.{match[2] or 0}") if match else None
    if version is not None and version < 4.2:
        return _older(name, version)
    if version is None and name.startswith("grok-code"):
        return _Model("full", note="Always thinks, and streams it whole.")
    if "non-reasoning" in name:
        return _Model("none", responses=True, note="Does not think.")
    if "multi-agent" in name:
        note = "Several agents think, none of it is shown; a level says how many. No tools of one's own."
        return _Model("hidden", ("low", "medium", "high", "xhigh"), responses=True, note=note)
    if version == 4.2:
        note = "Always thinks; whether a summary is streamed is not known, so none is shown."
        return _Model("hidden", responses=True, note=note)
    levels = _LEVELS[1][1]
    for since, found in _LEVELS:
        if version is not None and version >= since:
            levels = found
    note = "Thinks by default; what is shown is a summary."
    return _Model("summary", levels, responses=True, note=note)


def _older(name: str, version: float) -> _Model:
    """Up to Grok 4.1, over chat completions."""
    if name.startswith("grok-3-mini"):
        return _Model("full", ("low", "high"), note="Always thinks, and streams it whole.")
    if version < 4 or "non-reasoning" in name:
        return _Model("none", note="Does not think.")
    return _Model("hidden", note="Always thinks, and keeps it to itself.")


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do."""
    found = _model(model)
    stated: dict[str, t.Any] = {
        "thinking": found.thinking,
        "thinking_control": (*found.levels, "auto") if found.levels else (),
        "thinking_signed": found.responses and found.thinking != "none",
        "notes": found.note,
    }
    if "multi-agent" in model:
        stated["tools"] = "none"
    return claims(row, source=SOURCE, stated=stated, otherwise=OTHERWISE)


def dialect(model: str) -> Mapping[str, t.Any]:
    """The wires' switches for ``model``; nothing needs asking for the thinking to be streamed."""
    found = _model(model)
    thinks = found.thinking != "none"
    return {
        "thinking": "effort" if found.levels else "never",
        "thinks_by_default": True,
        "encrypted": thinks,
        "system": "message",
    }


def wire(model: str) -> str | None:
    """The Responses protocol from Grok 4.20 on; before, the family's."""
    return "openai_responses" if _model(model).responses else None


FAMILY = ProviderFamily(
    id="xai",
    title="xAI",
    wire="openai_chat",
    other_wires=("openai_responses",),
    model_wire=wire,
    auth=BEARER,
    connection=ConnectionSpec(
        idle_s=300.0,  # hidden thinking is silence
        default_base="https://api.x.ai",
        base_vars=("XAI_API_BASE",),
        key_vars=("XAI_API_KEY",),
    ),
    capabilities=capabilities,
    registry_prefix="xai",
    known=KNOWN,
    model_dialect=dialect,
)

"""What is answered about the server itself.

Law of this room: see :mod:`app.schemas.shapes`.
"""

from __future__ import annotations

import typing as t
from typing import Annotated, NotRequired, TypedDict

from app.schemas.shapes.common import Count


class Health(TypedDict):
    """How the process is."""

    status: t.Literal["ok", "draining"]
    version: str
    draining: Annotated[bool, {"doc": "It ends, and takes no new runs."}]


class Price(TypedDict):
    """Per so many tokens."""

    input: float
    output: float
    currency: str
    per: Count


class CachePrice(TypedDict):
    """Per so many tokens."""

    read: float
    write: float
    currency: str
    per: Count


class ModelRow(TypedDict):
    """What one model can do; a member that nobody states is left out."""

    id: str
    family: str
    title: str
    model: str
    thinking: t.Literal["none", "hidden", "summary", "full", "as_sent"]
    thinkingControl: list[str]
    thinkingSigned: bool
    tools: t.Literal["none", "serial", "parallel"]
    forcedToolChoice: bool
    forcedToolWithThinking: bool
    structuredOutput: t.Literal["none", "tool", "native"]
    inputs: list[str]
    contextWindow: NotRequired[Count]
    maxOutput: NotRequired[Count]
    price: NotRequired[Price]
    cachePrice: NotRequired[CachePrice]
    usageInStream: bool
    notes: str
    source: str
    sources: Annotated[dict[str, str], {"doc": "Claims that come from elsewhere, by member."}]


class FamilyRow(TypedDict):
    """What holds of a family's models taken together."""

    id: str
    title: str
    wires: list[str]
    models: Annotated[int, {"doc": "How many are listed.", "low": 0}]
    origin: t.Literal["closed", "known", "registry", "server", "any"]
    thinking: list[str]
    thinkingControl: list[str]
    tools: list[str]
    structuredOutput: list[str]
    inputs: list[str]
    usageInStream: bool
    notes: str


class Capabilities(TypedDict):
    """What each model can do."""

    items: list[ModelRow]
    families: list[FamilyRow]


class CapabilityQuery(TypedDict):
    """Which rows."""

    family: NotRequired[Annotated[str, {"doc": "Rows of this family."}]]
    model: NotRequired[
        Annotated[
            str, {"doc": "The row of this model: its name with `family`, else a whole `<family>/<model>`."}
        ]
    ]


class Plugin(TypedDict):
    """An installed plugin."""

    name: str
    version: NotRequired[str]
    contributes: Annotated[dict[str, list[str]], {"doc": "What it brings, by hook."}]
    error: NotRequired[Annotated[str, {"doc": "What is wrong with it."}]]
    loadMs: Count


class PluginList(TypedDict):
    """Installed plugins."""

    items: list[Plugin]


class StreamCheckQuery(TypedDict):
    """What is sent."""

    small: NotRequired[Annotated[int, {"doc": "Small frames.", "low": 0, "high": 50, "default": 16}]]
    padded: NotRequired[Annotated[int, {"doc": "Larger frames.", "low": 0, "high": 30, "default": 9}]]
    spacing_ms: NotRequired[
        Annotated[int, {"doc": "From one frame to the next.", "low": 10, "high": 1000, "default": 200}]
    ]
    silence_s: NotRequired[
        Annotated[int, {"doc": "Of nothing but keepalives, at the end.", "low": 0, "high": 600, "default": 0}]
    ]


class CapabilityPageQuery(TypedDict):
    """What the table on the page shows; the page's own links make it."""

    q: NotRequired[Annotated[str, {"doc": "Model, vendor or note."}]]
    family: NotRequired[str]
    thinking: NotRequired[str]
    tools: NotRequired[str]
    structured: NotRequired[str]
    input: NotRequired[str]
    sort: NotRequired[str]
    page: NotRequired[str]


class StaticQuery(TypedDict):
    """Which state of the file."""

    v: NotRequired[Annotated[str, {"doc": "Its version, as pages name it; it may then be kept for ever."}]]

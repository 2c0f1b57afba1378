"""The shapes of a document's own parts, before anything is checked that depends on another part.

Law of this room: fields, types and bounds only. Their schemas are derived (``app.schemas.derive``); what they have to
do with one another is for ``validation``.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DocumentShape:
    """Top level of a document."""

    blocks: tuple[t.Any, ...]
    name: str = field(default="Untitled", metadata={"nonempty": True, "most": 255})
    edges: tuple[t.Any, ...] = ()
    variables: Mapping[str, t.Any] = field(default_factory=dict)
    settings: t.Any = None


@dataclass(frozen=True, slots=True)
class BlockShape:
    """One entry of ``blocks``."""

    id: str
    type: str
    name: str | None = field(default=None, metadata={"nonempty": True, "most": 255})
    config: Mapping[str, t.Any] = field(default_factory=dict)
    position: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class EdgeShape:
    """One entry of ``edges``."""

    source: str
    target: str
    source_handle: str = ""


@dataclass(frozen=True, slots=True)
class CommonConfig:
    """Keys that every block's config takes."""

    timeout_s: float | None = field(
        default=None,
        metadata={"doc": "Longest one execution may take, in seconds.", "above": 0, "high": 604800},
    )
    retries: int = field(
        default=0, metadata={"doc": "Further attempts after a failure.", "low": 0, "high": 10}
    )
    on_error: t.Literal["fail", "continue"] = field(
        default="fail", metadata={"doc": "fail ends the run; continue goes on without this block's output."}
    )


#: Names of the keys that every block's config takes.
COMMON_KEYS = tuple(entry.name for entry in dataclasses.fields(CommonConfig))

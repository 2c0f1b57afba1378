"""``memory`` of an agent: what it is told of the conversation it takes part in.

Law of this room: the shape is written once, as a dataclass; whoever remembers works on a :class:`MemoryConfig` and
never on the document.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.errors import Problem
from app.schemas import derive
from app.schemas.paths import did_you_mean, join, shown

MemoryType = t.Literal["none", "conversation", "sliding_window", "sliding_window_tokens"]
TYPES: tuple[str, ...] = t.get_args(MemoryType)
#: What may be written without an object around it.
_ALONE = ("none", "conversation")
_WINDOWS = ("sliding_window", "sliding_window_tokens")
#: Longest ``key``, also once its template is filled.
MAX_KEY = 200


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """What an agent remembers.

    :ivar limit: of ``sliding_window`` messages, of ``sliding_window_tokens`` tokens.
    :ivar key: a template; agents with the same key share a memory. None: the agent's own.
    """

    type: MemoryType = "none"
    limit: int | None = field(default=None, metadata={"low": 1, "high": 100_000_000})
    key: str | None = field(default=None, metadata={"nonempty": True, "most": 10_000})


def memory_of(raw: Mapping[str, t.Any] | str | None) -> MemoryConfig | None:
    """``memory`` of a compiled workflow as a value; None when nothing is remembered. It was checked already."""
    if raw is None or isinstance(raw, str):
        return MemoryConfig("conversation") if raw == "conversation" else None
    config, _ = derive.load(MemoryConfig, raw)
    return None if config is None or config.type == "none" else config


def memory_problems(raw: t.Any, path: str) -> list[Problem]:
    """Everything that is wrong with a ``memory``."""
    if raw is None or raw in _ALONE:
        return []
    if isinstance(raw, str):
        return [Problem(path, _wrong_word(raw))]
    if not isinstance(raw, Mapping):
        return [Problem(path, f"must be an object with type, none or conversation, not {shown(raw)}")]
    config, problems = derive.load(MemoryConfig, raw, path)
    if config is None:
        return problems
    return _limit_problems(config, join(path, "limit")) + _key_problems(config, join(path, "key"))


def _wrong_word(raw: str) -> str:
    if raw in _WINDOWS:
        return f"{shown(raw)} needs a limit; write {{type: {raw}, limit: 20}}"
    return f"must be one of {' | '.join(TYPES)}, not {shown(raw)}. {did_you_mean(raw, TYPES)}".rstrip()


def _limit_problems(config: MemoryConfig, path: str) -> list[Problem]:
    if config.type in _WINDOWS:
        unit = "messages" if config.type == "sliding_window" else "tokens"
        if config.limit is None:
            return [Problem(path, f"is required by {config.type}: how many {unit} it is told at most")]
        if unit == "messages" and config.limit < 2:
            return [Problem(path, "must be at least 2: a message and its answer are never parted")]
    elif config.limit is not None:
        return [
            Problem(path, f"belongs to {' and '.join(_WINDOWS)}; leave it out, or use one of these types")
        ]
    return []


def _key_problems(config: MemoryConfig, path: str) -> list[Problem]:
    if config.key is None:
        return []
    if config.type == "none":
        return [Problem(path, "names a memory that is not used; give a type, or leave it out")]
    if not config.key.strip():
        return [Problem(path, "must have a character that is no space")]
    if len(config.key) > MAX_KEY and "{" not in config.key:
        return [Problem(path, f"must have at most {MAX_KEY} characters; it has {len(config.key)}")]
    return []

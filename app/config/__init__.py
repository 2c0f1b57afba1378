"""Configuration: one frozen value made from environment variables.

Law of this room: every setting is one field of :class:`app.config.settings.Settings`. Nothing else in the
program reads ``STUDIO_*`` or ``PORT`` (provider addresses and keys excepted, which are resolved per
request), and everything that is wrong is reported at once.
"""

from __future__ import annotations

import difflib
import os
import re
import typing as t
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields

from app.config.settings import GROUPS, Settings

__all__ = [
    "RESERVED",
    "ConfigError",
    "SettingDoc",
    "SettingProblem",
    "Settings",
    "describe",
    "load",
    "started",
    "unknown_names",
]

#: Read by clients (the CLI over HTTP), never by the server.
RESERVED = frozenset({"STUDIO_API_KEY", "STUDIO_URL"})
#: Of the test suite.
_OPEN = re.compile(r"STUDIO_TEST_[A-Z0-9_]+")


class SettingProblem(t.NamedTuple):
    """One variable that cannot be used: its name, its value as given, and the cure."""

    variable: str
    value: str
    cure: str


class ConfigError(Exception):
    """Every unusable variable at once.

    :ivar problems: in order of declaration.
    """

    def __init__(self, problems: Iterable[SettingProblem]) -> None:
        self.problems = tuple(problems)
        lines = [f"  {p.variable}={p.value!r}: {p.cure}" for p in self.problems]
        super().__init__("The configuration cannot be used:\n" + "\n".join(lines))


class SettingDoc(t.NamedTuple):
    """One row of the configuration page: ``kind`` says which values are accepted, ``default`` is text, ``group`` the
    title it stands under.
    """

    variable: str
    field: str
    kind: str
    default: str
    doc: str
    group: str


#: What the server was started with: gunicorn.conf.py leaves it here for the workers, so that one which begins later
#: reads no file that has changed since, and none that is broken now.
started: Settings | None = None


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of ``environ`` (default: the process's). An empty variable counts as unset.

    :raises ConfigError: naming every variable that cannot be used, its value and the cure.
    """
    env = os.environ if environ is None else environ
    values: dict[str, t.Any] = {}
    problems: list[SettingProblem] = []
    for item in fields(Settings):
        text = env.get(item.metadata["variable"], "").strip()
        if not text:
            continue
        try:
            values[item.name] = item.metadata["kind"].parse(text)
        except ValueError as error:
            shown = "(hidden)" if item.metadata["secret"] else text
            problems.append(SettingProblem(item.metadata["variable"], shown, str(error)))
    if problems:
        raise ConfigError(problems)
    settings = Settings(**values)
    if problems := list(_together(settings)):
        raise ConfigError(problems)
    return settings


def _together(settings: Settings) -> Iterator[SettingProblem]:
    """What is wrong with values that are right by themselves."""
    storage = settings.rate_limit_storage
    if storage == "memory" and settings.workers > 1:
        cure = (
            f"STUDIO_WORKERS is {settings.workers}, and each worker would count by itself, so that limits held that "
            f"much less; give auto, database or redis"
        )
        yield SettingProblem("STUDIO_RATE_LIMIT_STORAGE", storage, cure)
    if storage == "redis" and settings.redis_url is None:
        yield SettingProblem("STUDIO_RATE_LIMIT_STORAGE", storage, "set STUDIO_REDIS_URL too, or give auto")


def unknown_names(environ: Mapping[str, str], also: Iterable[str] = ()) -> list[tuple[str, str | None]]:
    """``STUDIO_*`` names of ``environ`` that mean nothing, each with the nearest one that does (or None).

    :param also: names that mean something to somebody else (the settings of provider families, contract section 12).
    """
    known = {item.metadata["variable"] for item in fields(Settings)} | RESERVED | set(also)
    found = []
    for name in sorted(environ):
        if name.startswith("STUDIO_") and name not in known and not _OPEN.fullmatch(name):
            near = difflib.get_close_matches(name, sorted(known), 1, 0.7)
            found.append((name, near[0] if near else None))
    return found


def describe() -> list[SettingDoc]:
    """Every setting, group by group and in order of declaration, for the generated configuration page."""
    return [
        SettingDoc(
            item.metadata["variable"],
            item.name,
            item.metadata["kind"].title,
            _default_text(item),
            item.metadata["doc"],
            str(group.__doc__).rstrip("."),
        )
        for group in GROUPS
        for item in fields(group)
    ]


def _default_text(item: t.Any) -> str:
    if item.metadata["shown"] is not None:
        return str(item.metadata["shown"])
    if item.default is MISSING:  # every field has one; keeps the page honest if that changes
        return "required"
    return f"{item.default:g}" if isinstance(item.default, float) else str(item.default)

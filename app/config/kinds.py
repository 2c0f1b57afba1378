"""Kinds of values of settings: how the text of an environment variable becomes a value.

Law of this room: pure but for the one file that ``STUDIO_MCP_SERVERS`` names. A kind says in its title what it
takes, for the configuration page, and raises ValueError with the cure for anything else.
"""

from __future__ import annotations

import base64
import difflib
import ipaddress
import math
import re
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

if t.TYPE_CHECKING:
    from plugins.spec.mcp import McpServer

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_SWITCHES = {
    **dict.fromkeys(("true", "on", "yes", "1"), True),
    **dict.fromkeys(("false", "off", "no", "0"), False),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """How text becomes a value: ``parse`` raises ValueError with the cure."""

    title: str
    parse: Callable[[str], t.Any]


def whole(low: int, high: int | None = None) -> Kind:
    """A whole number within bounds, both included."""
    span = f"a whole number from {low}" + ("" if high is None else f" to {high}")

    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            raise ValueError(f"give {span}")
        value = int(text)
        if value < low or (high is not None and value > high):
            raise ValueError(f"give {span}")
        return value

    return Kind(span, parse)


def seconds(low: float, high: float = 604800.0) -> Kind:
    """A span of time; a week at most unless said otherwise."""
    span = f"seconds from {low:g} to {high:g}"

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"give {span}") from None
        if not math.isfinite(value) or not low <= value <= high:
            raise ValueError(f"give {span}")
        return value

    return Kind(span, parse)


def choice(*names: str) -> Kind:
    """One of a few words, in any case."""
    span = "one of " + ", ".join(names)

    def parse(text: str) -> str:
        if text.lower() not in names:
            near = difflib.get_close_matches(text.lower(), names, 1)
            raise ValueError(f"give {span}" + (f"; did you mean {near[0]}?" if near else ""))
        return text.lower()

    return Kind(span, parse)


def _switch(text: str) -> bool:
    value = _SWITCHES.get(text.lower())
    if value is None:
        raise ValueError("give true or false")
    return value


def url(*schemes: str) -> Kind:
    """An address that begins with one of the schemes."""
    span = "an address that starts with " + " or ".join(f"{s}:" for s in schemes)

    def parse(text: str) -> str:
        if text.split(":", 1)[0] not in schemes or ":" not in text:
            raise ValueError(f"give {span}")
        return text

    return Kind(span, parse)


def _database(text: str) -> str:
    head, _, rest = text.partition("://")
    if head == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return text
    if head in ("postgres", "postgresql", "postgresql+psycopg") and rest:
        return "postgresql+psycopg://" + rest
    raise ValueError(
        "give sqlite:///PATH (three slashes, four for an absolute path) or postgresql://USER:PASSWORD@HOST/NAME"
    )


def _networks(text: str) -> tuple[Network, ...]:
    found: list[Network] = []
    for part in filter(None, re.split(r"[,\s]+", text)):
        try:
            found.append(ipaddress.ip_network(part))
        except ValueError as error:
            raise ValueError(f"{error}; give networks such as 10.0.0.0/8, separated by commas") from None
    return tuple(found)


def _fernet_keys(text: str) -> tuple[str, ...]:
    keys = tuple(filter(None, re.split(r"[,\s]+", text)))
    for key in keys:
        try:
            good = len(base64.b64decode(key, b"-_", validate=True)) == 32
        except ValueError:
            good = False
        if not good:
            raise ValueError(
                "give Fernet keys (32 bytes in URL-safe base64), separated by commas, the newest first; make one: "
                "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"
            )
    return keys


def _mailbox(text: str) -> str:
    from email.utils import parseaddr  # not before one is named

    local, _, domain = parseaddr(text)[1].rpartition("@")
    if not local or not domain or not text.isprintable():
        raise ValueError("give an address such as studio@example.org or Studio <studio@example.org>")
    return text


def _mcp_servers(text: str) -> Mapping[str, McpServer]:
    from app import mcp_file  # not before one is named

    return mcp_file.read(text)


def _rates(text: str) -> tuple[tuple[int, str], ...]:
    """Shortest window first; ``off``: none."""
    if text.lower() == "off":
        return ()
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"([1-9][0-9]{0,6})\s*/\s*(minute|hour|day)", part.lower())
        if match is None:
            raise ValueError(
                f"{part!r} is no N/minute, N/hour or N/day; separate several by commas, or give off"
            )
        if match[2] in found:
            raise ValueError(f"there are two limits for a {match[2]}; leave one out")
        found[match[2]] = int(match[1])
    return tuple((found[unit], unit) for unit in ("minute", "hour", "day") if unit in found)


def _apps(text: str) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, target = (side.strip() for side in part.partition("="))
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) or not re.fullmatch(r"[\w.]+:[\w.]+", target):
            raise ValueError(
                f"{part!r} is no name=module:attribute, such as support=my_package.graphs:support"
            )
        if name in found:
            raise ValueError(f'two graphs are called "{name}"; rename one')
        found[name] = target
    return tuple(found.items())


PATH = Kind("a path", Path)
APPS = Kind("name=module:attribute, separated by commas", _apps)
MCP = Kind("a path of a JSON or YAML file", _mcp_servers)
TEXT = Kind("text", str)
MAILBOX = Kind("an e-mail address, with or without a name", _mailbox)
SWITCH = Kind("true or false", _switch)
NETWORKS = Kind("networks such as 10.0.0.0/8, separated by commas", _networks)
RATES = Kind("such as 60/minute, 2000/day (also /hour), or off", _rates)
FERNET_KEYS = Kind("Fernet keys, separated by commas", _fernet_keys)
DATABASE = Kind("sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME", _database)

"""What ``studio check-stream`` can find, for the page about deployments. Law of this room: the command's own words."""

from __future__ import annotations

import re

from app.cli import stream_advice as advice
from docs._tools.markdown import table

_PRODUCTS = {
    "nginx": "nginx",
    "apache": "Apache",
    "haproxy": "HAProxy",
    "traefik": "Traefik",
    "caddy": "Caddy",
    "cdn": "CDNs and gateways",
    "any": "anything else",
}


def findings() -> str:
    """Each finding with what it means."""
    return table(
        ("finding", "fault", "what was seen"),
        [
            (f"`{code}`", "yes" if code in advice.FAULTS else "", re.sub(r"\{\w+\}", "…", text))
            for code, text in advice.SAYS.items()
        ],
    )


def cures() -> str:
    """What to set in each product, by what is wrong."""
    columns = [advice.CURES[code] for code in ("by_size", "compressed", "cut_when_silent")]
    return table(
        ("where", "holds back", "compresses", "cuts"),
        [
            (words, *(_cell(column.get(name, ())) for column in columns))
            for name, words in _PRODUCTS.items()
            if any(name in column for column in columns)
        ],
    )


def _cell(lines: tuple[str, ...]) -> str:
    """Without the name of the product, which is the row's."""
    return " ".join(line.partition(": ")[2].replace("{wanted}", "60") for line in lines)

"""Masking of secrets in text that operators read: log lines, stored error details.

Law of this room: a secret that is known is masked wherever it stands, one that only looks like a
secret is masked by its shape. Masking too much is fine, too little is not; every pattern takes
linear time, since vendors' error pages are long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from app.redaction.values import MASK, SHORTEST, value_mask

_SECRET_NAME = (
    r"(?:api[_-]?key|apikey|key|token|secret|password|passwd|pwd|signature|sig|credential|code|auth)"
)
_HEADERS_VARIABLE = re.compile(r"OTEL_EXPORTER_OTLP_(?:[A-Z]+_)?HEADERS")
_SECRET_VARIABLE = re.compile(r"(?:KEY|TOKEN|SECRET|PASS|PASSWD|PASSWORD|CREDENTIALS?)$")

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # scheme://user:password@host
    (re.compile(r"(\b[a-zA-Z][a-zA-Z0-9+.-]{0,30}://)[^\s/?#@\"'<>]{1,512}@"), rf"\1{MASK}@"),
    # Authorization: Bearer …, x-api-key: …
    (re.compile(r"(?i)\b(bearer|basic)(\s+)[a-z0-9._~+/=-]{6,}"), rf"\1\2{MASK}"),
    (
        re.compile(
            r"(?i)((?:\b(?:proxy-)?authorization|\bx-[a-z-]{0,30}(?:key|token|secret)|\bapi[_-]?key|\b(?:set-)?cookie)"
            r"[\"']?\s{0,4}[:=]\s{0,4}[\"']?)(?!(?:bearer|basic)\s)[^\s\"',;&]{4,}"
        ),
        rf"\1{MASK}",
    ),
    # ?key=…&access_token=…
    (re.compile(rf"(?i)([?&;](?:[a-z0-9]{{1,24}}[_-]){{0,4}}{_SECRET_NAME}=)[^\s&#\"'<>]+"), rf"\1{MASK}"),
    # "client_secret": "…"
    (
        re.compile(
            rf"(?i)([\"'](?:[a-z0-9]{{1,24}}[_-]){{0,4}}{_SECRET_NAME}[\"']\s{{0,4}}:\s{{0,4}}[\"'])[^\"'\s]{{6,}}"
        ),
        rf"\1{MASK}",
    ),
    # The shapes of vendors' keys and of JSON web tokens.
    (re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_*-]{6,}"), MASK),
    (
        re.compile(
            r"\b(?:gsk|ghp|gho|ghs|hf|xai|r8|pplx|nvapi|github_pat|glpat|xox[abprs])[_-][A-Za-z0-9_-]{10,}"
        ),
        MASK,
    ),
    (re.compile(r"\bAIza[A-Za-z0-9_-]{20,}"), MASK),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}"), MASK),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"), MASK),
)


def known_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The secret values of ``environ``: variables named like keys, tokens, secrets or passwords, the passwords inside
    addresses such as ``STUDIO_DATABASE_URL``, and the headers that spans are sent with.
    """
    found: set[str] = set()
    for name, value in environ.items():
        if _SECRET_VARIABLE.search(name):
            found.add(value)
        elif _HEADERS_VARIABLE.fullmatch(name):
            found.update(_headers(value))
        elif "://" in value and "@" in value:
            found.update(_password(value))
    return tuple(sorted((v for v in found if len(v) >= SHORTEST), key=len, reverse=True))


def mask(text: str, known: Iterable[str] = ()) -> str:
    """``text`` with secrets replaced by ``***``.

    :param known: values that are secret whatever they look like (see :func:`known_secrets`); those
        shorter than six characters are ignored. Their quoted and encoded forms are masked too.
    """
    text = value_mask(known).text(text)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def _headers(text: str) -> set[str]:
    """Values of ``name=value,…``, percent-encoded or not, without a scheme such as ``Basic`` before them."""
    values = {unquote(pair.partition("=")[2]).strip() for pair in text.split(",")}
    return values | {value.rpartition(" ")[2] for value in values}


def _password(address: str) -> set[str]:
    try:
        password = urlsplit(address).password
    except ValueError:  # not an address after all
        return set()
    return {password, unquote(password)} if password else set()

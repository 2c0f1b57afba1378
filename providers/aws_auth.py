"""Signature version 4, and the credentials it is made with.

Law of this room: a request is signed as it is sent, with the address, the body and the time of that moment; no secret
goes into a message, a log or the request itself. Source: "Create a signed AWS API request" of the IAM user guide; why
it is not botocore's, see docs/decisions/0009.
"""

from __future__ import annotations

import calendar
import hashlib
import hmac
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import orjson

from providers import errors
from providers.command_output import command_output
from providers.oauth import Token, TokenAuth, TokenSource
from providers.spec import HttpRequest, ProviderError, Waits

#: Headers that are signed beside the ``x-amz-`` ones; any other may be changed on the way.
_SIGNED = frozenset({"host", "content-type"})
_ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-_.~"

Credentials = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Keys:
    """An access key, and the token that belongs to a temporary one."""

    access: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class SigV4Auth:
    """Signs with ``access_key_id``, ``secret_access_key``, perhaps ``session_token``, for ``region``.

    :param service: the signing name, e.g. ``bedrock``.
    :param clock: the time of day in UTC; a signature counts for minutes only.
    """

    service: str
    clock: Callable[[], time.struct_time] = time.gmtime

    def apply(self, request: HttpRequest, credentials: Credentials) -> None:
        """Add the signature's headers; keys are trimmed: they are pasted with line ends."""
        access, secret, token = (
            credentials.get(name, "").strip()
            for name in ("access_key_id", "secret_access_key", "session_token")
        )
        sign(request, Keys(access, secret, token), credentials.get("region", ""), self.service, self.clock())


class ChainAuth:
    """Signs with what AWS's own credential chain finds: profiles, single sign-on, container and instance roles.

    The chain is botocore's, asked in a process of its own (``providers.aws_chain``) and kept until it expires.

    :param service: see :class:`SigV4Auth`.
    :param chain: who is asked.
    """

    def __init__(
        self,
        service: str,
        clock: Callable[[], time.struct_time] = time.gmtime,
        chain: TokenSource | None = None,
    ) -> None:
        self._kept = TokenAuth(chain or Chain(clock))
        self._signer = SigV4Auth(service, clock)

    def prepare(self, credentials: Credentials, connect_s: float, waits: Waits) -> None:
        """See ``providers.spec.FetchingAuth``."""
        self._kept.prepare(credentials, connect_s, waits)

    def apply(self, request: HttpRequest, credentials: Credentials) -> None:
        """Sign with the keys that :meth:`prepare` fetched."""
        self._signer.apply(request, {**credentials, **self._kept.token(credentials).parts})


#: Seconds the chain may take: it asks files, then addresses that answer at once or never.
CHAIN_S = 30.0
#: Keys that do not say when they end are asked for again after this, in seconds: a profile may be edited.
UNSTATED_S = 900.0
_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Chain:
    """Asks the chain (see ``oauth.TokenSource``). ``profile`` names a profile of AWS's configuration files."""

    clock: Callable[[], time.struct_time] = time.gmtime
    command: tuple[str, ...] = (sys.executable, "-m", "providers.aws_chain")

    def key(self, credentials: Credentials) -> tuple[str, ...]:
        """See ``oauth.TokenSource``."""
        return (credentials.get("profile", ""),)

    def fetch(self, credentials: Credentials, connect_s: float, waits: Waits) -> Token:
        """See ``oauth.TokenSource``."""
        profile = credentials.get("profile")
        environment = {**os.environ, **({"AWS_PROFILE": profile} if profile else {})}
        try:
            output, _ = command_output(self.command, waits, CHAIN_S, environment, _ROOT)
        except OSError as error:  # a timeout, too
            raise _no_keys(type(error).__name__) from None
        found = self._read(output)
        if found is None:
            raise _no_keys("the chain found none")
        return found

    def _read(self, output: bytes) -> Token | None:
        """Keys in the form of ``credential_process``, as parts of a token without a value."""
        try:
            said = orjson.loads(output)
            keys = {"access_key_id": said["AccessKeyId"], "secret_access_key": said["SecretAccessKey"]}
            token = said.get("SessionToken")
            ends = said.get("Expiration")
            lasts = UNSTATED_S if ends is None else _instant(ends) - calendar.timegm(self.clock())
        except (ValueError, KeyError, TypeError):
            return None
        return Token("", max(0.0, lasts), parts={**keys, "session_token": token or ""})


def _instant(text: str) -> float:
    """A UTC time like ``2026-11-30T12:00:00Z`` as seconds of the epoch."""
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))


def _no_keys(detail: str) -> ProviderError:
    return errors.failure(
        "provider_auth",
        message="AWS's credential chain gave no keys. "
        "Run aws sts get-caller-identity as the server's user to see why, or set AWS_ACCESS_KEY_ID.",
        detail=detail,
    )


# -- the signature -----------------------------------------------------------------------------


def sign(request: HttpRequest, keys: Keys, region: str, service: str, now: time.struct_time) -> None:
    """Add ``Host``, ``X-Amz-Date``, ``X-Amz-Security-Token`` (for temporary keys) and ``Authorization``.

    :param now: in UTC.
    """
    url = urlsplit(request.url)
    request.headers["Host"] = _host(url.scheme, url.hostname or "", url.port)
    request.headers["X-Amz-Date"] = instant = time.strftime("%Y%m%dT%H%M%SZ", now)
    if keys.token:
        request.headers["X-Amz-Security-Token"] = keys.token
    signed = sorted(
        (name.lower(), " ".join(value.split()))
        for name, value in request.headers.items()
        if name.lower() in _SIGNED or name.lower().startswith("x-amz-")
    )
    names = ";".join(name for name, _ in signed)
    canonical = "\n".join(
        (
            request.method,
            quote(url.path or "/", safe="/" + _UNRESERVED),  # encoded again, as every service but S3 wants
            _query(url.query),
            *(f"{name}:{value}" for name, value in signed),
            "",
            names,
            hashlib.sha256(request.body).hexdigest(),
        )
    )
    scope = f"{instant[:8]}/{region}/{service}/aws4_request"
    text = "\n".join((_ALGORITHM, instant, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{keys.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    request.headers["Authorization"] = (
        f"{_ALGORITHM} Credential={keys.access}/{scope}, SignedHeaders={names}, Signature={signature}"
    )


def _host(scheme: str, host: str, port: int | None) -> str:
    """The host as it is sent; it is signed, so it is said here once and for all."""
    name = f"[{host}]" if ":" in host else host
    usual = port is None or port == (443 if scheme == "https" else 80)
    return name if usual else f"{name}:{port}"


def _query(query: str) -> str:
    pairs = sorted(
        (quote(name, safe=_UNRESERVED), quote(value, safe=_UNRESERVED))
        for name, value in parse_qsl(query, keep_blank_values=True)
    )
    return "&".join(f"{name}={value}" for name, value in pairs)

"""Authentication schemes that ask somebody for a token first.

Law of this room: a token is kept per credential until shortly before it expires and fetched once however many calls
need it; nobody logs a credential or a token, and none is put into a message. What a scheme asks and whom is a
``TokenSource``; keeping and waiting is :class:`TokenAuth`, once.
"""

from __future__ import annotations

import base64
import hashlib
import time
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

import orjson
from gevent.event import Event

from providers import errors
from providers.http_fetch import fetch_json
from providers.spec import Auth, FetchingAuth, HttpRequest, ProviderError, Waits

#: A token is renewed when less than this is left of it, in seconds; of a short one, when a fifth is left.
MARGIN_S = 300.0
#: Seconds that a token counts for when nobody says how long it lasts.
UNSTATED_S = 300.0
#: Tokens kept; more credentials than this in one worker are not expected.
MAX_TOKENS = 256

Credentials = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Token:
    """An access token, the seconds it lasts, and further headers that its kind needs.

    ``parts``: of what is no one text, e.g. a pair of keys that a request is signed with.
    """

    value: str = field(repr=False)
    lasts_s: float
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    parts: Mapping[str, str] = field(default_factory=dict, repr=False)


class TokenSource(t.Protocol):
    """Where tokens come from."""

    def key(self, credentials: Credentials) -> tuple[str, ...]:
        """What the token depends on; another key is another token."""

    def fetch(self, credentials: Credentials, connect_s: float, waits: Waits) -> Token:
        """Ask for one.

        :raises ProviderError: ``provider_auth`` when it is refused, ``provider_unavailable`` when nobody answers.
        """


class _Fetch:
    """One fetch that several calls wait for."""

    __slots__ = ("done", "error")

    def __init__(self) -> None:
        self.done = Event()
        self.error: ProviderError | None = None


class TokenAuth:
    """A bearer token from ``source`` (see ``providers.spec.FetchingAuth``).

    :param header: where it goes, after ``prefix``.
    """

    def __init__(self, source: TokenSource, header: str = "Authorization", prefix: str = "Bearer ") -> None:
        self._source = source
        self._header = header
        self._prefix = prefix
        self._tokens: dict[bytes, tuple[float, Token]] = {}
        self._fetches: dict[bytes, _Fetch] = {}

    def prepare(self, credentials: Credentials, connect_s: float, waits: Waits) -> None:
        """See ``providers.spec.FetchingAuth``. Whoever comes second waits for the first; who waits may be cancelled."""
        key = self._fingerprint(credentials)
        while True:
            kept = self._tokens.get(key)
            if kept is not None and kept[0] > time.monotonic():
                return
            running = self._fetches.get(key)
            if running is None:
                self._fetch(key, credentials, connect_s, waits)
                return
            with waits.wait():
                running.done.wait()
            if running.error is not None:
                raise _again(running.error)
            # The first one was cancelled: this one's turn.

    def apply(self, request: HttpRequest, credentials: Credentials) -> None:
        """Set the header from the token that :meth:`prepare` fetched."""
        token = self.token(credentials)
        request.headers[self._header] = f"{self._prefix}{token.value}"
        request.headers.update(token.headers)

    def token(self, credentials: Credentials) -> Token:
        """The token that :meth:`prepare` fetched, for schemes that use it otherwise than in a header.

        :raises ProviderError: ``provider_auth`` when none was.
        """
        kept = self._tokens.get(self._fingerprint(credentials))
        if kept is None:
            raise errors.failure("provider_auth", detail="no token was fetched")
        return kept[1]

    def _fetch(self, key: bytes, credentials: Credentials, connect_s: float, waits: Waits) -> None:
        fetch = self._fetches[key] = _Fetch()
        try:
            token = self._source.fetch(credentials, connect_s, waits)
        except ProviderError as error:
            fetch.error = error
            raise
        else:
            self._keep(key, token)
        finally:
            del self._fetches[key]
            fetch.done.set()

    def _keep(self, key: bytes, token: Token) -> None:
        now = time.monotonic()
        if len(self._tokens) >= MAX_TOKENS:
            self._tokens = {key: kept for key, kept in self._tokens.items() if kept[0] > now}
        if len(self._tokens) >= MAX_TOKENS:
            self._tokens.clear()
        self._tokens[key] = (now + token.lasts_s - min(MARGIN_S, token.lasts_s / 5), token)

    def _fingerprint(self, credentials: Credentials) -> bytes:
        return hashlib.sha256("\0".join(self._source.key(credentials)).encode("utf-8", "replace")).digest()


@dataclass(frozen=True, slots=True)
class GivenToken:
    """A ready access token of the connection, as a bearer token: for people who fetch their own."""

    name: str = "access_token"

    def apply(self, request: HttpRequest, credentials: Credentials) -> None:
        """Set the header from ``credentials[name]``."""
        request.headers["Authorization"] = f"Bearer {credentials.get(self.name, '').strip()}"


class ChosenAuth:
    """The first of several schemes whose credentials are there, for vendors that take one of several kinds.

    :param schemes: pairs of the credentials' names that a scheme needs, and the scheme.
    """

    def __init__(self, *schemes: tuple[tuple[str, ...], Auth]) -> None:
        self._schemes = schemes

    def prepare(self, credentials: Credentials, connect_s: float, waits: Waits) -> None:
        """See ``providers.spec.FetchingAuth``."""
        scheme = self._choose(credentials)
        if isinstance(scheme, FetchingAuth):
            scheme.prepare(credentials, connect_s, waits)

    def apply(self, request: HttpRequest, credentials: Credentials) -> None:
        """As the chosen scheme does; without any credentials the request stays as it is."""
        scheme = self._choose(credentials)
        if scheme is not None:
            scheme.apply(request, credentials)

    def _choose(self, credentials: Credentials) -> Auth | None:
        return next((auth for names, auth in self._schemes if all(map(credentials.get, names))), None)


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The client-credentials grant (RFC 6749 section 4.4): ``client_id`` and ``client_secret`` for a token.

    :ivar url: the token endpoint; credentials and options may be named in braces, e.g. ``{tenant_id}``.
    :ivar basic: the client in the Authorization header instead of the form.
    """

    url: str
    scope: str = ""
    basic: bool = False
    form: Mapping[str, str] = field(default_factory=dict)

    def key(self, credentials: Credentials) -> tuple[str, ...]:
        """See :class:`TokenSource`."""
        return (
            self._url(credentials),
            credentials.get("client_id", ""),
            credentials.get("client_secret", ""),
        )

    def fetch(self, credentials: Credentials, connect_s: float, waits: Waits) -> Token:
        """See :class:`TokenSource`."""
        client = {name: credentials.get(name, "") for name in ("client_id", "client_secret")}
        form = {"grant_type": "client_credentials", **self.form}
        headers: dict[str, str] = {}
        if self.scope:
            form["scope"] = self.scope
        if self.basic:
            pair = f"{client['client_id']}:{client['client_secret']}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        else:
            form.update(client)
        return ask_for_token(self._url(credentials), form, connect_s, waits, headers)

    def _url(self, credentials: Credentials) -> str:
        try:
            return self.url.format_map(credentials)
        except KeyError as error:
            raise errors.failure(
                "provider_auth", message=f"The provider's token endpoint needs the setting {error.args[0]}."
            ) from None


def _again(error: ProviderError) -> ProviderError:
    """The same failure for another call: one exception object belongs to one greenlet."""
    return ProviderError(
        error.code, error.message, detail=error.detail, status=error.status, retry_after=error.retry_after
    )


def ask_for_token(
    url: str,
    form: Mapping[str, str],
    connect_s: float,
    waits: Waits,
    headers: Mapping[str, str] | None = None,
) -> Token:
    """One request to a token endpoint (RFC 6749 section 5).

    :raises ProviderError: ``provider_auth`` when it is refused, else as the endpoint's status means.
    """
    sent = {"Content-Type": "application/x-www-form-urlencoded", **(headers or {})}
    return read_token(*fetch_json("POST", url, sent, urlencode(form).encode(), connect_s, waits))


def read_token(status: int, headers: Mapping[str, str], body: bytes) -> Token:
    """The token in an endpoint's answer.

    :raises ProviderError: see :func:`ask_for_token`.
    """
    if status != 200:
        raise _refused(status, headers, body)
    try:
        answer = orjson.loads(body)
        value = answer["access_token"]
        if not isinstance(value, str) or not value:
            raise ValueError("no token")
    except (ValueError, KeyError, TypeError):
        # The body is not repeated: it may hold a token where we did not look.
        raise errors.failure("provider_auth", detail="the token endpoint answered without a token") from None
    return Token(value, _lasts(answer.get("expires_in")))


def _lasts(stated: t.Any) -> float:
    try:
        return max(0.0, float(stated))
    except (TypeError, ValueError):
        return UNSTATED_S


def _refused(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    error = errors.http_error(status, headers, body)
    if status < 500 and status != 429:
        message = "The provider's token endpoint refused the credentials. Check them and the account they belong to."
        return ProviderError("provider_auth", message, detail=error.detail, status=status)
    return error

"""The OpenID provider that people sign in with: what it says of itself, and what it says of somebody (Authlib, OpenID
Connect Core 1.0, code flow with PKCE).

Law of this room: nothing is asked but the addresses that the configured issuer names for itself, over TLS where it is
reached by TLS, and no redirect is followed; every call ends within :data:`TIMEOUT_S`. A token is believed once its
signature, issuer, audience, time and nonce are right. No failure repeats what the provider said: words for people are
ours, and the log has the kind.
"""

from __future__ import annotations

import ipaddress
import threading
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from app import encoding
from app.clock import Clock
from app.config import Settings
from app.engine.scope import RunScope
from app.net.client import FetchResponse, fetch
from plugins.spec.tools import ToolFailed

TIMEOUT_S = 10.0
#: How long what the provider says of itself is believed, and how long one that could not be asked is left alone.
KNOWN_S, LEFT_ALONE_S = 3600.0, 5.0
#: Least time between two looks for a key that was not there.
KEYS_S = 30.0
#: Signatures that only the provider can make.
ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
_LEEWAY_S = 60
_MOST_BYTES = 256 * 1024
# Which networks a provider is in is the word of whoever configured it.
_ANYWHERE = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))


class ProviderDown(Exception):
    """The provider cannot be asked, or says nothing of use. Its text is for operators."""


class SignInFailed(Exception):
    """What it says proves nobody. Its text is for operators."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who signed in. :ivar email: lower case; None: the provider has not verified one."""

    issuer: str
    subject: str
    email: str | None


class Provider:
    """The provider of ``STUDIO_OIDC_ISSUER``, as this process knows it."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._issuer = settings.oidc_issuer
        self._metadata: dict[str, t.Any] = {}
        self._keys: t.Any = None
        self._asked = self._keys_asked = self._failed = -1e9
        self._lock = threading.Lock()  # cooperative; one asks, and the others wait for the answer

    def begin(self, redirect_uri: str, state: str, nonce: str, verifier: str) -> str:
        """Where to send the browser.

        :raises ProviderDown: it cannot be asked where that is.
        """
        address = self._known()["authorization_endpoint"]
        client = self._client(redirect_uri)
        url, _ = client.create_authorization_url(address, state=state, nonce=nonce, code_verifier=verifier)
        return str(url)

    def finish(self, code: str, redirect_uri: str, nonce: str, verifier: str) -> Person:
        """Who has signed in, by the code that the browser brought.

        :raises ProviderDown: it cannot be asked.
        :raises SignInFailed: it says nothing that proves anybody.
        """
        from authlib.oauth2 import OAuth2Error

        metadata = self._known()
        try:
            token = self._client(redirect_uri).fetch_token(
                metadata["token_endpoint"], code=code, code_verifier=verifier, grant_type="authorization_code"
            )
        except OAuth2Error as error:
            raise SignInFailed(f"the provider refused the code ({str(error.error)[:40]!r})") from None
        except ValueError:
            raise ProviderDown("its token endpoint answers no JSON object") from None
        claims = self._verified(token, nonce)
        return self._person(claims, token)

    # -- what it says of somebody ----------------------------------------------------------------------

    def _verified(self, token: Mapping[str, t.Any], nonce: str) -> Mapping[str, t.Any]:
        """The claims of the identity token.

        :raises SignInFailed: one of them, or the signature, is not right.
        """
        from authlib.oidc.core import CodeIDToken
        from joserfc.errors import JoseError

        given = token.get("id_token")
        if not isinstance(given, str):
            raise SignInFailed("there is no identity token")
        wanted = {
            "iss": {"essential": True, "value": self._known()["issuer"]},
            "aud": {"essential": True, "value": self._settings.oidc_client_id},
        }
        params = {"nonce": nonce, "client_id": self._settings.oidc_client_id}
        try:
            found = self._decoded(given)
            claims = CodeIDToken(
                found.claims, found.header, wanted, {**params, "access_token": token.get("access_token")}
            )
            claims.validate(now=self._clock.now_ms() // 1000, leeway=_LEEWAY_S)
        except (JoseError, ValueError, TypeError) as error:
            raise SignInFailed(f"the identity token is not right ({_kind(error)})") from None
        return t.cast("Mapping[str, t.Any]", claims)

    def _decoded(self, text: str) -> t.Any:
        """The token, once a key of the provider's has signed it."""
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError
        from joserfc.jws import JWSRegistry

        said = self._known().get("id_token_signing_alg_values_supported") or ["RS256"]
        registry = JWSRegistry(
            algorithms=[name for name in ALGORITHMS if name in said], strict_check_header=False
        )
        registry.max_header_length = registry.max_signature_length = 4096
        try:
            return jwt.decode(text, self._key_set(), registry=registry)
        except InvalidKeyIdError:  # it signs with a new one
            return jwt.decode(text, self._key_set(anew=True), registry=registry)

    def _person(self, claims: Mapping[str, t.Any], token: Mapping[str, t.Any]) -> Person:
        subject = claims["sub"]
        if not isinstance(subject, str) or not subject:
            raise SignInFailed("the identity token names nobody")
        address = self._known().get("userinfo_endpoint")
        if "email" not in claims and address and isinstance(token.get("access_token"), str):
            more = self._object("GET", address, {"Authorization": f"Bearer {token['access_token']}"})
            if more.get("sub") != subject:
                raise SignInFailed("the provider speaks of somebody else")
            claims = more
        email, verified = claims.get("email"), claims.get("email_verified")
        if not isinstance(email, str) or (verified is not True and verified != "true"):
            email = None
        return Person(self._issuer, subject, None if email is None else email.strip().lower())

    # -- what it says of itself ------------------------------------------------------------------------

    def _known(self) -> Mapping[str, t.Any]:
        """Its metadata.

        :raises ProviderDown: it cannot be asked, or says something else than who it is.
        """
        with self._lock:
            now = self._clock.monotonic()
            if self._metadata and now - self._asked < KNOWN_S:
                return self._metadata
            if now - self._failed < LEFT_ALONE_S:
                raise ProviderDown("it could not be asked a moment ago")
            try:
                self._metadata = self._discovered()
            except ProviderDown:
                self._failed = self._clock.monotonic()
                raise
            self._asked, self._keys = self._clock.monotonic(), None
            return self._metadata

    def _discovered(self) -> dict[str, t.Any]:
        said = self._object("GET", f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if said.get("issuer") != self._issuer:
            raise ProviderDown(
                f"it calls itself {str(said.get('issuer'))[:200]!r}; set STUDIO_OIDC_ISSUER to that"
            )
        for name in _ENDPOINTS:
            url = said.get(name)
            if name == "userinfo_endpoint" and url is None:
                continue
            scheme = urlsplit(url).scheme if isinstance(url, str) else ""
            if scheme not in ("https", urlsplit(self._issuer).scheme):
                raise ProviderDown(f"its {name} is no address that can be used")
        return said

    def _key_set(self, anew: bool = False) -> t.Any:
        """Its keys. :param anew: ask again, unless that was done just now."""
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        metadata = self._known()
        with self._lock:
            now = self._clock.monotonic()
            if self._keys is None or (anew and now - self._keys_asked >= KEYS_S):
                self._keys_asked = now
                said = self._object("GET", metadata["jwks_uri"])
                try:
                    self._keys = KeySet.import_key_set(t.cast(t.Any, said))
                except (JoseError, ValueError, TypeError, KeyError):
                    raise ProviderDown("its keys cannot be read") from None
            return self._keys

    # -- asking ----------------------------------------------------------------------------------------

    def _client(self, redirect_uri: str) -> t.Any:
        from authlib.oauth2.client import OAuth2Client

        settings = self._settings
        offered = self._known().get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        method = "none"
        if settings.oidc_client_secret:
            is_post = "client_secret_basic" not in offered and "client_secret_post" in offered
            method = "client_secret_post" if is_post else "client_secret_basic"
        return OAuth2Client(
            _Session(),
            client_id=settings.oidc_client_id,
            client_secret=settings.oidc_client_secret or None,
            token_endpoint_auth_method=method,
            scope=settings.oidc_scopes,
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
        )

    def _object(self, method: str, url: str, headers: Mapping[str, str] | None = None) -> dict[str, t.Any]:
        answer = _ask(method, url, {"Accept": "application/json", **(headers or {})})
        try:
            said = encoding.loads(answer.body)
        except ValueError:
            said = None
        if answer.status != 200 or not isinstance(said, dict):
            raise ProviderDown(f"{urlsplit(url).path[:100]} answers {answer.status} and no JSON object")
        return said


class _Session:
    """What Authlib asks by."""

    def post(self, url: str, data: Mapping[str, str], headers: Mapping[str, str], auth: t.Any) -> _Answer:
        """A form, with the proof of who asks."""
        url, sent, body = auth.prepare("POST", url, dict(headers), urlencode(data))
        return _Answer(_ask("POST", url, sent, body))


class _Answer:
    """What Authlib reads of an answer."""

    def __init__(self, answer: FetchResponse) -> None:
        self._answer = answer
        self.status_code = answer.status

    def json(self) -> t.Any:
        """:raises ValueError: it is no JSON."""
        return encoding.loads(self._answer.body)

    def raise_for_status(self) -> None:
        """:raises ProviderDown: it is an error."""
        if self.status_code >= 400:
            raise ProviderDown(f"its token endpoint answers {self.status_code}")


def _ask(method: str, url: str, headers: Mapping[str, str], body: str | None = None) -> FetchResponse:
    with RunScope() as scope:
        try:
            return fetch(
                method,
                url,
                headers=headers,
                body=body,
                timeout_s=TIMEOUT_S,
                waits=scope,
                allow=_ANYWHERE,
                max_bytes=_MOST_BYTES,
                redirects=0,
            )
        except ToolFailed as failed:
            raise ProviderDown(f"{urlsplit(url).hostname}: {failed}") from None


def _kind(error: Exception) -> str:
    """Which check it was, without what was checked."""
    claim = getattr(error, "claim", None)
    return f"{type(error).__name__}{f': {claim}' if isinstance(claim, str) else ''}"

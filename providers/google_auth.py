"""Tokens for Google Cloud, from the kinds of credentials that Google's own tools write.

Law of this room: as ``oauth``. A service account signs an assertion, a person's login (``gcloud auth
application-default login``) holds a refresh token, a machine of Google's asks the metadata server; anything else is
for ``token_command``. Source: developers.google.com/identity/protocols/oauth2/service-account and google.aip.dev/auth.
"""

from __future__ import annotations

import base64
import time
import typing as t
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import orjson

from providers import errors
from providers.http_fetch import fetch_json
from providers.oauth import Credentials, Token, ask_for_token, read_token
from providers.spec import Waits

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
TOKEN_URL = "https://oauth2.googleapis.com/token"
METADATA_URL = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
#: The word that stands for the machine's own account.
METADATA = "metadata"
#: Longest life that an assertion may ask for, in seconds.
_ASSERTION_S = 3600


class GoogleCredentials:
    """Tokens for ``credentials["credentials"]``: a JSON document, the path of one, or ``metadata``."""

    def key(self, credentials: Credentials) -> tuple[str, ...]:
        """See ``oauth.TokenSource``."""
        return (credentials.get("credentials", ""),)

    def fetch(self, credentials: Credentials, connect_s: float, waits: Waits) -> Token:
        """See ``oauth.TokenSource``."""
        given = credentials.get("credentials", "").strip()
        if given == METADATA:
            answer = fetch_json("GET", METADATA_URL, {"Metadata-Flavor": "Google"}, b"", connect_s, waits)
            return read_token(*answer)
        document = _document(given)
        kind = document.get("type")
        if kind == "service_account":
            form = {
                "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
                "assertion": _assertion(document),
            }
        elif kind == "authorized_user":
            names = ("client_id", "client_secret", "refresh_token")
            form = {"grant_type": "refresh_token", **{name: _text(document, name) for name in names}}
        else:
            raise _unusable(
                "are of a kind Studio cannot use; a service account's key and an authorized user's login can be, "
                "anything else through a token command"
            )
        token = ask_for_token(str(document.get("token_uri") or TOKEN_URL), form, connect_s, waits)
        quota = document.get("quota_project_id")
        return replace(token, headers={"x-goog-user-project": str(quota)}) if quota else token


def _document(given: str) -> Mapping[str, t.Any]:
    """The credentials as an object; read anew for every token, so that a rotated file counts."""
    try:
        text = given.encode() if given.startswith("{") else Path(given).expanduser().read_bytes()
        document = orjson.loads(text)
    except (OSError, ValueError):
        document = None
    if not isinstance(document, dict):
        raise _unusable("are no JSON document and no path of one")
    return document


def _text(document: Mapping[str, t.Any], name: str) -> str:
    value = document.get(name)
    if not value or not isinstance(value, str):
        raise _unusable(f"lack the member {name}")
    return value


def _assertion(document: Mapping[str, t.Any]) -> str:
    """A signed statement of who asks (RFC 7523)."""
    # Imported for the first token only: reading the library takes longer than everything else here.
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    now = time.time_ns() // 1_000_000_000
    header = {"alg": "RS256", "typ": "JWT", "kid": str(document.get("private_key_id") or "")}
    claims = {
        "iss": _text(document, "client_email"),
        "scope": SCOPE,
        "aud": str(document.get("token_uri") or TOKEN_URL),
        "iat": now,
        "exp": now + _ASSERTION_S,
    }
    signed = f"{_part(orjson.dumps(header))}.{_part(orjson.dumps(claims))}"
    try:
        key = serialization.load_pem_private_key(_text(document, "private_key").encode(), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise _unusable("hold no RSA private key")
    return f"{signed}.{_part(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unusable(what: str) -> Exception:
    return errors.failure("provider_auth", message=f"The Google Cloud credentials {what}. Set them again.")

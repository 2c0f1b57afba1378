"""Google Cloud's kinds of credentials, each exchanged for a token."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from providers import google_auth
from providers.google_auth import GoogleCredentials
from providers.oauth import TokenAuth
from tests.providers.token_endpoint import endpoint, header, refusal


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def account(key: rsa.RSAPrivateKey, url: str, **more: str) -> str:
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    document = {
        "type": "service_account",
        "client_email": "robot@p.iam",
        "private_key": pem,
        "private_key_id": "k1",
        "token_uri": url,
        **more,
    }
    return json.dumps(document, indent=1)


class TestGoogle:
    def test_a_service_account_signs(self, key: rsa.RSAPrivateKey) -> None:
        with endpoint() as (served, url):
            given = {"credentials": account(key, url)}
            assert header(TokenAuth(GoogleCredentials()), given) == "Bearer tok-1"
        (form,) = served.forms
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        signed, _, signature = form["assertion"].rpartition(".")
        key.public_key().verify(_unpadded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        head, claims = (json.loads(_unpadded(part)) for part in signed.split("."))
        assert head == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
        assert (claims["iss"], claims["aud"], claims["scope"]) == ("robot@p.iam", url, google_auth.SCOPE)
        assert claims["exp"] - claims["iat"] == 3600
        assert abs(claims["iat"] - time.time()) < 60

    def test_from_a_file(self, key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
        with endpoint() as (_, url):
            (tmp_path / "key.json").write_text(account(key, url))
            given = {"credentials": str(tmp_path / "key.json")}
            assert header(TokenAuth(GoogleCredentials()), given) == "Bearer tok-1"

    def test_a_persons_login(self) -> None:
        with endpoint() as (served, url):
            names = ("client_id", "client_secret", "refresh_token")
            document = {
                "type": "authorized_user",
                "token_uri": url,
                "quota_project_id": "q",
                **{n: n for n in names},
            }
            given = {"credentials": json.dumps(document)}
            assert header(TokenAuth(GoogleCredentials()), given, "x-goog-user-project") == "q"
        assert served.forms == [{"grant_type": "refresh_token", **{n: n for n in names}}]

    def test_the_machines_own_account(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with endpoint() as (served, url):
            monkeypatch.setattr(google_auth, "METADATA_URL", url)
            assert header(TokenAuth(GoogleCredentials()), {"credentials": "metadata"}) == "Bearer tok-1"
        assert b"\r\nMetadata-Flavor: Google\r\n" in served.heads[0]

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ("/no/such/file.json", "no JSON document"),
            ("{broken", "no JSON document"),
            ("[]", "no JSON document"),
            ('{"type": "external_account"}', "token command"),
            ('{"type": "service_account", "private_key": "x"}', "client_email"),
            ('{"type": "service_account", "client_email": "x"}', "private_key"),
            (
                '{"type": "service_account", "client_email": "x", "private_key": "sekret"}',
                "no RSA private key",
            ),
        ],
    )
    def test_what_cannot_be_used(self, given: str, words: str) -> None:
        error = refusal(TokenAuth(GoogleCredentials()), {"credentials": given})
        assert error.code == "provider_auth"
        assert words in error.message
        assert "sekret" not in error.message + error.detail


def _unpadded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))

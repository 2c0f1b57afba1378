"""IBM Cloud's tokens: an API key is exchanged for one.

Law of this room: as ``oauth``. Source: cloud.ibm.com/docs/account, "Generating an IBM Cloud IAM token by using an
API key" (iamtoken_from_apikey).
"""

from __future__ import annotations

from dataclasses import dataclass

from providers.oauth import Credentials, Token, TokenAuth, ask_for_token
from providers.spec import Waits


@dataclass(frozen=True, slots=True)
class IbmIam:
    """The exchange of an API key."""

    url: str = "https://iam.cloud.ibm.com/identity/token"

    def key(self, credentials: Credentials) -> tuple[str, ...]:
        """See ``oauth.TokenSource``."""
        return (credentials.get("iam_url") or self.url, credentials.get("api_key", ""))

    def fetch(self, credentials: Credentials, connect_s: float, waits: Waits) -> Token:
        """See ``oauth.TokenSource``. ``iam_url`` among the options replaces the public endpoint."""
        form = {
            "grant_type": "urn:ibm:params:oauth:grant-type:apikey",
            "apikey": credentials.get("api_key", "").strip(),
        }
        return ask_for_token(credentials.get("iam_url") or self.url, form, connect_s, waits)


class IbmIamAuth(TokenAuth):
    """A bearer token for an IBM Cloud API key (``credentials["api_key"]``)."""

    def __init__(self) -> None:
        super().__init__(IbmIam())

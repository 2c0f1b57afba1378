"""Authentication: how a scheme is applied, and the schemes that need nothing but a key.

Law of this room: a scheme changes the request it is given and nothing else; it never logs a
credential and never puts one into an error. Families name a scheme; schemes know no family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from providers.spec import Connection, HttpRequest, Waits


def authenticate(request: HttpRequest, connection: Connection, waits: Waits) -> None:
    """Let the connection's scheme fetch what it needs, then change ``request``.

    A scheme sees the options, too: a signature covers the region.

    :raises ProviderError: as the scheme says.
    """
    known = {**connection.options, **connection.credentials} if connection.options else connection.credentials
    if (prepare := getattr(connection.auth, "prepare", None)) is not None:
        prepare(known, connection.connect_s, waits)
    connection.auth.apply(request, known)


@dataclass(frozen=True, slots=True)
class NoAuth:
    """For servers that ask for nothing."""

    def apply(self, request: HttpRequest, credentials: Mapping[str, str]) -> None:
        """Leave ``request`` as it is."""


@dataclass(frozen=True, slots=True)
class HeaderAuth:
    """The key in a header, e.g. ``HeaderAuth("x-api-key")``, or :data:`BEARER`.

    Without a key nothing is added: local servers often ask for none.

    :ivar mark: a beginning of the key that only names its kind and is left out.
    """

    header: str
    prefix: str = ""
    mark: str = ""

    def apply(self, request: HttpRequest, credentials: Mapping[str, str]) -> None:
        """Set the header from ``credentials["api_key"]``, which is trimmed: keys are pasted with line ends."""
        key = credentials.get("api_key", "").strip().removeprefix(self.mark)
        if key:
            request.headers[self.header] = f"{self.prefix}{key}"


#: The key as a bearer token, as most vendors want it.
BEARER = HeaderAuth("Authorization", "Bearer ")


@dataclass(frozen=True, slots=True)
class QueryAuth:
    """The key as a query parameter, e.g. ``QueryAuth("key")``."""

    param: str

    def apply(self, request: HttpRequest, credentials: Mapping[str, str]) -> None:
        """Append the parameter from ``credentials["api_key"]``, when there is one."""
        key = credentials.get("api_key", "").strip()
        if key:
            mark = "&" if "?" in request.url else "?"
            request.url = f"{request.url}{mark}{quote(self.param, safe='')}={quote(key, safe='')}"

"""Authentication schemes that need nothing but a key.

Law of this room: a scheme changes the request it is given and nothing else; it never logs a
credential and never puts one into an error. Families name a scheme; schemes know no family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from providers.spec import HttpRequest


@dataclass(frozen=True, slots=True)
class NoAuth:
    """For servers that ask for nothing."""

    def apply(self, request: HttpRequest, credentials: Mapping[str, str]) -> None:
        """Leave ``request`` as it is."""


@dataclass(frozen=True, slots=True)
class HeaderAuth:
    """The key in a header, e.g. ``HeaderAuth("Authorization", "Bearer ")`` or ``HeaderAuth("x-api-key")``.

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

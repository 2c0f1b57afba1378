"""A server that commands talk to: at STUDIO_URL, with the key STUDIO_API_KEY.

Law of this room: what the server refuses is raised as it said it; what cannot be reached is said with the address.
"""

from __future__ import annotations

import http.client
import os
import typing as t
from urllib.parse import urlsplit

from app import encoding
from app.errors import ApiError, Problem, StudioError
from app.web.negotiation import HEADER_LINE

_CONNECT_S = 10.0


class Server:
    """See the module.

    :param url: ``STUDIO_URL``; a path in it is kept.
    :param key: ``STUDIO_API_KEY``, or empty for what needs none.
    """

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            problem = Problem(
                "STUDIO_URL", f"'{url}' is no http or https address, such as http://127.0.0.1:8000"
            )
            raise ApiError(400, "validation_failed", problem.message, [problem])
        self._parts = parts
        self._key = key

    @classmethod
    def named(cls) -> Server | None:
        """The one that the environment names; None: it names none."""
        url = os.environ.get("STUDIO_URL", "").strip()
        return cls(url, os.environ.get("STUDIO_API_KEY", "").strip()) if url else None

    def ask(self, method: str, path: str, body: t.Any = None) -> t.Any:
        """One exchange in JSON: the body of the answer.

        :raises ApiError: the server's own refusal. :raises StudioError: it cannot be reached.
        """
        with self.send(method, path, body, accept="application/json") as response:
            if not 200 <= response.status < 300:
                raise refusal(response)
            return encoding.loads(response.read())

    def send(
        self, method: str, path: str, body: t.Any = None, accept: str = "text/event-stream"
    ) -> http.client.HTTPResponse:
        """The answer, once its headers are here.

        :raises StudioError: it cannot be reached.
        """
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        host = t.cast(str, self._parts.hostname)
        connection = kind(host, self._parts.port, timeout=_CONNECT_S)
        name, _, value = HEADER_LINE.partition(": ")
        headers = {"Accept": accept, name: value, "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._key:
            headers["X-API-Key"] = self._key
        sent = None if body is None else encoding.dumps(body)
        try:
            connection.connect()
            connection.sock.settimeout(None)  # a model may think for as long as the run may last
            connection.request(method, self._parts.path.rstrip("/") + path, sent, headers)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            address = f"{self._parts.scheme}://{self._parts.netloc.rpartition('@')[2]}"
            message = f"No answer from {address} (STUDIO_URL): {error}. Is the server running? studio serve"
            raise StudioError("unreachable", message) from None


def refusal(response: http.client.HTTPResponse) -> ApiError:
    """What a server that refused has said."""
    try:
        error = encoding.loads(response.read())["error"]
        details = [Problem(d["path"], d["message"]) for d in error.get("details", ())]
        return ApiError(response.status, error["code"], error["message"], details)
    except (ValueError, KeyError, TypeError, http.client.HTTPException):
        message = f"The server answered {response.status} {response.reason} and no error of ours."
        return ApiError(response.status, "unreachable", f"{message} Does STUDIO_URL point at a Studio?")

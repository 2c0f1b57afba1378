"""``GET /api/openapi.json`` and ``GET /api/docs``: the API described, for programs and for people.

Law of this room: both are made from the credential table and the descriptions of routes, when somebody first asks,
and kept packed. While they are made, streams go on.
"""

from __future__ import annotations

import hashlib
import threading
import typing as t
import zlib
from collections.abc import Callable

from flask import Blueprint, Flask, Response, current_app, request

from app import __version__, encoding
from app.engine.giving_way import give_way
from app.engine.scope import RunScope
from app.web.auth import CREDENTIALS
from app.web.http import services
from app.web.pages import HEADERS as PAGE_HEADERS

#: Bytes packed before others get their turn.
_AT_ONCE = 64 * 1024
#: What is gzip in a window of zlib.
_GZIP = 31


class Kept:
    """A body that is made once, and kept packed: nearly everybody takes it so."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._making = threading.Lock()
        self._packed: bytes | None = None
        self._tag = ""

    def answer(self, content_type: str) -> Response:
        """The answer to this request; 304 to those who have it."""
        packed = self._current()
        takes_gzip = request.accept_encodings["gzip"] > 0
        body = packed if takes_gzip else zlib.decompress(packed, _GZIP)
        response = Response(body, content_type=content_type)
        if takes_gzip:
            response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
        response.headers["Cache-Control"] = "no-cache"
        response.set_etag(self._tag, weak=True)
        response.make_conditional(request)
        return response

    def _current(self) -> bytes:
        if self._packed is None:
            with self._making:
                if self._packed is None:
                    body = self._make()
                    self._tag = hashlib.sha256(body).hexdigest()[:16]
                    self._packed = _pack(body)
        return self._packed


def _pack(body: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    made = bytearray()
    for start in range(0, len(body), _AT_ONCE):
        made += packer.compress(body[start : start + _AT_ONCE])
        give_way()
    return bytes(made + packer.flush())


def described() -> dict[str, t.Any]:
    """The document of this program."""
    with RunScope() as scope:
        services().threads.run(_load, scope)  # beside the hub, on which imports would hold up every stream
    from app.schemas.openapi.document import document  # not before somebody asks

    return document(CREDENTIALS, __version__, pause=give_way)


def _load() -> None:
    import app.schemas.openapi.document  # noqa: F401  # what is wanted is that it is there


def _json() -> bytes:
    return encoding.dumps(described())


def _page() -> bytes:
    from app.web.openapi_page import render

    return render(described(), give_way)


def openapi() -> Response:
    """The OpenAPI 3.1 document."""
    return _kept()[0].answer("application/json")


def docs() -> Response:
    """The same for people."""
    response = _kept()[1].answer("text/html; charset=utf-8")
    for name, value in PAGE_HEADERS.items():
        response.headers[name] = value
    return response


def _kept() -> tuple[Kept, Kept]:
    return t.cast("tuple[Kept, Kept]", current_app.extensions["studio.openapi"])


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    app.extensions["studio.openapi"] = Kept(_json), Kept(_page)
    blueprint = Blueprint("openapi", __name__)
    blueprint.add_url_rule("/api/openapi.json", view_func=openapi)
    blueprint.add_url_rule("/api/docs", view_func=docs)
    app.register_blueprint(blueprint)

"""What every view shares: reading a JSON body or a query, writing a JSON answer, the request's id and address.

Law of this room: a body is read once, bounded, before anything else is done with it; an answer is
encoded by ``app.encoding`` only.
"""

from __future__ import annotations

import re
import socket
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager

from flask import Flask, Response, current_app, g, request
from gevent import get_hub
from werkzeug.exceptions import RequestEntityTooLarge

from app import encoding
from app.errors import ApiError, Problem, ValidationFailed
from app.web import bodies

if t.TYPE_CHECKING:
    from app.engine.services import Services

#: Most bytes of a request body (contract section 11).
MAX_BODY = 10 * 1024 * 1024

#: Most lists, objects and members of objects in a JSON body. Ten megabytes of brackets take seconds to read.
MOST_PARTS = 300_000

#: The same of what is over :data:`MAX_BODY`, items and strings counted as well. What may be large are the files in it.
MOST_LARGE_PARTS = 10_000

#: Bytes of a body that strangers send to get in: an address, a password.
MAX_ENTRANCE = 64 * 1024

#: Most fields of a form, and most unknown keys that are told.
MOST_NAMES = 50

#: Seconds a body may take to come. Without a bound, callers who never finish theirs would take every connection.
BODY_S = 60.0

#: The request headers of ours that a browser may send from anywhere, and the response headers it may read.
ALLOWED_HEADERS = (
    "Content-Type, X-API-Key, X-Studio-Stream-Protocol, X-Sim-Stream-Protocol, X-Request-Id, "
    "Idempotency-Key, Last-Event-ID, If-Match, If-None-Match, X-Studio-Visitor"
)
EXPOSED_HEADERS = (
    "X-Run-Id, X-Request-Id, X-Studio-Stream-Protocol, X-Sim-Stream-Protocol, Retry-After, "
    "RateLimit, RateLimit-Policy, WWW-Authenticate, ETag, X-Studio-Visitor, X-Conversation-Id, "
    "Idempotent-Replayed"
)

#: Where the graph surface is, outside of ``/api/``.
_GRAPH = frozenset({"/chat", "/chat/resume", "/graph/topology"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def services() -> Services:
    """The services of the running application."""
    return t.cast("Services", current_app.extensions["studio"])


def request_id() -> str:
    """The id of this request: the caller's ``X-Request-Id`` when it is a plain one, else a fresh one."""
    known: str | None = g.get("request_id")
    if known is None:
        sent = request.environ.get("HTTP_X_REQUEST_ID", "")
        known = sent if _REQUEST_ID.fullmatch(sent) else services().clock.new_id("req")
        g.request_id = known
    return known


def json_response(value: t.Any, status: int = 200) -> Response:
    """``value`` as a JSON answer; member order is kept."""
    return Response(encoding.dumps(value), status, content_type="application/json")


def read_object(most: int = MAX_BODY) -> dict[str, t.Any]:
    """The request's JSON object; an empty body is an empty object.

    :param most: bytes of it.
    :raises ApiError: 413 over ``most`` or :data:`MOST_PARTS`, 415 another content type, 400 ``invalid_json`` what is
        no JSON object in UTF-8. A body without ``Content-Length`` (chunked) is bounded the same.
    """
    data = read_bytes(most)
    return object_of(data) if data else {}


def object_of(data: bytes) -> dict[str, t.Any]:
    """The JSON object that the request's body is.

    :raises ApiError: 415, 400; see :func:`read_object`.
    """
    _check_type(request.environ.get("CONTENT_TYPE", ""))
    _check_parts(data)
    try:
        value = encoding.loads(data)
    except ValueError as error:
        raise ApiError(400, "invalid_json", f"The body is not JSON in UTF-8: {error}. Correct it.") from None
    if not isinstance(value, dict):
        cure = 'send a JSON object, such as {"input": "Hello"}'
        raise ValidationFailed([Problem("", f"the body is a JSON {_kind(value)}; {cure}")])
    return value


def read_nothing() -> None:
    """See that the request has no body, or an empty object.

    :raises ValidationFailed: it has more. :raises ApiError: see :func:`read_object`.
    """
    if unknown := list(read_object()):
        told = unknown[:MOST_NAMES]
        raise ValidationFailed([Problem(name, "unknown key; this call takes no body") for name in told])


def read_form(most: int = MAX_BODY) -> t.Mapping[str, str]:
    """The fields of the request's form.

    :param most: bytes of it.
    :raises ApiError: 413 over ``most``; 400 it has more fields than any form of ours. To take a form apart costs a
        hundred times what it costs to count.
    """
    request.max_content_length, request.max_form_memory_size = most + 1, most
    request.max_form_parts = MOST_NAMES
    try:
        with bounded_read(request.environ):
            data = request.get_data()  # kept, and so what the form is made of
    except RequestEntityTooLarge:
        data = None
    if data is None or len(data) > most:
        raise _too_large(most)
    g.body_read = True
    if data.count(b"&") >= MOST_NAMES:
        raise ValidationFailed([Problem("", f"the form has more than {MOST_NAMES} fields")])
    return request.form


def _too_large(most: int) -> ApiError:
    size = f"{most // 1024 // 1024} MiB" if most >= 1024 * 1024 else f"{most // 1024} KiB"
    return ApiError(413, "payload_too_large", f"The body is over {size}. Send less.")


def read_bytes(most: int = MAX_BODY) -> bytes:
    """The request's body. What may be larger may take longer, at the same rate.

    :param most: bytes of it. :raises ApiError: see :func:`read_object`.
    """
    if most != MAX_BODY:
        request.max_content_length = most + 1
    try:
        with bounded_read(request.environ, max(1.0, most / MAX_BODY)):
            data = bodies.taken_in(request.stream)
    except RequestEntityTooLarge:
        data = None
    if data is None or len(data) > most:
        raise _too_large(most)
    if len(data) < (request.content_length or 0):  # its sender left in the middle; a part is no request
        raise malformed_body()
    g.body_read = True
    if data:
        _check_encoding(request.environ.get("HTTP_CONTENT_ENCODING", ""))
    return data


@contextmanager
def bounded_read(environ: t.Mapping[str, t.Any], factor: float = 1.0) -> Iterator[None]:
    """Inside, the client's body ends after :data:`BODY_S` (``factor`` times that), complete or not."""
    sock = environ.get("gunicorn.socket")
    if sock is None:
        yield
        return
    timer = get_hub().loop.timer(BODY_S * factor)
    timer.start(_end_reading, sock)
    try:
        yield
    finally:
        timer.stop()
        timer.close()


def _end_reading(sock: t.Any) -> None:
    try:
        sock.shutdown(socket.SHUT_RD)
    except OSError:
        pass  # the client has left


def malformed_body() -> ApiError:
    """The error for a body that ends before its headers say so, or is framed otherwise than they say."""
    message = "The body does not follow its Transfer-Encoding or Content-Length. Send it whole."
    return ApiError(400, "validation_failed", message, headers={"Connection": "close"})


def read_query(*known: str) -> tuple[dict[str, str], list[Problem]]:
    """The request's query parameters, and what is wrong with their names: unknown, or given twice."""
    problems = []
    wanted = {}
    for name, values in request.args.to_dict(flat=False).items():
        wanted[name] = values[0]
        if name not in known:
            problems.append(Problem(name[:100], f"unknown parameter; there are {', '.join(known)}"))
        elif len(values) > 1:
            problems.append(Problem(name, "give it once"))
    return wanted, problems


def read_count(
    query: t.Mapping[str, str], name: str, default: int, most: int, problems: list[Problem]
) -> int:
    """How many are wanted: the query parameter ``name``, from 1 to ``most``; a problem is added for anything else."""
    sent = query.get(name, str(default))
    number = int(sent) if re.fullmatch(r"[0-9]{1,3}", sent) else 0
    if not 1 <= number <= most:
        problems.append(Problem(name, f"a number from 1 to {most}"))
    return number


def _kind(value: t.Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "array" if isinstance(value, list) else "string" if isinstance(value, str) else "number"


def _check_parts(data: bytes) -> None:
    """:raises ApiError: 413: to read it, and all that is done with it, would hold everybody else up for seconds."""
    if len(data) > MAX_BODY:
        if bodies.has_more(data, MOST_LARGE_PARTS):
            message = f"A large body may have {MOST_LARGE_PARTS} values at most. Send what is large as files."
            raise ApiError(413, "payload_too_large", message)
    elif len(data) > MOST_PARTS and _parts(data) > MOST_PARTS and _parts(_bare(data)) > MOST_PARTS:
        message = f"The body has more than {MOST_PARTS} lists, objects and their members. Send less at once."
        raise ApiError(413, "payload_too_large", message)


def _parts(data: bytes) -> int:
    return data.count(b"[") + data.count(b"{") + data.count(b":")


def _bare(data: bytes) -> bytes:
    """JSON without what is inside of its strings."""
    return b"".join(data.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])


def _check_type(header: str) -> None:
    kind, _, parameters = header.partition(";")
    kind = kind.strip().lower()
    charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters, re.IGNORECASE)
    json_like = kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
    if json_like and (charset is None or charset[1].lower() in ("utf-8", "utf8", "us-ascii")):
        return
    sent = f"'{header[:100]}'" if header else "no Content-Type"
    raise ApiError(
        415,
        "unsupported_media_type",
        f"The body came with {sent}. Send JSON in UTF-8 with the header Content-Type: application/json",
    )


def _check_encoding(header: str) -> None:
    if header.strip().lower() in ("", "identity"):
        return
    raise ApiError(
        415,
        "unsupported_media_type",
        f"The body came with Content-Encoding '{header[:100]}'. Send it as it is, without compression.",
    )


def client_address(environ: t.Mapping[str, t.Any], hops: int) -> str:
    """The address limits are counted by.

    :param hops: how many proxies of ours stand in front (``STUDIO_TRUSTED_PROXIES``). Only that many
        entries of ``X-Forwarded-For``, from the right, are believed; the rest is what a client made up.
    """
    if hops > 0:
        entries = [e.strip() for e in environ.get("HTTP_X_FORWARDED_FOR", "").split(",") if e.strip()]
        if entries:
            return str(entries[-min(hops, len(entries))])
    return str(environ.get("REMOTE_ADDR", ""))


def install(app: Flask) -> None:
    """Bound bodies, answer preflights, put the shared headers on every answer of ``app``."""
    # One more than may come: a body of unknown length is cut there without a word, and so is known to be too long.
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY + 1
    app.after_request(_shared_headers)


def is_api(path: str) -> bool:
    """Whether programs call this path, also from pages of anywhere: no cookie is a credential there."""
    return path.startswith("/api/") or path in _GRAPH


def is_chat(path: str) -> bool:
    """Whether a path is one that visitors of chats call."""
    return path.startswith("/api/chat/")


def preflight() -> Response:
    """The answer to a browser that asks before it sends: same for every API route, tells nothing else."""
    response = Response(status=204)
    headers = response.headers
    headers["Access-Control-Allow-Methods"] = "GET, POST, PUT, PATCH, DELETE, OPTIONS"
    headers["Access-Control-Allow-Headers"] = ALLOWED_HEADERS
    headers["Access-Control-Max-Age"] = "600"
    return response


def _shared_headers(response: Response) -> Response:
    headers = response.headers
    headers["X-Request-Id"] = request_id()
    if is_api(request.environ["PATH_INFO"]):
        headers["Access-Control-Allow-Origin"] = "*"
        headers["Access-Control-Expose-Headers"] = EXPOSED_HEADERS
    return response

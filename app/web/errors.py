"""Every error answer, in the one shape of contract section 11.

Law of this room: whatever goes wrong before the first byte leaves as
``{"error": {"code", "message", "details"?, "requestId"}}``. What we did not foresee is logged with
its traceback and request id, and shown as ``internal`` without either's content.
"""

from __future__ import annotations

import logging
import typing as t

from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from app.errors import ApiError, StudioError
from app.store.errors import RevisionConflict, StoreFailed
from app.web.http import bounded_read, is_chat, json_response, malformed_body, request_id, services

log = logging.getLogger("studio.web")

#: How much of an unread body is taken in before an error is answered. A client that is still sending
#: when the server closes sees a reset connection instead of the answer.
DRAIN_BYTES = 64 * 1024 * 1024

_CHALLENGE = 'ApiKey realm="studio", header="X-API-Key"'

_PLAIN: dict[int, tuple[str, str]] = {
    400: ("validation_failed", "The request is not valid HTTP. Check its headers and its body."),
    404: ("not_found", "There is nothing at this address. Check the path."),
    413: ("payload_too_large", "The body is over 10 MiB. Send less."),
    415: ("unsupported_media_type", "Send the body as application/json."),
}


def unauthorized(message: str) -> ApiError:
    """401 with the challenge that says where the key goes."""
    return ApiError(401, "unauthorized", message, headers={"WWW-Authenticate": _CHALLENGE})


def forbidden(scope: str) -> ApiError:
    """403 for a live key without ``scope``."""
    return ApiError(
        403,
        "forbidden",
        f"This key lacks the scope '{scope}'. "
        f"Create one that has it: studio key create --name N --scopes {scope}",
    )


def draining() -> ApiError:
    """503 of a process that ends: its store may be closed already."""
    message = "This server is shutting down; try again."
    return ApiError(503, "draining", message, headers={"Retry-After": "1"})


def not_found(what: str, name: str) -> ApiError:
    """404, the same for what does not exist and for what is not the caller's."""
    return ApiError(404, "not_found", f"There is no {what} '{name[:100]}' that this key may reach.")


def error_response(error: ApiError) -> Response:
    """The HTTP answer of ``error``."""
    body: dict[str, t.Any] = {"code": error.code, "message": error.message}
    if error.details:
        body["details"] = [{"path": p.path, "message": p.message} for p in error.details]
    body["requestId"] = request_id()
    content: dict[str, t.Any] = {"error": body}
    if is_chat(request.environ["PATH_INFO"]):  # where clients of other systems look for them
        content |= {"message": error.message, "code": error.code.upper()}
    response = json_response(content, error.status)
    for name, value in error.headers.items():
        response.headers[name] = value
    return response


def install(app: Flask) -> None:
    """Register the handlers on ``app``."""
    app.register_error_handler(ApiError, _api_error)
    app.register_error_handler(RevisionConflict, _changed_since)
    app.register_error_handler(HTTPException, _http_exception)
    app.register_error_handler(Exception, _unforeseen)


def _api_error(error: ApiError) -> Response:
    _drain()
    return error_response(error)


def _changed_since(error: RevisionConflict) -> Response:
    """412 from inside the write, as :mod:`app.web.etags` gives it before."""
    _drain()
    message = f"{error.message.removesuffix('.')}. Read it, then decide anew."
    return error_response(ApiError(412, "precondition_failed", message))


def _http_exception(error: HTTPException) -> Response:
    _drain()
    status = error.code or 500
    if isinstance(error, MethodNotAllowed):
        allowed = ", ".join(sorted(set(error.valid_methods or ()) - {"HEAD", "OPTIONS"}))
        message = f"{request.method} is not possible here. Use {allowed}."
        allow = {"Allow": ", ".join(error.valid_methods or ())}
        return error_response(ApiError(405, "method_not_allowed", message, headers=allow))
    if status >= 500:
        return _unforeseen(error)
    code, message = _PLAIN.get(status, ("validation_failed", error.description or error.name))
    return error_response(ApiError(status, code, message))


def _unforeseen(error: Exception) -> Response:
    if _is_malformed(error):
        return error_response(malformed_body())
    if isinstance(error, StoreFailed) and services().runs.draining:
        _drain()
        return error_response(draining())
    if isinstance(error, StudioError):
        # A RunError cannot be an HTTP answer; if one gets here its code still says more than "internal".
        log.error("request %s failed: %s: %s", request_id(), error.code, error.message, exc_info=error)
    else:
        log.error("request %s failed", request_id(), exc_info=error)
    _drain()
    message = f"Something failed inside the server. Its log has the details under {request_id()}."
    return error_response(ApiError(500, "internal", message))


def _is_malformed(error: Exception) -> bool:
    """Whether the server could not parse the body it was handing over (a wrong chunk size, an early end)."""
    from gunicorn.http.errors import NoMoreData, ParseException

    return isinstance(error, (ParseException, NoMoreData))


def _drain() -> None:
    """Take in what the client still sends, so that it lives to read the answer."""
    if request.method in ("GET", "HEAD", "OPTIONS") or g.get("body_read"):
        return
    environ = request.environ
    if not (environ.get("CONTENT_LENGTH") or environ.get("wsgi.input_terminated")):
        return
    left = DRAIN_BYTES
    try:
        with bounded_read(environ):
            while left > 0:
                piece = environ["wsgi.input"].read(min(left, 65536))
                if not piece:
                    return
                left -= len(piece)
    except Exception:
        # The client left while we were polite to it; the answer then fails by itself.
        return

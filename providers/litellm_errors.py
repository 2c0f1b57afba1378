"""litellm's exceptions as the codes of contract section 11.

Law of this room: the class decides, the status second, and the message is ours. What was thrown into a wait by
whoever drives the call comes out again as itself, however litellm wrapped it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping

from providers import errors
from providers.spec import ProviderError, ProviderErrorCode

#: By name of a class among the ancestors of an exception, the most special first; litellm is not imported for it.
_CLASSES: Mapping[str, ProviderErrorCode] = {
    "ContextWindowExceededError": "context_length_exceeded",
    "ContentPolicyViolationError": "content_filtered",
    "AuthenticationError": "provider_auth",
    "PermissionDeniedError": "provider_auth",
    "RateLimitError": "provider_rate_limited",
    "ServiceUnavailableError": "provider_overloaded",
    "Timeout": "provider_unavailable",
    "APIConnectionError": "provider_unavailable",
    "InternalServerError": "provider_unavailable",
    "BadGatewayError": "provider_unavailable",
    "APIResponseValidationError": "provider_bad_stream",
    "BadRequestError": "provider_bad_request",
    "NotFoundError": "provider_bad_request",
    "UnprocessableEntityError": "provider_bad_request",
}


#: What HTTP clients raise of a body that ends short or is reset, by name.
_TORN = frozenset({"RemoteProtocolError", "ReadError", "IncompleteRead", "ConnectionResetError"})


def bridge_error(error: Exception, *, begun: bool = False) -> ProviderError:
    """What an exception of a call, or of its stream, means.

    A ``ProviderError`` anywhere among its causes is what was thrown into the wait (the idle limit): it is given back.

    :param begun: the answer had begun; a connection that ends then tore it.
    """
    for cause in _causes(error):
        if isinstance(cause, ProviderError):
            return cause
    torn = begun and any(type(cause).__name__ in _TORN for cause in _causes(error))
    error = _root(error)
    detail = str(getattr(error, "message", None) or error).partition("\nTraceback")[0]
    if torn:
        return errors.failure("provider_bad_stream", detail=detail)
    status = _status(error)
    # The status and the vendor's own words are read as on any other wire; the class knows better where it is special.
    read = errors.http_error(status or 500, _headers(error), detail.encode("utf-8", "replace"))
    code = next((_CLASSES[name] for name in _names(error) if name in _CLASSES), read.code)
    if read.code in ("context_length_exceeded", "content_filtered"):
        code = read.code
    found = errors.failure(code, detail=detail)
    return ProviderError(
        code, found.message, detail=found.detail, status=status, retry_after=read.retry_after
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _root(error: Exception) -> Exception:
    """The vendor's failure inside the one that says a stream could be taken over by another model."""
    inner = getattr(error, "original_exception", None)
    return inner if isinstance(inner, Exception) else error


def _names(error: Exception) -> Iterator[str]:
    return (cls.__name__ for cls in type(error).__mro__)


def _status(error: Exception) -> int | None:
    status: t.Any = getattr(error, "status_code", None)
    return status if isinstance(status, int) and 400 <= status <= 599 else None


def _headers(error: Exception) -> dict[str, str]:
    """Of the vendor's answer, names in lower case."""
    response: t.Any = getattr(error, "response", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None) or {}
    try:
        return {str(name).lower(): str(value) for name, value in dict(headers).items()}
    except (TypeError, ValueError):
        return {}

"""Vendors' failures as the codes of contract section 11.

Law of this room: the code comes from the typed code first, the status second, and from words only
for what vendors never type (a prompt that is too long; a key that one of them calls a wrong
argument). The message is ours; the vendor's own words go into ``detail`` and nowhere else.
"""

from __future__ import annotations

import math
import re
import typing as t
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime

import orjson

from providers.spec import ProviderError, ProviderErrorCode

#: Longest vendor text kept, in characters.
MAX_DETAIL = 4000

_MESSAGES: dict[ProviderErrorCode, str] = {
    "provider_auth": "The provider refused the credentials. Check the API key, its permissions and its credit.",
    "provider_rate_limited": "The provider's rate limit or quota is used up. Try again later or raise the limit.",
    "provider_overloaded": "The provider is overloaded. Try again later.",
    "provider_bad_request": "The provider refused the request. Check the model's name and the agent's settings.",
    "context_length_exceeded": (
        "The conversation does not fit the model's token limit. Shorten it or use a model with a larger context."
    ),
    "content_filtered": "The provider's content filter refused the request. Change the prompt.",
    "provider_unavailable": "The provider failed to answer. Try again later or check its address.",
    "provider_idle": "The provider stopped sending. Try again or raise the idle limit.",
    "provider_bad_stream": "The provider's answer broke off or could not be read. Try again.",
}

#: Typed codes and types as vendors spell them, lower-cased.
_TYPED: dict[str, ProviderErrorCode] = {
    **dict.fromkeys(
        ("context_length_exceeded", "too_many_prompt_tokens", "exceed_context_size_error",
         "context_window_exceeded", "string_above_max_length", "model_context_window_exceeded",
         "too_many_tokens"),
        "context_length_exceeded",
    ),
    **dict.fromkeys(
        ("content_filter", "content_filtered", "content_policy_violation", "responsibleaipolicyviolation",
         "data_inspection_failed", "content_policy", "moderation_blocked", "safety"),
        "content_filtered",
    ),
    **dict.fromkeys(
        ("rate_limit_exceeded", "rate_limit_error", "ratelimitreached", "rate_limited", "rate_limit", "ratelimiterror",
         "insufficient_quota", "tokens", "requests", "too_many_requests", "resource_exhausted", "throttlingexception",
         "servicequotaexceededexception"),
        "provider_rate_limited",
    ),
    **dict.fromkeys(
        ("overloaded_error", "overloaded", "server_overloaded", "engine_overloaded", "engine_overloaded_error",
         "capacity_exceeded", "insufficient_system_resource", "modelnotreadyexception", "serviceunavailableexception"),
        "provider_overloaded",
    ),
    **dict.fromkeys(
        ("authentication_error", "invalid_api_key", "permission_error", "permission_denied", "billing_error",
         "unauthorized", "unauthenticated", "insufficient_permissions", "accessdeniedexception", "forbidden",
         "unrecognizedclientexception", "expiredtokenexception", "invalidsignatureexception",
         "missingauthenticationtokenexception", "incompletesignatureexception", "api_key_invalid"),
        "provider_auth",
    ),
    **dict.fromkeys(
        ("server_error", "internal_server_error", "internal_error", "api_error", "timeout_error", "timeout",
         "service_unavailable", "service_unavailable_error", "unavailable", "bad_gateway", "internal",
         "internalserverexception", "modelstreamerrorexception", "modeltimeoutexception", "modelerrorexception"),
        "provider_unavailable",
    ),
    **dict.fromkeys(
        ("invalid_request_error", "not_found_error", "model_not_found", "tool_use_failed", "invalid_argument",
         "invalid_request", "unsupported_parameter", "unsupported_value", "badrequesterror", "validationexception",
         "resourcenotfoundexception"),
        "provider_bad_request",
    ),
}  # fmt: skip

_STATUS: dict[int, ProviderErrorCode] = {
    401: "provider_auth",
    402: "provider_auth",
    403: "provider_auth",
    408: "provider_unavailable",
    413: "context_length_exceeded",
    429: "provider_rate_limited",
    498: "provider_overloaded",
    503: "provider_overloaded",
    529: "provider_overloaded",
}

#: Vendors type a too long prompt as a plain bad request; these words are what they have in common.
_TOO_LONG = re.compile(
    r"prompt(?: is|'s)? too long|maximum context length|max(?:imum)? context (?:length|window)"
    r"|context (?:length|window|size)[^.]{0,40}exceed|exceeds?[^.]{0,60}context (?:length|window|size)"
    r"|total length of all messages is too long|input is too long|too many (?:input|prompt) tokens"
    r"|token limit (?:reached|exceeded)|input token count[^.]{0,60}exceeds"
    r"|reduce the length of the (?:messages|prompt|input)",
    re.IGNORECASE,
)
#: A refused key behind a status and a type that say no more than "bad request" (xAI).
_BAD_KEY = re.compile(r"(?:incorrect|invalid) api key|api key (?:is )?not valid", re.IGNORECASE)


def failure(code: ProviderErrorCode, *, detail: str = "", message: str | None = None) -> ProviderError:
    """A :class:`ProviderError` with this house's sentence for ``code`` (or ``message``)."""
    return ProviderError(code, message or _MESSAGES[code], detail=detail[:MAX_DETAIL])


def http_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """What a response that is no stream means.

    :param status: HTTP status; a 200 whose body holds an error object is welcome too.
    :param headers: response headers, names in lower case.
    :param body: as far as it was read; JSON of any shape, HTML or plain text.
    """
    value = _parse(body)
    found = _facts(value)
    if not found.text:
        found.text = body.decode("utf-8", "replace")
    code = _code(status if status >= 400 else found.status, found)
    return ProviderError(
        code, _sentence(code, status), detail=found.text[:MAX_DETAIL],
        status=status, retry_after=retry_after(headers),
    )  # fmt: skip


def in_band_error(error: t.Any) -> ProviderError:
    """What an error object inside a stream means; ``error`` is of any shape."""
    found = _facts(error)
    code = _code(found.status, found)
    text = found.text or orjson.dumps(error, default=str).decode()
    return ProviderError(code, _sentence(code, None), detail=text[:MAX_DETAIL], status=found.status)


def has_error(value: t.Any) -> bool:
    """Whether a JSON document is an error report rather than an answer."""
    if isinstance(value, list):
        return bool(value) and has_error(value[0])
    if not isinstance(value, Mapping) or "choices" in value:
        return False
    if value.get("error") or any(says_failure(value.get(key)) for key in ("type", "object")):
        return True
    if _complains(value):
        return True
    if isinstance(value.get("type"), str):  # an event that we do not know may hold any of the following
        return False
    reports = any(value.get(key) for key in ("errors", "detail", "error_message"))
    return reports or value.get("success") is False


def says_failure(kind: t.Any) -> bool:
    """Whether the ``type`` of an event, even an unknown one, says that the answer failed (field case ERRLOST-02)."""
    return isinstance(kind, str) and kind.lower().endswith(
        ("error", "failed", "failure", "incomplete", "exception")
    )


def _complains(value: Mapping[str, t.Any]) -> bool:
    """Whether a document is words for somebody to read, with a code of failure where it has a type as well."""
    texts = (value.get(key) for key in ("message", "msg", "detail"))
    if not any(isinstance(text, str) and text.strip() for text in texts):
        return False
    found = _facts(value)
    return "type" not in value or found.status is not None or any(code in _TYPED for code in found.codes)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as ``retry-after-ms`` or ``retry-after`` (seconds or a date) say; None when they do not."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if not value:
            continue
        try:
            seconds = float(value) / unit
        except ValueError:
            seconds = _until(value, headers.get("date", ""))
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def _until(date: str, now: str) -> float:
    """Seconds between two HTTP dates, the vendor's own clock being the one it means; NaN when one is none."""
    try:
        return (parsedate_to_datetime(date) - parsedate_to_datetime(now)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return math.nan


class _Facts:
    """What can be read off an error report, whatever its shape."""

    def __init__(self) -> None:
        self.codes: list[str] = []
        self.status: int | None = None
        self.text = ""


def _parse(body: bytes) -> t.Any:
    try:
        return orjson.loads(body)
    except ValueError:
        return None


def _facts(value: t.Any) -> _Facts:
    found = _Facts()
    for node in _nodes(value, 0):
        if isinstance(node, str):
            found.text = found.text or node
            continue
        for key in (
            "code",
            "type",
            "status",
            "status_code",
            "statusCode",
            "error_code",
            "error_type",
            "reason",
        ):
            _note(found, node.get(key))
    return found


def _note(found: _Facts, code: t.Any) -> None:
    if isinstance(code, str) and code.isascii() and code.isdigit():
        code = int(code)
    if isinstance(code, bool) or code is None:
        return
    if isinstance(code, int):
        if 400 <= code <= 599 and found.status is None:
            found.status = code
    elif isinstance(code, str):
        found.codes.append(code.lower())


def _nodes(value: t.Any, depth: int) -> Iterator[t.Any]:
    """Every object and message of an error report, outermost first; JSON inside a message is opened too."""
    if depth > 6 or value is None:
        return
    if isinstance(value, list):
        for item in value[:4]:
            yield from _nodes(item, depth + 1)
    elif isinstance(value, Mapping):
        yield value
        for key in (
            "error",
            "errors",
            "message",
            "detail",
            "details",
            "msg",
            "error_message",
            "metadata",
            "raw",
            "innererror",
        ):
            yield from _nodes(value.get(key), depth + 1)
    elif isinstance(value, str) and value:
        yield value
        if value[:1] in "{[":
            yield from _nodes(_parse(value.encode("utf-8", "replace")), depth + 1)


def _code(status: int | None, found: _Facts) -> ProviderErrorCode:
    typed = [_TYPED[code] for code in found.codes if code in _TYPED]
    for sharp in ("context_length_exceeded", "content_filtered"):
        if sharp in typed:
            return t.cast(ProviderErrorCode, sharp)
    plain = status in (None, 400, 413, 422, 500) and (not typed or typed[0] == "provider_bad_request")
    if plain and _TOO_LONG.search(found.text):
        return "context_length_exceeded"
    if plain and ("provider_auth" in typed or _BAD_KEY.search(found.text)):
        return "provider_auth"  # a bad request, says the outer code; the reason inside tells which
    if status == 429:
        return "provider_rate_limited"
    if typed:
        return typed[0]
    if status is None:
        return "provider_unavailable"
    return _STATUS.get(status) or ("provider_unavailable" if status >= 500 else "provider_bad_request")


def _sentence(code: ProviderErrorCode, status: int | None) -> str:
    if code == "provider_bad_request" and status == 404:
        return (
            "The provider does not know this model or address. Check the model's name and the base address."
        )
    return _MESSAGES[code]

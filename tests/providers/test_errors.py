"""Vendors' failures as our codes: status, typed code, and bodies of every shape."""

from __future__ import annotations

import json
import typing as t

import pytest

from providers import errors

SECRET = "sk-live-000"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "provider_bad_request"),
        (401, "provider_auth"),
        (402, "provider_auth"),
        (403, "provider_auth"),
        (404, "provider_bad_request"),
        (408, "provider_unavailable"),
        (413, "context_length_exceeded"),
        (422, "provider_bad_request"),
        (429, "provider_rate_limited"),
        (500, "provider_unavailable"),
        (502, "provider_unavailable"),
        (503, "provider_overloaded"),
        (504, "provider_unavailable"),
        (529, "provider_overloaded"),
    ],
)
def test_status_alone(status: int, code: str) -> None:
    error = errors.http_error(status, {}, b"")
    assert (error.code, error.status) == (code, status)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, {"error": {"code": "context_length_exceeded", "message": "m"}}, "context_length_exceeded"),
        (400, {"error": {"type": "exceed_context_size_error", "message": "m"}}, "context_length_exceeded"),
        (400, {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}, "context_length_exceeded"),
        (400, {"error": {"code": "content_filter", "message": "m"}}, "content_filtered"),
        (
            400,
            {"error": {"code": "400", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
            "content_filtered",
        ),
        (413, {"error": {"code": "rate_limit_exceeded", "message": "TPM"}}, "provider_rate_limited"),
        (400, {"error": {"message": "Incorrect key", "code": "invalid_api_key"}}, "provider_auth"),
        (500, {"error": {"type": "overloaded_error"}}, "provider_overloaded"),
        (
            429,
            {"error": {"type": "insufficient_quota", "code": "insufficient_quota"}},
            "provider_rate_limited",
        ),
        (404, {"error": {"code": "model_not_found"}}, "provider_bad_request"),
        (200, {"error": {"code": 429, "message": "slow down"}}, "provider_rate_limited"),
        (200, {"error": {"message": "what"}}, "provider_unavailable"),
        (200, [{"error": {"code": 503}}], "provider_overloaded"),
        (
            502,
            {"error": {"message": json.dumps({"error": {"type": "rate_limit_error"}})}},
            "provider_rate_limited",
        ),
    ],
)
def test_typed_codes(status: int, body: t.Any, code: str) -> None:
    assert errors.http_error(status, {}, json.dumps(body).encode()).code == code


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"error": SECRET}),
        json.dumps({"detail": SECRET}),
        json.dumps({"detail": [{"loc": ["body"], "msg": SECRET}]}),
        json.dumps({"message": SECRET}),
        json.dumps({"error": {"message": SECRET}}),
        json.dumps({"error": {"error": {"message": SECRET}}}),
        json.dumps({"errors": [{"message": SECRET}]}),
        json.dumps([{"error": {"message": SECRET}}]),
        json.dumps(SECRET),
        f"<html><body><h1>{SECRET}</h1></body></html>",
        SECRET,
    ],
)
def test_the_vendors_words_are_kept_out_of_the_message(body: str) -> None:
    error = errors.http_error(400, {}, body.encode())
    assert error.code == "provider_bad_request"
    assert SECRET in error.detail
    assert SECRET not in error.message


@pytest.mark.parametrize(
    "body", [b"", b"null", b"{}", b"[]", b"\xff\xfe", b"[" * 3000, b'{"error":null}', b"1"]
)
def test_bodies_that_say_nothing(body: bytes) -> None:
    assert errors.http_error(500, {}, body).code == "provider_unavailable"


def test_detail_is_bounded() -> None:
    assert len(errors.http_error(500, {}, b"x" * 100_000).detail) == errors.MAX_DETAIL


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert errors.http_error(429, headers, b"").retry_after == seconds


@pytest.mark.parametrize(
    ("value", "is_error"),
    [
        ({"error": "x"}, True),
        ({"detail": "x"}, True),
        ({"type": "error"}, True),
        ([{"error": {}}, {}], False),
        ([{"error": {"code": 1}}], True),
        ({"choices": [], "error": None}, False),
        ({"id": "x"}, False),
        ("text", False),
        (None, False),
    ],
)
def test_what_is_an_error_report(value: t.Any, is_error: bool) -> None:
    assert errors.has_error(value) is is_error

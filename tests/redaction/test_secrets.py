"""Masking of secrets in operator text."""

from __future__ import annotations

import pytest

from app.redaction.secrets import known_secrets, mask


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Incorrect API key provided: sk-proj-abc123DEF456", "Incorrect API key provided: ***"),
        ("header Authorization: Bearer abc.def-ghi123", "header Authorization: Bearer ***"),
        ("authorization: Token0123456", "authorization: ***"),
        ('{"x-api-key": "0123456789abcdef"}', '{"x-api-key": "***"}'),
        (
            "GET https://h/v1/models?key=AbC123&alt=sse failed",
            "GET https://h/v1/models?key=***&alt=sse failed",
        ),
        ("https://h/?a=1&access_token=zzz#frag", "https://h/?a=1&access_token=***#frag"),
        (
            "could not connect to postgresql://studio:hunter2@db/x",
            "could not connect to postgresql://***@db/x",
        ),
        ('{"client_secret": "s3cr3t-value"}', '{"client_secret": "***"}'),
        ("id AKIAIOSFODNN7EXAMPLE used", "id *** used"),
        ("t eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0xx.sig-123 end", "t *** end"),
        ("key AIzaSyA1234567890abcdefghijklmnopqrstu bad", "key *** bad"),
    ],
)
def test_shapes_of_secrets_are_masked(text, expected):
    assert mask(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The model gpt-4o-mini does not exist or you do not have access to it.",
        "Rate limit reached for tokens per min (TPM): Limit 30000, Used 29000.",
        "ask-me-anything is fine, so is https://docs.example.com/errors#key",
        "maximum context length is 8192 tokens; token count 9000",
    ],
)
def test_ordinary_text_is_untouched(text):
    assert mask(text) == text


def test_known_values_are_masked_in_any_spelling():
    known = known_secrets(
        {
            "OPENAI_API_KEY": "plain+value/with=signs",
            "VENDOR_TOKEN": "short",
            "STUDIO_DATABASE_URL": "postgresql://u:p%40ssword@db/x",
            "HOME": "/srv/plain",
        }
    )
    assert set(known) == {"plain+value/with=signs", "p%40ssword", "p@ssword"}
    text = "sent plain+value/with=signs as plain%2Bvalue%2Fwith%3Dsigns; short; p@ssword"
    assert mask(text, known) == "sent *** as ***; short; ***"


def test_longer_secret_wins_over_its_prefix():
    assert mask("abcdef-longer", ("abcdef", "abcdef-longer")) == "***"


def test_masking_takes_linear_time_on_hostile_text():
    for piece in ("?a_", '"key', "://", "Bearer ", "x-a-", "eyJ"):
        text = piece * 20_000
        assert isinstance(mask(text), str)  # would not return for minutes if a pattern backtracked


def test_headers_of_exporters_are_secrets_however_they_are_spelled():
    known = known_secrets(
        {
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic%20dXNlcjpwYXNz,x-team=blue",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "api-key = abc+def/123",
        }
    )
    assert set(known) == {"Basic dXNlcjpwYXNz", "dXNlcjpwYXNz", "abc+def/123"}

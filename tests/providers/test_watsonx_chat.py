"""watsonx.ai's wire: what differs from the chat-completions shape."""

from __future__ import annotations

import json
import typing as t

import pytest

from providers import spec
from providers.auth import NoAuth
from providers.watsonx_chat import VERSION, WIRE, build_request
from tests.providers.driving import chunk, decode, request, sse, tools

BASE = "https://eu-de.ml.cloud.ibm.com/ml/v1"


def sent(model: str = "ibm/granite-3-3-8b-instruct", **changes: t.Any) -> tuple[str, dict[str, t.Any]]:
    """Address and body of one request."""
    options = changes.pop("options", {"project_id": "p1"})
    http = build_request(request(model=model, **changes), spec.Connection(BASE, NoAuth(), options=options))
    return http.url, json.loads(http.body)


def test_the_members_of_its_own() -> None:
    url, body = sent(max_tokens=9)
    assert url == f"{BASE}/text/chat_stream?version={VERSION}"
    assert body == {
        "model_id": "ibm/granite-3-3-8b-instruct",
        "project_id": "p1",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 9,
    }


def test_a_space_and_a_version() -> None:
    url, body = sent(options={"space_id": "s1", "api_version": "2026-01-01"})
    assert url.endswith("?version=2026-01-01")
    assert (body["space_id"], "project_id" in body) == ("s1", False)


def test_a_deployment_knows_model_and_space() -> None:
    url, body = sent("deployment/d/1")
    assert url == f"{BASE}/deployments/d%2F1/text/chat_stream?version={VERSION}"
    assert set(body) == {"messages"}


@pytest.mark.parametrize("choice", ["required", "echo"])
def test_choices(choice: str) -> None:
    _, body = sent(tools=tools("echo"), tool_choice=choice)
    if choice == "required":
        assert (body["tool_choice_option"], "tool_choice" in body) == ("required", False)
    else:
        assert body["tool_choice"] == {"type": "function", "function": {"name": "echo"}}
        assert "tool_choice_option" not in body


def test_a_stream() -> None:
    """As its reference shows it: numbered events, the usage on a last chunk without choices, no sentinel."""
    body = b"".join(
        b"id: %d\nevent: message\n" % number + sse(value)
        for number, value in enumerate(
            [
                chunk({"role": "assistant", "content": ""}, model_id="m"),
                chunk({"reasoning_content": "Hm"}),
                chunk({"content": "Yes"}),
                chunk({}, "stop"),
                {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
            ],
            1,
        )
    )
    seen = decode(WIRE, [body])
    assert (seen.thinking, seen.text, seen.reason) == ("Hm", "Yes", "stop")
    assert seen.finished is not None
    assert seen.finished.usage == spec.Usage(3, 2, 5)


def test_errors_of_its_shape() -> None:
    body = b'{"errors":[{"code":"model_not_supported","message":"no such model"}],"status_code":404}'
    error = WIRE.error(404, {}, body)
    assert (error.code, error.detail) == ("provider_bad_request", "no such model")

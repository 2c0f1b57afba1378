"""The models that a server says it has, by name.

Law of this room: a list is a stranger's answer: bounded in bytes, and whatever in it is no text is passed over. Asked
off the hot path only; which names are fit to show, and how long an answer is kept, is for whoever asks.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Mapping

import orjson

from providers import errors
from providers.auth import authenticate
from providers.spec import Connection, HttpRequest, Waits


def openai_models(connection: Connection, waits: Waits) -> list[str]:
    """``GET <base>/models``: ``{"data": [{"id": …}]}``, or the bare list (Together); also an object's ``models``.

    :returns: names as they are asked for, sorted, each once.
    :raises ProviderError: nobody answers, the server refuses, or its answer is no list.
    """
    return _names(
        _ask(connection, f"{connection.base_url}/models", waits), ("data", "models"), ("id", "name")
    )


def chat_models(connection: Connection, waits: Waits) -> list[str]:
    """As :func:`openai_models`, without what the server says is no chat model (its ``type``: embedding, image, …)."""
    answer = _ask(connection, f"{connection.base_url}/models", waits)
    return _names(answer, ("data", "models"), ("id", "name"), keep=_chats)


def ollama_models(connection: Connection, waits: Waits) -> list[str]:
    """``GET <server>/api/tags``: ``{"models": [{"name": …}]}``; the base may carry Ollama's ``/v1`` or ``/api``.

    :returns: names with their tags, sorted, each once.
    :raises ProviderError: nobody answers, the server refuses, or its answer is no list.
    """
    base = connection.base_url
    for path in ("/v1", "/api"):
        base = base.removesuffix(path)
    return _names(_ask(connection, f"{base}/api/tags", waits), ("models",), ("name", "model"))


def databricks_endpoints(connection: Connection, waits: Waits) -> list[str]:
    """``GET <host>/api/2.0/serving-endpoints``: the chat endpoints of a workspace.

    :raises ProviderError: nobody answers, the server refuses, or its answer is no list.
    """
    base = connection.base_url.removesuffix("/serving-endpoints")
    answer = _ask(connection, f"{base}/api/2.0/serving-endpoints", waits)
    return _names(answer, ("endpoints",), ("name",), keep=lambda entry: entry.get("task") == "llm/v1/chat")


def _ask(connection: Connection, url: str, waits: Waits) -> t.Any:
    # Not at import: every family that lists its models imports this room, and none asks at start.
    from providers.http_fetch import fetch_json

    request = HttpRequest("GET", url, {"Accept": "application/json", **connection.headers}, b"")
    authenticate(request, connection, waits)
    status, headers, body = fetch_json(
        request.method, request.url, request.headers, request.body, connection.connect_s, waits
    )
    if status != 200:
        raise errors.http_error(status, headers, body)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise errors.failure(
            "provider_bad_stream", detail=f"the list of models is no JSON: {error}"
        ) from error


def _names(
    answer: t.Any,
    members: Iterable[str],
    keys: Iterable[str],
    *,
    keep: Callable[[Mapping[str, t.Any]], bool] = lambda entry: True,
) -> list[str]:
    entries = answer
    if isinstance(answer, dict):
        entries = next((answer[member] for member in members if isinstance(answer.get(member), list)), None)
    if not isinstance(entries, list):
        raise errors.failure("provider_bad_stream", detail="the answer is no list of models")
    names: set[str] = set()
    for entry in entries:
        if isinstance(entry, dict) and keep(entry) and (name := _name(entry, keys)):
            names.add(name)
    return sorted(names)


def _name(entry: Mapping[str, t.Any], keys: Iterable[str]) -> str:
    return next((value for key in keys if isinstance(value := entry.get(key), str) and value), "")


def _chats(entry: Mapping[str, t.Any]) -> bool:
    kind = entry.get("type")
    return not isinstance(kind, str) or kind in ("chat", "language", "llm", "vlm", "text", "model")

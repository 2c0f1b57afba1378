"""The request side of the Messages wire.

Law of this room: a request says what was asked for and nothing the vendor refuses. What differs between models
and servers is a switch of the family's ``dialect`` (``path`` and ``query``: see ``request_parts``):

====================  =======================================================================================
switch                meaning
====================  =======================================================================================
``thinking``          ``budget`` (default): a level becomes ``thinking.budget_tokens``; ``adaptive``: it becomes
                      ``output_config.effort``; ``never``: thinking is not asked for
``thinking_off``      how level ``none`` is said: ``omit`` (default: nothing is sent), ``never`` (it cannot be),
                      or the ``thinking.type`` that says it (``disabled``, ``between_tools``). Anything but ``omit``
                      also means that the model thinks by default: without a level its own default stands.
``sampling``          False: ``temperature`` and ``top_p`` are refused and not sent. They are never sent
                      together with thinking, which excludes them.
``levels``            level → the vendor's effort
``model_in_body``     False: the model is named by the path only (Vertex AI, Bedrock)
``version_in_body``   the protocol version as ``anthropic_version``, for hosts that want it in the body, not a header
``stream_in_body``    False: the path says that the answer is a stream (Bedrock)
``body``              members added to every request as they are
====================  =======================================================================================
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from providers.claude_thinking import answer_limit, ask_claude
from providers.closed_schema import closed, with_words
from providers.request_parts import endpoint, file_base64, post_json, safe_name
from providers.spec import (
    AssistantMessage,
    Connection,
    FilePart,
    HttpRequest,
    Json,
    ModelRequest,
    ToolResult,
    UserMessage,
)

WIRE_NAME = "anthropic_messages"
VERSION = "2023-06-01"
_UNSAFE = re.compile("[^A-Za-z0-9_-]")


def build_request(request: ModelRequest, connection: Connection) -> HttpRequest:
    """``POST <base_url>/messages``, or where the family's ``path`` says; the base carries the version path."""
    version = {} if request.dialect.get("version_in_body") else {"anthropic-version": VERSION}
    return post_json(
        endpoint(request, connection, "/messages"), connection, build_body(request), headers=version
    )


def build_body(request: ModelRequest) -> Json:
    """The JSON body of one model call, for this wire and for others that carry the protocol inside their own."""
    dialect = request.dialect
    body: Json = {
        **({"model": request.model} if dialect.get("model_in_body", True) else {}),
        **({"anthropic_version": version} if (version := dialect.get("version_in_body")) else {}),
        "max_tokens": answer_limit(request, None),
        "messages": _messages(request),
        **({"stream": True} if dialect.get("stream_in_body", True) else {}),
    }
    system = request.system
    if request.response_format is not None:
        schema, whole = closed(request.response_format)
        if schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        if not whole:
            system = with_words(system, request.response_format)
    if system and system.strip():
        body["system"] = system
    thinks = _thinking(request, body)
    _sampling(request, body, thinks)
    _tools(request, body)
    if request.cache:
        _mark_cached(body)
    body.update(dialect.get("body") or {})
    return body


def _sampling(request: ModelRequest, body: Json, thinks: bool) -> None:
    if not thinks and request.dialect.get("sampling", True):
        for field in ("temperature", "top_p"):
            value = getattr(request, field)
            if value is not None:
                body[field] = value
    if request.stop:
        body["stop_sequences"] = list(request.stop)


def _mark_cached(body: Json) -> None:
    """Mark what the next call repeats: the tools, the system prompt, and the conversation up to here.

    Three marks of the four that the vendor allows (platform.claude.com/docs/en/build-with-claude/prompt-caching).
    """
    mark = {"cache_control": {"type": "ephemeral"}}
    if tools := body.get("tools"):
        tools[-1].update(mark)
    if system := body.get("system"):
        body["system"] = [{"type": "text", "text": system, **mark}]
    last = next((each for each in reversed(body["messages"]) if each["role"] == "user"), None)
    if last is not None and last["content"]:
        last["content"][-1].update(mark)


def _thinking(request: ModelRequest, body: Json) -> bool:
    """Ask for thinking, or for none; whether the model will think."""
    if request.dialect.get("thinking") == "never":
        return False
    asked = ask_claude(request, body["messages"], "tool_use", ("thinking", "redacted_thinking"))
    for name, value in asked.fields.items():
        body[name] = {**body.get(name, {}), **value}
    body["max_tokens"] = answer_limit(request, asked.budget)
    return asked.thinks


def _tools(request: ModelRequest, body: Json) -> None:
    """Tools are kept when none may be called: the history names them."""
    if not request.tools:
        return
    body["tools"] = [
        {
            "name": tool.name,
            **({"description": tool.description} if tool.description else {}),
            "input_schema": dict(tool.parameters),
        }
        for tool in request.tools
    ]
    choice = request.tool_choice
    wanted: Json = {"type": {"required": "any"}.get(choice, choice)}
    if choice not in ("auto", "none", "required"):
        wanted = {"type": "tool", "name": choice}
    if request.parallel_tool_calls is False and choice != "none":
        wanted["disable_parallel_tool_use"] = True
    if wanted != {"type": "auto"}:
        body["tool_choice"] = wanted


def _messages(request: ModelRequest) -> list[Json]:
    """The conversation; what follows each other on one side is one message, as the vendor wants results to be."""
    messages: list[Json] = []
    for message in request.messages:
        if isinstance(message, UserMessage):
            role, content = "user", _user(message)
        elif isinstance(message, ToolResult):
            role, content = "user", [_result(message)]
        else:
            role, content = "assistant", _assistant(message)
        if not content:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].extend(content)
        else:
            messages.append({"role": role, "content": content})
    return messages


def _user(message: UserMessage) -> list[Json]:
    content = [_file(file) for file in message.files]
    if message.text.strip() or not content:
        content.append({"type": "text", "text": message.text})
    return content


def _file(file: FilePart) -> Json:
    """An image, or a document; a text is a document of its own kind, so that its name is no part of it."""
    if file.kind == "text":
        source = {"type": "text", "media_type": "text/plain", "data": file.data.decode("utf-8", "replace")}
    else:
        source = {"type": "base64", "media_type": file.media_type, "data": file_base64(file)}
    if file.kind == "image":
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, **({"title": file.name} if file.name else {})}


def _result(message: ToolResult) -> Json:
    result: Json = {
        "type": "tool_result",
        "tool_use_id": _safe_id(message.call_id),
        "content": message.content,
    }
    if message.is_error:
        result["is_error"] = True
    return result


def _assistant(message: AssistantMessage) -> list[Json]:
    if message.wire == WIRE_NAME and isinstance(message.replay, list):
        return [_with_safe_id(block) for block in message.replay]
    content: list[Json] = [{"type": "text", "text": message.text}] if message.text.strip() else []
    content.extend(
        {
            "type": "tool_use",
            "id": _safe_id(call.id),
            "name": safe_name(call.name),
            "input": call.arguments or {},
        }
        for call in message.calls
    )
    return content


def _with_safe_id(block: Mapping[str, t.Any]) -> Json:
    if block.get("type") == "tool_use":
        return {**block, "id": _safe_id(str(block.get("id"))), "name": safe_name(str(block.get("name")))}
    return dict(block)


def _safe_id(call_id: str) -> str:
    """An id in the alphabet that the vendor accepts; other wires' vendors use more."""
    return _UNSAFE.sub("_", call_id)

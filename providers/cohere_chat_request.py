"""The request side of Cohere's chat wire.

Law of this room: a request says what was asked for and nothing the vendor refuses. What differs between models
is a switch of the family's ``dialect``:

====================  =======================================================================================
switch                meaning
====================  =======================================================================================
``thinking``          ``budget``: the model takes ``thinking``; it thinks unless that is switched off, so nothing
                      is asked without a level. ``never`` (default): ``thinking`` is not sent.
``tool_choice``       True: the model takes ``tool_choice``, ``REQUIRED`` and ``NONE``; a tool's name is forced by
                      offering that tool alone. Default: False; then no tools are offered where none may be called.
``tool_plan``         True: what the model said before its calls goes back as ``tool_plan``. Default: False, it goes
                      back as thinking, since models that think refuse a plan.
``body``              members added to every request as they are
``path``, ``query``   see ``request_parts``
====================  =======================================================================================
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import replace

import orjson

from providers.closed_schema import with_words
from providers.request_parts import data_url, endpoint, file_text, post_json, safe_name, sent_arguments
from providers.spec import (
    AssistantMessage,
    Connection,
    FilePart,
    HttpRequest,
    Json,
    Message,
    ModelRequest,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserMessage,
)

WIRE_NAME = "cohere_chat"

#: Thinking tokens that a level stands for. The ends are the vendor's (docs.cohere.com, reasoning): 31k for "as much as
#: possible" of the 32k a model may write, and no budget at all (``auto``) otherwise. The steps between are ours, as on
#: the other wires with budgets.
_BUDGETS: Mapping[str, int] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 24576,
    "max": 31000,
}


def build_request(request: ModelRequest, connection: Connection) -> HttpRequest:
    """``POST <base_url>/chat``; the base carries the version path, and one of version 1 is taken for this one."""
    base = connection.base_url.removesuffix("/chat")
    base = f"{base[:-3]}/v2" if base.endswith("/v1") else base
    return post_json(
        endpoint(request, replace(connection, base_url=base), "/chat"), connection, build_body(request)
    )


def build_body(request: ModelRequest) -> Json:
    """The JSON body of one model call."""
    body: Json = {"model": request.model, "messages": [], "stream": True}
    for field, name in (("temperature", "temperature"), ("top_p", "p"), ("seed", "seed")):
        value = getattr(request, field)
        if value is not None:
            body[name] = value
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    _tools(request, body)
    system = request.system
    if request.response_format is not None and "tools" in body:  # the vendor refuses both together
        system = with_words(system, request.response_format)
    elif request.response_format is not None:
        body["response_format"] = {"type": "json_object", "json_schema": dict(request.response_format)}
    body["messages"] = _messages(request, system)
    if _takes_thinking(request) and request.thinking is not None:
        body["thinking"] = _thinking(request.thinking)
    body.update(request.dialect.get("body") or {})
    return body


def _takes_thinking(request: ModelRequest) -> bool:
    return bool(request.dialect.get("thinking", "never") != "never")


def _thinking(level: str | int) -> Json:
    if level == "none":
        return {"type": "disabled"}
    budget = level if isinstance(level, int) else _BUDGETS.get(level)
    return {"type": "enabled", **({} if budget is None else {"token_budget": max(1, budget)})}


def _tools(request: ModelRequest, body: Json) -> None:
    choice, offered = request.tool_choice, list(request.tools)
    takes_choice = bool(request.dialect.get("tool_choice"))
    if not offered or (choice == "none" and not takes_choice):
        return
    if choice not in ("auto", "none", "required"):
        offered = [tool for tool in offered if tool.name == choice]
    body["tools"] = [_tool(tool) for tool in offered]
    if choice != "auto" and takes_choice:
        body["tool_choice"] = "NONE" if choice == "none" else "REQUIRED"


def _tool(tool: ToolSpec) -> Json:
    function: Json = {"name": tool.name, "parameters": dict(tool.parameters)}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def _messages(request: ModelRequest, system: str | None) -> list[Json]:
    messages: list[Json] = []
    if system:
        messages.append({"role": "system", "content": system})
    messages.extend(_message(message, request) for message in request.messages)
    return messages


def _message(message: Message, request: ModelRequest) -> Json:
    if isinstance(message, UserMessage):
        return {"role": "user", "content": _user_content(message)}
    if isinstance(message, ToolResult):
        return _result(message)
    return _assistant(message, request)


def _user_content(message: UserMessage) -> str | list[Json]:
    if not message.files:
        return message.text
    parts = [_file(file) for file in message.files]
    return [*parts, {"type": "text", "text": message.text}] if message.text else parts


def _file(file: FilePart) -> Json:
    if file.kind == "text":
        return {"type": "text", "text": file_text(file)}
    return {"type": "image_url", "image_url": {"url": data_url(file)}}


def _result(message: ToolResult) -> Json:
    """A result is a document, so that the model can cite it; what is no object already becomes one."""
    data: t.Any = None
    if message.is_error:
        data = {"error": message.content}
    else:
        try:
            data = orjson.loads(message.content)
        except ValueError:
            pass
        if not isinstance(data, dict) or not data:
            data = {"content": message.content}
    return {
        "role": "tool",
        "tool_call_id": message.call_id,
        "content": [{"type": "document", "document": {"data": data}}],
    }


def _assistant(message: AssistantMessage, request: ModelRequest) -> Json:
    """An earlier turn. Beside calls the vendor refuses text: what was said before them is a plan, or thinking."""
    replay = message.replay if message.wire == WIRE_NAME and isinstance(message.replay, Mapping) else {}
    parts: list[Json] = list(replay.get("content") or ())
    plan = str(replay.get("tool_plan") or "")
    built: Json = {"role": "assistant"}
    thinks = _takes_thinking(request) and request.thinking != "none"
    if not message.calls:
        content = [part for part in parts if thinks or part["type"] != "thinking"]
        built["content"] = content if any(part["type"] == "thinking" for part in content) else message.text
        return built
    built["tool_calls"] = [_call(call) for call in message.calls]
    if request.dialect.get("tool_plan"):
        said = plan or message.text
        if said:
            built["tool_plan"] = said
    elif thinks and (thought := _as_thinking(parts, plan, message.text)):
        built["content"] = thought
    return built


def _as_thinking(parts: list[Json], plan: str, text: str) -> list[Json]:
    """What was thought, planned and said before calls, in order, as thinking."""
    said = [part.get("thinking") or part.get("text") for part in parts] or [text]
    return [{"type": "thinking", "thinking": piece} for piece in (plan, *said) if piece]


def _call(call: ToolCall) -> Json:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": safe_name(call.name), "arguments": sent_arguments(call)},
    }

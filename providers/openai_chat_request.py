"""The request side of the chat-completions wire.

Law of this room: a request says what was asked for and nothing a vendor might refuse. What vendors
disagree on is a switch of the family's ``dialect``:

======================  =====================================================================================
switch                  meaning
======================  =====================================================================================
``thinking``            how thinking is asked for: ``effort`` (``reasoning_effort``), ``reasoning`` (OpenRouter's
                        object), ``type`` (``thinking: {type}``), ``enable`` (``enable_thinking``), ``template``
                        (``chat_template_kwargs``), ``never``. Default: ``effort``, and only for a level that the
                        workflow sets; with the switch set, also when someone may see the thinking.
``thinks_by_default``   True: without a level the vendor's own default stands and nothing is asked
``levels``              level → the vendor's word; a level mapped to None is not sent
``max_tokens_field``    default ``max_tokens``
``system_role``         default ``system``
``include_usage``       False: no ``stream_options``
``response_format``     ``json_schema`` (default) or ``json_object``
``keep_tools``          True: the synthesis turn keeps its tools with ``tool_choice: none``
``replay_thinking``     ``loop`` (default: turns since the last user message), ``always``, ``never``
``thinking_required``   name of the field that a turn of the loop must carry even when it had no thinking
``inline_thinking``     True, or ``implicit``: thinking comes in tags inside the text (see ``inline_thinking``)
``body``                members added to every request as they are
======================  =====================================================================================
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from providers.spec import (
    AssistantMessage,
    Connection,
    HttpRequest,
    Message,
    ModelRequest,
    ToolCall,
    ToolResult,
    UserMessage,
)
from providers.surrogates import encode

WIRE_NAME = "openai_chat"

#: Budgets up to which an effort stands for them, in tokens.
_EFFORT_BUDGETS = ((1024, "minimal"), (4096, "low"), (16384, "medium"))
_LEVELS: dict[str, str | None] = {"auto": None, "max": "xhigh"}

Json = dict[str, t.Any]


def build_request(request: ModelRequest, connection: Connection) -> HttpRequest:
    """``POST <base_url>/chat/completions``; the base carries the version path."""
    return HttpRequest(
        "POST",
        f"{connection.base_url}/chat/completions",
        {"Content-Type": "application/json", "Accept": "text/event-stream", **connection.headers},
        encode(build_body(request)),
    )


def build_body(request: ModelRequest) -> Json:
    """The JSON body of one model call."""
    dialect = request.dialect
    body: Json = {"model": request.model, "messages": _messages(request), "stream": True}
    if dialect.get("include_usage", True):
        body["stream_options"] = {"include_usage": True}
    _sampling(request, body)
    _tools(request, body)
    if request.response_format is not None:
        body["response_format"] = _response_format(request.response_format, dialect)
    _thinking(request, body)
    body.update(dialect.get("body") or {})
    return body


def _sampling(request: ModelRequest, body: Json) -> None:
    for field in ("temperature", "top_p", "seed"):
        value = getattr(request, field)
        if value is not None:
            body[field] = value
    if request.max_tokens is not None:
        body[request.dialect.get("max_tokens_field", "max_tokens")] = request.max_tokens
    if request.stop:
        body["stop"] = list(request.stop)


def _tools(request: ModelRequest, body: Json) -> None:
    if not request.tools:
        return
    choice: t.Any = request.tool_choice
    if choice == "none" and not request.dialect.get("keep_tools"):
        return
    body["tools"] = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in request.tools
    ]
    if choice in ("none", "required"):
        body["tool_choice"] = choice
    elif choice != "auto":
        body["tool_choice"] = {"type": "function", "function": {"name": choice}}
    if request.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = request.parallel_tool_calls


def _response_format(schema: Mapping[str, t.Any], dialect: Mapping[str, t.Any]) -> Json:
    if dialect.get("response_format") == "json_object":
        return {"type": "json_object"}
    wrapped: Json = {"name": "answer", "schema": dict(schema)}
    if _strict(schema):
        wrapped["strict"] = True
    return {"type": "json_schema", "json_schema": wrapped}


def _strict(schema: t.Any) -> bool:
    """Whether a schema keeps the rules that strict mode refuses to do without: closed objects, all members required."""
    if isinstance(schema, list):
        return all(map(_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, Mapping):
        names = set(properties) if isinstance(properties, Mapping) else set()
        if schema.get("additionalProperties") is not False or names != set(schema.get("required") or ()):
            return False
    return all(_strict(value) for value in schema.values())


def _thinking(request: ModelRequest, body: Json) -> None:
    """Ask for thinking when the workflow sets a level, or when someone may see it and the family says how."""
    dialect = request.dialect
    style = dialect.get("thinking")
    level = request.thinking
    if level is None:
        if not style or not request.show_thinking or dialect.get("thinks_by_default"):
            return
        level = "medium"
    ask = _ASKS.get(style or "effort")
    if ask is not None:
        ask(level, {**_LEVELS, **(dialect.get("levels") or {})}, body)


def _effort(level: str | int, levels: Mapping[str, str | None]) -> str | None:
    if isinstance(level, int):
        level = next((name for budget, name in _EFFORT_BUDGETS if level <= budget), "high")
    return levels.get(level, level)


def _ask_effort(level: str | int, levels: Mapping[str, str | None], body: Json) -> None:
    effort = _effort(level, levels)
    if effort is not None:
        body["reasoning_effort"] = effort


def _ask_reasoning(level: str | int, levels: Mapping[str, str | None], body: Json) -> None:
    if isinstance(level, int):
        body["reasoning"] = {"max_tokens": level}
    elif level == "none":
        body["reasoning"] = {"enabled": False}
    else:
        effort = _effort(level, levels)
        body["reasoning"] = {"enabled": True} if effort is None else {"effort": effort}


def _ask_type(level: str | int, levels: Mapping[str, str | None], body: Json) -> None:
    body["thinking"] = {"type": "disabled" if level == "none" else "enabled"}


def _ask_enable(level: str | int, levels: Mapping[str, str | None], body: Json) -> None:
    body["enable_thinking"] = level != "none"
    if isinstance(level, int):
        body["thinking_budget"] = level


def _ask_template(level: str | int, levels: Mapping[str, str | None], body: Json) -> None:
    body["chat_template_kwargs"] = {"enable_thinking": level != "none"}


_ASKS = {
    "effort": _ask_effort,
    "reasoning": _ask_reasoning,
    "type": _ask_type,
    "enable": _ask_enable,
    "template": _ask_template,
}


def _messages(request: ModelRequest) -> list[Json]:
    messages: list[Json] = []
    if request.system:
        messages.append({"role": request.dialect.get("system_role", "system"), "content": request.system})
    last_user = _last_user(request.messages)
    for at, message in enumerate(request.messages):
        if isinstance(message, UserMessage):
            messages.append({"role": "user", "content": message.text})
        elif isinstance(message, ToolResult):
            messages.append({"role": "tool", "tool_call_id": message.call_id, "content": message.content})
        else:
            messages.append(_assistant(message, request.dialect, in_loop=at > last_user))
    return messages


def _last_user(messages: Sequence[Message]) -> int:
    return max((at for at, message in enumerate(messages) if isinstance(message, UserMessage)), default=-1)


def _assistant(message: AssistantMessage, dialect: Mapping[str, t.Any], *, in_loop: bool) -> Json:
    built: Json = {"role": "assistant", "content": message.text or ("" if not message.calls else None)}
    replay = message.replay if message.wire == WIRE_NAME and isinstance(message.replay, Mapping) else {}
    extras = replay.get("calls") or {}
    if message.calls:
        built["tool_calls"] = [{**_call(call), **extras.get(call.id, {})} for call in message.calls]
    rule = dialect.get("replay_thinking", "loop")
    if rule == "always" or (rule == "loop" and in_loop):
        built.update(replay.get("thinking") or {})
        for key in ("reasoning_details", "reasoning_signature"):
            if replay.get(key):
                built[key] = replay[key]
        if replay.get("parts"):
            built["content"] = replay["parts"]
    required = dialect.get("thinking_required")
    if required and in_loop and message.calls:
        built.setdefault(required, "")
    return built


def _call(call: ToolCall) -> Json:
    """A call as it goes back: arguments that were no object go back as ``{}``, since servers parse the history."""
    arguments = call.raw if call.arguments is not None and call.raw.strip() else "{}"
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}

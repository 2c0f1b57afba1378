"""The request side of the Responses wire.

Law of this room: a request says what was asked for and nothing a vendor might refuse, and it holds the whole
conversation: nothing depends on what the vendor stored. The protocol has no stop sequences and no seed; neither
is sent. What differs between models and servers is a switch of the family's ``dialect``:

=====================  ======================================================================================
switch                 meaning
=====================  ======================================================================================
``thinking``           ``effort`` (default, and what another wire's word means here): a level that the workflow
                       sets is sent as ``reasoning.effort``; ``summary``: and ``reasoning.summary`` is asked for
                       when someone may see the thinking; ``never``: the model takes neither
``summary``            the vendor's word for the summary wanted, default ``auto``
``thinks_by_default``  True: without a level the vendor's own default stands; else, when a summary is asked
                       for, no level means ``medium``
``levels``             level → the vendor's word; a level mapped to None is not sent
``encrypted``          True: reasoning is asked for in the encrypted form that goes back on the next turn
``sampling``           False: ``temperature`` and ``top_p`` are refused and not sent; ``unless_thinking``: they
                       are refused, and not sent, while the model thinks
``system``             ``instructions`` (default), or ``message``: the first message, of role ``system``
``path``, ``query``    see ``request_parts``; the path's default is ``/responses``
``body``               members added to every request as they are
=====================  ======================================================================================
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from providers.openai_shapes import effort_of, may_be_strict
from providers.request_parts import (
    data_url,
    endpoint,
    file_text,
    post_json,
    safe_name,
    sent_arguments,
    shortened,
)
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

WIRE_NAME = "openai_responses"
#: Longest call id and cache key the vendor takes, in characters.
MAX_ID = 64
#: What a tool of a kind that is never offered is answered with; unanswered, the conversation would be refused.
NO_SUCH_TOOL = "There is no such tool. Nothing was run."


def build_request(request: ModelRequest, connection: Connection) -> HttpRequest:
    """``POST <base_url>/responses``; the base carries the version path."""
    return post_json(endpoint(request, connection, "/responses"), connection, build_body(request))


def build_body(request: ModelRequest) -> Json:
    """The JSON body of one model call."""
    dialect = request.dialect
    body: Json = {"model": request.model, "input": _input(request), "stream": True}
    if request.system and dialect.get("system", "instructions") == "instructions":
        body["instructions"] = request.system
    body["store"] = False
    if dialect.get("encrypted"):
        body["include"] = ["reasoning.encrypted_content"]
    _thinking(request, body)
    _sampling(request, body)
    _tools(request, body)
    if request.response_format is not None:
        body["text"] = {"format": _format(request.response_format)}
    if request.conversation:
        body["prompt_cache_key"] = shortened(request.conversation, MAX_ID)
    body.update(dialect.get("body") or {})
    return body


def asks_summary(request: ModelRequest) -> bool:
    """Whether the vendor is asked to summarise its reasoning, which it may refuse to an organisation."""
    return (
        request.dialect.get("thinking") == "summary" and request.show_thinking and request.thinking != "none"
    )


def _thinking(request: ModelRequest, body: Json) -> None:
    """Ask for an effort when the workflow sets a level, for a summary when someone may see it."""
    dialect, level = request.dialect, request.thinking
    if dialect.get("thinking") == "never":
        return
    summary = asks_summary(request)
    if level is None and summary and not dialect.get("thinks_by_default"):
        level = "medium"
    wanted: Json = {}
    if level is not None and (effort := effort_of(level, dialect.get("levels"))) is not None:
        wanted["effort"] = effort
    if summary:
        wanted["summary"] = dialect.get("summary", "auto")
    if wanted:
        body["reasoning"] = wanted


def _sampling(request: ModelRequest, body: Json) -> None:
    if request.max_tokens is not None:
        body["max_output_tokens"] = request.max_tokens
    rule = request.dialect.get("sampling", True)
    if rule == "unless_thinking":
        effort = (body.get("reasoning") or {}).get("effort")
        rule = effort == "none" or (effort is None and not request.dialect.get("thinks_by_default"))
    for field in ("temperature", "top_p"):
        value = getattr(request, field)
        if rule and value is not None:
            body[field] = value


def _tools(request: ModelRequest, body: Json) -> None:
    """The tools, not strict: their schemas are the workflow's. None when none may be called."""
    choice: t.Any = request.tool_choice
    if not request.tools or choice == "none":
        return
    body["tools"] = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
            "strict": False,
        }
        for tool in request.tools
    ]
    if choice == "required":
        body["tool_choice"] = choice
    elif choice != "auto":
        body["tool_choice"] = {"type": "function", "name": choice}
    if request.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = request.parallel_tool_calls


def _format(schema: Mapping[str, t.Any]) -> Json:
    return {"type": "json_schema", "name": "answer", "schema": dict(schema), "strict": may_be_strict(schema)}


def _input(request: ModelRequest) -> list[Json]:
    items: list[Json] = []
    if request.system and request.dialect.get("system") == "message":
        items.append({"role": "system", "content": request.system})
    for message in request.messages:
        if isinstance(message, UserMessage):
            items.append({"role": "user", "content": _content(message)})
        elif isinstance(message, ToolResult):
            items.append(
                {
                    "type": "function_call_output",
                    "call_id": shortened(message.call_id, MAX_ID),
                    "output": message.content,
                }
            )
        else:
            items.extend(_assistant(message))
    return items


def _content(message: UserMessage) -> str | list[Json]:
    if not message.files:
        return message.text
    return [*map(_file, message.files), {"type": "input_text", "text": message.text}]


def _file(part: FilePart) -> Json:
    """A file as a part of a message; a text file becomes text under its name."""
    if part.kind == "text":
        return {"type": "input_text", "text": file_text(part)}
    if part.kind == "image":
        return {"type": "input_image", "image_url": data_url(part), "detail": "auto"}
    return {"type": "input_file", "filename": part.name or "file.pdf", "file_data": data_url(part)}


def _assistant(message: AssistantMessage) -> list[Json]:
    """An earlier turn: its own output items, or what text and calls make of it."""
    if message.wire == WIRE_NAME and isinstance(message.replay, list):
        return [built for item in message.replay for built in _answered(item)]
    items: list[Json] = [{"role": "assistant", "content": message.text}] if message.text else []
    items.extend(
        {
            "type": "function_call",
            "call_id": shortened(call.id, MAX_ID),
            "name": safe_name(call.name),
            "arguments": sent_arguments(call),
        }
        for call in message.calls
    )
    return items


def _answered(item: Json) -> list[Json]:
    """An output item as it goes back; a call of a kind that nobody here answers gets its answer."""
    if item.get("type") == "function_call":
        name, call_id = safe_name(str(item.get("name"))), shortened(str(item.get("call_id")), MAX_ID)
        return [{**item, "name": name, "call_id": call_id}]
    if item.get("type") == "custom_tool_call":
        answer = {
            "type": "custom_tool_call_output",
            "call_id": item.get("call_id"),
            "output": NO_SUCH_TOOL,
        }
        return [item, answer]
    return [item]

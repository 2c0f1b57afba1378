"""The request side of Ollama's own chat wire.

Law of this room: a request says what was asked for and leaves the rest to the model's own settings on the server.
The address may be given with ``/v1``, as for the server's OpenAI route. Switches of the family's ``dialect``:

====================  =======================================================================================
switch                meaning
====================  =======================================================================================
``inline_thinking``   True, or ``implicit``: thinking comes in tags inside the text (see ``inline_thinking``), as
                      servers of before 0.9 send it
``body``              members added to every request as they are
====================  =======================================================================================

The connection's option ``num_ctx`` is the context size to load a model with, in tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

from providers.closed_schema import with_words
from providers.request_parts import file_base64, file_text, function_tools, post_json
from providers.spec import (
    AssistantMessage,
    Connection,
    HttpRequest,
    Json,
    Message,
    ModelRequest,
    ToolResult,
    UserMessage,
)

WIRE_NAME = "ollama_chat"

#: ``think`` for a level: the server takes booleans and these four words.
_THINK: Mapping[str, bool | str] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "max",
    "max": "max",
}


def build_request(request: ModelRequest, connection: Connection) -> HttpRequest:
    """``POST <server>/api/chat``."""
    body = build_body(request)
    if (size := connection.options.get("num_ctx", "")).isdecimal():
        body.setdefault("options", {})["num_ctx"] = int(size)
    server = connection.base_url.removesuffix("/v1").removesuffix("/api")
    return post_json(f"{server}/api/chat", connection, body, accept="application/x-ndjson")


def build_body(request: ModelRequest) -> Json:
    """The JSON body of one model call."""
    body: Json = {"model": request.model, "messages": [], "stream": True}
    system = request.system
    # A tool cannot be forced; where none may be called none is offered.
    if request.tools and request.tool_choice != "none":
        body["tools"] = function_tools(request.tools)
    if request.response_format is not None and "tools" in body:
        # A format holds the model to it from its first word on, so that it would never call (ollama issue 11185).
        system = with_words(system, request.response_format)
    elif request.response_format is not None:
        body["format"] = dict(request.response_format)
    body["messages"] = _messages(request, system)
    # A model that can think does so unless told otherwise, and one that cannot refuses to be asked.
    level = request.thinking
    if isinstance(level, int):
        body["think"] = True
    elif level is not None and level in _THINK:
        body["think"] = _THINK[level]
    if options := _options(request):
        body["options"] = options
    body.update(request.dialect.get("body") or {})
    return body


def _options(request: ModelRequest) -> Json:
    given = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
        "num_predict": request.max_tokens,
        "stop": list(request.stop) or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _messages(request: ModelRequest, system: str | None) -> list[Json]:
    messages: list[Json] = []
    if system:
        messages.append({"role": "system", "content": system})
    messages.extend(map(_message, request.messages))
    return messages


def _message(message: Message) -> Json:
    if isinstance(message, UserMessage):
        return _user(message)
    if isinstance(message, ToolResult):
        # The name is what templates use, the id what newer servers match by.
        return {
            "role": "tool",
            "content": message.content,
            "tool_name": message.name,
            "tool_call_id": message.call_id,
        }
    return _assistant(message)


def _user(message: UserMessage) -> Json:
    texts = [file_text(file) for file in message.files if file.kind == "text"]
    images = [file_base64(file) for file in message.files if file.kind != "text"]
    content = "\n\n".join([*texts, message.text] if message.text else texts)
    return {"role": "user", "content": content, **({"images": images} if images else {})}


def _assistant(message: AssistantMessage) -> Json:
    built: Json = {"role": "assistant", "content": message.text}
    replay = message.replay if message.wire == WIRE_NAME and isinstance(message.replay, Mapping) else {}
    if replay.get("thinking"):
        built["thinking"] = replay["thinking"]
    if message.calls:
        built["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"index": at, "name": call.name, "arguments": call.arguments or {}},
            }
            for at, call in enumerate(message.calls)
        ]
    return built

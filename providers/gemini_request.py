"""The request side of the Gemini wire.

Law of this room: a request says what was asked for and nothing the vendor refuses. What differs between models
and servers is a switch of the family's ``dialect`` (``path`` and ``query``: see ``request_parts``):

=====================  ======================================================================================
switch                 meaning
=====================  ======================================================================================
``thinking``           ``level`` (default): a level becomes ``thinkingLevel``; ``budget``: it becomes
                       ``thinkingBudget``; ``never``: thinking is not asked for
``budget_range``       least and most thinking tokens of the model, for ``budget``
``thinks_by_default``  False: without a level the model does not think, so that showing it means asking for it
``levels``             level → the vendor's word or budget; None: the vendor's own default
``sampling``           False: ``temperature`` and ``top_p`` are ignored by the model and not sent
``signed_calls``       True: the vendor refuses a call in the history without a signature; calls of another
                       vendor carry the placeholder that it documents for them
``schema_with_tools``  False: the vendor refuses a response schema beside tools; it is put into words then
``body``               members added to every request as they are
=====================  ======================================================================================
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from providers.closed_schema import with_words
from providers.request_parts import MAX_NAME, endpoint, file_base64, file_text, post_json, safe_name
from providers.spec import (
    AssistantMessage,
    Connection,
    FilePart,
    HttpRequest,
    Json,
    Message,
    ModelRequest,
    ToolResult,
    UserMessage,
)

WIRE_NAME = "gemini"
PATH = "/models/{model}:streamGenerateContent"

#: Thinking tokens that a level stands for (ai.google.dev/gemini-api/docs/openai, table of ``reasoning_effort``).
_BUDGETS: dict[str, int] = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "auto": -1}
_LEVELS: dict[str, str | None] = {"auto": None}
#: Budgets up to which a level stands for them, in tokens.
_LEVEL_BUDGETS = ((1024, "low"), (8192, "medium"))
#: For calls that were no Gemini model's (ai.google.dev/gemini-api/docs/thought-signatures, FAQ).
_NO_SIGNATURE = "skip_thought_signature_validator"


def build_request(request: ModelRequest, connection: Connection) -> HttpRequest:
    """``POST <base_url>/models/<model>:streamGenerateContent?alt=sse``; the base carries the version path."""
    return post_json(endpoint(request, connection, PATH, {"alt": "sse"}), connection, build_body(request))


def build_body(request: ModelRequest) -> Json:
    """The JSON body of one model call."""
    dialect = request.dialect
    body: Json = {"contents": _contents(request)}
    system = request.system or ""
    config: Json = {}
    _sampling(request, config)
    _thinking(request, config)
    _tools(request, body)
    if request.response_format is not None:
        if "tools" in body and not dialect.get("schema_with_tools", True):
            system = with_words(system, request.response_format)
        else:
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = dict(request.response_format)
    if system:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    if config:
        body["generationConfig"] = config
    body.update(dialect.get("body") or {})
    return body


def _sampling(request: ModelRequest, config: Json) -> None:
    given = {
        "temperature": request.temperature,
        "topP": request.top_p,
        "maxOutputTokens": request.max_tokens,
        "seed": request.seed,
        "stopSequences": list(request.stop) or None,
    }
    if not request.dialect.get("sampling", True):
        given["temperature"] = given["topP"] = None
    config.update({name: value for name, value in given.items() if value is not None})


def _thinking(request: ModelRequest, config: Json) -> None:
    """Say how much to think when the workflow does, and ask to be shown it when someone may see it."""
    dialect = request.dialect
    style = dialect.get("thinking", "level")
    level = request.thinking
    if style == "never":
        return
    if level is None and request.show_thinking and not dialect.get("thinks_by_default", True):
        level = "medium"
    asked: Json = {}
    if level is not None:
        asked = (_budget if style == "budget" else _level)(level, dialect)
    if request.show_thinking and level != "none":
        asked["includeThoughts"] = True
    if asked:
        config["thinkingConfig"] = asked


def _budget(level: str | int, dialect: Mapping[str, t.Any]) -> Json:
    if level == "none":
        return {"thinkingBudget": 0}
    budgets = {**_BUDGETS, **(dialect.get("levels") or {})}
    budget = level if isinstance(level, int) else budgets.get(level, _BUDGETS["medium"])
    least, most = dialect.get("budget_range") or (0, 2**31)
    return {"thinkingBudget": budget if budget < 0 else max(least, min(most, budget))}


def _level(level: str | int, dialect: Mapping[str, t.Any]) -> Json:
    if isinstance(level, int):
        level = next((name for budget, name in _LEVEL_BUDGETS if level <= budget), "high")
    word = {**_LEVELS, **(dialect.get("levels") or {})}.get(level, level)
    return {} if word is None else {"thinkingLevel": word}


def sent_name(name: str) -> str:
    """A tool's name as the vendor takes it: it begins with a letter or an underscore."""
    name = safe_name(name)
    return name if name[0].isalpha() or name[0] == "_" else f"_{name}"[:MAX_NAME]


def _tools(request: ModelRequest, body: Json) -> None:
    """Tools go where none may be called: the vendor does not mind a history that names them."""
    choice = request.tool_choice
    if not request.tools or choice == "none":
        return
    declared = [
        {
            "name": sent_name(tool.name),
            "description": tool.description,
            "parametersJsonSchema": dict(tool.parameters),
        }
        for tool in request.tools
    ]
    body["tools"] = [{"functionDeclarations": declared}]
    if choice != "auto":
        calling: Json = {"mode": "ANY"}
        if choice != "required":
            calling["allowedFunctionNames"] = [sent_name(choice)]
        body["toolConfig"] = {"functionCallingConfig": calling}


def _contents(request: ModelRequest) -> list[Json]:
    """The conversation; the results of a turn's calls are one message, in call order."""
    contents: list[Json] = []
    vendor_ids = _vendor_ids(request.messages)
    results: list[Json] | None = None
    for message in request.messages:
        if isinstance(message, ToolResult):
            if results is None:
                results = []
                contents.append({"role": "user", "parts": results})
            results.append(_result(message, message.call_id in vendor_ids))
            continue
        results = None
        if isinstance(message, UserMessage):
            contents.append({"role": "user", "parts": _user(message)})
        elif parts := _assistant(message, bool(request.dialect.get("signed_calls"))):
            contents.append({"role": "model", "parts": parts})
    return contents


def _vendor_ids(messages: Sequence[Message]) -> set[str]:
    """Ids of calls that go back with one: the vendor pairs calls and results by it where there is one."""
    found: set[str] = set()
    for message in messages:
        if isinstance(message, AssistantMessage):
            for part in _replayed(message) or ():
                call = part.get("functionCall")
                if isinstance(call, Mapping) and call.get("id"):
                    found.add(str(call["id"]))
    return found


def _replayed(message: AssistantMessage) -> list[Json] | None:
    return message.replay if message.wire == WIRE_NAME and isinstance(message.replay, list) else None


def _user(message: UserMessage) -> list[Json]:
    parts = [_file(file) for file in message.files]
    if message.text or not parts:
        parts.append({"text": message.text})
    return parts


def _file(file: FilePart) -> Json:
    if file.kind == "text":
        return {"text": file_text(file)}
    return {"inlineData": {"mimeType": file.media_type, "data": file_base64(file)}}


def _result(message: ToolResult, named: bool) -> Json:
    """``output`` and ``error`` are the keys that the vendor gives a meaning to."""
    answer: Json = {
        "name": sent_name(message.name),
        "response": {"error" if message.is_error else "output": message.content},
    }
    if named:
        answer["id"] = message.call_id
    return {"functionResponse": answer}


def _assistant(message: AssistantMessage, signed_calls: bool) -> list[Json]:
    parts = _replayed(message)
    if parts is None:
        parts = [{"text": message.text}] if message.text.strip() else []
        parts.extend(
            {"functionCall": {"name": sent_name(call.name), "args": call.arguments or {}}}
            for call in message.calls
        )
    parts = [_named(part) for part in parts]
    if signed_calls:
        # Only the first call of a turn is looked at: of parallel calls the vendor signs no other.
        first = next((at for at, part in enumerate(parts) if "functionCall" in part), None)
        if first is not None and "thoughtSignature" not in parts[first]:
            signed = {**parts[first], "thoughtSignature": _NO_SIGNATURE}
            parts = [*parts[:first], signed, *parts[first + 1 :]]
    return parts


def _named(part: Json) -> Json:
    """A part with a name that the vendor takes back, the same that the call's result carries."""
    call = part.get("functionCall")
    if not isinstance(call, Mapping) or call.get("name") == (name := sent_name(str(call.get("name")))):
        return part
    return {**part, "functionCall": {**call, "name": name}}

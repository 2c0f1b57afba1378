"""The request side of the ConverseStream wire.

Law of this room: a request says what was asked for and nothing the vendor refuses. What differs between models is a
switch of the family's ``dialect``; nothing is sent to a model of which no page says that it takes it:

====================  =======================================================================================
switch                meaning
====================  =======================================================================================
``thinking``          ``never`` (default): thinking is never asked for. ``budget``, ``adaptive``: Claude's
                      ``thinking``, with ``output_config.effort`` for the latter. ``nova``: ``reasoningConfig``;
                      ``effort``: ``reasoning_effort``; these two only when the agent sets a level
``thinking_off``      as on the Messages wire: ``omit`` (default), ``never``, or the ``thinking.type`` that says it
``levels``            level → the vendor's effort, for ``adaptive``
``sampling``          False: ``temperature`` and ``topP`` are refused and not sent
``stop``              False: stop sequences are refused and not sent
``send_back``         which earlier thinking the model takes back: ``all`` (Claude), ``text`` (default: without
                      signature and redacted bytes), ``none``
``result_status``     True: a tool result says whether it is an error
``cache_points``      where a cache point may be set: of ``tools``, ``system``, ``messages``, ``results`` (a message
                      that ends in tool results)
``serial_switch``     True: parallel calls can be switched off (Claude's ``disable_parallel_tool_use``)
``body``              members added to every request as they are
====================  =======================================================================================

Source: API_runtime_ConverseStream of the Amazon Bedrock API reference, and the user guide's pages on tool use, prompt
caching, structured outputs and adaptive thinking.
"""

from __future__ import annotations

import typing as t
from urllib.parse import quote

from providers.aws_events import AWS_STREAM
from providers.bedrock_messages import messages, named_tools
from providers.claude_thinking import answer_limit, ask_claude
from providers.closed_schema import closed, with_words
from providers.request_parts import post_json
from providers.spec import Connection, HttpRequest, Json, ModelRequest
from providers.surrogates import encode

WIRE_NAME = "bedrock_converse"

CACHE_POINT: Json = {"cachePoint": {"type": "default"}}


def build_request(request: ModelRequest, connection: Connection) -> HttpRequest:
    """``POST <base_url>/model/<model>/converse-stream``; ids and ARNs hold colons and slashes."""
    url = f"{connection.base_url}/model/{quote(request.model, safe='')}/converse-stream"
    return post_json(url, connection, build_body(request), accept=AWS_STREAM)


def build_body(request: ModelRequest) -> Json:
    """The JSON body of one model call."""
    points = request.dialect.get("cache_points", ()) if request.cache else ()
    body: Json = {"messages": messages(request, WIRE_NAME)}
    system = request.system
    if request.response_format is not None:
        schema, whole = closed(request.response_format)
        if schema is not None:
            body["outputConfig"] = {"textFormat": _text_format(schema)}
        if not whole:
            system = with_words(system, request.response_format)
    if system and system.strip():
        body["system"] = [{"text": system}, *([CACHE_POINT] if "system" in points else [])]
    fields: Json = {}
    thinks = _thinking(request, body, fields)
    _inference(request, body, thinks)
    _tools(request, body, fields, "tools" in points)
    _mark_messages(body["messages"], points)
    if fields:
        body["additionalModelRequestFields"] = fields
    body.update(request.dialect.get("body") or {})
    return body


def _inference(request: ModelRequest, body: Json, thinks: bool) -> None:
    """Limits and sampling; sampling is never sent together with thinking, which excludes it."""
    config: Json = body.pop("inferenceConfig", {})
    if request.max_tokens is not None:
        config.setdefault("maxTokens", request.max_tokens)
    if not thinks and request.dialect.get("sampling", True):
        for name, value in (("temperature", request.temperature), ("topP", request.top_p)):
            if value is not None:
                config[name] = value
    if request.stop and request.dialect.get("stop", True):
        config["stopSequences"] = list(request.stop)
    if fields := {name: value for name, value in config.items() if value is not None}:
        body["inferenceConfig"] = fields


# -- thinking ----------------------------------------------------------------------------------


def _thinking(request: ModelRequest, body: Json, fields: Json) -> bool:
    """Ask for thinking, or for none; whether sampling is thereby excluded."""
    style = request.dialect.get("thinking", "never")
    if style in ("budget", "adaptive"):
        return _claude(request, body, fields)
    level = request.thinking
    if not isinstance(level, str) or level in ("none", "auto"):
        return False
    if style == "effort":
        fields["reasoning_effort"] = level
    elif style == "nova":
        fields["reasoningConfig"] = {"type": "enabled", "maxReasoningEffort": level}
        # At its highest the vendor refuses limits and sampling (Nova 2 user guide: extended thinking).
        if level == "high":
            body["inferenceConfig"] = {"maxTokens": None}
            return True
    return False


def _claude(request: ModelRequest, body: Json, fields: Json) -> bool:
    asked = ask_claude(request, body["messages"], "toolUse", ("reasoningContent",))
    fields.update(asked.fields)
    if asked.budget is not None:
        body["inferenceConfig"] = {"maxTokens": answer_limit(request, asked.budget)}
    if asked.asks:
        # Converse leaves thinking out of its counts; the model's own are asked for.
        body["additionalModelResponseFieldPaths"] = ["/usage/output_tokens_details"]
    return asked.thinks


# -- tools -------------------------------------------------------------------------------------


def _tools(request: ModelRequest, body: Json, fields: Json, cached: bool) -> None:
    """Tools, kept when none may be called if the conversation holds calls: it is refused without them.

    The vendor has no choice ``none``, so without such a conversation the tools are left out.
    """
    named = named_tools(request.messages)
    if request.tool_choice == "none" and not named:
        return
    specs = [_tool(tool.name, tool.description, tool.parameters) for tool in request.tools]
    if not specs:
        specs = [_tool(name, "No longer available. Never call it.", {"type": "object"}) for name in named]
    if not specs:
        return
    config: Json = {"tools": [*specs, *([CACHE_POINT] if cached else [])]}
    choice = request.tool_choice
    if request.tools and choice == "required":
        config["toolChoice"] = {"any": {}}
    elif request.tools and choice not in ("auto", "none"):
        config["toolChoice"] = {"tool": {"name": choice}}
    if request.parallel_tool_calls is False and request.dialect.get("serial_switch"):
        # Together with toolChoice the type has to come from there alone.
        kind = {} if "toolChoice" in config else {"type": "auto"}
        fields["tool_choice"] = {**kind, "disable_parallel_tool_use": True}
    body["toolConfig"] = config


def _tool(name: str, description: str, parameters: t.Mapping[str, t.Any]) -> Json:
    text = {"description": description} if description else {}
    return {"toolSpec": {"name": name, **text, "inputSchema": {"json": dict(parameters)}}}


# -- answer's form, cache ----------------------------------------------------------------------


def _text_format(schema: t.Mapping[str, t.Any]) -> Json:
    """The schema goes as text; a name is optional (API reference: OutputConfig)."""
    text = encode(schema).decode()
    return {"type": "json_schema", "structure": {"jsonSchema": {"schema": text}}}


def _mark_messages(sent: list[Json], points: t.Collection[str]) -> None:
    """A cache point behind the last message of the user's side: all before it comes again next turn."""
    if not sent or sent[-1]["role"] != "user":
        return
    content = sent[-1]["content"]
    if ("results" if "toolResult" in content[-1] else "messages") in points:
        content.append(CACHE_POINT)

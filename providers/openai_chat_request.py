"""The request side of the chat-completions wire.

Law of this room: a request says what was asked for and nothing a vendor might refuse. What vendors
disagree on is a switch of the family's ``dialect``:

=============================  ==============================================================================
switch                         meaning
=============================  ==============================================================================
``path``, ``query``            see ``request_parts``; the path's default is ``/chat/completions``
``model``                      the name sent instead of the model's
``max_tokens_field``           default ``max_tokens``
``seed_field``                 default ``seed``
``sampling``                   False: ``temperature`` and ``top_p`` are refused, so they are not sent
``include_usage``              False: no ``stream_options``
``tool_choices``               a word of ours (``required``) → the vendor's
``parallel_tool_calls``        False: the member is refused, so it is not sent
``conversation_field``         member that carries the conversation's id, for vendors that route by it
``cache``                      ``anthropic``: mark the prefix with ``cache_control`` when the request asks for it
``pdf``                        part that carries a PDF: ``file`` (default), ``document_url``, ``file_url``
``call_ids``                   ``alnum9``: ids that others gave out are brought to nine letters and digits
``split_calls``                True: each tool result follows a message with its call alone
``thinking``                   how thinking is asked for: ``effort`` (``reasoning_effort``), ``reasoning``
                               (OpenRouter's object), ``type`` (``thinking: {type}``), ``type_effort`` (both),
                               ``toggle_effort`` (an effort; off by ``reasoning: {enabled}``), ``enable``
                               (``enable_thinking``), ``anthropic`` (its object), ``template``
                               (``chat_template_kwargs``), ``template_and_effort``, ``never``. With one of
                               these also when someone may see the thinking; by default, and with a word of
                               another wire, ``effort`` and only for a level that the workflow sets.
``thinks_by_default``          True: without a level the vendor's own default stands and nothing is asked
``forced_tool_with_thinking``  False: where it thinks by default, a forced tool switches thinking off
``levels``                     level → the vendor's word; a level mapped to None is not sent
``budgets``                    level → thinking tokens, for ``enable`` and ``anthropic``
``type_words``                 what the vendor calls ``enabled`` and ``disabled``, for ``type``
``template_keys``              members that switch a template's thinking, default ``enable_thinking``
``template_effort``            True: the template takes ``reasoning_effort`` as well
``replay_thinking``            ``loop`` (default: turns since the last user message), ``always``, ``never``
``thinking_required``          member that a turn of the loop must carry even when it had no thinking
``inline_thinking``            True, or ``implicit``: thinking comes in tags in the text (``inline_thinking``)
``cumulative``                 True: a piece may repeat all that came before it (``openai_chat_snapshots``)
``body``                       members added to every request as they are
=============================  ==============================================================================
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from providers.openai_chat_messages import WIRE_NAME, messages_of
from providers.openai_chat_thinking import ask_for_thinking
from providers.openai_shapes import may_be_strict
from providers.request_parts import endpoint, function_tools, post_json
from providers.spec import Connection, HttpRequest, Json, ModelRequest

__all__ = ["WIRE_NAME", "build_body", "build_request"]


def build_request(request: ModelRequest, connection: Connection) -> HttpRequest:
    """``POST <base_url><path>``; the base carries the version path."""
    return post_json(endpoint(request, connection, "/chat/completions"), connection, build_body(request))


def build_body(request: ModelRequest) -> Json:
    """The JSON body of one model call."""
    dialect = request.dialect
    body: Json = {
        "model": dialect.get("model") or request.model,
        "messages": messages_of(request),
        "stream": True,
    }
    if dialect.get("include_usage", True):
        body["stream_options"] = {"include_usage": True}
    _sampling(request, body)
    _tools(request, body)
    if request.response_format is not None:
        body["response_format"] = _response_format(request.response_format)
    ask_for_thinking(request, body)
    field = dialect.get("conversation_field")
    if field and request.conversation:
        body[field] = request.conversation
    body.update(dialect.get("body") or {})
    return body


def _sampling(request: ModelRequest, body: Json) -> None:
    dialect = request.dialect
    if dialect.get("sampling", True):
        for field in ("temperature", "top_p"):
            value = getattr(request, field)
            if value is not None:
                body[field] = value
    if request.seed is not None:
        body[dialect.get("seed_field", "seed")] = request.seed
    if request.max_tokens is not None:
        body[dialect.get("max_tokens_field", "max_tokens")] = request.max_tokens
    if request.stop:
        body["stop"] = list(request.stop)


def _tools(request: ModelRequest, body: Json) -> None:
    if not request.tools:
        return
    choice: t.Any = request.tool_choice
    if choice == "none":
        return
    body["tools"] = function_tools(request.tools)
    if choice == "required":
        body["tool_choice"] = (request.dialect.get("tool_choices") or {}).get(choice, choice)
    elif choice != "auto":
        body["tool_choice"] = {"type": "function", "function": {"name": choice}}
    if request.parallel_tool_calls is not None and request.dialect.get("parallel_tool_calls", True):
        body["parallel_tool_calls"] = request.parallel_tool_calls


def _response_format(schema: Mapping[str, t.Any]) -> Json:
    wrapped: Json = {"name": "answer", "schema": dict(schema)}
    if may_be_strict(schema):
        wrapped["strict"] = True
    return {"type": "json_schema", "json_schema": wrapped}

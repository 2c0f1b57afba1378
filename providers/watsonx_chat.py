"""watsonx.ai's chat wire: chunks of chat completions behind an address and members of its own.

Law of this room: only what differs from the chat-completions shape is said here. The switches are those of
``openai_chat_request``; the connection's options ``project_id`` or ``space_id`` and ``api_version`` say whose model
and which dated version of the interface. A model ``deployment/<id>`` is a deployment, which knows its space itself.
Source: the watsonx.ai API reference, text chat stream.
"""

from __future__ import annotations

import typing as t
from urllib.parse import quote, urlencode

from providers import http
from providers.openai_chat_events import OpenAIChatDecoder
from providers.openai_chat_request import build_body
from providers.request_parts import post_json
from providers.spec import Connection, HttpRequest, ModelRequest

#: The dated version that is asked for when the connection names none.
VERSION = "2024-10-10"
_DEPLOYMENT = "deployment/"


def build_request(request: ModelRequest, connection: Connection) -> HttpRequest:
    """``POST <base_url>/text/chat_stream``, or below a deployment; the base carries ``/ml/v1``."""
    path = "/text/chat_stream"
    if request.model.startswith(_DEPLOYMENT):
        path = f"/deployments/{quote(request.model.removeprefix(_DEPLOYMENT), safe='')}{path}"
    query = urlencode({"version": connection.options.get("api_version") or VERSION})
    return post_json(f"{connection.base_url}{path}?{query}", connection, _body(request, connection))


def _body(request: ModelRequest, connection: Connection) -> dict[str, t.Any]:
    body = build_body(request)
    model = body.pop("model")
    for name in ("stream", "stream_options"):  # its own endpoint says the first; the second it does always
        body.pop(name, None)
    if not request.model.startswith(_DEPLOYMENT):
        body["model_id"] = model
        owner = "project_id" if connection.options.get("project_id") else "space_id"
        body[owner] = connection.options.get(owner, "")
    choice = body.get("tool_choice")
    if isinstance(choice, str):  # a word has a member of its own, a tool's name has not
        body["tool_choice_option"] = body.pop("tool_choice")
    return body


#: The wire.
WIRE = http.HttpWire("watsonx_chat", build_request, OpenAIChatDecoder)

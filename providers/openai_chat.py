"""The chat-completions wire: OpenAI and everyone who says they are compatible.

Law of this room: what it asks is in ``openai_chat_request``, with the switches a family may set; what
comes is read by ``openai_chat_events``, which other wires of the same chunks use as well.
"""

from __future__ import annotations

from providers import http
from providers.openai_chat_events import OpenAIChatDecoder
from providers.openai_chat_request import build_request

#: The wire; its switches are listed in ``openai_chat_request``.
WIRE = http.HttpWire("openai_chat", build_request, OpenAIChatDecoder)

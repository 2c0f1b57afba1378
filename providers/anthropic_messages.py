"""The Messages wire: Anthropic, and everyone who serves Claude over plain HTTP or copies its protocol.

Law of this room: a wire is a request side (``anthropic_request``) and a reading side (``anthropic_events``); both serve
other hosts of the protocol, too.
"""

from __future__ import annotations

from providers import http
from providers.anthropic_events import AnthropicDecoder
from providers.anthropic_request import build_request

#: The wire; its switches are listed in ``anthropic_request``.
WIRE = http.HttpWire("anthropic_messages", build_request, AnthropicDecoder)

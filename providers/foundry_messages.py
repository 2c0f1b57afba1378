"""The Messages wire at a resource of Microsoft Foundry, where it stands beside OpenAI's.

Law of this room: only the address is said here; the connection's is that of the resource's OpenAI API, since one
address serves both. Source: platform.claude.com, Claude in Microsoft Foundry.
"""

from __future__ import annotations

import re
from dataclasses import replace

from providers import anthropic_request, http
from providers.anthropic_events import AnthropicDecoder
from providers.spec import Connection, HttpRequest, ModelRequest

#: What stands behind a resource's address: either API's own path, or a version alone.
_PATH = re.compile(r"/(?:openai|anthropic)(?:[/?].*)?$|/v\d[^/]*$")
#: Names of a resource that serve OpenAI's models only.
_HOST = re.compile(r"\.(?:openai|cognitiveservices)\.azure\.com")


def build_request(request: ModelRequest, connection: Connection) -> HttpRequest:
    """``POST https://<resource>.services.ai.azure.com/anthropic/v1/messages``."""
    root = _PATH.sub("", connection.base_url)
    root = _HOST.sub(".services.ai.azure.com", root)  # the same resource's other name
    return anthropic_request.build_request(request, replace(connection, base_url=f"{root}/anthropic/v1"))


#: The wire, under its protocol's name; its switches are listed in ``anthropic_request``.
WIRE = http.HttpWire(anthropic_request.WIRE_NAME, build_request, AnthropicDecoder)

"""The InvokeModelWithResponseStream wire, for Claude: Anthropic's own events inside AWS's frames.

Law of this room: nothing of the protocol is said again; the body and the events are those of ``anthropic_request``
and ``anthropic_events``, whose switches hold here. Each frame carries one event as base64. Sources: "Anthropic Claude
Messages API" of the Amazon Bedrock user guide, API_runtime_InvokeModelWithResponseStream.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import quote

import msgspec
import orjson

from providers import http
from providers.anthropic_events import AnthropicDecoder
from providers.anthropic_request import WIRE_NAME as PROTOCOL
from providers.anthropic_request import build_body
from providers.aws_events import AWS_STREAM, AwsEventReader
from providers.aws_failures import aws_error
from providers.errors import failure, says_failure
from providers.framing import Payload
from providers.request_parts import post_json
from providers.spec import AssistantMessage, Connection, HttpRequest, ModelRequest

WIRE_NAME = "bedrock_invoke"
VERSION = "bedrock-2023-05-31"
#: The path names model and operation; the body names the version.
_SWITCHES = {"model_in_body": False, "stream_in_body": False, "version_in_body": VERSION}


def build_request(request: ModelRequest, connection: Connection) -> HttpRequest:
    """``POST <base_url>/model/<model>/invoke-with-response-stream``."""
    asked = replace(
        request,
        dialect={**request.dialect, **_SWITCHES},
        messages=[
            msgspec.structs.replace(message, wire=PROTOCOL)
            if isinstance(message, AssistantMessage) and message.wire == WIRE_NAME
            else message
            for message in request.messages
        ],
    )
    url = f"{connection.base_url}/model/{quote(request.model, safe='')}/invoke-with-response-stream"
    return post_json(url, connection, build_body(asked), accept=AWS_STREAM)


class InvokeReader(AwsEventReader):
    """AWS's frames, opened: the model's own events, unnamed."""

    def feed(self, data: bytes) -> Iterator[Payload]:
        """See :class:`AwsEventReader`."""
        for name, payload in super().feed(data):
            if name == b"chunk":
                yield b"", _opened(payload)
            elif name == b"error":
                yield name, payload
            elif says_failure(kind := name.decode("ascii", "replace")):
                yield b"error", orjson.dumps({"type": kind, "message": payload.decode("utf-8", "replace")})


def _opened(payload: bytes) -> bytes:
    try:
        return base64.b64decode(orjson.loads(payload)["bytes"], validate=True)
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise failure("provider_bad_stream", detail="a chunk that holds no event") from error


class InvokeDecoder(AnthropicDecoder):
    """Events of one message, out of AWS's frames."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request, InvokeReader())


#: The wire; its switches are those of ``anthropic_request``, but for what Bedrock fixes.
WIRE = http.HttpWire(WIRE_NAME, build_request, InvokeDecoder, aws_error)

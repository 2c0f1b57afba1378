"""The bridge to every vendor that litellm knows and Studio does not.

Law of this room: litellm is asked for one streamed call and its chunks are read like those of any chat completion.
The call runs in the caller's own greenlet, over sockets that wait cooperatively, so a wait inside it is interrupted
like any other; no thread of the operating system and no event loop is started. What the bridge loses is listed in
``docs/decisions/0010-own-wires-and-the-bridge.md``.
"""

from __future__ import annotations

import importlib
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from providers.decoding import count
from providers.errors import failure
from providers.litellm_errors import bridge_error
from providers.litellm_loading import load
from providers.openai_chat_events import OpenAIChatDecoder
from providers.openai_chat_messages import WIRE_NAME as CHAT
from providers.openai_chat_request import build_body
from providers.spec import (
    AssistantMessage,
    Connection,
    Json,
    Message,
    ModelEvent,
    ModelRequest,
    ProviderError,
    ThinkingDelta,
    Usage,
    Waits,
)
from providers.surrogates import whole_text

WIRE_NAME = "litellm_bridge"

#: What we send of our own accord; left out where litellm says that the vendor does not take it.
_WISHES = ("stream_options", "reasoning_effort", "parallel_tool_calls")


class BridgeDecoder(OpenAIChatDecoder):
    """litellm's chunks, as mappings, to model events."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._blocks: list[Json] = []

    def take(self, chunk: Json) -> list[ModelEvent]:
        """The events of one chunk.

        :raises ProviderError: the chunk holds an error and nothing to give before it.
        """
        out: list[ModelEvent] = []
        try:
            self._value(chunk, out)
        except ProviderError as error:
            self._fail(error, out)
        return out

    def _take_thinking(self, delta: Json, out: list[ModelEvent]) -> None:
        super()._take_thinking(delta, out)
        blocks = delta.get("thinking_blocks")
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict):
                self._block(block, out)

    def _block(self, block: Json, out: list[ModelEvent]) -> None:
        """A piece of a thinking block; its text was said already. A signature ends the block."""
        if block.get("type") == "redacted_thinking":
            self._blocks.append({"type": "redacted_thinking", "data": block.get("data")})
            self._thought = True
            out.append(ThinkingDelta("", True))
            return
        if not self._blocks or "signature" in self._blocks[-1] or "thinking" not in self._blocks[-1]:
            self._blocks.append({"type": "thinking", "thinking": ""})
        open_block = self._blocks[-1]
        if isinstance(text := block.get("thinking"), str):
            open_block["thinking"] += text
        if block.get("signature"):
            open_block["signature"] = block["signature"]

    def close(self, usage: t.Any) -> list[ModelEvent]:
        """The last events of a stream that litellm ended.

        :param usage: what the vendor stated, as litellm keeps it on the chunks; litellm's own count is not taken.
        :raises ProviderError: there was no answer, whatever the finish that litellm gives one.
        """
        said = self._answered or self._calls.calls or self._whole
        # litellm says "stop" of a stream that says nothing, too.
        if not said and self._label in (None, "stop"):
            raise failure("provider_bad_stream", detail="the stream ended without an answer")
        self._stated = usage if isinstance(usage, Mapping) else None
        return self.end()

    def _usage(self) -> Usage | None:
        """Without the share of thinking: litellm counts it itself where the vendor does not tell."""
        usage = super()._usage()
        if usage is None:
            return None
        written = count(self._stated, "cache_creation_input_tokens")
        changes: Json = {"reasoning": None}
        if usage.cache_write is None and written is not None:
            changes["cache_write"] = written
        return msgspec.structs.replace(usage, **changes)

    def _note_usage(self, value: Json, out: list[ModelEvent]) -> None:
        """Not from the chunks that are given out: their last count may be litellm's own."""

    def _replay(self) -> t.Any:
        replay = super()._replay()
        if not self._blocks:
            return replay
        blocks = [
            {**block, "thinking": whole_text(block["thinking"])} if "thinking" in block else block
            for block in self._blocks
        ]
        return {**(replay or {}), "thinking_blocks": blocks}


@dataclass(frozen=True, slots=True)
class LitellmBridge:
    """The wire (see ``providers.spec.Wire``). ``load`` gives the module ``litellm``."""

    name: str = WIRE_NAME
    load: Callable[[Waits], t.Any] = load

    def stream(
        self, request: ModelRequest, connection: Connection, waits: Waits
    ) -> Iterator[list[ModelEvent]]:
        """See ``providers.spec.Wire``. The first call of a process waits for litellm to be imported, too."""
        litellm = self.load(waits)
        decoder = BridgeDecoder(request)
        chunks: t.Any = None
        upstream: list[t.Any] = []
        last: list[ModelEvent] = []
        failed: ProviderError | None = None
        try:
            with waits.idle_limit(connection.idle_s):
                with waits.wait():
                    chunks = litellm.completion(**arguments(request, connection, litellm))
                upstream = _upstream(chunks)
                yield from _events(chunks, decoder, waits)
            last = decoder.close(_stated(chunks))
        except ProviderError as error:
            failed = error
        except Exception as error:
            failed = bridge_error(error, begun=chunks is not None)
        finally:
            for each in (chunks, *upstream):
                _close(each)
        if failed is not None:
            # Without where it came from: those frames hold the connection for as long as anybody keeps the error.
            raise failed.with_traceback(None) from None
        if last:
            yield last
        if decoder.failure is not None:
            raise decoder.failure


def _events(chunks: t.Any, decoder: BridgeDecoder, waits: Waits) -> Iterator[list[ModelEvent]]:
    while decoder.failure is None:
        waits.gate()
        with waits.wait():
            chunk = next(chunks, None)
        if chunk is None:
            return
        events = decoder.take(chunk.model_dump(exclude_none=True, warnings=False))
        if decoder.moved:
            decoder.moved = False
            waits.progress()
        if events:
            yield events


def _stated(chunks: t.Any) -> t.Any:
    """The usage that the vendor stated: litellm keeps it on the chunk it came with."""
    for chunk in reversed(getattr(chunks, "chunks", None) or ()):
        usage = getattr(chunk, "usage", None)
        if usage is not None:
            return usage.model_dump(exclude_none=True, warnings=False)
    return None


def _upstream(chunks: t.Any) -> list[t.Any]:
    """What a stream of litellm's reads from, down to the lines of the answer: it forgets them when it fails."""
    found: list[t.Any] = []
    inner = getattr(chunks, "completion_stream", None)
    while inner is not None and all(inner is not each for each in found):
        found.append(inner)
        inner = getattr(inner, "response_iterator", None) or getattr(inner, "streaming_response", None)
    return found


def _close(stream: t.Any) -> None:
    """End the upstream connection, whatever state it is in: some of its readers cannot be closed, some are closed."""
    close = getattr(stream, "close", None)
    if close is not None:
        with suppress(Exception):
            close()


def arguments(request: ModelRequest, connection: Connection, litellm: t.Any) -> Json:
    """What ``litellm.completion`` is called with; nothing is retried, logged or called back.

    Without a key or an address of ours litellm reads the vendor's own environment variables. What the agent sets and
    litellm says the vendor does not take is refused, never dropped; only what nobody asked for is left out.
    """
    asked = build_body(replace(request, messages=_as_chat(request.messages)))
    asked["messages"] = _with_blocks(asked["messages"], request)
    supported = litellm.get_supported_openai_params(model=request.model) or ()
    for name in _WISHES:
        if name in asked and name not in supported:
            del asked[name]
    given: Json = {"num_retries": 0, "max_retries": 0, "drop_params": False, "no-log": True}
    if key := connection.credentials.get("api_key"):
        given["api_key"] = key
    if connection.base_url:
        given["api_base"] = connection.base_url
    # Silence is for the idle limit, which knows when nobody reads; litellm's client only limits connecting.
    given["timeout"] = importlib.import_module("httpx").Timeout(None, connect=connection.connect_s)
    return {**asked, **given}


def _as_chat(messages: Sequence[Message]) -> list[Message]:
    """The messages as if the chat-completions wire had made them, since what it wants back is in the same shape."""
    return [
        msgspec.structs.replace(message, wire=CHAT)
        if isinstance(message, AssistantMessage) and message.wire == WIRE_NAME
        else message
        for message in messages
    ]


def _with_blocks(built: list[Json], request: ModelRequest) -> list[Json]:
    """Thinking blocks go back as they came, in the turn they belong to."""
    turns = [message for message in request.messages if isinstance(message, AssistantMessage)]
    assistants = [message for message in built if message["role"] == "assistant"]
    for message, turn in zip(assistants, turns, strict=True):
        if turn.wire == WIRE_NAME and isinstance(turn.replay, Mapping) and "thinking_blocks" in turn.replay:
            message["thinking_blocks"] = turn.replay["thinking_blocks"]
    return built


#: The wire; its switches are those of ``openai_chat_request``.
WIRE = LitellmBridge()

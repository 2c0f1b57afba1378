"""The Gemini wire: Google's ``streamGenerateContent``, at the Gemini API and on Vertex AI.

Law of this room: a model's turn is a list of parts and goes back as that list, each part with the signature it came
with; only pieces of unsigned text are joined. A call's id goes back only if the vendor gave it one. Parts that the
vendor ran by itself (code execution, its own tools) are no calls of ours: they are kept for the next turn and nothing
else. The request side, with the switches a family may set, is ``gemini_request``.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterable, Mapping

import orjson

from providers import errors, http
from providers.decoding import EventStreamDecoder, count
from providers.gemini_args import PartialArgs
from providers.gemini_request import WIRE_NAME, build_request, sent_name
from providers.json_array import JsonArrayReader
from providers.spec import (
    FinishReason,
    ModelEvent,
    ModelRequest,
    ProviderError,
    TextDelta,
    Usage,
    UsageStated,
)
from providers.surrogates import whole_text, whole_value
from providers.tool_calls import OpenCall

#: ``FinishReason`` and ``BlockReason`` of ai.google.dev/api/generate-content; any other is ``other``.
_FINISH: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR",
         "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
        "content_filter",
    ),
}  # fmt: skip
_BEFORE_ANYTHING = b" \t\r\n\xef\xbb\xbf"
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


class _Part:
    """One part of the turn. ``texts``: the pieces of a text; ``call``: ours; ``named``: the vendor gave it an id."""

    __slots__ = ("call", "data", "named", "texts")

    def __init__(
        self, data: dict[str, t.Any], texts: list[str] | None = None, call: OpenCall | None = None
    ) -> None:
        self.data = data
        self.texts = texts
        self.call = call
        self.named = False


class GeminiDecoder(EventStreamDecoder):
    """Chunks of one answer to model events, whether they come as events or as an array."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._read = self._sniff
        self._parts: list[_Part] = []
        #: Our names of the tools, by those they were declared under.
        self._names = {sent_name(tool.name): tool.name for tool in request.tools}
        #: Pieces of the last part, while it is unsigned answer text: the next piece may be joined to it.
        self._run: list[str] | None = None
        self._open: OpenCall | None = None
        self._partial = PartialArgs()
        self._stated: dict[str, t.Any] | None = None
        self._ended_by = ""

    def _sniff(self, data: bytes) -> Iterable[tuple[bytes, bytes]]:
        """The first byte that says something tells events from an array or a lone document."""
        data = data.lstrip(_BEFORE_ANYTHING)
        if not data:
            return []
        if data[:1] in (b"[", b"{"):
            self._reader = JsonArrayReader()
        self._read = self._reader.feed
        return self._read(data)

    def _value(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        # The common chunk first: one candidate, one part, nothing but text in it.
        run = self._run
        if run is not None and self._plain:
            try:
                (candidate,) = value["candidates"]
                (part,) = candidate["content"]["parts"]
                text = part["text"]
                if (
                    text
                    and type(text) is str
                    and len(part) == 1
                    and len(candidate) == 1 + ("index" in candidate)
                    and not candidate.get("index")
                ):
                    run.append(text)
                    self.moved = True
                    out.append(TextDelta(text))
                    if value.get("usageMetadata") != self._stated:
                        self._note_usage(value, out)
                    return
            except (KeyError, ValueError, TypeError, AttributeError):
                pass
        self._chunk(value, out)

    def _chunk(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        self._note_usage(value, out)
        if error := value.get("error"):
            raise errors.in_band_error(error)
        model = value.get("modelVersion")
        if model and isinstance(model, str):
            self._model = model
        feedback = value.get("promptFeedback")
        if isinstance(feedback, dict) and (blocked := feedback.get("blockReason")):
            self._blocked(f"{blocked} {feedback.get('blockReasonMessage') or ''}".strip())
        candidates = value.get("candidates")
        if not isinstance(candidates, list):
            if errors.has_error(value):
                raise errors.in_band_error(value)
            return
        for candidate in candidates:
            if isinstance(candidate, dict) and not candidate.get("index"):
                self._candidate(candidate, out)

    def _blocked(self, reason: str) -> None:
        """The vendor refused the prompt, so there is no answer; or it stopped one that had begun."""
        if not self._answered and not self._calls.calls:
            raise errors.failure("content_filtered", detail=f"the prompt was blocked: {reason}")
        self._label, self.moved, self.finished = "content_filter", True, True

    def _candidate(self, candidate: dict[str, t.Any], out: list[ModelEvent]) -> None:
        self.moved = True
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                self._part(part, out)
        self._cite(candidate, out)
        finish = candidate.get("finishReason")
        if finish and finish != "FINISH_REASON_UNSPECIFIED":
            self._ended_by = f"{finish} {candidate.get('finishMessage') or ''}".strip()
            self._label = _FINISH.get(str(finish), "other")
            self.finished = True

    def _part(self, part: dict[str, t.Any], out: list[ModelEvent]) -> None:
        call = part.get("functionCall")
        text = part.get("text")
        if isinstance(call, dict):
            self._function(part, call, out)
        elif isinstance(text, str):
            self._text(part, text, out)
        else:
            self._add(_Part(part))

    def _text(self, part: dict[str, t.Any], text: str, out: list[ModelEvent]) -> None:
        thought = part.get("thought") is True
        if "thoughtSignature" in part:
            self._add(_Part(part, [text]))
        elif text:
            last = self._parts[-1] if self._parts else None
            if last is not None and last.texts is not None and _alike(last.data, part):
                last.texts.append(text)
            else:
                self._add(_Part(part, [text]))
                if len(part) == 1:
                    self._run = self._parts[-1].texts
        if thought:
            self._think(text, out)
        else:
            self._say(text, out)

    def _add(self, part: _Part) -> None:
        self._parts.append(part)
        self._run = None

    def _function(self, part: dict[str, t.Any], given: dict[str, t.Any], out: list[ModelEvent]) -> None:
        """A call, whole or begun, or more of the one that was begun."""
        name = given.get("name")
        if name and isinstance(name, str):
            self._flush(out)
            name = self._names.get(name, name)
            call = self._calls.begin(out, str(given.get("id") or ""), name)
            args = given.get("args")
            call.value = {} if args is None else args
            kept = _Part(part, call=call)
            kept.named = bool(given.get("id"))
            self._add(kept)
            self._open, self._partial = call, PartialArgs()
        call_open = self._open
        if call_open is None:
            if given.get("args") or given.get("partialArgs"):
                raise errors.failure("provider_bad_stream", detail="a tool call without a name")
            return
        partial = given.get("partialArgs")
        if isinstance(partial, list) and partial:
            for entry in partial:
                self._partial.put(entry)
            call_open.value = self._partial.args
        if not given.get("willContinue"):
            call_open.closed = True
            self._open = None

    def _cite(self, candidate: dict[str, t.Any], out: list[ModelEvent]) -> None:
        """Sources of a grounded answer; the vendor repeats them on later chunks."""
        grounding = candidate.get("groundingMetadata")
        found = grounding.get("groundingChunks") if isinstance(grounding, dict) else None
        sources = [
            chunk.get("web") or chunk.get("retrievedContext") or chunk.get("maps")
            for chunk in (found if isinstance(found, list) else ())
            if isinstance(chunk, dict)
        ]
        cited = candidate.get("citationMetadata")
        if isinstance(cited, dict):
            sources.extend(cited.get("citationSources") or cited.get("citations") or ())
        for source in sources:
            if isinstance(source, dict):
                self._cite_source(source.get("uri"), source.get("title"), out)

    def _finish(self, out: list[ModelEvent], *, sentinel: bool) -> None:
        """See the base. A call that was to go on was cut; a turn without content that did not end well failed."""
        if self._open is not None:
            if self._label is None:
                raise errors.failure("provider_bad_stream", detail="the stream ended inside a tool call")
            if self._label != "stop":
                self._open.fragments = [orjson.dumps(self._open.value, default=str).decode()[:-1]]
        if self._label == "other" and not self._answered and not self._calls.calls:
            raise errors.failure("provider_bad_stream", detail=f"the model ended with {self._ended_by}")
        if self._text_halves is not None:  # half a character was somewhere, perhaps inside an argument
            for call in self._calls.calls:
                call.value = whole_value(call.value)
        super()._finish(out, sentinel=sentinel)

    def _note_usage(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        """Each statement replaces the one before; some hold no counts at all."""
        stated = value.get("usageMetadata")
        if isinstance(stated, dict) and stated != self._stated:
            self._stated = stated
            usage = self._usage()
            if self._label is None and usage is not None and usage.input is not None:
                out.append(UsageStated(usage))

    def _usage(self) -> Usage | None:
        """``promptTokenCount`` holds the cached part; what tools of the vendor put in and thoughts come on top."""
        stated = self._stated
        if stated is None:
            return None
        thoughts = count(stated, "thoughtsTokenCount")
        return Usage(
            input=_sum(count(stated, "promptTokenCount"), count(stated, "toolUsePromptTokenCount")),
            output=_sum(count(stated, "candidatesTokenCount"), thoughts),
            total=count(stated, "totalTokenCount"),
            cache_read=count(stated, "cachedContentTokenCount"),
            reasoning=thoughts,
        )

    def _replay(self) -> t.Any:
        """The turn's parts, as the next request must carry them; None when it had none."""
        parts = [_rebuilt(part) for part in self._parts] or None
        return parts if self._text_halves is None else whole_value(parts)


def gemini_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """An error document; how long to wait stands in it (``google.rpc.RetryInfo``), not in a header."""
    error = errors.http_error(status, headers, body)
    if error.retry_after is None and status in (429, 503):
        error.retry_after = _retry_delay(body)
    return error


#: The wire; its switches are listed in ``gemini_request``.
WIRE = http.HttpWire(WIRE_NAME, build_request, GeminiDecoder, gemini_error, json_stream=True)


def _retry_delay(body: bytes) -> float | None:
    try:
        value = orjson.loads(body)
    except ValueError:
        return None
    document = value[0] if isinstance(value, list) and value else value
    error = document.get("error") if isinstance(document, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (match := _SECONDS.fullmatch(delay)):
            return float(match[1])
    return None


def _alike(data: Mapping[str, t.Any], part: Mapping[str, t.Any]) -> bool:
    """Whether an unsigned piece of text goes on in the part before: both unsigned, both thought or neither."""
    return "thoughtSignature" not in data and {**data, "text": ""} == {**part, "text": ""}


def _rebuilt(part: _Part) -> dict[str, t.Any]:
    if part.texts is not None:
        return {**part.data, "text": whole_text("".join(part.texts))}
    if part.call is None:
        return part.data
    given = dict(part.data["functionCall"])
    for name in ("partialArgs", "willContinue", "id"):
        given.pop(name, None)
    if part.named:
        given["id"] = part.call.id
    given["args"] = part.call.parsed() or {}
    return {**part.data, "functionCall": given}


def _sum(first: int | None, second: int | None) -> int | None:
    return second if first is None else first + (second or 0)

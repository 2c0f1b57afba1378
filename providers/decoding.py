"""What the decoders of event-stream wires have in common.

Law of this room: sans-IO. A decoder is fed bytes and gives model events; what came before a failure
in the same bytes is given first, and the failure is raised after it. The end of a model call is
decided here, from the content first and the vendor's label second.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

import orjson

from providers.errors import failure, has_error, in_band_error
from providers.inline_thinking import ThinkSplitter
from providers.spec import (
    FinishReason,
    ModelEvent,
    ModelFinished,
    ModelRequest,
    ProviderError,
    SourceCited,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from providers.sse import SseReader
from providers.surrogates import HalfJoiner, tolerant_loads, whole_text
from providers.tool_calls import CallBook

#: Labels that say the output was cut short: a call that does not parse then was cut, not malformed.
_CUT: tuple[FinishReason, ...] = ("length", "content_filter", "refusal")
#: A number from here on counts no tokens (an infinity in a vendor's JSON, too).
_NO_COUNT = 2**53

_loads = orjson.loads


class Decoder(t.Protocol):
    """The bytes of one response body to model events.

    ``moved`` is set by real progress (never by a ping or comment) and cleared by whoever reads it. ``finished``: the
    vendor said that the model is done, so any end of the body is clean. ``done``: ``ModelFinished`` was given; nothing
    that follows matters. ``failure``: raised after the events given with it.
    """

    moved: bool
    finished: bool
    done: bool
    failure: ProviderError | None

    def feed(self, data: bytes) -> list[ModelEvent]:
        """The events that ``data`` completes.

        :raises ProviderError: the call failed and there is nothing left to give before.
        """

    def end(self) -> list[ModelEvent]:
        """The last events of a body that ended cleanly, or ended anyhow after :attr:`finished`.

        :raises ProviderError: the answer is not whole.
        """


class Reader(t.Protocol):
    """Bytes to ``(event name, JSON payload)`` pairs: an event stream, JSON lines, another vendor's framing.

    ``stray`` is the beginning of a body that was none of the reader's, for telling an error report.
    """

    @property
    def stray(self) -> bytes:
        """See the class."""

    def feed(self, data: bytes) -> Iterable[tuple[bytes, bytes]]:
        """The pairs that ``data`` completes; may be lazy, so that what comes before a broken one is given first."""

    def end(self) -> Iterable[tuple[bytes, bytes]]:
        """What the end of the body completes; an error it raises counts only before the model is done."""


class EventStreamDecoder:
    """Base of the decoders; a wire adds :meth:`_value`, :meth:`_usage` and :meth:`_replay`.

    :param reader: takes the bytes apart; default: server-sent events.
    """

    def __init__(self, request: ModelRequest, reader: Reader | None = None) -> None:
        self.moved = False
        self.finished = False
        self.done = False
        self.failure: ProviderError | None = None
        self._reader: Reader = reader or SseReader()
        self._read = self._reader.feed
        self._calls = CallBook(request)
        self._label: FinishReason | None = None
        self._model: str | None = None
        self._answered = False
        self._refused = False
        self._thought = False
        self._cited: dict[str, None] = {}
        #: The vendor said that it failed, without saying how; raised at the end of the stream.
        self._broken: ProviderError | None = None
        self._splitter: ThinkSplitter | None = (
            ThinkSplitter() if request.dialect.get("inline_thinking") else None
        )
        if request.dialect.get("inline_thinking") == "implicit":
            self._splitter = ThinkSplitter(implicit=True)
        self._text_halves: HalfJoiner | None = None
        self._thinking_halves: HalfJoiner | None = None
        #: Text may be given as it comes: no splitter, no halves of characters.
        self._plain = self._splitter is None

    def feed(self, data: bytes) -> list[ModelEvent]:
        """See :class:`Decoder`."""
        if self.failure is not None:
            raise self.failure
        out: list[ModelEvent] = []
        try:
            self._take(self._read(data), out)
        except ProviderError as error:
            self._fail(error, out)
        except RecursionError:
            self._fail(failure("provider_bad_stream", detail="a payload that is nested too deeply"), out)
        return out

    def end(self) -> list[ModelEvent]:
        """See :class:`Decoder`."""
        if self.failure is not None:
            raise self.failure
        out: list[ModelEvent] = []
        try:
            self._take(self._body_end(), out)
            if not self.done:
                self._finish(out, sentinel=False)
        except ProviderError as error:
            self._fail(error, out)
        except RecursionError:
            self._fail(failure("provider_bad_stream", detail="a payload that is nested too deeply"), out)
        return out

    def _body_end(self) -> Iterable[tuple[bytes, bytes]]:
        """What the reader still holds. After the vendor's finish any end is clean, one inside a frame, too."""
        try:
            return self._reader.end()
        except ProviderError:
            if not self.finished:
                raise
            return ()

    def _take(self, payloads: Iterable[tuple[bytes, bytes]], out: list[ModelEvent]) -> None:
        for name, payload in payloads:
            if self.done:
                return
            try:
                value = _loads(payload)
            except ValueError:
                value = self._unusual(payload, out)
            if type(value) is dict:
                if name and name == b"error" and not value.get("error"):
                    raise in_band_error(value)
                self._value(value, out)
            elif value:
                self._no_object(name, value, out)

    def _no_object(self, name: bytes, value: t.Any, out: list[ModelEvent]) -> None:
        """A payload that is JSON, but no object: the sentinel in quotes, a report, or nothing that counts."""
        if isinstance(value, str) and value.strip() == "[DONE]":
            self._finish(out, sentinel=True)
        elif name == b"error" or (isinstance(value, str) and not name) or has_error(value):
            raise in_band_error(value)

    def _unusual(self, payload: bytes, out: list[ModelEvent]) -> t.Any:
        """A payload that strict JSON refuses: the sentinel, half a character, or no JSON at all."""
        text = payload.strip()
        if text == b"[DONE]":
            self._finish(out, sentinel=True)
            return None
        if not text:
            return None
        try:
            value = tolerant_loads(payload)
        except ValueError:
            raise failure("provider_bad_stream", detail=text.decode("utf-8", "replace")) from None
        if self._text_halves is None:
            self._text_halves, self._thinking_halves = HalfJoiner(), HalfJoiner()
            self._plain = False
        return value

    def _fail(self, error: ProviderError, out: list[ModelEvent]) -> None:
        """Keep what was said before the failure; raise at once when there is nothing."""
        self._flush(out)
        self.failure = error
        if not out:
            raise error

    def _say(self, text: str, out: list[ModelEvent]) -> None:
        """Answer text; the long way, for what the fast path of a wire does not cover."""
        if self._text_halves is not None:
            text = self._text_halves.push(text)
        if text:
            self._answered = True
            if self._splitter is not None:
                self._splitter.feed(text, out)
            else:
                out.append(TextDelta(text))

    def _think(self, text: str, out: list[ModelEvent]) -> None:
        if self._thinking_halves is not None:
            text = self._thinking_halves.push(text)
        if text:
            self._thought = True
            out.append(ThinkingDelta(text))

    def _cite_source(self, url: t.Any, title: t.Any, out: list[ModelEvent]) -> None:
        """A source, once however often the vendor names it; what has no address is no source to go to."""
        if url and isinstance(url, str) and url not in self._cited:
            self._cited[url] = None
            out.append(SourceCited(url, str(title or "")))

    def _flush(self, out: list[ModelEvent]) -> None:
        """Give what was held back: a lone half of a character, the start of what turned out to be no tag."""
        if self._thinking_halves is not None and self._text_halves is not None:
            if half := self._thinking_halves.flush():
                out.append(ThinkingDelta(half))
            if half := self._text_halves.flush():
                self._splitter.feed(half, out) if self._splitter is not None else out.append(TextDelta(half))
        if self._splitter is not None:
            self._splitter.flush(out)

    def _finish(self, out: list[ModelEvent], *, sentinel: bool) -> None:
        """Decide the end (providers.md 1): calls first, then the label; without either the content must be there."""
        if self._broken is not None:
            raise self._broken
        label = self._label
        if label is None:
            self._check_unlabelled(sentinel)
        self._flush(out)
        if any(not call.name for call in self._calls.calls):  # never announced, so nothing of it is said
            raise failure("provider_bad_stream", detail="a tool call without a name")
        cut = self._calls.settle(out, cut=label in _CUT)
        reason: FinishReason
        if self._calls.calls and not cut:
            reason = "tool_calls"
        elif self._refused and not cut:
            reason = "refusal"
        else:
            reason = label if label and label != "tool_calls" else "stop"
        out.append(ModelFinished(reason, self._usage(), self._replay(), self._model))
        self.finished = self.done = True

    def _check_unlabelled(self, sentinel: bool) -> None:
        if not sentinel and self._calls.unfinished():
            raise failure("provider_bad_stream", detail="the stream ended inside a tool call")
        if self._answered or self._calls.calls:
            return
        stray = self._reader.stray
        if stray:
            self._raise_stray(stray)
        raise failure("provider_bad_stream", detail="the stream ended without an answer")

    @staticmethod
    def _raise_stray(stray: bytes) -> t.NoReturn:
        """The body was no event stream: an error report, most often."""
        try:
            value = tolerant_loads(stray)
        except ValueError:
            value = None
        if has_error(value):
            raise in_band_error(value)
        raise failure("provider_bad_stream", detail=whole_text(stray.decode("utf-8", "replace")))

    def _value(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        raise NotImplementedError

    def _usage(self) -> Usage | None:
        raise NotImplementedError

    def _replay(self) -> t.Any:
        raise NotImplementedError


def place(value: t.Any) -> int | str | None:
    """A vendor's number or name of something inside an answer; None where it gives none, or something else."""
    return value if isinstance(value, (int, str)) else None


def count(source: t.Any, *names: str) -> int | None:
    """The first of ``names`` that holds a token count in ``source``, which may be anything a vendor sends."""
    if not isinstance(source, dict):
        return None
    for name in names:
        value = source.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _NO_COUNT:
            return int(value)
    return None

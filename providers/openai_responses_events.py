"""The answer side of the Responses wire: typed events to model events.

Law of this room: an item is who its ids and its place say it is, whichever of them a server keeps. What an item's
last word says counts over its deltas; it goes back as it came. Items that the vendor ran by itself (searches, MCP,
programs) are no calls of ours: they are kept for the next turn and nothing else.
"""

from __future__ import annotations

import typing as t

from providers import errors
from providers.decoding import EventStreamDecoder, count
from providers.spec import (
    FinishReason,
    ModelEvent,
    ModelRequest,
    TextDelta,
    Usage,
    UsageStated,
)
from providers.summary_refusal import telling
from providers.surrogates import whole_value
from providers.tool_calls import OpenCall

_INCOMPLETE: dict[str, FinishReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
#: Failures of what the vendor runs beside the answer, which goes on.
_ASIDE = frozenset({"response.mcp_call.failed", "response.mcp_list_tools.failed"})
#: Repeated while nothing happens: no progress.
_WAITING = frozenset({"response.in_progress", "response.queued"})


class _Item:
    """One output item. ``index``, ``id``, ``call_id`` are the vendor's; ``done`` is its last word.

    ``pieces`` are arguments that came before the call could be announced; ``preset``: they came whole with the item.
    """

    __slots__ = ("call", "call_id", "done", "id", "index", "kind", "name", "pieces", "preset")

    def __init__(self, index: t.Any, item_id: str, kind: str) -> None:
        self.index = index if type(index) is int else None
        self.id = item_id
        self.kind = kind
        self.call_id = ""
        self.name = ""
        self.call: OpenCall | None = None
        self.pieces: list[str] = []
        self.preset = False
        self.done: dict[str, t.Any] | None = None

    def arguments(self) -> list[str]:
        """Where pieces of arguments go."""
        return self.pieces if self.call is None else self.call.fragments


class ResponsesDecoder(EventStreamDecoder):
    """Events of one response to model events."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._items: list[_Item] = []
        self._stated: dict[str, t.Any] | None = None
        #: Text, or thinking, came in deltas; then the items repeat it.
        self._streamed = False
        self._thought_streamed = False

    def _value(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        # The common event first: a piece of answer.
        kind = value.get("type")
        if kind == "response.output_text.delta" and self._plain:
            text = value.get("delta")
            if text and type(text) is str:
                self.moved = self._answered = self._streamed = True
                out.append(TextDelta(text))
                return
        handler = _EVENTS.get(kind) if type(kind) is str else None
        if handler is not None:
            self.moved = True
            handler(self, value, out)
        elif type(kind) is str and kind in _ASIDE:
            self.moved = True
        elif value.get("error") or errors.has_error(value):
            error = value.get("error") or value
            raise telling(errors.in_band_error(error), error)
        elif type(kind) is str and kind.startswith("response.") and kind not in _WAITING:
            self.moved = True

    def _text(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        text = value.get("delta")
        if text and isinstance(text, str):
            self._streamed = True
            self._say(text, out)

    def _refusal(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        self._refused = True
        self._text(value, out)

    def _thinking(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        text = value.get("delta")
        if text and isinstance(text, str):
            self._thought_streamed = True
            self._think(text, out)

    def _annotation(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        self._cite(value.get("annotation"), out)

    def _cite(self, note: t.Any, out: list[ModelEvent]) -> None:
        if isinstance(note, dict):
            inner = note.get("url_citation")
            cited = inner if isinstance(inner, dict) else note
            self._cite_source(cited.get("url"), cited.get("title"), out)

    # -- items -------------------------------------------------------------------------------

    def _added(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        given = value.get("item")
        if not isinstance(given, dict):
            return
        item = self._known(value, given, again=True) or self._add(value.get("output_index"), given)
        if item.kind == "function_call":
            self._name(item, given)
            if item.name and item.call_id:
                self._open(item, out)
            if (arguments := given.get("arguments")) and isinstance(arguments, str):
                item.arguments()[:] = [arguments]
                item.preset = True

    def _arguments(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        piece = value.get("delta")
        if not piece or not isinstance(piece, str):
            return
        item = self._call_of(value)
        if item.preset:  # they come once more, in pieces
            item.preset = False
            item.arguments().clear()
        item.arguments().append(piece)

    def _arguments_done(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        item = self._call_of(value)
        self._name(item, value)
        if item.name and item.call_id:
            self._open(item, out)
        self._whole(item, value.get("arguments"))

    def _item_done(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        given = value.get("item")
        if isinstance(given, dict):
            item = self._known(value, given) or self._add(value.get("output_index"), given)
            if item.done is None:
                self._settle(item, given, out)

    def _settle(self, item: _Item, given: dict[str, t.Any], out: list[ModelEvent]) -> None:
        """The last word of an item."""
        item.done = given
        if item.kind == "function_call":
            self._name(item, given)
            if item.name:
                self._open(item, out)
            self._whole(item, given.get("arguments"))
        elif item.kind == "message":
            self._message(given, out)
        elif item.kind == "reasoning" and not self._thought_streamed:
            for part in _parts(given, "summary") or _parts(given, "content"):
                if isinstance(text := part.get("text"), str):
                    self._think(text, out)

    def _message(self, given: dict[str, t.Any], out: list[ModelEvent]) -> None:
        """A whole message: its sources; its text where none of the answer came in pieces."""
        streamed = self._streamed
        for part in _parts(given, "content"):
            for note in _parts(part, "annotations"):
                self._cite(note, out)
            if streamed:
                continue
            if part.get("type") == "refusal":
                self._refused = True
            text = part.get("refusal") or part.get("text")
            if text and isinstance(text, str):
                self._say(text, out)

    def _open(self, item: _Item, out: list[ModelEvent]) -> None:
        """Announce a call, once."""
        if item.call is None:
            self._flush(out)
            item.call = self._calls.begin(out, item.call_id, item.name)
            item.call.fragments.extend(item.pieces)

    @staticmethod
    def _name(item: _Item, given: dict[str, t.Any]) -> None:
        for field in ("name", "call_id"):
            value = given.get(field)
            if value and isinstance(value, str) and not getattr(item, field):
                setattr(item, field, value)

    @staticmethod
    def _whole(item: _Item, arguments: t.Any) -> None:
        """Arguments given whole; they count over the pieces."""
        if isinstance(arguments, str) and arguments:
            item.arguments()[:] = [arguments]
        elif isinstance(arguments, dict) and item.call is not None:
            item.call.value = arguments
            item.call.fragments.clear()
        item.preset = False
        if item.call is not None:
            item.call.closed = True

    def _add(self, index: t.Any, given: dict[str, t.Any]) -> _Item:
        item = _Item(index, str(given.get("id") or ""), str(given.get("type")))
        self._items.append(item)
        return item

    def _call_of(self, value: dict[str, t.Any]) -> _Item:
        """The call that a piece of arguments belongs to: the one it names, else the last that is open."""
        item = self._known(value, {"type": "function_call", "id": value.get("item_id")})
        if item is None:
            opened = (i for i in reversed(self._items) if i.kind == "function_call" and i.done is None)
            item = next(opened, None)
        return item or self._add(
            value.get("output_index"), {"type": "function_call", "id": value.get("item_id")}
        )

    def _known(
        self, value: dict[str, t.Any], given: dict[str, t.Any], *, again: bool = False
    ) -> _Item | None:
        """The item an event is about, by call id, item id and place, in this order of weight.

        :param again: whether it is the same item announced once more, which takes all that it has to agree.
        """
        index, item_id, call_id = value.get("output_index"), given.get("id"), given.get("call_id")
        best, most = None, 0
        for item in self._items:
            if item.kind != given.get("type"):
                continue
            same_call = bool(call_id) and item.call_id == call_id
            same_id = bool(item_id) and item.id == item_id
            same_place = type(index) is int and item.index == index
            weight = 4 * same_call + 2 * same_id + same_place
            if again and not (same_id and same_place and (same_call or not call_id)):
                continue
            # A place alone says nothing where every item has the same.
            other = bool(call_id and item.call_id and not same_call)
            if weight == 1 and (item.done is not None or other):
                continue
            if weight and weight >= most:
                best, most = item, weight
        return best

    # -- the end -----------------------------------------------------------------------------

    def _started(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        self._note(value.get("response"))

    def _ended(self, value: dict[str, t.Any], out: list[ModelEvent]) -> None:
        """The response is over, one way or another; its status counts over the event's name."""
        response = value.get("response")
        if not isinstance(response, dict):
            response = {}
        self._note(response)
        kind = str(value.get("type")).rpartition(".")[2]
        status = str(response.get("status") or kind)
        error = response.get("error") or value.get("error")
        if error or "failed" in (status, kind) or status == "cancelled":
            if (stated := self._usage()) is not None:
                out.append(UsageStated(stated))
            if error:
                raise telling(errors.in_band_error(error), error)
            raise errors.failure("provider_unavailable", detail=f"status {status}")
        self._late(response.get("output"), out)
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        cut = "incomplete" in (status, kind) or bool(reason)
        self._label = _INCOMPLETE.get(str(reason), "other") if cut else "stop"
        self._finish(out, sentinel=True)

    def _late(self, output: t.Any, out: list[ModelEvent]) -> None:
        """Items that only the end of the response holds, or holds whole."""
        for at, given in enumerate(output if isinstance(output, list) else ()):
            if not isinstance(given, dict):
                continue
            item = self._known({"output_index": at}, given)
            if item is None and at < len(self._items) and self._items[at].kind == given.get("type"):
                item = self._items[at]  # ids and places that change from event to event
            if item is None or item.done is None:
                self._settle(item or self._add(at, given), given, out)

    def _finish(self, out: list[ModelEvent], *, sentinel: bool) -> None:
        for item in self._items:
            if item.kind == "function_call" and item.call is None:
                if not item.name:
                    raise errors.failure("provider_bad_stream", detail="a tool call without a name")
                self._open(item, out)
        super()._finish(out, sentinel=sentinel)

    def _note(self, response: t.Any) -> None:
        if not isinstance(response, dict):
            return
        model, usage = response.get("model"), response.get("usage")
        if model and isinstance(model, str):
            self._model = model
        if usage and isinstance(usage, dict):
            self._stated = usage

    def _usage(self) -> Usage | None:
        stated = self._stated
        if stated is None:
            return None
        given = stated.get("input_tokens_details") or stated.get("prompt_tokens_details")
        made = stated.get("output_tokens_details") or stated.get("completion_tokens_details")
        return Usage(
            input=count(stated, "input_tokens", "prompt_tokens"),
            output=count(stated, "output_tokens", "completion_tokens"),
            total=count(stated, "total_tokens"),
            cache_read=count(given, "cached_tokens"),
            cache_write=count(given, "cache_write_tokens"),
            reasoning=count(made, "reasoning_tokens"),
        )

    def _replay(self) -> t.Any:
        """The output items, as the next request must carry them; None when one of them is not known whole."""
        items = self._items
        places = {item.index for item in items}
        if None not in places and len(places) == len(items):
            items = sorted(items, key=lambda item: t.cast(int, item.index))
        built = [_rebuilt(item) for item in items]
        while built and built[-1] is not None and built[-1].get("type") == "reasoning":
            built.pop()  # the vendor refuses reasoning that nothing follows
        if not built or None in built:
            return None
        return whole_value(built) if self._text_halves is not None else built


_Handler = t.Callable[[ResponsesDecoder, dict[str, t.Any], list[ModelEvent]], None]

_EVENTS: dict[str, _Handler] = {
    "response.created": ResponsesDecoder._started,
    "response.output_text.delta": ResponsesDecoder._text,
    "response.refusal.delta": ResponsesDecoder._refusal,
    "response.reasoning_summary_text.delta": ResponsesDecoder._thinking,
    "response.reasoning_text.delta": ResponsesDecoder._thinking,
    "response.output_text.annotation.added": ResponsesDecoder._annotation,
    "response.output_item.added": ResponsesDecoder._added,
    "response.function_call_arguments.delta": ResponsesDecoder._arguments,
    "response.function_call_arguments.done": ResponsesDecoder._arguments_done,
    "response.output_item.done": ResponsesDecoder._item_done,
    "response.completed": ResponsesDecoder._ended,
    "response.incomplete": ResponsesDecoder._ended,
    "response.failed": ResponsesDecoder._ended,
}


def _parts(given: dict[str, t.Any], field: str) -> list[dict[str, t.Any]]:
    parts = given.get(field)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _rebuilt(item: _Item) -> dict[str, t.Any] | None:
    """An item as it goes back, with our id where the vendor's was taken; None when its last word never came.

    Arguments that were no object go back as ``{}``, since servers parse the history.
    """
    call = item.call
    if call is None:
        return item.done
    sent = call.raw() if call.parsed() is not None else "{}"
    if item.done is None:
        return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": sent}
    changes = {"call_id": call.id, "name": call.name, "arguments": sent}
    if all(item.done.get(field) == value for field, value in changes.items()):
        return item.done
    return {**item.done, **changes}

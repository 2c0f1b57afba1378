"""Tool calls put together from deltas, one book a model call.

Law of this room: who a call is, is decided once. The vendor's id decides, else its index, else the
order; an id that is empty, repeated, or changing later neither merges nor renames calls. Once a
call is announced its id and name are frozen. Arguments that do not parse to an object never become one.
"""

from __future__ import annotations

import json
import typing as t

import orjson

from providers.errors import failure
from providers.spec import ModelEvent, ModelRequest, ToolCallReady, ToolCallStarted
from providers.surrogates import whole_text, whole_value

#: Levels of arguments; as many as orjson writes.
MAX_DEPTH = 254


class OpenCall:
    """A call under assembly.

    ``id`` is None until it is announced. ``extras`` go back to the vendor with it. ``closed``: the vendor said that
    nothing of it follows.
    """

    __slots__ = ("closed", "extras", "fragments", "id", "index", "name", "value", "vendor_id")

    def __init__(self, index: int | None, vendor_id: str, name: str) -> None:
        self.index = index
        self.vendor_id = vendor_id
        self.name = name
        self.id: str | None = None
        self.fragments: list[str] = []
        self.value: t.Any = None
        self.extras: dict[str, t.Any] = {}
        self.closed = False

    def raw(self) -> str:
        """The arguments as the vendor wrote them; an object given as one is written as JSON."""
        if self.value is not None and not self.fragments:
            return _dumps(self.value)
        return whole_text("".join(self.fragments))

    def parsed(self) -> t.Any:
        """The arguments as an object; None when they are none."""
        value = self.settled()
        return value if isinstance(value, dict) else None

    def settled(self) -> t.Any:
        """The arguments whatever they are; :data:`_BROKEN` when they are no JSON, or nested beyond all reason."""
        value = self.value if self.value is not None and not self.fragments else _loads(self.raw())
        return _BROKEN if _too_deep(value) else value

    def complete(self) -> bool:
        """Whether the arguments given so far are a whole JSON object already."""
        if not self.fragments:
            return isinstance(self.value, dict)
        # The last character is asked first: some vendors repeat the name on every one of many fragments.
        return self.fragments[-1].rstrip().endswith("}") and isinstance(_loads("".join(self.fragments)), dict)


class CallBook:
    """The calls of one model call, in the order they opened."""

    def __init__(self, request: ModelRequest) -> None:
        self.calls: list[OpenCall] = []
        self._mint = request.mint_id
        self._used = request.used_ids
        self._taken: dict[str, None] = {}
        self._tools = {tool.name for tool in request.tools}

    def delta(
        self,
        out: list[ModelEvent],
        index: int | None,
        vendor_id: str,
        name: str,
        arguments: t.Any,
    ) -> OpenCall:
        """Take one fragment of a call.

        :param index: the vendor's position of the call, None when it gave none.
        :param vendor_id: the vendor's id, ``""`` when it gave none.
        :param name: the tool's name, ``""`` when it gave none.
        :param arguments: a piece of JSON text, a whole object, or None.
        """
        call = self._find(index, vendor_id, name, arguments)
        if call is None:
            self.announce_all(out)
            call = OpenCall(index, vendor_id, name)
            self.calls.append(call)
        elif name and call.id is None and name != call.name:
            call.name = name if name.startswith(call.name) and name in self._tools else call.name + name
        if vendor_id and not call.vendor_id and call.id is None:
            call.vendor_id = vendor_id
        self._arguments(call, name, arguments)
        if call.id is None and call.name and (arguments or not self._may_grow(call.name)):
            self._announce(call, out)
        return call

    def begin(self, out: list[ModelEvent], vendor_id: str, name: str) -> OpenCall:
        """Open a call whose id and name the vendor gives at once and whose fragments it attributes itself.

        :raises ProviderError: ``provider_bad_stream`` when there is no name.
        """
        if not name:
            raise failure("provider_bad_stream", detail="a tool call without a name")
        call = OpenCall(None, vendor_id, name)
        self.calls.append(call)
        self._announce(call, out)
        return call

    def announce_all(self, out: list[ModelEvent]) -> None:
        """Announce what waited for a longer name that did not come."""
        for call in self.calls:
            if call.id is None and call.name:
                self._announce(call, out)

    def unfinished(self) -> bool:
        """Whether the last call may have been broken off: it is open, or its arguments break off."""
        if not self.calls:
            return False
        last = self.calls[-1]
        return not (last.complete() or (last.closed and not last.raw().strip()))

    def settle(self, out: list[ModelEvent], *, cut: bool) -> bool:
        """Say of every call what became of its arguments, in call order.

        :param cut: the vendor says that its output was cut short; then what does not parse was cut, and so
            was a last call without any arguments.
        :returns: whether a call was cut.
        """
        self.announce_all(out)
        any_cut = False
        for call in self.calls:
            ready = _ready(call, cut, last=call is self.calls[-1])
            any_cut = any_cut or ready.error == "cut"
            out.append(ready)
        return any_cut

    def _find(self, index: int | None, vendor_id: str, name: str, arguments: t.Any) -> OpenCall | None:
        same = self.calls if index is None else [c for c in self.calls if c.index == index]
        if not same:
            return None
        if vendor_id:
            for call in reversed(same):
                if call.vendor_id == vendor_id and not (name and call.id is not None and name != call.name):
                    return call
            last = same[-1]
            # A new id opens a call only with a name: servers that redraw the id on each chunk send none.
            if index is None or (last.vendor_id and name):
                return None
        return None if name and self._is_new(same[-1], name, arguments) else same[-1]

    def _is_new(self, call: OpenCall, name: str, arguments: t.Any) -> bool:
        """Whether a fragment without a telling id, but with a name, is the next call rather than more of ``call``."""
        if name == call.name:
            return bool(arguments) and call.complete()
        longer = call.name + name
        return call.id is not None or not (
            longer in self._tools or self._may_grow(longer) or name in self._tools
        )

    def _may_grow(self, name: str) -> bool:
        """Whether ``name`` could be the first piece of a longer tool name."""
        return any(tool != name and tool.startswith(name) for tool in self._tools)

    def _arguments(self, call: OpenCall, name: str, arguments: t.Any) -> None:
        if arguments is None or arguments == "":
            return
        if not isinstance(arguments, str):
            call.value = arguments
        elif name and call.complete() and isinstance(_loads(arguments), dict):
            call.fragments = [arguments]  # a preview, then the confirmed call
            call.value = None
        else:
            call.fragments.append(arguments)

    def _announce(self, call: OpenCall, out: list[ModelEvent]) -> None:
        wanted = call.vendor_id
        if not wanted or wanted in self._used or wanted in self._taken:
            wanted = self._mint()
        self._taken[wanted] = None
        call.id = wanted
        out.append(ToolCallStarted(wanted, call.name))


def _ready(call: OpenCall, cut: bool, *, last: bool) -> ToolCallReady:
    raw = call.raw()
    name, call_id = call.name, call.id or ""
    if not raw.strip() and (call.value is None or call.fragments):
        if cut and last:
            return ToolCallReady(call_id, name, None, raw, "cut")
        return ToolCallReady(call_id, name, {}, raw)
    value = call.settled()
    if value is _BROKEN:
        return ToolCallReady(call_id, name, None, raw, "cut" if cut else "invalid_json")
    if not isinstance(value, dict):
        return ToolCallReady(call_id, name, None, raw, "not_an_object")
    return ToolCallReady(call_id, name, value, raw)


_BROKEN = object()


def _loads(text: str) -> t.Any:
    """``text`` as strict JSON with exact integers, or :data:`_BROKEN`."""
    try:
        value = json.loads(whole_text(text), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _BROKEN
    return whole_value(value) if "\\u" in text else value


def _dumps(value: t.Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer beyond 64 bits, half a character
        return "" if _too_deep(value) else json.dumps(value)


def _too_deep(value: t.Any) -> bool:
    """Whether a value is nested deeper than what writes it elsewhere can follow."""
    try:
        orjson.dumps(value)
    except TypeError:  # too deep, or one of the above
        level = [value]
        for _ in range(MAX_DEPTH):
            level = [
                inner
                for each in level
                if isinstance(each, (dict, list))
                for inner in (each.values() if isinstance(each, dict) else each)
            ]
            if not level:
                return False
        return True
    return False


def _refuse(name: str) -> t.NoReturn:
    raise ValueError(name)

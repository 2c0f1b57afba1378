"""One model call of the kit: what the wire said, held to the rules that every wire keeps.

Law of this room: rules first. A call that breaks one raises :class:`Broken` with a sentence for the wire's author,
before anything it said is compared with a recording.
"""

from __future__ import annotations

import itertools
import typing as t
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from plugins.conformance.waits import KitWaits, bounded
from plugins.spec import ResolvedModel
from providers import spec

#: Seconds one call may take: hundreds of times what a recording needs.
CALL_S = 20.0
_IDS = itertools.count(1)


class Broken(Exception):
    """The wire broke a rule, or said something else than the recording."""


@dataclass
class Heard:
    """What one model call said. ``error``: how it failed, when it did."""

    text: str = ""
    thinking: str = ""
    redacted: bool = False
    started: list[tuple[str, str]] = field(default_factory=list)
    ready: list[spec.ToolCallReady] = field(default_factory=list)
    finished: spec.ModelFinished | None = None
    error: spec.ProviderError | None = None

    @property
    def usage(self) -> spec.Usage | None:
        """What the end stated."""
        return self.finished.usage if self.finished else None

    def take(self, event: object) -> None:
        """One event.

        :raises Broken: it is none, or comes where it may not.
        """
        if self.finished is not None:
            raise Broken(f"{type(event).__name__} came after ModelFinished, which is the last event")
        handler = _EVENTS.get(type(event))
        if handler is None:
            raise Broken(f"the wire yielded a {type(event).__name__}, which is no model event")
        handler(self, event)


def _text(heard: Heard, event: spec.TextDelta) -> None:
    heard.text += _whole(event.text, "TextDelta")


def _thinking(heard: Heard, event: spec.ThinkingDelta) -> None:
    if event.redacted:
        heard.redacted = True
    else:
        heard.thinking += _whole(event.text, "ThinkingDelta")


def _whole(text: object, what: str) -> str:
    if not isinstance(text, str) or not text:
        raise Broken(f"a {what} without text: {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Broken(f"a {what} with half a character: {text!r}") from None
    return text


def _started(heard: Heard, event: spec.ToolCallStarted) -> None:
    if not event.id or not event.name:
        raise Broken("a ToolCallStarted needs an id and a name; mint an id where the vendor gives none")
    if event.id in (known for known, _ in heard.started):
        raise Broken(f'the call "{event.id}" was announced twice')
    heard.started.append((event.id, event.name))


def _ready(heard: Heard, event: spec.ToolCallReady) -> None:
    if (event.id, event.name) not in heard.started:
        raise Broken(
            f'the call "{event.id}" of {event.name} is ready, but was not announced under that id and name'
        )
    if (event.arguments is None) == (event.error is None):
        raise Broken(f'the call "{event.id}" needs either arguments or the error why there are none')
    heard.ready.append(event)


def _finished(heard: Heard, event: spec.ModelFinished) -> None:
    if [(call.id, call.name) for call in heard.ready] != heard.started:
        raise Broken("ModelFinished came before every announced call was ready, in the order announced")
    heard.finished = event


def _nothing(heard: Heard, event: object) -> None:
    """Sources and early counts: welcome, and no scenario looks at them."""


_EVENTS: dict[type, Callable[[Heard, t.Any], None]] = {
    spec.TextDelta: _text,
    spec.ThinkingDelta: _thinking,
    spec.ToolCallStarted: _started,
    spec.ToolCallReady: _ready,
    spec.SourceCited: _nothing,
    spec.UsageStated: _nothing,
    spec.ModelFinished: _finished,
}


def call(
    resolved: ResolvedModel,
    request: spec.ModelRequest,
    waits: KitWaits,
    on_events: Callable[[Heard], bool] = lambda heard: True,
) -> Heard:
    """Make one model call to its end.

    :param on_events: told after each batch of events; False closes the stream there.
    :returns: what was heard; a ``ProviderError`` is kept in it.
    :raises Broken: a rule was broken. :raises Cancelled: the kit cancelled it. :raises Stuck: it did not end.
    """
    heard = Heard()
    try:
        with bounded(CALL_S), closing(_stream(resolved, request, waits)) as stream:
            for batch in stream:
                if not isinstance(batch, Sequence) or not batch:
                    raise Broken(f"the wire yielded {batch!r}; it takes lists of one event or more")
                for event in batch:
                    heard.take(event)
                if not on_events(heard):
                    return heard
    except spec.ProviderError as error:
        heard.error = error
        return heard
    except Broken:
        raise
    except Exception as error:
        raise Broken(
            f"the wire raised {type(error).__name__}: {error}; it may raise ProviderError only"
        ) from error
    if heard.finished is None:
        raise Broken("the stream ended without ModelFinished and without a ProviderError")
    return heard


def _stream(resolved: ResolvedModel, request: spec.ModelRequest, waits: KitWaits) -> t.Any:
    stream: t.Any = resolved.wire.stream(request, resolved.connection, waits)
    if not hasattr(stream, "close"):
        raise Broken("stream() has to return a generator: closing it is how a call is given up")
    return stream


def request_for(resolved: ResolvedModel, **changes: t.Any) -> spec.ModelRequest:
    """A request to ``resolved`` that mints ``kit_1``, ``kit_2``, …, none twice."""
    given: dict[str, t.Any] = {
        "model": resolved.model,
        "messages": [spec.UserMessage("What does the recording say?")],
        "mint_id": lambda: f"kit_{next(_IDS)}",
        "show_thinking": True,
        "dialect": resolved.dialect,
    }
    return spec.ModelRequest(**{**given, **changes})


def tools_for(calls: Sequence[tuple[str, t.Mapping[str, t.Any]]]) -> tuple[spec.ToolSpec, ...]:
    """Tools of the names called, taking any value for each argument seen."""
    members: dict[str, dict[str, t.Any]] = {}
    for name, arguments in calls:
        members.setdefault(name, {}).update({key: {} for key in arguments})
    return tuple(
        spec.ToolSpec(name, f"The tool {name}.", {"type": "object", "properties": known})
        for name, known in members.items()
    )

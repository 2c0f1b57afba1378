"""What a plugin's own wire is held by while it streams: nothing but model events and ``ProviderError`` comes out.

Law of this room: the token path. Of a delta two types are looked at, and nothing else; whatever comes a few times an
answer is checked field by field.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext

from plugins import time_limit
from plugins.spec import checks
from providers import spec


class HeldWaits:
    """Waits whose idle limit is open from the start, for code that may forget to open one.

    A limit that the code opens itself takes the place of that one while it is open, and is never longer.

    :param seconds: of the limit.
    """

    def __init__(self, waits: spec.Waits, seconds: float) -> None:
        self.wait = waits.wait
        self.progress = waits.progress
        self.gate = waits.gate
        self._waits = waits
        self._seconds = seconds
        self._open: AbstractContextManager[t.Any] | None = None

    def __enter__(self) -> spec.Waits:
        self._limit(self._seconds)
        return t.cast(spec.Waits, self)

    def __exit__(self, *_exc: object) -> None:
        self._close()

    @contextmanager
    def idle_limit(self, seconds: float) -> Iterator[None]:
        """See ``providers.spec.Waits``; limits do not nest, so this one replaces the other."""
        self._limit(min(seconds, self._seconds))
        try:
            yield
        finally:
            self._limit(self._seconds)

    def _limit(self, seconds: float) -> None:
        self._close()
        self._open = self._waits.idle_limit(seconds)
        self._open.__enter__()

    def _close(self) -> None:
        if (limit := self._open) is not None:
            self._open = None
            limit.__exit__(None, None, None)


class GuardedWire:
    """A plugin's own wire, of which nothing but model events and ``ProviderError`` comes out."""

    def __init__(self, wire: spec.Wire) -> None:
        self.wire = wire
        self.name = str(wire.name)

    def stream(
        self, request: spec.ModelRequest, connection: spec.Connection, waits: spec.Waits
    ) -> Iterator[list[spec.ModelEvent]]:
        """See ``providers.spec.Wire``."""
        try:
            with HeldWaits(waits, connection.idle_s) as held:
                yield from self._checked(request, connection, held)
        except spec.ProviderError as error:
            raise usable(error) from error.__cause__
        except (GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            let_a_stop_go_first(waits)
            raise spec.ProviderError(
                "provider_bad_stream",
                f"The plugin's wire {self.name} failed; see the plugin's author.",
                detail=time_limit.named(error),
            ) from error

    def _checked(
        self, request: spec.ModelRequest, connection: spec.Connection, waits: spec.Waits
    ) -> Iterator[list[spec.ModelEvent]]:
        with waits.wait():  # what it does outside its own waits must not keep a run from ending
            stream = self.wire.stream(request, connection, waits)
        announced: set[str] = set()
        text_delta, thinking_delta = spec.TextDelta, spec.ThinkingDelta
        with closing(t.cast(t.Any, stream)) if hasattr(stream, "close") else nullcontext(stream):
            for batch in _steps(stream, waits):
                events = list(batch)
                for event in events:
                    kind = type(event)
                    if kind is text_delta:
                        good = type(event.text) is str
                    elif kind is thinking_delta:
                        good = type(event.text) is str and type(event.redacted) is bool
                    else:
                        good = _is_event(event)
                        _follow(event, announced)
                    if not good:
                        raise TypeError(f"a {kind.__name__} with {event!r:.200}")
                if events:
                    waits.progress()
                    yield events
                    if isinstance(events[-1], spec.ModelFinished):
                        return


class GuardedEmbeddingWire:
    """A plugin's own embedding wire, of which nothing but good vectors and ``ProviderError`` comes out."""

    def __init__(self, wire: spec.EmbeddingWire) -> None:
        self.wire = wire
        self.name = str(wire.name)

    def embed(
        self, request: spec.EmbeddingRequest, connection: spec.Connection, waits: spec.Waits
    ) -> spec.Embedded:
        """See ``providers.spec.EmbeddingWire``."""
        from providers.embedding import vectors_of  # the HTTP client comes with it: not on the start path

        try:
            with HeldWaits(waits, connection.idle_s) as held, held.wait():
                found = self.wire.embed(request, connection, held)
            if found.usage is not None and not _is_usage(found.usage):
                raise TypeError(f"usage {found.usage!r:.200}")
            return spec.Embedded(vectors_of(found.vectors, len(request.texts)), found.usage)
        except spec.ProviderError as error:
            raise usable(error) from error.__cause__
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            let_a_stop_go_first(waits)
            raise spec.ProviderError(
                "provider_bad_stream",
                f"The plugin's embedding wire {self.name} failed; see the plugin's author.",
                detail=time_limit.named(error),
            ) from error


def _steps(stream: Iterable[t.Any], waits: spec.Waits) -> Iterator[t.Any]:
    """What ``stream`` gives; each step can be interrupted wherever it blocks."""
    steps = iter(stream)
    while True:
        with waits.wait():
            batch = next(steps, _END)
        if batch is _END:
            return
        yield batch


_END = object()
_REASONS = t.get_args(spec.FinishReason)
_CODES = t.get_args(spec.ProviderErrorCode)


def let_a_stop_go_first(waits: spec.Waits) -> None:
    """:raises BaseException: what is to end the run, when something is."""
    with waits.wait():
        pass


def usable(error: spec.ProviderError) -> spec.ProviderError:
    """``error``, or one in its place when it is none that a run can end in; a wait that is none is left out."""
    if error.code not in _CODES or not checks.are_names((error.message, error.detail)):
        return spec.ProviderError(
            "provider_bad_stream",
            "The plugin failed and did not say how; see the plugin's author.",
            detail=f"{error.code!r:.100}: {error.message!r:.1000}",
        )
    if not checks.is_amount(error.retry_after):
        error.retry_after = None
    if type(error.status) is not int:
        error.status = None
    return error


def _follow(event: t.Any, announced: set[str]) -> None:
    """:raises TypeError: the answer ends with a call that was announced and never made."""
    if isinstance(event, spec.ToolCallStarted):
        announced.add(event.id)
    elif isinstance(event, spec.ToolCallReady):
        announced.discard(event.id)
    elif isinstance(event, spec.ModelFinished) and announced:
        raise TypeError(f"a ModelFinished without a ToolCallReady for {sorted(announced)!r:.200}")


def _is_event(event: t.Any) -> bool:
    """Whether a model event holds what one may.

    :raises TypeError: it is no model event.
    """
    check = _CHECKS.get(type(event))
    if check is None:
        raise TypeError(f"a {type(event).__name__} is no model event")
    return check(event)


def _texts(event: t.Any, *names: str) -> bool:
    return all(type(getattr(event, name)) is str for name in names)


def _is_usage(usage: t.Any) -> bool:
    if not isinstance(usage, spec.Usage):
        return False
    counts = [getattr(usage, field) for field in usage.__struct_fields__ if field != "estimated"]
    return all(count is None or (type(count) is int and count >= 0) for count in counts)


def _is_call(event: t.Any) -> bool:
    return _texts(event, "id", "name") and bool(event.id and event.name)


def _is_ready(event: spec.ToolCallReady) -> bool:
    arguments: object = event.arguments
    return (
        _is_call(event)
        and _texts(event, "raw")
        and (
            isinstance(arguments, dict)
            if event.error is None
            else event.error in ("invalid_json", "not_an_object", "cut")
        )
    )


#: Of what is no delta.
_CHECKS: Mapping[type, Callable[[t.Any], bool]] = {
    spec.ToolCallStarted: _is_call,
    spec.ToolCallReady: _is_ready,
    spec.SourceCited: lambda event: _texts(event, "url", "title"),
    spec.UsageStated: lambda event: _is_usage(event.usage),
    spec.ModelFinished: lambda event: (
        event.reason in _REASONS
        and (event.usage is None or _is_usage(event.usage))
        and (event.model is None or type(event.model) is str)
    ),
}

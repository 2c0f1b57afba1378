"""A plugin whose family, wire and tools do everything a plugin must not, by the name of the model or tool."""

from __future__ import annotations

import asyncio
import math
import sys
import typing as t
from collections.abc import Callable, Iterator

import gevent

from plugins.hookspecs import hookimpl
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Tool, ToolContext
from providers import spec
from providers.auth import NoAuth

FINISHED = spec.ModelFinished("stop", None, None)


def hang(waits: spec.Waits) -> None:
    """Wait for ever as a well-behaved wire would, but for the idle limit it forgot."""
    with waits.wait():
        gevent.sleep(3600)


def hang_briefly(waits: spec.Waits) -> None:
    """Wait for ever under a limit of its own, as after the finish of an answer."""
    with waits.idle_limit(0.05):
        hang(waits)


def list_models(connection: spec.Connection, waits: spec.Waits) -> list[str]:
    """Block outside every wait."""
    gevent.sleep(3600)
    return ["never"]


def _exit() -> t.NoReturn:
    sys.exit(4)


class Panic(BaseException):
    """What extensions written in Rust raise is no ``Exception`` either."""


def _raise(error: BaseException) -> t.NoReturn:
    raise error


def _overloaded(wait: float) -> spec.ProviderError:
    return spec.ProviderError("provider_overloaded", "Busy.", retry_after=wait)


def _say(*batches: t.Any) -> Callable[[spec.Waits], Iterator[t.Any]]:
    return lambda waits: iter(batches)


def _then(before: t.Any, act: Callable[[spec.Waits], t.Any]) -> Callable[[spec.Waits], Iterator[t.Any]]:
    def stream(waits: spec.Waits) -> Iterator[t.Any]:
        if before is not None:
            yield before
        act(waits)

    return stream


TEXT = [spec.TextDelta("hello")]
CALL = spec.ToolCallStarted("c1", "exits"), spec.ToolCallReady("c1", "exits", {}, "{}")

#: Model to what its stream does.
MODELS: dict[str, Callable[[spec.Waits], Iterator[t.Any]]] = {
    "good": _say(TEXT, [FINISHED]),
    "raises": _then(None, lambda waits: _raise(KeyError("choices"))),
    "raises-later": _then(TEXT, lambda waits: _raise(ValueError("half way"))),
    "exits": _then(None, lambda waits: _exit()),
    "kills": _then(TEXT, lambda waits: _raise(gevent.GreenletExit())),
    "hangs": _then(TEXT, hang),
    "hangs-briefly": _then(TEXT, hang_briefly),
    "times-out": _then(TEXT, lambda waits: _raise(gevent.Timeout(1))),
    "panics": _then(TEXT, lambda waits: _raise(Panic("at the disco"))),
    "gives-up": _then(None, lambda waits: _raise(asyncio.CancelledError())),
    "odd-code": _then(None, lambda waits: _raise(spec.ProviderError(t.cast(t.Any, None), t.cast(str, None)))),
    "odd-wait": _then(None, lambda waits: _raise(_overloaded(math.nan))),
    "text-wait": _then(None, lambda waits: _raise(_overloaded(t.cast(float, "5")))),
    "never-made": _say([spec.ToolCallStarted("c1", "odd")], [FINISHED]),
    "no-id": _say([spec.ToolCallReady("", "odd", {}, "{}")], [FINISHED]),
    "blocks": _then(TEXT, lambda waits: gevent.sleep(3600)),
    "rubbish": _say(["text"]),
    "no-list": _say(7),
    "number": _say([spec.TextDelta(t.cast(str, 5))]),
    "bad-reason": _say(TEXT, [spec.ModelFinished(t.cast(t.Any, "done"), None, None)]),
    "bad-usage": _say(TEXT, [spec.ModelFinished("stop", t.cast(t.Any, {"input": 1}), None)]),
    "unfinished": _say(TEXT),
    "goes-on": _say(TEXT, [FINISHED], [spec.TextDelta("more")], [FINISHED]),
    "empty": _say([], TEXT, [], [FINISHED]),
}


class WildWire:
    """Does what the model's name says."""

    name = "wild"

    def stream(self, request: spec.ModelRequest, connection: spec.Connection, waits: spec.Waits) -> t.Any:
        if request.model.startswith("calls-"):
            if any(isinstance(message, spec.ToolResult) for message in request.messages):
                return _say(TEXT, [FINISHED])(waits)
            name = request.model.removeprefix("calls-")
            called = [spec.ToolCallStarted("c1", name), spec.ToolCallReady("c1", name, {}, "{}")]
            return _say(called, [spec.ModelFinished("tool_calls", None, None)])(waits)
        return MODELS[request.model](waits)


def _rule(model: str, row: object) -> Capabilities:
    if model == "raises-rule":
        raise ZeroDivisionError
    if model == "exits-rule":
        _exit()
    if model == "lies-rule":
        return t.cast(Capabilities, {"thinking": "full"})
    if model == "odd-rule":
        return Capabilities(thinking=t.cast(t.Any, "loud"))
    if model == "priced-rule":
        return Capabilities(price=t.cast(t.Any, "cheap"), context_window=t.cast(t.Any, "128k"))
    if model == "slow-rule":
        gevent.sleep(3600)
    return Capabilities(tools="parallel")


def _tool(name: str, run: Callable[[dict[str, t.Any], ToolContext], t.Any], **more: t.Any) -> Tool:
    return Tool(name, f"It {name}.", {"type": "object"}, run, **more)


def _hanging_tool(arguments: dict[str, t.Any], context: ToolContext) -> None:
    hang(context.waits)


class Wild:
    """The plugin."""

    plugin_name = "wild"
    plugin_version = "6.6.6"

    @hookimpl
    def provider_families(self) -> list[ProviderFamily]:
        return [
            ProviderFamily(
                "wild",
                "Wild",
                WildWire(),
                NoAuth(),
                ConnectionSpec(default_base="", key_required=False),
                _rule,
                list_models=list_models,
            )
        ]

    @hookimpl
    def tools(self) -> list[Tool]:
        return [
            _tool("exits", lambda arguments, context: _exit()),
            _tool("exits_thread", lambda arguments, context: _exit(), runs="thread"),
            _tool("times_out", lambda arguments, context: _raise(gevent.Timeout(1))),
            _tool("panics", lambda arguments, context: _raise(Panic("!"))),
            _tool("panics_thread", lambda arguments, context: _raise(Panic("!")), runs="thread"),
            _tool("interrupts_thread", lambda arguments, context: _raise(KeyboardInterrupt()), runs="thread"),
            _tool("raises", lambda arguments, context: _raise(OSError("no"))),
            _tool("hangs", _hanging_tool),
            _tool("blocks", lambda arguments, context: gevent.sleep(3600)),
            _tool("odd", lambda arguments, context: object()),
        ]

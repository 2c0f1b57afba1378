"""Tools of MCP servers, as the blocks of this worker use them.

Law of this room: the tools of a server are asked for once and kept until they are old, the server says that they are
others, or its process is gone. Whoever waits stands in a guarded wait and leaves at once when cancelled; the server
is told. Secrets are in nothing that is kept but the closures of the tools they belong to.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
import typing as t
from dataclasses import dataclass, field

from gevent.event import Event

from app import encoding
from app.config import Settings
from app.engine.mcp_pipe import HostPipe, Unavailable
from app.net.request import sendable
from app.redaction.values import ValueMask, value_mask
from plugins.spec import Tool, ToolContext, ToolFailed
from plugins.spec.mcp import McpServer
from providers.spec import Waits

log = logging.getLogger("studio.mcp")

#: Seconds after which tools are asked for again, though their server said nothing.
FRESH_S = 300.0
#: Seconds in which the process has to say that it has given up a cancelled request; one that does not hangs.
GIVE_UP_S = 30.0
#: Most lists of tools that are kept.
MAX_KEPT = 256
#: Most characters of what a model is told of a failure.
MAX_FAILURE = 20_000
Message = dict[str, t.Any]


@dataclass(frozen=True, slots=True)
class ServerUse:
    """A server with all templates rendered.

    :ivar secrets: what answers are masked for: values of the store that it is used with.
    """

    server: McpServer
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


class _Asked:
    """A request under way; several may wait for it. ``key``: of the server whose tools are asked for. ``stale``: the
    server said meanwhile that they are others.
    """

    __slots__ = ("answer", "came", "key", "number", "stale", "waiting")

    def __init__(self, number: int, key: str | None) -> None:
        self.number = number
        self.key = key
        self.answer: Message | None = None
        self.came = Event()
        self.stale = False
        self.waiting = 0


class McpClient:
    """The MCP servers of this worker. Nothing is started before the first use."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.pipe = HostPipe(self._heard, self._lost)
        self._numbers = 0
        self._asked: dict[int, _Asked] = {}
        #: When requests that nobody waits for any more were cancelled.
        self._given_up: dict[int, float] = {}
        self._listing: dict[str, _Asked] = {}
        self._tools: dict[str, tuple[float, tuple[Tool, ...]]] = {}

    def tools(self, use: ServerUse, waits: Waits, fresh: bool = False) -> tuple[Tool, ...]:
        """All tools of a server, under its own names; the same tuple as long as they are the same.

        :param fresh: ask for them anew.
        :raises ToolFailed: the server cannot be reached.
        """
        key = _key(use.server)
        if fresh:
            self._tools.pop(key, None)
        if (kept := self._kept(key)) is not None:
            return kept
        asked = self._listing.get(key)
        if asked is None:
            asked = self._ask(use, {"do": "list", "key": key})
            self._listing[key] = asked
        answer = self._wait(asked, waits)
        if (kept := self._kept(key)) is not None:
            return kept  # another one who waited was first
        tools = self._made_of(use, answer)
        if len(self._tools) >= MAX_KEPT:
            self._tools.clear()
        if not asked.stale:
            self._tools[key] = (time.monotonic(), tools)
        return tools

    def _kept(self, key: str) -> tuple[Tool, ...] | None:
        since, tools = self._tools.get(key, (0.0, None))
        return tools if time.monotonic() - since < FRESH_S else None

    def close(self) -> None:
        """End all servers."""
        self.pipe.close()

    # -- calls -------------------------------------------------------------------------------

    def _made_of(self, use: ServerUse, answer: Message) -> tuple[Tool, ...]:
        hidden = value_mask(use.secrets)
        found = _told(answer, hidden)["tools"]
        return tuple(
            self._made(use, raw["name"], shown) for raw, shown in zip(found, hidden.value(found), strict=True)
        )

    def _made(self, use: ServerUse, name: str, shown: Message) -> Tool:
        """A tool. ``name``: what its server calls it; ``shown``: what a model may see of it."""
        if shown["problem"] is not None:
            log.warning("%s: the schema of %.100r %s", use.server.title, shown["name"], shown["problem"])

        def run(arguments: dict[str, t.Any], context: ToolContext) -> t.Any:
            return self._call(use, name, arguments, context.waits)

        return Tool(shown["name"], shown["description"], shown["schema"], run, idempotent=shown["idempotent"])

    def _call(self, use: ServerUse, name: str, arguments: dict[str, t.Any], waits: Waits) -> t.Any:
        message = {"do": "call", "key": _key(use.server), "name": name, "arguments": arguments}
        hidden = value_mask(use.secrets)
        told = _told(self._wait(self._ask(use, message), waits), hidden)
        return hidden.value(told["value"]) if "value" in told else hidden.json(told["text"])

    def _ask(self, use: ServerUse, message: Message) -> _Asked:
        """Send a request.

        :raises ToolFailed: there is no process to take it, or a header cannot be sent.
        """
        self._see_to_the_process()
        server = self._sent(use.server)
        self._numbers += 1
        number = self._numbers  # others count on while the process starts
        listing = message["key"] if message["do"] == "list" else None
        asked = self._asked[number] = _Asked(number, listing)
        self.pipe.keep_secret((*use.secrets, *use.server.env.values(), *use.server.headers.values()))
        about = {"id": number, "idle_s": self._settings.mcp_idle_s, "server": server}
        try:
            self.pipe.send({**about, **message})
        except Unavailable as error:
            self._asked.pop(number, None)
            raise ToolFailed(str(error)) from None
        return asked

    def _sent(self, server: McpServer) -> Message:
        allow = None if server.trusted else [str(network) for network in self._settings.http_allow]
        return {
            "title": server.title,
            "command": server.command,
            "args": server.args,
            "env": server.env,
            "cwd": os.path.abspath(server.cwd or "."),
            "url": server.url,
            "headers": _sendable(server),
            "allow": allow,
        }

    def _wait(self, asked: _Asked, waits: Waits) -> Message:
        """The answer; the last one to leave without it has the request given up."""
        asked.waiting += 1
        try:
            with waits.wait():
                asked.came.wait()
        finally:
            asked.waiting -= 1
            if asked.answer is None and not asked.waiting:
                self._give_up(asked)
        assert asked.answer is not None
        return asked.answer

    def _give_up(self, asked: _Asked) -> None:
        if asked.key is not None or asked.number not in self._asked:
            return  # a server that starts is of use to whoever comes next
        self._given_up[asked.number] = time.monotonic()
        try:
            self.pipe.send({"cancel": asked.number})
        except Unavailable:
            pass  # then the process is as good as dead

    def _see_to_the_process(self) -> None:
        oldest = next(iter(self._given_up.values()), None)
        if oldest is not None and time.monotonic() - oldest > GIVE_UP_S:
            self.pipe.kill()

    # -- from the process, in its reading greenlet -------------------------------------------

    def _heard(self, message: Message) -> None:
        if "changed" in message:
            self._tools.pop(message["changed"], None)
            if (listing := self._listing.get(message["changed"])) is not None:
                listing.stale = True
            return
        self._given_up.pop(message["id"], None)
        asked = self._asked.pop(message["id"], None)
        if asked is not None:
            self._listing.pop(asked.key or "", None)
            asked.answer = message
            asked.came.set()

    def _lost(self) -> None:
        """The process is gone, and its servers with it."""
        pending, self._asked = self._asked, {}
        self._given_up.clear()
        self._listing.clear()
        for asked in pending.values():
            asked.answer = {
                "failed": "The process of MCP servers ended. Whether the call was run is unknown."
            }
            asked.came.set()


def _told(answer: Message, hidden: ValueMask) -> Message:
    if "failed" in answer:
        raise ToolFailed(hidden.text(answer["failed"])[:MAX_FAILURE])
    return answer


def _sendable(server: McpServer) -> dict[str, str]:
    try:
        return sendable(server.headers)
    except ToolFailed as failed:
        raise ToolFailed(f"The MCP server {server.title} cannot be asked: {failed}.") from None


def _key(server: McpServer) -> str:
    """Stands for a server and everything it is used with."""
    said = (server.command, server.args, server.env, server.cwd, server.url, server.headers, server.trusted)
    return hashlib.sha256(encoding.dumps(said)).hexdigest()

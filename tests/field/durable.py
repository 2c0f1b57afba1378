"""Durable runs over real processes: servers that are killed, and what their runs did and told in all.

Law of this room: how far a run has come is proved by what reached an upstream or a reader. Side effects are counted
where they happen, in this process, which outlives every server.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import typing as t
from collections import defaultdict, deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.field import faults
from tests.field.rig import Server, environ, opened, until
from tests.field.test_reconnect import Reader, attach, begin
from tests.field.wires import Chat
from tests.support import sse
from tests.support.graphs import graph
from tests.support.servers import Studio
from tests.support.vendor import Call, Vendor, vendor

FAMILY = "openai-compatible"
CHAT = Chat()
#: What the run has come to at a ``yield``; after it, its process is another.
Steps = Generator[None, None, None]


class Board:
    """The requests that came to an upstream, by what they are for: a model's name, or the last part of the path.

    :ivar seen: all of them, in order.
    """

    def __init__(self, upstream: Vendor) -> None:
        self.upstream = upstream
        self.seen: defaultdict[str, list[Call]] = defaultdict(list)
        self._waiting: defaultdict[str, deque[Call]] = defaultdict(deque)

    def next(self, name: str) -> Call:
        """The next request for it."""
        while not self._waiting[name]:
            self._take(self.upstream.next_call())
        return self._waiting[name].popleft()

    def count(self, name: str) -> int:
        """How many requests for it have come."""
        while not self.upstream.calls.empty():
            self._take(self.upstream.next_call())
        return len(self.seen[name])

    def _take(self, call: Call) -> None:
        name = (call.body or {}).get("model") or call.path.rpartition("/")[2]
        self.seen[name].append(call)
        self._waiting[name].append(call)


@dataclass
class Place:
    """Upstreams that outlive servers, and the data folder of those that share a store.

    :ivar servers: those that run; each is a process of its own.
    """

    folder: Path
    models: Board
    desk: Board
    more: Mapping[str, str] = field(default_factory=dict)
    servers: list[Server] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)

    @property
    def server(self) -> Server:
        """The first one."""
        return self.servers[0]

    def start(self) -> Server:
        """One more server on the store."""
        made = Studio(self.folder, self._environ())
        self._stack.callback(made.stop)
        server = self._stack.enter_context(opened(made.start()))
        if self.servers:
            made._key = self.server.studio.key
        else:
            _, made._key = server.store.keys.create("field", frozenset({"admin"}))
        self.servers.append(server)
        return server

    def _environ(self) -> dict[str, str]:
        site = self.folder / "site"
        if not site.exists():
            announced(site)
            (self.folder / "faults").mkdir()
        more = {faults.VARIABLE: str(self.folder / "faults"), "PYTHONPATH": str(site), **self.more}
        return environ(self.models.upstream, **more)

    def arm(self, point: str, run_id: str) -> None:
        """Let the server die at a point of a run."""
        (self.folder / "faults" / point).write_text(run_id)

    def died(self, point: str) -> None:
        """Wait until it has."""
        until(lambda: not (self.folder / "faults" / point).exists(), f"the server dies at {point!r}")

    def kill_worker(self, server: Server | None = None) -> None:
        """Kill the worker of a server; its master starts another."""
        server = server or self.server
        old = server.worker
        os.kill(old, signal.SIGKILL)
        until(lambda: old not in server.studio.workers(), "the worker is gone")

    def kill_server(self) -> None:
        """Kill all of a server at once, and start it again."""
        studio = self.server.studio
        assert studio.process is not None
        os.killpg(studio.process.pid, signal.SIGKILL)
        studio.process.wait(60)
        studio.start()

    def close(self) -> None:
        """End all servers."""
        self._stack.close()


def announced(folder: Path) -> None:
    """Make a folder in which :mod:`tests.field.faults` is an installed plugin."""
    info = folder / "field_faults-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: field-faults\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[studio]\nfield-faults = tests.field.faults\n")


@contextmanager
def place_of(folder: Path, servers: int = 1, **more: str) -> Iterator[Place]:
    """Upstreams, and so many servers on one store."""
    with vendor() as models, vendor() as desk:
        made = Place(folder, Board(models), Board(desk), more)
        try:
            for _ in range(servers):
                made.start()
            yield made
        finally:
            made.close()


# -- one run -----------------------------------------------------------------------------------


@dataclass
class Case:
    """One run, from its start to its end. Its models and tools have its name and a word of their own.

    :ivar first: its starter, who loses the server. :ivar later: who reads on from there.
    :ivar answers: those who answered, each of whom reads how it goes on.
    """

    place: Place
    name: str
    workflow: str = field(init=False)
    first: Reader = field(init=False, repr=False)
    later: Reader = field(init=False, repr=False)
    answers: list[Reader] = field(default_factory=list, repr=False)

    def agent(self, word: str, **more: t.Any) -> dict[str, t.Any]:
        """The config of an agent."""
        return {"model": f"{FAMILY}/{self.name}-{word}", "retries": 0, "prompt": "go", **more}

    def tool(self, word: str, method: str = "POST", **more: t.Any) -> dict[str, t.Any]:
        """A tool that the desk answers. One with ``GET`` may be repeated."""
        http = {"method": method, "url": f"{self.place.desk.upstream.base}/{self.name}-{word}"}
        if method != "GET":
            http["body"] = "{{ args }}"
        about = {"name": f"{self.name}-{word}", "description": "Does it.", "parameters": {"type": "object"}}
        return {**about, "http": http, **more}

    def begin(
        self, blocks: Sequence[tuple[str, str, dict[str, t.Any]]], *edges: str, **settings: t.Any
    ) -> str:
        """Start a durable run of these blocks; its id."""
        document = {**graph(blocks, *edges), "settings": {"durable": True, **settings}}
        self.workflow = self.place.server.deploy(document)
        self.first = self.again()
        return self.first.run_id

    def again(self, server: Server | None = None) -> Reader:
        """Start a run of its workflow in its thread."""
        return begin(server or self.place.server, self.workflow, conversationId=self.name)

    def model(self, word: str) -> Call:
        """The next request to a model."""
        return self.place.models.next(f"{self.name}-{word}")

    def says(self, word: str, text: str) -> None:
        """Answer the next request to a model in full."""
        reply(self.model(word), text)

    def plans(self, word: str, *calls: tuple[str, Mapping[str, t.Any]]) -> None:
        """Answer the next request to a model with calls of these tools."""
        call = self.model(word)
        for index, (tool, arguments) in enumerate(calls):
            CHAT.tool(call, index, f"c{index}", f"{self.name}-{tool}", json.dumps(arguments))
        CHAT.finish(call, "tool_calls", (10, 5))

    def works(self, word: str, answer: bytes = b'"fine"') -> Call:
        """Answer the next request to a tool."""
        call = self.place.desk.next(f"{self.name}-{word}")
        call.answer(200, answer)
        return call

    def counts(self) -> dict[str, int]:
        """How many requests came for each model and tool of it."""
        self.place.models.count(""), self.place.desk.count("")
        seen = {**self.place.models.seen, **self.place.desk.seen}
        before = f"{self.name}-"
        return {
            name.removeprefix(before): len(calls)
            for name, calls in seen.items()
            if name.startswith(before) and calls
        }

    def decisions(self) -> list[dict[str, t.Any]]:
        """What it asks, oldest first, as the API tells it."""
        path = f"/api/decisions?runId={self.first.run_id}&status=open"
        status, body = self.place.server.call("GET", path)
        assert status == 200, body
        return t.cast("list[dict[str, t.Any]]", body["items"][::-1])

    def asks(self, count: int = 1) -> list[dict[str, t.Any]]:
        """Wait until it asks so much."""
        return t.cast(
            "list[dict[str, t.Any]]",
            until(lambda: len(found := self.decisions()) == count and found, f"{self.name} asks {count}"),
        )

    def status(self, wanted: str) -> dict[str, t.Any]:
        """Its record, once it has that status."""
        run, server = self.first.run_id, self.place.server
        return t.cast(
            "dict[str, t.Any]",
            until(lambda: (r := server.record(run))["status"] == wanted and r, f"{self.name} is {wanted}"),
        )

    # -- after its process has gone --------------------------------------------------------------

    def cut(self) -> None:
        """The starter's stream was cut, without an end."""
        with pytest.raises((OSError, http.client.HTTPException)):
            self.first.rest()
        assert not ends(self.first.told)

    def follow(self) -> Reader:
        """Read on from the last event that the starter has."""
        last = self.first.last_id if ascending(self.first.told) else None
        self.later = Reader(attach(self.place.server, self.first.run_id, last=last))
        return self.later

    def answer(self, pause_id: str, server: Server | None = None, **body: t.Any) -> Reader:
        """Answer what it asks; how it goes on."""
        body = {"pauseId": pause_id, **body}
        self.answers.append(Reader(resume(server or self.place.server, self.first.run_id, body)))
        return self.answers[-1]

    def end(self, *, lost: bool) -> dict[str, t.Any]:
        """Read to the end, and see that all of it fits; the record.

        :param lost: whether its process was lost, so that some of it may not have been told.
        """
        told = self.later.rest()
        assert told[-1][1] == "[DONE]"
        assert [value.get("event") for value in ends([*self.first.told, *told])] == ["final"]
        numbers = ascending(self.first.told) + ascending(told)
        assert numbers == sorted(set(numbers))
        gaps = [value for _, value in told if isinstance(value, dict) and value.get("event") == "gap"]
        assert [gap["reason"] for gap in gaps] == (["worker_lost"] if lost else [])
        return self.record("completed")

    def record(self, status: str) -> dict[str, t.Any]:
        """The record of its end, once that is there, and complete."""
        record = self.status(status)
        assert record["endedAt"] >= record["createdAt"]
        assert all(block["status"] in ("executed", "skipped") for block in record["blocks"])
        assert all(block["endedAt"] for block in record["blocks"])
        usage = record["usage"]
        assert usage["humanWaitMs"] == record["humanWaitMs"]
        assert usage["durationMs"] >= usage["activeMs"] + usage["humanWaitMs"]
        for calls in record["toolCalls"].values():
            assert all(call["status"] is not None and call["endTime"] for call in calls["list"])
        assert self.decisions() == []
        return record

    def standing(self) -> dict[str, str]:
        """The text that a client has at the end, by block."""
        text: dict[str, str] = {}
        for _, value in [*self.first.told, *self.later.told]:
            if not isinstance(value, dict):
                continue
            if value.get("event") == "gap":
                text = {}
            elif value.get("event") == "chunk_reset":
                text[value["blockId"]] = ""
            elif "chunk" in value:
                text[value["blockId"]] = text.get(value["blockId"], "") + value["chunk"]
        return text


def reply(call: Call, text: str) -> None:
    """A whole answer of a model, which used 10 tokens and made 5."""
    call.text(text)
    CHAT.finish(call, "stop", (10, 5))


def resume(server: Server, run_id: str, body: Mapping[str, t.Any]) -> sse.EventStream:
    """``POST /api/runs/{id}/resume``."""
    return sse.post(
        server.studio.port, f"/api/runs/{run_id}/resume", dict(body), {"X-API-Key": server.studio.key}
    )


def ends(told: Sequence[tuple[str | None, t.Any]]) -> list[dict[str, t.Any]]:
    """The terminal frames; a pause is none."""
    return [
        value
        for _, value in told
        if isinstance(value, dict)
        and value.get("event") in ("final", "error")
        and value.get("data", {}).get("status") != "paused"
    ]


def ascending(told: Sequence[tuple[str | None, t.Any]]) -> list[int]:
    """The numbers of the events."""
    return [int(id.partition(":")[2]) for id, _ in told if id is not None]

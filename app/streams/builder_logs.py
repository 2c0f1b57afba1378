"""The log that a builder session ends with: one entry for each execution of a block (contract section 4).

Law of this room: what was told when a block ended is told once more here, so what is large is referred to, and how
much is kept is bounded.
"""

from __future__ import annotations

import typing as t

from app import encoding
from app.clock import rfc3339
from app.streams import references

#: Bytes of one value that is told a second time, of all that are, and most entries.
LARGE, ALL, MOST = 64 * 1024, 8 * 1024 * 1024, 1_000


class Entry:
    """One execution.

    :ivar which: the members of every event about it. :ivar told: how it ended, as its event said.
    :ivar size: bytes of what it was given and gave, once it has ended.
    """

    __slots__ = (
        "ended_at",
        "forgotten",
        "given",
        "referred",
        "size",
        "started_at",
        "status",
        "told",
        "which",
    )

    def __init__(self, which: dict[str, t.Any], given: t.Any, started_at: int | None) -> None:
        self.which = which
        self.given = given
        self.started_at = started_at
        self.ended_at: int | None = None
        self.status = "running"
        self.told: dict[str, t.Any] = {}
        self.referred = self.forgotten = False
        self.size = 0

    def body(self) -> dict[str, t.Any]:
        """As it is told."""
        times = {"startedAt": self.started_at, "endedAt": self.ended_at}
        body = {**self.which, "status": self.status}
        body |= {name: rfc3339(at) for name, at in times.items() if at is not None}
        if self.given is not None:
            body["input"] = self.given
        return body | self.told


class Logs:
    """The entries of one run, in order of their start.

    :ivar open: the ones that have not ended, by instance path.
    """

    __slots__ = ("_entries", "_kept", "_last", "_run_id", "count", "open")

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._entries: list[Entry] = []
        self._last: dict[str, Entry] = {}
        self._kept = 0
        self.open: dict[str, Entry] = {}
        self.count = 0

    def begin(self, block: str, which: dict[str, t.Any], given: t.Any, at: int | None) -> Entry:
        """An execution begins, or was skipped."""
        entry = self.open[block] = Entry(which, given, at)
        before = self._last.get(block)
        if before is not None and before.referred:  # what it refers to is the output of this one from now on
            for name in ("ref", "url"):
                before.told["output"].pop(name, None)
        self._last[block] = entry
        self._entries.append(entry)
        if len(self._entries) > MOST:
            forgotten = self._entries.pop(0)
            self._kept -= forgotten.size
            forgotten.forgotten = True
        return entry

    def end(self, block: str, status: str, told: dict[str, t.Any], at: int, size: int) -> None:
        """It has ended.

        :param told: what its event said of it. :param size: bytes of its output.
        """
        entry = self.open.pop(block)
        entry.status, entry.ended_at = status, at
        if size > LARGE:
            path = ("blocks", block, "output")
            told = told | {"output": references.reference(self._run_id, told["output"], path)}
            entry.referred = True
            size = 0
        if entry.forgotten:
            return
        entry.told = told
        entry.size = size + (0 if entry.given is None else len(encoding.dumps(entry.given)))
        self._kept += entry.size
        if self._kept > ALL:  # so it would be told; until then it would be held for each reader
            self._kept -= entry.size
            entry.given, entry.size = None, 0
            entry.told = {name: value for name, value in told.items() if name != "output"}
            entry.referred = False

    def told(self, waiting: t.Collection[str] = ()) -> list[dict[str, t.Any]]:
        """All entries.

        :param waiting: blocks that wait for people.
        """
        for block in waiting:
            if block in self.open:
                self.open[block].status = "paused"
        found, size = [], 0
        for entry in self._entries:
            body = entry.body()
            size += len(encoding.dumps(body))
            if size > ALL:
                body = {name: body[name] for name in body if name not in ("input", "output")}
            found.append(body)
        return found

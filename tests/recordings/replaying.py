"""The replay server of the recordings, in this process, so that one server serves case after case.

Law of this room: the bytes and their framing are those of ``replay.py``; only the choice of the case is ours.
"""

from __future__ import annotations

import json
import threading
import types
import typing as t
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.support.shared import shared_module


class Replaying:
    """A running replay server whose cases and options change between requests."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module
        self.server: t.Any = module.Server(("127.0.0.1", 0), module.Handler)
        self.server.lock = threading.Lock()
        self.play([])

    @property
    def base(self) -> str:
        """Address without a path."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def play(
        self,
        cases: Sequence[str],
        *,
        split: int = 0,
        cut: int | None = None,
        stall: int | None = None,
        log: str | None = None,
    ) -> None:
        """Answer the next requests with these cases, in order, the last again and again."""
        self.server.cases = self._module.load(cases) if cases else []
        self.server.count = 0
        self.server.opt = types.SimpleNamespace(
            log=log,
            chunk_delay_ms=0,
            split_bytes=split,
            cut_after=cut,
            stall_after=stall,
            only_first=False,
            no_chunked=False,
        )


@contextmanager
def replaying() -> Iterator[Replaying]:
    """A replay server for a module of tests."""
    made = Replaying(shared_module("recordings", "replay.py"))
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join(5)


def read_log(path: str) -> list[dict[str, t.Any]]:
    """The requests a replay logged, in order."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]

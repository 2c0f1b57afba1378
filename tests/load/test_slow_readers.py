"""Readers who do not read (field case LOAD-01)."""

from __future__ import annotations

import socket
from pathlib import Path

import gevent

from tests.field.rig import Server, begin, until
from tests.load.conftest import serving, statuses
from tests.support.sse import parse
from tests.support.vendor import Call, Vendor
from tests.transport.server import unchunked

READERS = 20
PIECE = "x" * 16_000
#: What the model would say to each reader: 200 MB in all.
PIECES = 10_000_000 // len(PIECE)
#: Bytes of memory a reader that does not read may cost: its out-buffer (256 KB), and what a read brings on top.
COST = 2_000_000


class Flood:
    """A model that says ``PIECES`` pieces as fast as they are taken.

    :ivar sent: how many were taken.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self.sent = 0
        self.greenlet = gevent.spawn(self._say)

    def _say(self) -> None:
        try:
            for number in range(PIECES):
                self.call.text(f"{number}:{PIECE}")
                self.sent += 1
            self.call.finish()
        except OSError:
            pass  # the server has closed the call


def memory(pid: int) -> int:
    """Resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def settled(floods: list[Flood]) -> bool:
    """Whether no model gets rid of anything any more."""
    before = [flood.sent for flood in floods]
    gevent.sleep(0.5)
    return [flood.sent for flood in floods] == before


def test_load_01_readers_that_do_not_read(tmp_path: Path, vendor: Vendor) -> None:
    """The gate stops their models, memory is bounded, others are unaffected; who reads again gets all of it."""
    with serving(tmp_path, vendor) as server:
        workflow = server.agent("openai-compatible/load")
        server.watch(server.agent("scripted/echo")).end()
        before = memory(server.worker)
        clients = [begin(server, workflow, receive_buffer=32 * 1024)[0] for _ in range(READERS)]
        floods = [Flood(vendor.next_call()) for _ in clients]
        until(lambda: settled(floods), "the models are held back")
        assert all(0 < flood.sent < PIECES for flood in floods)
        assert memory(server.worker) - before < READERS * COST
        an_unaffected_stream(server, vendor, workflow)
        whole(clients[0])
        assert floods[0].sent == PIECES
        for sock in clients:
            sock.close()
        until(lambda: vendor.open == 0, "every upstream connection is closed")
        expected = {("completed", None): 3, ("cancelled", "client_disconnected"): READERS - 1}
        until(lambda: statuses(server) == expected, "every run is recorded")


def an_unaffected_stream(server: Server, vendor: Vendor, workflow: str) -> None:
    """Lock-step: each delta arrives before the next is sent."""
    watched = server.watch(workflow)
    call = vendor.next_call()
    for n in range(20):
        call.text(f"{n} ")
        assert watched.next()["chunk"] == f"{n} "
    call.finish()
    assert watched.end()["event"] == "final"


def whole(sock: socket.socket) -> None:
    """Read to the end: every piece once and in order, then the terminal and the sentinel."""
    got = bytearray()
    while piece := sock.recv(1 << 20):
        got += piece
    values = [frame.json() for frame in parse(unchunked(bytes(got))) if frame.comment is None]
    numbers = [int(v["chunk"].partition(":")[0]) for v in values[:-2]]
    assert numbers == list(range(PIECES))
    assert values[-2]["event"] == "final"
    # Over 8 MiB: its size stands in its place.
    assert values[-2]["data"]["output"]["content"]["size"] > PIECES * len(PIECE)
    assert values[-1] == "[DONE]"


def test_load_01_a_reader_that_takes_nothing_for_too_long_is_gone(tmp_path: Path, vendor: Vendor) -> None:
    """Its run is cancelled as if it had left; the connection is cut, not ended."""
    with serving(tmp_path, vendor, STUDIO_SLOW_READER_S="0.5") as server:
        sock, run_id = begin(server, server.agent("openai-compatible/load"), receive_buffer=32 * 1024)
        flood = Flood(vendor.next_call())
        assert flood.call.left.wait(20)
        record = server.ended(run_id)
        assert (record["status"], record["cause"]) == ("cancelled", "client_disconnected")
        got = b""
        try:
            while piece := sock.recv(1 << 20):
                got += piece
        except ConnectionResetError:
            pass
        sock.close()
        assert not got.endswith(b"0\r\n\r\n")

"""A thousand clients leave at once while the model is silent."""

from __future__ import annotations

import os
from pathlib import Path

import gevent.pool

from tests.field.rig import begin, until
from tests.load.conftest import serving, statuses
from tests.support.vendor import Vendor

COUNT = 1000
#: Seconds of the processor, ten times what it may take (200 ms): how long others had it says nothing.
LEAVE_S = 2.0


def worked(pid: int) -> float:
    """Seconds of the processor that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_thousand_clients_leave_at_once(tmp_path: Path, vendor: Vendor) -> None:
    """Every upstream connection is closed without much work, every run is gone, descriptors are back."""
    with serving(tmp_path, vendor) as server:
        workflow = server.agent("openai-compatible/load")
        short = server.agent("scripted/echo")
        server.watch(short).end()
        before = server.descriptors()
        pool = gevent.pool.Pool(50)
        clients = [sock for sock, _ in pool.imap_unordered(lambda _: begin(server, workflow), range(COUNT))]
        calls = [vendor.next_call() for _ in clients]
        assert vendor.open == COUNT
        assert server.descriptors() >= 2 * COUNT
        began = worked(server.worker)
        for sock in clients:
            sock.close()
        until(lambda: vendor.open == 0, "every upstream connection is closed")
        took = worked(server.worker) - began
        assert took < LEAVE_S, took
        assert all(call.left.is_set() for call in calls)
        until(lambda: server.descriptors() <= before, f"descriptors are back to {before}")
        expected = {("cancelled", "client_disconnected"): COUNT, ("completed", None): 1}
        until(lambda: statuses(server) == expected, "every run is recorded as cancelled")
        assert server.watch(short).end()["event"] == "final"

"""A thousand clients leave at once while the model is silent."""

from __future__ import annotations

import time
from pathlib import Path

import gevent.pool

from tests.field.rig import begin, until
from tests.load.conftest import serving, statuses
from tests.support.vendor import Vendor

COUNT = 1000
#: Ten times what it may take (all within 200 ms).
LEAVE_S = 2.0


def test_a_thousand_clients_leave_at_once(tmp_path: Path, vendor: Vendor) -> None:
    """Every upstream connection is closed in time, every run is gone, descriptors are back."""
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
        began = time.monotonic()
        for sock in clients:
            sock.close()
        until(lambda: vendor.open == 0, "every upstream connection is closed")
        took = time.monotonic() - began
        assert took < LEAVE_S, took
        assert all(call.left.is_set() for call in calls)
        until(lambda: server.descriptors() <= before, f"descriptors are back to {before}")
        expected = {("cancelled", "client_disconnected"): COUNT, ("completed", None): 1}
        until(lambda: statuses(server) == expected, "every run is recorded as cancelled")
        assert server.watch(short).end()["event"] == "final"

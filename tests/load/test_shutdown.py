"""SIGTERM with a hundred live streams."""

from __future__ import annotations

from pathlib import Path

import gevent.pool
import pytest

from app.events import SHUTDOWN_TEXT
from tests.field.rig import ALL, Server, Watched
from tests.load.conftest import serving, statuses
from tests.support.servers import NEGOTIATE, tail
from tests.support.sse import EventStream
from tests.support.vendor import Vendor

COUNT = 100


@pytest.mark.parametrize("writer", ["direct", "generator"])
def test_every_stream_gets_its_end(tmp_path: Path, vendor: Vendor, writer: str) -> None:
    """Terminal frame and sentinel on each, records that say why, exit status 0 well within the graceful time."""
    with serving(tmp_path, vendor, STUDIO_STREAM_WRITER=writer) as server:
        workflow = server.agent("openai-compatible/load")
        pool = gevent.pool.Pool(25)
        streams = list(pool.imap(lambda n: Watched(_begin(server, workflow, n)), range(COUNT)))
        calls = [vendor.next_call() for _ in streams]
        for call in calls[::2]:  # half are in their answer, half wait for its beginning
            call.text("Some text")
        waiting = gevent.spawn(server.call, "POST", f"/api/workflows/{workflow}/execute", body={})
        calls.append(vendor.next_call())
        stopping = gevent.spawn(server.studio.stop)
        for number, stream in enumerate(streams):
            end = stream.end()
            assert (end["event"], end["error"]) == ("error", SHUTDOWN_TEXT)
            assert end.get("code") == ("cancelled" if _negotiates(number) else None)
        status, body = waiting.get(timeout=60)
        assert status == 200
        assert (body["status"], body["error"]["code"]) == ("cancelled", "cancelled")
        assert body["error"]["message"] == SHUTDOWN_TEXT
        assert stopping.get(timeout=60) == 0
        for call in calls:
            assert call.left.wait(60)
        assert statuses(server) == {("cancelled", "server_shutdown"): COUNT + 1}
        log = tail(server.studio.log, 400)
    assert "Traceback" not in log
    assert "graceful timeout" not in log


def _negotiates(number: int) -> bool:
    return number % 4 != 0


def _begin(server: Server, workflow: str, number: int) -> EventStream:
    if _negotiates(number):
        return server.studio.execute(workflow, ALL, NEGOTIATE)
    return server.studio.execute(workflow, {"stream": True})


def test_what_is_kept_says_what_was_shown(tmp_path: Path, vendor: Vendor) -> None:
    """The partial text of a run that the shutdown ended is on its record."""
    with serving(tmp_path, vendor) as server:
        watched = server.watch(server.agent("openai-compatible/load"))
        call = vendor.next_call()
        call.text("Half an answer")
        watched.until(lambda v: "chunk" in v)
        stopping = gevent.spawn(server.studio.stop)
        assert watched.end()["code"] == "cancelled"
        assert stopping.get(timeout=60) == 0
        row = server.store.runs.get(watched.run_id)
        assert row is not None
        assert (row["status"], row["cause"]) == ("cancelled", "server_shutdown")
        assert row["partial_text"] == {"agent_1": "Half an answer"}

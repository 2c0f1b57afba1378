"""Reading on: a run is followed by whoever may, from any event on, while it goes on and after (contract 7.3).

ORDER-07, AFTERMATH-05, LOAD-01 and TERMINAL for those who attach.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sqlite3
import typing as t
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import gevent
import pytest

from tests.field.rig import ALL, Server, environ, opened, until
from tests.support import sse
from tests.support.servers import NEGOTIATE, Studio, end, studio
from tests.support.vendor import Call, Vendor

MODEL = "openai-compatible/reconnect"
GOES_ON = {"on_disconnect": "continue"}
SEEN = "includeThinking=true&includeToolCalls=true"


class Reader:
    """A stream that is read frame by frame, with the ids."""

    def __init__(self, stream: sse.EventStream) -> None:
        assert stream.status == 200, stream.body()
        self.stream = stream
        self.run_id = t.cast(str, stream.headers["X-Run-Id"])
        self.told: list[tuple[str | None, t.Any]] = []
        self._frames = stream.events()

    def next(self) -> t.Any:
        """The data of the next frame."""
        frame = next(self._frames)
        self.told.append((frame.id, frame.json()))
        return self.told[-1][1]

    def upto(self, piece: str) -> None:
        """Read until a chunk is this."""
        while self.next().get("chunk") != piece:
            pass

    def rest(self) -> list[tuple[str | None, t.Any]]:
        """Read to the end of the body; everything so far."""
        self.told += [(frame.id, frame.json()) for frame in self._frames]
        self.stream.close()
        return self.told

    @property
    def last_id(self) -> str:
        """The last id seen."""
        return next(id for id, _ in reversed(self.told) if id is not None)

    @property
    def text(self) -> str:
        """What stands, of all blocks."""
        text = ""
        for _, value in self.told:
            if isinstance(value, dict) and value.get("event") in ("gap", "chunk_reset"):
                text = ""
            elif isinstance(value, dict):
                text += value.get("chunk", "")
        return text


def begin(server: Server, workflow: str, **body: t.Any) -> Reader:
    return Reader(server.studio.execute(workflow, {"input": "hi", **ALL, **body}, NEGOTIATE))


def attach(
    server: Server,
    run_id: str,
    query: str = SEEN,
    *,
    last: str | None = None,
    receive_buffer: int | None = None,
) -> sse.EventStream:
    headers = {"X-API-Key": server.studio.key} | ({} if last is None else {"Last-Event-ID": last})
    path = f"/api/runs/{run_id}/events?{query}"
    return sse.get(server.studio.port, path, headers, receive_buffer=receive_buffer)


def answered(stream: sse.EventStream) -> tuple[int, t.Any]:
    """The status of an answer that is no stream, and its error."""
    with stream:
        body = stream.body()
        return stream.status, json.loads(body)["error"] if body else None


def say(call: Call, reader: Reader | None, *pieces: str) -> None:
    """Lock-step: each piece is with the reader before the next is said."""
    for piece in pieces:
        call.text(piece)
        if reader is not None:
            reader.upto(piece)


def pieces(first: int, last: int) -> list[str]:
    return [f"{n} " for n in range(first, last + 1)]


# -- ORDER-07 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["header", "query"])
def test_order_07_the_rest_comes_once_after_a_cut(served: Server, vendor: Vendor, form: str) -> None:
    """Cut after 17 of 40: 18 to 40 follow, each once, with the ids they have live."""
    workflow = served.agent(MODEL, settings=GOES_ON)
    first = begin(served, workflow)
    witness = Reader(attach(served, first.run_id))
    call = vendor.next_call()
    say(call, first, *pieces(1, 17))
    first.stream.close()
    say(call, witness, *pieces(18, 25))  # while nobody but the witness reads
    query = SEEN if form == "header" else f"{SEEN}&after={first.last_id}"
    second = Reader(attach(served, first.run_id, query, last=first.last_id if form == "header" else None))
    second.upto("18 ")
    say(call, witness, *pieces(26, 40))
    call.finish()
    whole = witness.rest()
    assert first.told + second.rest() == whole
    assert second.text == "".join(pieces(18, 40))
    assert [value for _, value in whole][-1] == "[DONE]"


def test_order_07_without_an_id_all_of_it_comes_from_the_first_event(served: Server, vendor: Vendor) -> None:
    first = begin(served, served.agent(MODEL, settings=GOES_ON))
    call = vendor.next_call()
    say(call, first, *pieces(1, 5))
    second = Reader(attach(served, first.run_id))
    call.finish()
    assert second.rest() == first.rest()


def test_order_07_an_id_of_another_run_is_refused(served: Server) -> None:
    one, other = (begin(served, served.agent("scripted/plain")) for _ in range(2))
    one.rest(), other.rest()
    for cursor in (other.last_id, "17", f"{one.run_id}:x", f"{one.run_id}:-1", f"{one.run_id}:"):
        for path, stream in (
            ("Last-Event-ID", attach(served, one.run_id, last=cursor)),
            ("after", attach(served, one.run_id, f"after={cursor}")),
        ):
            status, error = answered(stream)
            assert (status, error["details"][0]["path"]) == (400, path), cursor


# -- AFTERMATH-05 ------------------------------------------------------------------------------


def test_aftermath_05_a_stream_holds_its_own_run_only(served: Server, vendor: Vendor) -> None:
    """Run A is left half read, run B follows in the same thread; A is read by A's id."""
    workflow = served.agent(MODEL, settings=GOES_ON)

    def run(**body: t.Any) -> sse.EventStream:
        headers = {"X-API-Key": served.studio.key}
        return sse.post(served.studio.port, f"/api/workflows/{workflow}/runs", body, headers)

    first = Reader(run(message="one"))
    thread = first.next()["data"]["thread_id"]
    call = vendor.next_call()
    call.text("A1 ")
    while first.next()["type"] != "chat_chunk":
        pass
    first.stream.close()
    call.text("A2")
    call.finish()
    served.ended(first.run_id)
    second = Reader(run(message="two", thread_id=thread))
    call = vendor.next_call()
    call.text("B")
    call.finish()
    told = [value for _, value in second.rest()]
    assert {value["run_id"] for value in told} == {second.run_id}
    assert "A1" not in json.dumps(told)
    again = Reader(attach(served, first.run_id, "protocol=runs"))
    told = [value for _, value in again.rest()]
    assert {value["run_id"] for value in told} == {first.run_id}
    chunks = [value["data"]["content"] for value in told if value["type"] == "chat_chunk"]
    assert chunks == ["A1 ", "A2"]
    assert again.told[: len(first.told)] == first.told


# -- who leaves, and who stays -----------------------------------------------------------------


def test_a_run_is_aborted_when_its_last_reader_has_gone(served: Server, vendor: Vendor) -> None:
    first = begin(served, served.agent(MODEL))
    second = Reader(attach(served, first.run_id))
    call = vendor.next_call()
    say(call, first, "a ")
    second.upto("a ")
    first.stream.close()
    say(call, second, *pieces(1, 20))
    assert not call.left.is_set()
    second.stream.close()
    assert call.left.wait(20)
    record = served.ended(first.run_id)
    assert (record["status"], record["cause"]) == ("cancelled", "client_disconnected")


@pytest.mark.parametrize("protocol", ["agent-events-v1", "agent-text", "runs"])
def test_terminal_every_reader_gets_the_end(served: Server, vendor: Vendor, protocol: str) -> None:
    first = begin(served, served.agent(MODEL))
    second = Reader(attach(served, first.run_id, f"protocol={protocol}"))
    call = vendor.next_call()
    say(call, first, "a ")
    served.stop(first.run_id)
    assert call.left.wait(20)
    assert first.rest()[-2][1]["code"] == "cancelled"
    told = [value for _, value in second.rest()]
    if protocol == "runs":
        assert [value["type"] for value in told][-3:] == ["workflow_stopped", "flow_state", "done"]
        assert told[-1]["data"]["status"] == "cancelled"
    else:
        assert told[-2]["event"] == "error"
        assert ("code" in told[-2]) is (protocol != "agent-text")
        assert told[-1] == "[DONE]"


def test_an_async_run_goes_on_without_a_reader(served: Server, vendor: Vendor) -> None:
    """Also after somebody who looked in has left."""
    workflow = served.agent(MODEL)
    status, body = served.call(
        "POST", f"/api/workflows/{workflow}/execute", body={"input": "hi", "async": True}
    )
    assert status == 202
    run_id = body["runId"]
    assert body == {
        "runId": run_id,
        "statusUrl": f"/api/runs/{run_id}",
        "eventsUrl": f"/api/runs/{run_id}/events",
    }
    call = vendor.next_call()
    reader = Reader(attach(served, run_id))
    say(call, reader, "a ")
    reader.stream.close()
    later = Reader(attach(served, run_id))
    say(call, later, *pieces(1, 20))
    call.finish()
    assert later.rest()[-2][1]["data"]["output"]["content"] == "a " + "".join(pieces(1, 20))
    assert served.ended(run_id)["status"] == "completed"


# -- LOAD-01 -----------------------------------------------------------------------------------

PIECE = "x" * 16_000
COUNT = 600  # 9.6 MB: more than a log keeps


def memory(pid: int) -> int:
    """Resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def test_load_01_attached_readers_that_do_not_read(served: Server, vendor: Vendor) -> None:
    """The run, its starter and its other readers are not slowed, memory is bounded. Who reads again learns of the gap,
    ends up with what stands, and gets the end.
    """
    first = begin(served, served.agent(MODEL))
    idle = [attach(served, first.run_id, receive_buffer=32 * 1024) for _ in range(20)]
    other = Reader(attach(served, first.run_id))
    call = vendor.next_call()
    say(call, first, "0:")
    other.upto("0:")
    before = memory(served.worker)
    for number in range(COUNT):
        say(call, first, f"{number}:{PIECE}")
        other.upto(f"{number}:{PIECE}")
    # 256 KB for each reader, the text itself a few times over; without a bound it would be 200 MB.
    assert memory(served.worker) - before < 20 * 1_000_000 + 60_000_000
    call.finish()
    whole = first.rest()
    assert other.rest() == whole
    late = Reader(idle[0])
    told = [value for _, value in late.rest()]
    (gap,) = [value for value in told if isinstance(value, dict) and value.get("event") == "gap"]
    assert gap["reason"] == "evicted"
    assert late.text == first.text
    assert late.told[-3:] == whole[-3:]
    for stream in idle[1:]:
        stream.close()


def test_load_01_a_starter_that_does_not_read_does_not_slow_who_attached(
    served: Server, vendor: Vendor
) -> None:
    """Alone it holds its model back; with another reader it may not."""
    workflow = served.agent(MODEL)
    body = {"input": "hi", **ALL}
    headers = {"X-API-Key": served.studio.key, **NEGOTIATE}
    starter = sse.post(served.studio.port, f"/api/workflows/{workflow}/execute", body, headers)
    run_id = starter.headers["X-Run-Id"]
    call = vendor.next_call()
    flood = gevent.spawn(lambda: [call.text(f"{n}:{PIECE}") for n in range(COUNT)])
    gevent.sleep(0)
    other = Reader(attach(served, run_id))
    other.upto(f"{COUNT - 1}:{PIECE}")
    flood.get(timeout=20)
    call.finish()
    other.rest()
    first = Reader(starter)
    told = first.rest()
    assert first.text == other.text
    assert [value for _, value in told][-1] == "[DONE]"


# -- after the end -----------------------------------------------------------------------------


def test_an_ended_run_can_be_read_and_its_reader_who_has_all_is_told_so(served: Server) -> None:
    first = begin(served, served.agent("scripted/plain"))
    whole = first.rest()
    assert Reader(attach(served, first.run_id)).rest() == whole
    middle = whole[1][0]
    assert Reader(attach(served, first.run_id, last=middle)).rest() == whole[2:]
    assert answered(attach(served, first.run_id, last=first.last_id)) == (204, None)
    settled = [value for _, value in Reader(attach(served, first.run_id, "protocol=agent-text")).rest()]
    assert settled[0] == {"blockId": "agent_1", "chunk": "Hello there."}
    assert [value for value in settled[1:-1]] == [whole[-2][1]]


def test_a_run_that_is_ending_has_not_said_all(served: Server, vendor: Vendor) -> None:
    """While its record is stored, whoever has all so far is not told that there is no more."""
    workflow = served.agent(MODEL)
    headers = {"X-API-Key": served.studio.key}
    path = f"/api/workflows/{workflow}/runs"
    first = Reader(sse.post(served.studio.port, path, {"message": "hi"}, headers))
    call = vendor.next_call()
    with closing(sqlite3.connect(served.studio.data / "studio.db", isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        call.finish()
        while (frame := first.next())["type"] != "workflow_node_end" or frame["data"]["node_id"] != "agent_1":
            pass
        stream = attach(served, first.run_id, "protocol=runs", last=first.last_id)
        assert stream.status == 200
        busy.execute("ROLLBACK")
    seen = len(first.told)
    assert Reader(stream).rest() == first.rest()[seen:]


@contextmanager
def running(made: Studio) -> Iterator[Server]:
    """A Studio of a data folder that there is already."""
    try:
        with opened(made.start()) as server:
            yield server
    finally:
        made.stop()


def test_after_a_restart_the_record_tells(tmp_path: Path, vendor: Vendor) -> None:
    """A gap, what stands, and the same end, well or not; who has all of it is told so."""
    made = Studio(tmp_path, environ(vendor))
    before = []
    with running(made) as server:
        for finish in (Call.finish, Call.cut):
            first = begin(server, server.agent(MODEL))
            call = vendor.next_call()
            say(call, first, *pieces(1, 10))
            finish(call)
            before.append((first, first.rest()))
    with running(made) as server:
        for first, whole in before:
            run, last = first.run_id, int(first.last_id.partition(":")[2])
            told = Reader(attach(server, run)).rest()
            assert told[0][1] == {"event": "gap", "from": 1, "to": last - 1, "reason": "evicted"}
            stands = {"blockId": "agent_1", "chunk": "".join(pieces(1, 10))}
            assert told[1] == (f"{run}:{last - 1}", stands)
            assert told[2:] == whole[-2:]
            seen = str(whole[3][0])
            middle = Reader(attach(server, run, last=seen)).rest()
            assert middle[0][1]["from"] == int(seen.partition(":")[2]) + 1
            assert middle[1:] == told[1:]
            assert Reader(attach(server, run, last=f"{run}:{last - 1}")).rest() == whole[-2:]
            assert answered(attach(server, run, last=first.last_id)) == (204, None)
            kinds = [value["type"] for _, value in Reader(attach(server, run, "protocol=runs")).rest()]
            assert kinds[:2] == ["thread", "gap"]
            assert kinds[-1] == "done"


# -- several processes -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, _vendor: Vendor) -> Iterator[tuple[Server, Server]]:
    """Two servers on one store, as two workers are, with a port each."""
    folder = tmp_path_factory.mktemp("pair")
    more = environ(_vendor, STUDIO_KEEPALIVE_S="0.2")
    with studio(folder, more) as one, opened(one) as first:
        other = Studio(folder, more, _key=one.key)
        try:
            with opened(other.start()) as second:
                yield first, second
        finally:
            other.stop()


def test_a_run_is_followed_through_the_other_process(pair: tuple[Server, Server], vendor: Vendor) -> None:
    """Live, from any event on, with the same bytes; comments pass, too."""
    one, other = pair
    first = begin(one, one.agent(MODEL))
    second = Reader(attach(other, first.run_id))
    call = vendor.next_call()
    say(call, first, *pieces(1, 10))
    second.upto("10 ")
    frames = iter(second.stream)
    assert next(frames).comment == "keepalive"
    third = Reader(attach(other, first.run_id, last=second.last_id))
    say(call, first, *pieces(11, 20))
    call.finish()
    whole = first.rest()
    assert second.rest() == whole
    assert whole[-len(third.rest()) :] == third.told
    assert third.text == "".join(pieces(11, 20))
    assert Reader(attach(other, first.run_id)).rest() == whole  # its process still has the log
    assert answered(attach(other, first.run_id, last=first.last_id)) == (204, None)
    assert answered(attach(other, first.run_id, last="run_x:1"))[0] == 400


def test_leaving_the_other_process_is_leaving_the_run(pair: tuple[Server, Server], vendor: Vendor) -> None:
    one, other = pair
    first = begin(one, one.agent(MODEL))
    second = Reader(attach(other, first.run_id))
    call = vendor.next_call()
    say(call, first, "a ")
    second.upto("a ")
    first.stream.close()
    say(call, second, *pieces(1, 10))
    second.stream.close()
    assert call.left.wait(20)
    assert one.ended(first.run_id)["cause"] == "client_disconnected"


def test_a_slow_reader_through_the_other_process_slows_nobody(
    pair: tuple[Server, Server], vendor: Vendor
) -> None:
    one, other = pair
    first = begin(one, one.agent(MODEL))
    slow = attach(other, first.run_id, receive_buffer=32 * 1024)
    call = vendor.next_call()
    for number in range(COUNT):
        say(call, first, f"{number}:{PIECE}")
    call.finish()
    whole = first.rest()
    late = Reader(slow)
    late.rest()
    assert late.text == first.text
    assert late.told[-2:] == whole[-2:]


def test_others_runs_are_unknown_through_the_other_process(
    pair: tuple[Server, Server], vendor: Vendor
) -> None:
    one, other = pair
    first = begin(one, one.agent(MODEL))
    call = vendor.next_call()
    _, stranger = one.store.keys.create("stranger", frozenset({"run"}))
    stream = sse.get(other.studio.port, f"/api/runs/{first.run_id}/events", {"X-API-Key": stranger})
    assert answered(stream)[0] == 404
    call.finish()
    first.rest()


def test_a_process_that_dies_leaves_a_stream_that_is_cut(tmp_path: Path, vendor: Vendor) -> None:
    """Not one that looks whole; whoever attaches then learns what came of the run."""
    more = environ(vendor)
    with studio(tmp_path, more) as made, opened(made) as server:
        doomed = Studio(tmp_path, more, _key=made.key)
        with opened(doomed.start()) as other:
            first = begin(other, other.agent(MODEL))
            second = Reader(attach(server, first.run_id))
            call = vendor.next_call()
            say(call, first, "a ")
            second.upto("a ")
            (worker,) = doomed.workers()
            assert doomed.process is not None
            doomed.process.kill()
            doomed.process.wait(60)
            os.kill(worker, signal.SIGKILL)
            with pytest.raises((OSError, http.client.HTTPException)):
                second.rest()
            assert second.told[-1][1].get("chunk") == "a "
            end(doomed.process)
        assert call.left.wait(20)

        def ended() -> bool:
            return server.record(first.run_id)["status"] == "failed"

        until(ended, "the run has failed", 60)
        told = Reader(attach(server, first.run_id, last=second.last_id)).rest()
        assert told[0][1]["reason"] == "worker_lost"
        assert told[-2][1]["code"] == "worker_lost"
        assert answered(attach(server, first.run_id, last=told[-1][0])) == (204, None)


def test_a_run_out_of_reach_is_a_503_that_says_what_to_do(tmp_path: Path, vendor: Vendor) -> None:
    """Another host on the same database: its data folder is its own."""
    database = f"sqlite:///{tmp_path / 'shared.db'}"
    one = Studio(tmp_path / "one", environ(vendor, STUDIO_DATABASE_URL=database))
    other = Studio(tmp_path / "other", environ(vendor, STUDIO_DATABASE_URL=database))
    for made in (one, other):
        made.data.mkdir()
    with running(one) as server, running(other) as far:
        first = begin(server, server.agent(MODEL))
        call = vendor.next_call()
        stream = attach(far, first.run_id)
        assert stream.headers["Retry-After"]
        status, error = answered(stream)
        assert (status, error["code"]) == (503, "run_elsewhere")
        assert f"/api/runs/{first.run_id}" in error["message"]
        call.finish()
        whole = first.rest()
        told = Reader(attach(far, first.run_id)).rest()
        assert told[0][1]["event"] == "gap"
        assert told[-2:] == whole[-2:]


def test_a_process_that_hangs_leaves_a_stream_that_is_cut(tmp_path: Path, vendor: Vendor) -> None:
    """It keeps its connections and sends nothing; who attaches meanwhile is told that it cannot be asked."""
    more = environ(vendor, STUDIO_KEEPALIVE_S="0.2", STUDIO_SLOW_READER_S="3")
    with studio(tmp_path, more) as made, opened(made) as server:
        hanging = Studio(tmp_path, more, _key=made.key)
        with opened(hanging.start()) as other:
            first = begin(other, other.agent(MODEL))
            second = Reader(attach(server, first.run_id))
            call = vendor.next_call()
            say(call, first, "a ")
            second.upto("a ")
            os.kill(other.worker, signal.SIGSTOP)
            try:
                with pytest.raises((ConnectionError, http.client.HTTPException)):
                    second.rest()
                status, error = answered(attach(server, first.run_id))
                assert (status, error["code"]) == (503, "run_elsewhere")
            finally:
                os.kill(other.worker, signal.SIGCONT)
            third = Reader(attach(server, first.run_id, last=second.last_id))
            call.text("b ")
            assert third.next()["chunk"] == "b "
            call.finish()
            third.rest()
            hanging.stop()


def test_a_process_that_stops_does_not_wait_for_the_runs_of_others(tmp_path: Path, vendor: Vendor) -> None:
    """Its readers are cut, and attach again elsewhere; the run goes on."""
    more = environ(vendor, STUDIO_GRACEFUL_S="600")
    with studio(tmp_path, more) as made, opened(made) as server:
        leaving = Studio(tmp_path, more, _key=made.key)
        with opened(leaving.start()) as other:
            first = begin(server, server.agent(MODEL))
            second = Reader(attach(other, first.run_id))
            call = vendor.next_call()
            say(call, first, "a ")
            second.upto("a ")
            assert leaving.process is not None
            leaving.process.terminate()
            with pytest.raises((OSError, http.client.HTTPException)):
                second.rest()
            assert leaving.process.wait(60) == 0
        third = Reader(attach(server, first.run_id, last=second.last_id))
        say(call, first, "b ")
        assert third.next()["chunk"] == "b "
        call.finish()
        assert first.rest()[-2:] == third.rest()[-2:]


def test_streams_that_are_passed_on_are_bounded_too(tmp_path: Path, vendor: Vendor) -> None:
    with studio(tmp_path, environ(vendor)) as made, opened(made) as server:
        full = Studio(tmp_path, environ(vendor, STUDIO_MAX_STREAMS="1"), _key=made.key)
        with opened(full.start()) as other:
            first = begin(server, server.agent(MODEL))
            call = vendor.next_call()
            readers = [Reader(attach(other, first.run_id)) for _ in range(2)]
            third = attach(other, first.run_id)
            assert third.headers["Retry-After"]
            status, error = answered(third)
            assert (status, error["code"]) == (503, "at_capacity")
            call.finish()
            whole = first.rest()
            assert [reader.rest() for reader in readers] == [whole, whole]
            full.stop()

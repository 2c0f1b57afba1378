"""The http block: what it sends, what its answer is, what fails it, and that a stop closes its connection."""

from __future__ import annotations

import socket
import typing as t
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from app import events as ev
from app.engine.registry import Run
from app.engine.services import Services
from tests.engine.flows import document, finished, problems, stopped, stored
from tests.support.engine import Recorder, services, start
from tests.support.servers import wait_until
from tests.support.vendor import Vendor, vendor

pytestmark = pytest.mark.leak_check


@pytest.fixture(scope="module", autouse=True)
def _resolver() -> None:
    """Names are resolved in a thread that lives on for seconds; one that was there before is no leak."""
    socket.getaddrinfo("127.0.0.1", 80)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with services(tmp_path, {"STUDIO_HTTP_ALLOW": "127.0.0.0/8"}) as opened:
        yield opened


@pytest.fixture
def server() -> Iterator[Vendor]:
    with vendor() as listening:
        yield listening


def doc(server: Vendor | None = None, *edges: str, **config: t.Any) -> dict[str, t.Any]:
    url = {"url": f"{server.base}/items"} if server is not None else {}
    blocks = [("ask", "http", {**url, **config})]
    if edges:
        blocks.append(
            (
                "caught",
                "set",
                {"values": {"status": "{{ blocks.ask.status }}", "code": "{{ blocks.ask.code }}"}},
            )
        )
    return document(blocks, "start > ask", *edges)


def ending(run: Run, recorder: Recorder) -> t.Any:
    assert run.done.wait(20)
    return recorder.envelopes[-1].event


def test_every_text_is_a_template_and_json_comes_back_as_a_value(made: Services, server: Vendor) -> None:
    made_of = doc(
        server,
        method="POST",
        headers={"X-Who": "{{ input.who }}"},
        query={"n": "{{ input.n }}"},
        body={"name": "{{ input.who }}", "n": "{{ input.n }}"},
    )
    run, recorder = start(made, made_of, {"who": "Ann", "n": 3})
    call = server.next_call()
    assert call.path == "/v1/items?n=3"
    assert call.headers["x-who"] == "Ann"
    assert call.body == {"name": "Ann", "n": 3}
    call.answer(201, b'{"id": 7}')
    end = ending(run, recorder)
    assert isinstance(end, ev.RunCompleted)
    assert {key: end.output[key] for key in ("status", "body", "text")} == {
        "status": 201,
        "body": {"id": 7},
        "text": '{"id": 7}',
    }
    assert end.output["headers"]["content-type"] == "application/json"
    assert stored(made, run)["ask"]["output"]["status"] == 201


def test_a_text_stays_a_text(made: Services, server: Vendor) -> None:
    run, recorder = start(made, doc(server))
    server.next_call().answer(200, b"plain words", content_type="text/plain")
    assert ending(run, recorder).output["body"] == "plain words"


def test_a_bad_status_fails_the_block_without_telling_the_server_s_words(
    made: Services, server: Vendor
) -> None:
    run, recorder = start(made, doc(server))
    server.next_call().answer(503, b"internal secrets")
    end = ending(run, recorder)
    assert isinstance(end, ev.RunFailed)
    assert (end.code, end.block) == ("http_status", "ask")
    assert "secrets" not in end.message
    row = made.store.runs.get(run.id)
    assert row is not None
    assert row["error"]["detail"] == "internal secrets"


def test_which_statuses_fail_is_the_document_s_to_say(made: Services, server: Vendor) -> None:
    for fail_on, status, failed in (
        ([], 500, False),
        (["5xx"], 404, False),
        ([404], 404, True),
        (["200-299"], 204, True),
    ):
        run, recorder = start(made, doc(server, fail_on=fail_on))
        server.next_call().answer(status)
        assert isinstance(ending(run, recorder), ev.RunFailed) is failed


def test_blocks_behind_the_error_edge_read_the_answer(made: Services, server: Vendor) -> None:
    run, recorder = start(made, doc(server, "ask -error> caught"))
    server.next_call().answer(404, b"{}")
    end = ending(run, recorder)
    assert (end.output, end.success) == ({"status": 404, "code": "http_status"}, False)


def test_retries_ask_again(made: Services, server: Vendor) -> None:
    run, recorder = start(made, doc(server, retries=1))
    server.next_call().answer(500)
    server.next_call().answer(200, b"1")
    assert ending(run, recorder).output["body"] == 1


def test_a_private_address_is_refused_unless_it_is_allowed(tmp_path: Path, server: Vendor) -> None:
    with services(tmp_path) as closed:
        run, recorder = start(closed, doc(server))
        end = ending(run, recorder)
    assert isinstance(end, ev.RunFailed)
    assert end.code == "http_failed"
    assert "STUDIO_HTTP_ALLOW" in end.message
    assert server.calls.empty()


def test_a_redirect_into_a_private_network_is_refused(made: Services, server: Vendor) -> None:
    run, recorder = start(made, doc(server))
    server.next_call().answer(302, location="http://169.254.169.254/latest/meta-data")
    end = ending(run, recorder)
    assert isinstance(end, ev.RunFailed)
    assert (end.code, "STUDIO_HTTP_ALLOW" in end.message) == ("http_failed", True)


def test_an_answer_that_is_too_long_fails_the_block(made: Services, server: Vendor) -> None:
    run, recorder = start(made, doc(server, max_bytes=4))
    server.next_call().answer(200, b"12345")
    end = ending(run, recorder)
    assert (end.code, "4 bytes" in end.message) == ("http_failed", True)


def test_an_answer_that_does_not_come_fails_the_block(made: Services, server: Vendor) -> None:
    run, recorder = start(made, doc(server, timeout_s=0.5))
    call = server.next_call()
    end = ending(run, recorder)
    assert (end.code, "0.5 s" in end.message) == ("http_failed", True)
    assert call.left.wait(10)


def test_a_stop_closes_the_connection(made: Services, server: Vendor) -> None:
    run, recorder = start(made, doc(server, "ask > caught"))
    call = server.next_call()
    stopped(run, recorder)
    assert call.left.wait(10)
    assert finished(recorder) == [("start", "executed", 1), ("ask", "failed", 1)]
    assert stored(made, run)["ask"]["error"]["code"] == "cancelled"


def test_what_is_wrong_with_a_document_is_told_with_its_path(made: Services) -> None:
    told = problems(
        made,
        doc(
            url="ftp://example.com",
            method="FETCH",
            query={"key": "{{ secrets.KEY }}"},
            headers={"Authorization": "Bearer {{ secrets.KEY }}"},
            colour="red",
        ),
    )
    at = "blocks[1].config."
    assert set(told) == {f"{at}{key}" for key in ("url", "method", "query.key", "colour")}
    assert "only be used in headers" in told[f"{at}query.key"]
    told = problems(made, doc(url="ftp://example.com", fail_on=["6xx", 99]))
    assert set(told) == {f"{at}url", f"{at}fail_on[0]", f"{at}fail_on[1]"}
    assert told[f"{at}url"] == "must begin with http:// or https://"


def _connections(port: int) -> int:
    found = psutil.Process().net_connections("tcp4")
    return sum(bool(one.raddr) and one.raddr.port == port for one in found)


def test_a_stop_while_it_connects_closes_the_socket(made: Services) -> None:
    """A server whose queue of connections is full answers to none; what is left open would be warned of."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        try:
            for sock in waiting:
                sock.setblocking(False)
                sock.connect_ex(address)
            run, recorder = start(made, doc(url=f"http://127.0.0.1:{address[1]}/"))
            wait_until(lambda: _connections(address[1]) == 5, "it connects")
            assert run.cancel("stop_requested")
            assert isinstance(ending(run, recorder), ev.RunCancelled)
        finally:
            for sock in waiting:
                sock.close()

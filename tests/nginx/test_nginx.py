"""The printed nginx configuration, in front of a real Studio in front of a vendor that the test plays."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import sse
from tests.support.proxy import nginx, nginx_binary
from tests.support.servers import NEGOTIATE, Studio, studio, wait_until
from tests.support.vendor import Vendor, vendor

DOCUMENT: dict[str, t.Any] = {
    "name": "Behind nginx",
    "blocks": [
        {"id": "start", "type": "start"},
        {
            "id": "agent_1",
            "type": "agent",
            "config": {"model": "openai-compatible/any", "prompt": "{{ input.message }}"},
        },
    ],
    "edges": [{"source": "start", "target": "agent_1"}],
}


@pytest.fixture(scope="module")
def model() -> Iterator[Vendor]:
    with vendor() as made:
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, model: Vendor) -> Iterator[Studio]:
    nginx_binary()
    environ = {
        "STUDIO_OPENAI_COMPATIBLE_API_BASE": model.base,
        "STUDIO_OPENAI_COMPATIBLE_API_KEY": "sk-test",
        "STUDIO_KEEPALIVE_S": "1",
        "STUDIO_TRUSTED_PROXIES": "1",
    }
    with studio(tmp_path_factory.mktemp("studio"), environ, forked=False) as made:
        yield made


@pytest.fixture(scope="module")
def workflow(server: Studio) -> str:
    return server.deploy(DOCUMENT)


@pytest.fixture(scope="module")
def chat(server: Studio, workflow: str) -> str:
    """The slug of a chat behind a password."""
    made = {
        "workflowId": workflow,
        "slug": "help",
        "title": "Help",
        "authType": "password",
        "password": "open sesame",
    }
    headers = {"Content-Type": "application/json", "X-API-Key": server.key}
    status, _, body = sse.request(server.port, "POST", "/api/chats", json.dumps(made).encode(), headers)
    assert status == 201, body
    return "help"


@pytest.fixture
def port(server: Studio, tmp_path: Path) -> Iterator[int]:
    short = {"proxy_read_timeout 60s;": "proxy_read_timeout 3s;"}
    with nginx(tmp_path / "nginx", server.port, short) as made:
        yield made


def execute(port: int, server: Studio, workflow: str, **headers: str) -> sse.EventStream:
    """Start a stream through nginx."""
    path = f"/api/workflows/{workflow}/execute"
    body = {"input": {"message": "hello"}, "stream": True}
    return sse.post(port, path, body, {"X-API-Key": server.key, **NEGOTIATE, **headers})


def test_each_token_arrives_before_the_next_is_sent(
    port: int, server: Studio, workflow: str, model: Vendor
) -> None:
    with execute(port, server, workflow, **{"Accept-Encoding": "gzip, deflate, br"}) as stream:
        call = model.next_call()
        assert stream.status == 200
        assert stream.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["Content-Encoding"] is None
        assert stream.headers["X-Run-Id"]
        frames = stream.events()
        for number in range(20):
            call.text(f"word{number} ")
            # If anything on the way held tokens back, this would wait until the test's time is over.
            assert next(frames).json()["chunk"] == f"word{number} "
        call.finish()
        rest = [frame.json() for frame in frames]
    assert rest[-2]["event"] == "final"
    assert rest[-1] == "[DONE]"


def test_headers_come_before_the_model_says_anything(
    port: int, server: Studio, workflow: str, model: Vendor
) -> None:
    with execute(port, server, workflow) as stream:
        assert stream.status == 200
        call = model.next_call()
        assert not call.ended.is_set()


def test_a_client_that_leaves_closes_the_model_call(
    port: int, server: Studio, workflow: str, model: Vendor
) -> None:
    stream = execute(port, server, workflow)
    call = model.next_call()
    call.text("one ")
    assert next(stream.events()).json()["chunk"] == "one "
    stream.close()
    assert call.left.wait(10), "the vendor's connection stayed open"


def test_a_run_is_read_on_after_a_cut(port: int, server: Studio, model: Vendor) -> None:
    """Token by token as before, and with an empty answer once there is no more."""
    workflow = server.deploy({**DOCUMENT, "settings": {"on_disconnect": "continue"}})
    with execute(port, server, workflow) as stream:
        call = model.next_call()
        call.text("one ")
        last = next(stream.events()).id
    path = f"/api/runs/{stream.headers['X-Run-Id']}/events"
    with sse.get(port, path, {"X-API-Key": server.key, "Last-Event-ID": str(last)}) as stream:
        assert stream.status == 200
        frames = stream.events()
        for number in range(20):
            call.text(f"word{number} ")
            assert next(frames).json()["chunk"] == f"word{number} "
        call.finish()
        rest = list(frames)
    assert rest[-1].json() == "[DONE]"
    headers = {"X-API-Key": server.key, "Last-Event-ID": str(rest[-1].id)}
    status, _, body = sse.request(port, "GET", path, None, headers)
    assert (status, body) == (204, b"")


def test_keepalives_outlive_the_read_timeout(port: int, server: Studio, workflow: str, model: Vendor) -> None:
    with execute(port, server, workflow) as stream:
        call = model.next_call()
        frames = iter(stream)
        comments = [next(frames).comment for _ in range(5)]
        # Five comments a second apart are longer than nginx would wait for a silent server.
        assert comments == ["keepalive"] * 5
        call.text("still here")
        assert next(frame for frame in frames if frame.comment is None).json()["chunk"] == "still here"
        call.finish()
        assert [frame.json() for frame in frames if frame.comment is None][-1] == "[DONE]"


def test_too_large_a_body_gets_the_answer_of_studio(port: int, server: Studio, workflow: str) -> None:
    status, headers, body = sse.request(
        port,
        "POST",
        f"/api/workflows/{workflow}/execute",
        b'{"input": "' + b"x" * (11 << 20) + b'"}',
        {"Content-Type": "application/json", "X-API-Key": server.key},
    )
    assert status == 413
    assert headers["Content-Type"].startswith("application/json")
    assert b"payload_too_large" in body


@pytest.mark.parametrize(
    ("mebibytes", "status", "code"), [(13, 401, b"auth_required_password"), (73, 413, b"payload_too_large")]
)
def test_large_messages_of_chats_get_the_answer_of_studio(
    port: int, server: Studio, chat: str, mebibytes: int, status: int, code: bytes
) -> None:
    """13 MiB are more than other routes take, and 73 more than chats do."""
    entry = {"Content-Type": "application/json"}
    if status == 413:  # nobody who is not in gets as far as this
        entry["X-Studio-Visitor"] = "new"
        password = b'{"password": "open sesame"}'
        _, headers, _ = sse.request(port, "POST", f"/api/chat/{chat}/session", password, entry)
        entry["X-Studio-Visitor"] = headers["X-Studio-Visitor"]
    body = b'{"input": "' + b"x" * (mebibytes << 20) + b'"}'
    answer = sse.request(port, "POST", f"/api/chat/{chat}", body, entry)
    assert answer[0] == status
    assert answer[1]["Content-Type"].startswith("application/json")
    assert code in answer[2]


def test_of_the_scheme_nginx_is_believed_and_no_client(port: int, server: Studio) -> None:
    names = []
    for at in (port, server.port):  # through nginx, and as nginx with TLS would ask
        _, headers, _ = sse.request(at, "GET", "/login", headers={"X-Forwarded-Proto": "https"})
        [cookie] = headers.get_all("Set-Cookie") or []
        names.append((cookie.startswith("__Host-"), "Secure" in cookie))
    assert names == [(False, False), (True, True)]


def test_a_person_decides_by_a_link_of_which_no_log_keeps_the_address(
    port: int, server: Studio, tmp_path: Path
) -> None:
    review = {"id": "ask", "type": "approval", "config": {"prompt": "May it?", "draft": "Yes."}}
    asked = {
        "name": "Asks",
        "blocks": [DOCUMENT["blocks"][0], review],
        "edges": [{"source": "start", "target": "ask"}],
    }
    key, form = {"X-API-Key": server.key}, {"Content-Type": "application/x-www-form-urlencoded"}
    with sse.post(port, f"/api/workflows/{server.deploy(asked)}/execute", {}, key) as stream:
        resume = json.loads(stream.body())["resume"]
    _, _, made = sse.request(port, "POST", f"/api/decisions/{resume['pauseId']}/link", headers=key)
    base, _, token = json.loads(made)["url"].partition("/decide/")
    assert base == f"http://127.0.0.1:{port}"
    assert b"May it?" in sse.request(port, "GET", f"/decide/{token}")[2]
    status, headers, _ = sse.request(port, "POST", f"/decide/{token}", b"decision=approve", form)
    assert (status, headers["Referrer-Policy"]) == (200, "no-referrer")
    assert sse.request(port, "GET", "/api/health")[0] == 200
    log = tmp_path / "nginx" / "access.log"
    wait_until(lambda: "/api/health" in log.read_text(), "nginx writes its log")
    assert token not in log.read_text()

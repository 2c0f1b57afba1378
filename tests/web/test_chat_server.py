"""A visitor at a real server of two workers: leaves and comes back, stops, decides; whichever worker answers."""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.support import sse
from tests.support.approvals import fit_to_send
from tests.support.servers import NEGOTIATE, Studio, studio, wait_until
from tests.support.vendor import Vendor, vendor
from tests.support.visitors import Browser
from tests.web.conftest import document

MODEL = "openai-compatible/chat"


@pytest.fixture(scope="module")
def model() -> Iterator[Vendor]:
    with vendor() as made:
        yield made


@pytest.fixture(scope="module")
def served(model: Vendor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """Two workers, and a chat for each workflow."""
    environ = {
        "STUDIO_WORKERS": "2",
        "STUDIO_OPENAI_COMPATIBLE_API_BASE": model.base,
        "STUDIO_OPENAI_COMPATIBLE_API_KEY": "sk-secret-of-the-owner",
    }
    folder: Path = tmp_path_factory.mktemp("chats")
    with studio(folder / "data", environ) as made:
        stays = document(MODEL, settings={"on_disconnect": "continue"})
        for slug, workflow, outputs in (
            ("stays", made.deploy({**stays, "name": "Stays"}), ["agent_1.content"]),
            ("asks", made.deploy(fit_to_send()), ["sent.text", "kept.text"]),
        ):
            body = {"workflowId": workflow, "slug": slug, "title": slug, "outputs": outputs}
            status, _, answer = sse.request(
                made.port,
                "POST",
                "/api/chats",
                json.dumps(body).encode(),
                {"X-API-Key": made.key, "Content-Type": "application/json"},
            )
            assert status == 201, answer
        yield made


def test_a_visitor_leaves_comes_back_and_stops(served: Studio, model: Vendor) -> None:
    visitor = Browser(served.port, "stays")
    first = visitor.say({"input": "hi", "conversationId": "c"}, NEGOTIATE)
    run_id = first.headers["X-Run-Id"]
    call = model.next_call()
    call.text("One ")
    seen = next(first.events())
    assert seen.json() == {"blockId": "agent_1", "chunk": "One "}
    first.close()
    call.text("two ")
    for _ in range(6):  # on fresh connections, so that both workers are asked
        with visitor.events(run_id, str(seen.id)) as again:
            assert again.status == 200
            assert next(again.events()).json() == {"blockId": "agent_1", "chunk": "two "}
    with visitor.events(run_id) as whole:
        frames = whole.events()
        assert [next(frames).json()["chunk"] for _ in range(2)] == ["One ", "two "]
        status, answer = visitor.call("POST", "", {"input": "more", "conversationId": "c"})
        assert (status, answer["error"]["code"]) == (409, "thread_busy")
        stranger = Browser(served.port, "stays")
        for _ in range(4):
            assert stranger.call("POST", f"/runs/{run_id}/cancel")[0] == 404
        assert visitor.call("POST", f"/runs/{run_id}/cancel")[0] == 202
        end, done = [frame.json() for frame in frames]
    assert (end["event"], end["code"], done) == ("error", "cancelled", "[DONE]")
    assert call.left.wait(20)
    wait_until(lambda: visitor.call("GET", f"/runs/{run_id}")[1]["status"] == "cancelled", "it has ended")
    [item] = visitor.call("GET", "/conversations/c")[1]["items"]
    assert (item["input"], item["status"], item["answers"]) == ("hi", "cancelled", [])


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_visitor_decides_what_he_is_asked(served: Studio, decision: str) -> None:
    visitor = Browser(served.port, "asks")
    with visitor.say({"input": "Dear all", "conversationId": "c"}, NEGOTIATE) as stream:
        run_id = stream.headers["X-Run-Id"]
        final, _ = [frame.json() for frame in stream.events()]
    resume = final["data"]["resume"]
    assert (final["data"]["status"], resume["url"]) == ("paused", f"/api/chat/asks/runs/{run_id}/resume")
    for _ in range(3):
        standing = visitor.call("GET", f"/runs/{run_id}")[1]
        assert standing["resume"]["url"] == resume["url"]
        [pause] = standing["pauses"]
        assert (pause["pauseId"], pause["yours"]) == (resume["pauseId"], True)
        assert (pause["review"]["prompt"], pause["review"]["draft"]) == ("Fit to send?", "Dear all")
        status, answer = visitor.call("POST", "", {"input": "more", "conversationId": "c"})
        assert (status, answer["error"]["code"]) == (409, "thread_paused")
    stranger = Browser(served.port, "asks")
    assert stranger.call("POST", f"/runs/{run_id}/resume", {"decision": decision})[0] == 404
    with sse.post(served.port, resume["url"], {"decision": decision}, visitor.headers(NEGOTIATE)) as stream:
        assert stream.status == 200, stream.body()
        final, _ = [frame.json() for frame in stream.events()]
    block, text = ("sent", "Dear all") if decision == "approve" else ("kept", "Kept.")
    assert final["data"]["output"] == {block: {"text": text}}
    status, answer = visitor.call("POST", f"/runs/{run_id}/resume", {"decision": decision})
    assert (status, answer["error"]) == (
        409,
        {
            "code": "already_answered",
            "message": "This was decided already.",
            "requestId": answer["error"]["requestId"],
        },
    )


def test_a_visitor_waits_for_somebody_else_to_decide(served: Studio) -> None:
    """His stream, attached after the pause, goes on when an operator has answered."""
    visitor = Browser(served.port, "asks")
    with visitor.say({"input": "Dear all"}, NEGOTIATE) as stream:
        run_id = stream.headers["X-Run-Id"]
        *_, last = stream.events()
    with visitor.events(run_id, str(last.id)) as waiting:
        assert waiting.status == 200
        with sse.post(
            served.port, f"/api/runs/{run_id}/resume", {"decision": "approve"}, {"X-API-Key": served.key}
        ) as operator:
            assert operator.status == 200, operator.body()
            operator.body()
        frames = [frame.json() for frame in waiting.events()]
        if frames and frames[-1] != "[DONE]":  # another worker has the run: the client is told to come again
            assert frames[-1]["event"] == "detached"
            frames = [frame.json() for frame in visitor.events(run_id, str(last.id)).events()]
    assert frames[-2]["data"]["output"] == {"sent": {"text": "Dear all"}}


def test_a_file_reaches_the_model(served: Studio, model: Vendor) -> None:
    """Its run reads it as the visitor's own; nobody's key was needed to upload it."""
    visitor = Browser(served.port, "stays")
    data = base64.b64encode(b"The dog's name is Rex.").decode()
    connection = visitor.sent({"input": "What is it called?", "files": [{"name": "dog.md", "data": data}]})
    call = model.next_call()
    assert "The dog's name is Rex." in json.dumps(call.body["messages"])
    call.text("Rex.")
    call.finish()
    with visitor.got(connection) as stream:
        name = stream.headers["X-Conversation-Id"]
        assert b'"chunk":"Rex."' in stream.body()
    [item] = visitor.call("GET", f"/conversations/{name}")[1]["items"]
    assert item["files"] == [{"name": "dog.md", "type": "text/plain"}]


def test_who_sends_large_messages_slowly_holds_no_other_address_up(served: Studio) -> None:
    head = f"POST /api/chat/stays HTTP/1.1\r\nHost: x\r\nContent-Length: {12 << 20}\r\n"
    with ExitStack() as held:
        for _ in range(24):
            sock = held.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            sock.sendall(f"{head}Content-Type: application/json\r\n\r\n{{".encode())
        wait_until(lambda: {_large(served, "127.0.0.1") for _ in range(4)} == {503}, "its places are taken")
        assert {_large(served, "127.0.0.2") for _ in range(4)} == {400}, "taken in, and found to be wrong"


def _large(served: Studio, address: str) -> int:
    """The status of a large message without anything in it."""
    link = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30, source_address=(address, 0))
    with closing(link):
        body = b"{" + b" " * (11 << 20) + b"}"
        link.request("POST", "/api/chat/stays", body, {"Content-Type": "application/json"})
        return link.getresponse().status

"""ACCESS: what is not yours does not exist for you."""

from __future__ import annotations

import typing as t

import pytest

from tests.field.chats import deployed
from tests.field.rig import ALL, Server, Watched
from tests.support import sse
from tests.support.servers import NEGOTIATE
from tests.support.vendor import Vendor
from tests.support.visitors import Browser


@pytest.fixture(scope="module")
def keys(served: Server) -> dict[str, str]:
    """Two users with a ``run`` key each."""
    create = served.studio.cli
    return {
        name: create("key", "create", "--name", name, "--scopes", "run").strip() for name in ("one", "two")
    }


def test_access_01_a_run_of_somebody_else(served: Server, vendor: Vendor, keys: dict[str, str]) -> None:
    """Reading and stopping it look just as for a run that never was; without a key, 401."""
    workflow = served.agent("openai-compatible/field")
    own = {**NEGOTIATE, "X-API-Key": keys["one"]}
    watched = Watched(served.studio.execute(workflow, ALL, own))
    call = vendor.next_call()
    never = watched.run_id[:-4] + "0000"
    for method, path, body in (("GET", "/api/runs/{}", None), ("POST", "/api/runs/{}/cancel", {})):
        theirs = served.call(method, path.format(watched.run_id), keys["two"], body)
        unknown = served.call(method, path.format(never), keys["two"], body)
        assert theirs[0] == unknown[0] == 404
        for answer in (theirs, unknown):
            answer[1]["error"].pop("requestId")
        assert str(theirs).replace(watched.run_id, never) == str(unknown)
        assert served.call(method, path.format(watched.run_id), None, body)[0] == 401
    assert not call.left.is_set()
    call.text("mine")
    call.finish()
    assert watched.end()["event"] == "final"
    assert served.call("GET", f"/api/runs/{watched.run_id}", keys["one"])[0] == 200


@pytest.mark.parametrize("key", [None, "sk-wrong", "", "stk_" + "0" * 40])
@pytest.mark.parametrize("stream", [True, False])
def test_access_03_without_the_right_key(
    served: Server, vendor: Vendor, key: str | None, stream: bool
) -> None:
    """401 before any run is made, whether or not the workflow exists; other methods tell nothing."""
    workflow = served.agent("openai-compatible/field")
    headers = {} if key is None else {"X-API-Key": key}
    answers = []
    for target in (workflow, "nope"):
        with sse.post(
            served.studio.port, f"/api/workflows/{target}/execute", {"stream": stream}, headers
        ) as answer:
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"].startswith("ApiKey")
            assert "X-Run-Id" not in answer.headers
            answers.append(answer.body().decode().rpartition('"requestId"')[0])
    assert answers[0] == answers[1]
    for method in ("HEAD", "OPTIONS", "GET"):
        told = [
            sse.request(served.studio.port, method, f"/api/workflows/{target}/execute", headers=headers)
            for target in (workflow, "nope")
        ]
        assert told[0][0] == told[1][0]
        assert told[0][2].rpartition(b'"requestId"')[0] == told[1][2].rpartition(b'"requestId"')[0]
    assert vendor.calls.empty()


def test_access_01_a_conversation_of_another_visitor(served: Server, vendor: Vendor) -> None:
    """Of one chat's visitors, and of another chat's: following, stopping, answering and reading it look as for what
    never was; keys of any scope are no visitors.
    """
    workflow = served.agent("openai-compatible/field")
    slugs = deployed(served, workflow), deployed(served, served.agent("openai-compatible/field"))
    owner, other = (Browser(served.studio.port, slugs[0]) for _ in range(2))
    elsewhere = Browser(served.studio.port, slugs[1], owner.cookies)  # as a browser has them all
    watched = Watched(owner.say({"input": "hi", "conversationId": "mine"}, NEGOTIATE))
    call = vendor.next_call()
    never = watched.run_id[:-4] + "0000"
    for who in (other, elsewhere, Browser(served.studio.port, slugs[0])):
        for method, path, body in (
            ("GET", "/runs/{}", None),
            ("GET", "/runs/{}/events", None),
            ("POST", "/runs/{}/cancel", {}),
            ("POST", "/runs/{}/resume", {"decision": "approve"}),
        ):
            theirs, unknown = (
                _told(who.call(method, path.format(each), body), each) for each in (watched.run_id, never)
            )
            assert theirs[0] == 404
            assert theirs == unknown
        assert _told(who.call("GET", "/conversations/mine"), "mine") == _told(
            who.call("GET", "/conversations/never"), "never"
        )
    assert served.call("GET", f"/api/chat/{slugs[0]}/runs/{watched.run_id}")[0] == 404
    assert not call.left.is_set()
    call.text("mine")
    call.finish()
    assert watched.end()["event"] == "final"
    assert owner.call("GET", "/conversations/mine")[1]["items"][0]["answers"][0]["text"] == "mine"


def _told(answer: tuple[int, t.Any], name: str) -> tuple[int, str]:
    status, body = answer
    body["error"].pop("requestId", None)
    return status, str(body).replace(name, "NAME")


@pytest.mark.parametrize("password", [None, "wrong", "", "correct horse battery stapl", "c" * 1000, 7])
def test_access_03_a_chat_without_its_password(served: Server, vendor: Vendor, password: t.Any) -> None:
    """401 on every route before any run is made, whatever is sent; other methods tell nothing."""
    workflow = served.agent("openai-compatible/field")
    slug = deployed(served, workflow, authType="password", password="correct horse battery staple")
    visitor = Browser(served.studio.port, slug)
    sent = {"input": "hi"} if password is None else {"input": "hi", "password": password}
    file = {"name": "a.txt", "data": "aGk="}
    told = [
        visitor.call("GET"),
        visitor.call("POST", "", sent),
        visitor.call("POST", "", {**sent, "files": [file]}),
        visitor.call("POST", "", sent, NEGOTIATE),
        visitor.call("GET", "/runs/run_x"),
        visitor.call("GET", "/runs/run_x/events"),
        visitor.call("POST", "/runs/run_x/cancel", {}),
        visitor.call("POST", "/runs/run_x/resume", {"decision": "approve"}),
        visitor.call("GET", "/conversations/c"),
    ]
    for status, body in told:
        assert (status, body["error"]["code"]) == (401, "auth_required_password")
        assert "Field" not in str(body)
    status, _, body = sse.request(served.studio.port, "HEAD", f"/api/chat/{slug}")
    assert (status, body) == (401, b"")
    options = [
        sse.request(served.studio.port, "OPTIONS", f"/api/chat/{each}/runs/x") for each in (slug, "nope")
    ]
    assert options[0][0] == options[1][0] == 204
    assert served.call("GET", f"/api/runs?workflowId={workflow}")[1] == {"items": []}
    assert vendor.calls.empty()

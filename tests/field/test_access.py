"""ACCESS: what is not yours does not exist for you."""

from __future__ import annotations

import json
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


#: A run's stream, its replay, its history, and what stops it and answers it.
RUN = (
    ("GET", "/api/runs/{}/events", None),
    ("GET", "/api/runs/{}/events?after={}:1", None),
    ("GET", "/api/runs/{}", None),
    ("POST", "/api/runs/{}/cancel", {}),
    ("POST", "/api/runs/{}/resume", {"decision": "approve"}),
)


def test_access_01_a_run_of_somebody_else(served: Server, vendor: Vendor, keys: dict[str, str]) -> None:
    """Following, reading, stopping and answering it look just as for a run that never was; without a key, 401."""
    workflow = served.agent("openai-compatible/field")
    own = {**NEGOTIATE, "X-API-Key": keys["one"]}
    watched = Watched(served.studio.execute(workflow, ALL, own))
    call = vendor.next_call()
    never = watched.run_id[:-4] + "0000"
    for method, path, body in RUN:
        theirs, unknown = (
            served.call(method, path.replace("{}", each), keys["two"], body)
            for each in (watched.run_id, never)
        )
        assert theirs[0] == unknown[0] == 404, path
        for answer in (theirs, unknown):
            answer[1]["error"].pop("requestId")
        assert str(theirs).replace(watched.run_id, never) == str(unknown)
        for key in (None, "sk-studio-nobody"):
            assert served.call(method, path.replace("{}", watched.run_id), key, body)[0] == 401
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


@pytest.mark.parametrize("key", [None, "sk-wrong"])
def test_access_03_nothing_is_reached_by_its_name_alone(
    served: Server, vendor: Vendor, key: str | None
) -> None:
    """Running, the history, what is kept, uploads and configuration: 401, and no run of it."""
    workflow = served.agent("openai-compatible/field")
    before = served.call("GET", "/api/runs")[1]
    for method, path, body in (
        ("POST", f"/api/workflows/{workflow}/execute", {"input": "hi"}),
        ("POST", f"/api/workflows/{workflow}/runs", {"message": "hi"}),
        ("POST", "/chat", {"message": "hi", "workflow_id": workflow}),
        ("GET", f"/graph/topology?workflow_id={workflow}", None),
        ("GET", "/api/runs", None),
        ("GET", "/api/decisions", None),
        ("GET", "/api/threads/thr_1/memory", None),
        ("POST", "/api/documents", {"collection": "c", "source": "s", "text": "t"}),
        ("GET", "/api/secrets", None),
        ("GET", "/api/plugins", None),
        ("PUT", "/api/owner/password", {"current": "x", "new": "y"}),
    ):
        status, told = served.call(method, path, key, body)
        assert (status, told["error"]["code"]) == (401, "unauthorized"), path
    assert served.call("GET", "/api/runs")[1] == before
    assert vendor.calls.empty()


def test_access_03_a_dead_session_reaches_as_little(served: Server, vendor: Vendor) -> None:
    """A cookie somebody made up, or one from before a change of the password, starts no run."""
    workflow = served.agent("openai-compatible/field")
    before = served.call("GET", "/api/runs")[1]
    set_password = ("owner", "password")
    assert served.studio.run_cli(*set_password, stdin="correct horse battery\n").returncode == 0
    sent = json.dumps({"password": "correct horse battery"}).encode()
    kind = {"Content-Type": "application/json"}
    status, headers, told = sse.request(served.studio.port, "POST", "/api/session", sent, kind)
    assert status == 200
    cookies = headers.get_all("Set-Cookie") or []
    cookie = {
        "Cookie": next(each.partition(";")[0] for each in cookies if each.startswith("studio_session="))
    }
    live = {**kind, **cookie, "X-CSRF-Token": json.loads(told)["csrfToken"]}
    assert sse.request(served.studio.port, "GET", "/api/runs", None, live)[0] == 200
    assert served.studio.run_cli(*set_password, stdin="another good password\n").returncode == 0
    for each in (live, {**live, "Cookie": "studio_session=WyJ4IiwyLDE5OTk5OTk5OTld.aaaaaa.x"}):
        for path in (f"/api/workflows/{workflow}/execute", f"/api/workflows/{workflow}/runs"):
            assert sse.request(served.studio.port, "POST", path, b"{}", each)[0] == 401
    assert served.call("GET", "/api/runs")[1] == before
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

"""A real server of two workers, on each database: whoever is asked, and however many ask at once, one run begins."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from tests.support import databases, servers, sse
from tests.support.servers import NEGOTIATE, Studio
from tests.support.visitors import Browser
from tests.web.conftest import document

SLOW = [{"text": "One two three four five six seven eight.", "chunk": "words", "delay_ms": 60}]
MANY = 10


@pytest.fixture(scope="module", params=databases.KINDS)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Studio, str]]:
    folder = tmp_path_factory.mktemp("repeats")
    scripts = folder / "scripts"
    scripts.mkdir()
    (scripts / "slow.yaml").write_text(yaml.safe_dump({"turns": [{"steps": SLOW}]}))
    environ = {"STUDIO_WORKERS": "2", "STUDIO_SCRIPTS_DIR": str(scripts)}
    if request.param == "sqlite":
        with servers.studio(folder / "data", environ) as studio:
            yield studio, studio.deploy(document("scripted/slow"))
        return
    with (
        databases.postgresql() as address,
        servers.studio(folder / "data", {**environ, "STUDIO_DATABASE_URL": address}) as studio,
    ):
        yield studio, studio.deploy(document("scripted/slow"))


def post(studio: Studio, path: str, body: t.Any, headers: Mapping[str, str]) -> tuple[int, t.Any, bytes]:
    """One request of its own connection; without the keepalives."""
    sent = {"X-API-Key": studio.key, "Content-Type": "application/json", **headers}
    status, got, answer = sse.request(studio.port, "POST", path, json.dumps(body).encode(), sent)
    frames = answer.split(b"\n\n")
    return status, got, b"\n\n".join(frame for frame in frames if not frame.startswith(b":"))


def runs(studio: Studio, workflow: str) -> set[str]:
    status, _, answer = sse.request(
        studio.port, "GET", f"/api/runs?workflowId={workflow}&limit=100", headers={"X-API-Key": studio.key}
    )
    assert status == 200
    return {item["runId"] for item in json.loads(answer)["items"]}


FORMS = {
    "json": ("/api/workflows/{}/execute", {"input": {"message": "hi"}}, {}),
    "async": ("/api/workflows/{}/execute", {"async": True}, {}),
    "text": ("/api/workflows/{}/execute", {"stream": True}, {}),
    "live": ("/api/workflows/{}/execute", {"stream": True}, NEGOTIATE),
    "runs": ("/api/workflows/{}/runs", {"message": "hi"}, {}),
    "graph": ("/chat", {"messages": [{"role": "user", "content": "hi"}]}, {}),
    "nodes": ("/chat", {"messages": [{"role": "user", "content": "hi"}]}, {"Accept": "text/event-stream"}),
    "draft": ("/api/workflows/{}/draft/run", {"input": {"message": "hi"}}, {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_many_at_once_and_later_are_answered_alike(served: tuple[Studio, str], form: str) -> None:
    studio, workflow = served
    path, body, headers = FORMS[form]
    if path == "/chat":
        body = {**body, "workflow": workflow}
    headers = {**headers, "Idempotency-Key": f"of {form}"}
    before = runs(studio, workflow)

    def ask(_: int) -> tuple[int, t.Any, bytes]:
        return post(studio, path.format(workflow), body, headers)

    with ThreadPoolExecutor(MANY) as pool:
        together = list(pool.map(ask, range(MANY)))
    later = [ask(number) for number in range(6)]  # whichever worker takes each of them
    answers = together + later
    assert {status for status, _, _ in answers} == {202 if form == "async" else 200}, answers
    (run_id,) = {got["X-Run-Id"] for _, got, _ in answers}
    assert len({content for _, _, content in answers}) == 1
    assert len({got["Content-Type"] for _, got, _ in answers}) == 1
    assert sum(got.get("Idempotent-Replayed") is None for _, got, _ in answers) == 1
    assert runs(studio, workflow) - before == {run_id}


def test_a_repeat_is_a_reader_of_its_run_like_any_other(served: tuple[Studio, str]) -> None:
    """The first client's leaving ends nothing, as long as somebody waits; whichever worker has them."""
    studio, workflow = served
    for number in range(4):
        headers = {**NEGOTIATE, "Idempotency-Key": f"left {number}"}
        with studio.execute(workflow, {"stream": True}, headers) as first:
            next(iter(first))
            with studio.execute(workflow, {"stream": True}, headers) as second:
                frames = iter(second)
                next(frames)
                first.close()
                rest = [frame.json() for frame in frames if frame.comment is None]
        assert rest[-2]["data"]["success"] is True
        assert second.headers["X-Run-Id"] == first.headers["X-Run-Id"]


def test_a_message_of_a_visitor_is_answered_once(served: tuple[Studio, str]) -> None:
    studio, workflow = served
    body = {"workflowId": workflow, "slug": "talk", "title": "Talk"}
    assert post(studio, "/api/chats", body, {})[0] == 201
    visitor = Browser(studio.port, "talk")
    visitor.call("GET")
    before = runs(studio, workflow)
    for form in (NEGOTIATE, {}, {"Accept": "application/json"}):
        headers = {**form, "Idempotency-Key": f"message {len(form)} {form}"[:200]}

        def ask(_: int, headers: Mapping[str, str] = headers) -> tuple[int, t.Any, bytes]:
            sent = visitor.headers(headers)
            return post(studio, "/api/chat/talk", {"input": "hi"}, sent)

        with ThreadPoolExecutor(MANY) as pool:
            answers = list(pool.map(ask, range(MANY)))
        answers += [ask(0) for _ in range(4)]
        assert {status for status, _, _ in answers} == {200}, answers
        assert len({content for _, _, content in answers}) == 1
        assert len({(got["X-Run-Id"], got["X-Conversation-Id"]) for _, got, _ in answers}) == 1
    assert len(runs(studio, workflow) - before) == 3

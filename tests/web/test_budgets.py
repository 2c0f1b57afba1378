"""Budgets over HTTP: how a run that has used too much ends on each surface, and who is refused when nothing is left."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from app.clock import SystemClock
from app.engine.budgets import Budget, period_of
from app.streams.public_texts import TEXTS
from tests.support import sse
from tests.web.conftest import Studio, assert_error, document
from tests.web.managing import ok, send

NEUTRAL = TEXTS["budget_exceeded"]
#: What one run of the script uses.
USED = 120
#: A model that has a price; nothing answers behind it.
PRICED = "anthropic/claude-sonnet-4-5"
WHOSE = "The budget of this workflow is used up: 100 tokens a run."


@pytest.fixture(autouse=True)
def _spender(studio: Studio, tmp_path: Path) -> None:
    turns = [{"steps": [{"text": "So it is."}, {"usage": {"input": 100, "output": USED - 100}}]}]
    (tmp_path / "scripts" / "spender.yaml").write_text(yaml.safe_dump({"turns": turns}))


def spender(**settings: t.Any) -> dict[str, t.Any]:
    return document("scripted/spender", settings=settings)


def key_with(studio: Studio, **limits: t.Any) -> tuple[str, str]:
    """A new key with limits: its id and its text."""
    made = ok(send(studio, "POST", "/api/keys", {"name": "limited", "scopes": ["run"], **limits}), 201)
    return made["id"], made["key"]


def frames(answer: t.Any) -> list[t.Any]:
    assert answer.status_code == 200, answer.get_data()
    return [frame.json() for frame in sse.parse(answer.get_data()) if frame.comment is None]


def test_a_waiting_call_is_told_by_its_code(studio: Studio) -> None:
    workflow = studio.deploy(spender(budget={"tokens": USED - 20}))
    answer = studio.execute(workflow)
    body = ok(answer)
    assert (body["success"], body["error"]) == (False, {"code": "budget_exceeded", "message": WHOSE})
    record = ok(studio.get(f"/api/runs/{answer.headers['X-Run-Id']}"))
    assert (record["status"], record["cause"], record["error"]["message"]) == (
        "failed",
        "budget_exceeded",
        WHOSE,
    )
    assert record["partialText"] == {"agent_1": "So it is."}
    within = studio.deploy(spender(budget={"tokens": USED}))
    assert ok(studio.execute(within))["success"] is True


def test_streams_end_by_it_once_and_last(studio: Studio) -> None:
    workflow = studio.deploy(spender(budget={"tokens": USED - 20}, public=True))
    told = frames(
        studio.execute(workflow, {"stream": True}, headers={"X-Studio-Stream-Protocol": "agent-events-v1"})
    )
    assert told[-1] == "[DONE]"
    assert told[-2]["event"] == "error"
    assert told[-2]["code"] == "budget_exceeded"
    key = {"X-API-Key": studio.keys["run"]}
    told = frames(studio.client.post(f"/api/workflows/{workflow}/runs", json={"message": "hi"}, headers=key))
    error, _, done = told[-3:]
    assert (error["type"], error["data"]["code"]) == ("error", "budget_exceeded")
    assert (done["data"]["status"], done["data"]["cause"]) == ("failed", "budget_exceeded")
    asked = {"workflow": workflow, "messages": [{"role": "user", "content": "hi"}]}
    stream = studio.client.post("/chat", json=asked, headers={**key, "Accept": "text/event-stream"})
    last = list(sse.parse(stream.get_data()))[-1]
    assert (last.event, last.json()) == (
        "error",
        {"code": "budget_exceeded", "message": WHOSE, "retryable": False},
    )


def test_without_a_key_nobody_learns_of_budgets(studio: Studio) -> None:
    workflow = studio.deploy(spender(budget={"tokens": USED - 20}, public=True))
    answer = studio.execute(workflow, key=None)
    assert ok(answer)["error"] == {"code": "budget_exceeded", "message": NEUTRAL}
    record = ok(studio.get(f"/api/runs/{answer.headers['X-Run-Id']}"))
    assert record["error"]["message"] == WHOSE


def test_what_a_workflow_inside_used_up_is_told_like_any_failure(studio: Studio) -> None:
    """To keys with the block's name, masked as all else; to others by one fixed text."""
    inner = studio.deploy(spender(budget={"tokens": USED - 20}))
    redact = {"mode": "strict", "detectors": ["email"]}
    for public in (False, True):
        blocks = [
            {"id": "start", "type": "start"},
            {"id": "sub", "type": "workflow", "name": "ask ann@example.com", "config": {"workflow": inner}},
        ]
        outer = {
            "name": f"Outer {public}",
            "blocks": blocks,
            "edges": [{"source": "start", "target": "sub"}],
            "settings": {"redact": redact, "public": True},
        }
        answer = studio.execute(studio.deploy(outer), key=None if public else "run")
        error = ok(answer)["error"]
        record = ok(studio.get(f"/api/runs/{answer.headers['X-Run-Id']}"))
        assert (record["status"], record["cause"]) == ("failed", "budget_exceeded")
        told = record["error"]["message"]
        assert told.startswith("The budget of the workflow that ask ")
        assert told.endswith(" runs is used up: 100 tokens a run.")
        assert "ann@example.com" not in told
        assert error["code"] == "budget_exceeded"
        assert error["message"] == (NEUTRAL if public else told)


def test_a_key_that_has_used_its_budget_up_starts_nothing_until_the_month_is_over(studio: Studio) -> None:
    workflow = studio.deploy(spender())
    id_, key = key_with(studio, budget={"tokens": 2 * USED, "period": "month"}, rateLimit={"perDay": 3})
    for n in (1, 2):
        assert ok(studio.execute(workflow, key=key))["success"] is True
        spent = ok(send(studio, "GET", f"/api/keys/{id_}"))["spent"]
        assert (spent["tokens"], spent["cost"], spent["period"]) == (n * USED, 0, "month")
        assert spent["resetsAt"][8:] == "01T00:00:00.000Z"
    for _ in range(3):
        refused = studio.execute(workflow, {"stream": True}, key=key)
        assert_error(refused, 429, "budget_exceeded", says="this API key is used up: 240 tokens a month")
        wait = int(refused.headers["Retry-After"])
        assert 0 < wait <= 31 * 86_400
        at = SystemClock().now_ms() / 1000 + wait
        assert abs(at - _epoch(spent["resetsAt"])) < 5
        assert "RateLimit" not in refused.headers, "what cannot start is not counted"
    assert len(ok(studio.get("/api/runs"))["items"]) == 2
    assert ok(studio.execute(workflow))["success"] is True, "another key"
    row = send(studio, "GET", f"/api/keys/{id_}")
    changed = {"budget": {"tokens": 4 * USED, "period": "month"}}
    ok(send(studio, "PATCH", f"/api/keys/{id_}", changed, match=row.headers["ETag"]))
    assert ok(studio.execute(workflow, key=key))["success"] is True, "more may be used"
    refused = studio.execute(workflow, key=key)
    assert_error(refused, 429, "rate_limited")


def test_visitors_of_a_chat_share_its_day(studio: Studio) -> None:
    workflow = studio.deploy(spender())
    body = {
        "workflowId": workflow,
        "slug": "help",
        "title": "Help",
        "budget": {"tokens": USED + 50, "period": "day"},
    }
    chat = ok(send(studio, "POST", "/api/chats", body), 201)
    say: dict[str, t.Any] = {"json": {"input": "hi"}, "headers": {"Accept": "application/json"}}
    one, other = studio.app.test_client(), studio.app.test_client()
    assert ok(one.post("/api/chat/help", **say))["success"] is True
    ended = ok(other.post("/api/chat/help", **say))
    assert ended["success"] is False
    assert ended["error"]["code"] == "budget_exceeded"
    assert "token" not in str(ended["error"])
    refused = one.post("/api/chat/help", **say)
    assert refused.status_code == 429
    assert refused.get_json()["error"]["code"] == "budget_exceeded"
    assert NEUTRAL in refused.get_data(as_text=True)
    assert 0 < int(refused.headers["Retry-After"]) <= 86_400
    spent = ok(send(studio, "GET", f"/api/chats/{chat['id']}"))["spent"]
    assert (spent["tokens"], spent["period"]) == (2 * USED, "day")


SAY: dict[str, t.Any] = {"json": {"input": "hi"}, "headers": {"Accept": "application/json"}}


def chat_with(studio: Studio, workflow: str, **budget: t.Any) -> None:
    body = {"workflowId": workflow, "slug": "help", "title": "Help", "budget": budget}
    ok(send(studio, "POST", "/api/chats", body), 201)


def assert_refused(answer: t.Any) -> None:
    """Chats say more of an error than the one body does."""
    assert (answer.status_code, answer.mimetype) == (429, "application/json"), answer.get_data()
    assert answer.get_json()["error"]["code"] == "budget_exceeded"


@pytest.mark.parametrize("period", ["day", "month"])
@pytest.mark.parametrize("way", ["key", "chat"])
def test_with_nothing_left_the_start_is_refused_before_a_run(studio: Studio, way: str, period: str) -> None:
    workflow = studio.deploy(spender())
    budget = {"tokens": USED, "period": period}
    if way == "chat":
        chat_with(studio, workflow, **budget)
    key = key_with(studio, budget=budget)[1] if way == "key" else ""

    def start(streams: bool) -> t.Any:
        if way == "key":
            return studio.execute(workflow, {"stream": streams}, key=key)
        return studio.client.post("/api/chat/help", json={"input": "hi"}, headers=accept[streams])

    accept = {True: {"Accept": "text/event-stream"}, False: {"Accept": "application/json"}}
    assert ok(start(False))["success"] is True, "exactly all was used"
    for streams in (True, False):
        refused = start(streams)
        assert_refused(refused)
        assert 0 < int(refused.headers["Retry-After"]) <= (1 if period == "day" else 31) * 86_400
        assert "X-Run-Id" not in refused.headers
    assert len(ok(studio.get("/api/runs"))["items"]) == 1


#: Tokens of the agent's 402 bytes, what is around two messages, and the least there must be for an answer.
NEEDS = 101 + 6 + 16


@pytest.mark.parametrize(
    ("system", "prompt", "fits"),
    [("x" * 400, "Hi", True), ("x" * 402 + "{{ input.message }} and all the rest", None, False)],
    ids=["known whole", "known in part"],
)
def test_a_rest_that_no_call_fits_into_starts_nothing(
    studio: Studio, system: str, prompt: str | None, fits: bool
) -> None:
    workflow = studio.deploy(document("scripted/spender", system=system, prompt=prompt))
    other = studio.deploy(spender())
    keys = [key_with(studio, budget={"tokens": USED + NEEDS - less, "period": "day"})[1] for less in (0, 1)]
    for key in keys:
        assert ok(studio.execute(other, key=key))["success"] is True
    started = ok(studio.execute(workflow, key=keys[0]))
    assert started["success"] is fits
    assert fits or started["error"]["code"] == "budget_exceeded"
    before = len(ok(studio.get("/api/runs"))["items"])
    refused = studio.execute(workflow, key=keys[1])
    says = f"used up, but for a rest that no model call fits into: {USED + NEEDS - 1} tokens a day"
    assert_error(refused, 429, "budget_exceeded", says=says)
    assert 0 < int(refused.headers["Retry-After"]) <= 86_400
    assert len(ok(studio.get("/api/runs"))["items"]) == before
    assert ok(studio.execute(other, key=keys[1]))["success"] is True, "another workflow's call fits into it"


@pytest.mark.parametrize("way", ["key", "chat"])
def test_a_rest_of_money_that_no_call_fits_into_starts_nothing(
    studio: Studio, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cheapest call of the workflow: what is known of its prompt, and 16 tokens, at the price of its model."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    monkeypatch.setenv("ANTHROPIC_API_BASE", "http://127.0.0.1:9")
    priced = studio.app.extensions["studio"].plugins
    config = priced.capabilities_of(PRICED)
    into, out = config.price
    least = ((100 + 6) * into + 16 * out) / 1e6
    workflow = studio.deploy(document(PRICED, system="x" * 396, prompt="Hi", retries=0))
    budget = {"cost": 1.0, "period": "day"}
    if way == "chat":
        chat_with(studio, workflow, **budget)
        row = studio.store.chats.by_slug("help")
        subject, start = f"chat:{row.id}", lambda: studio.client.post("/api/chat/help", **SAY)
    else:
        id_, key = key_with(studio, budget=budget)
        subject, start = f"key:{id_}", lambda: studio.execute(workflow, key=key)
    day = period_of(Budget(subject, "day"), SystemClock().now_ms())
    studio.store.spending.add(subject, day, 1, 1.0 - least * 0.9).wait()
    refused = start()
    assert_refused(refused)
    assert 0 < int(refused.headers["Retry-After"]) <= 86_400
    assert ok(studio.get("/api/runs"))["items"] == []
    studio.store.spending.add(subject, day, 1, -least * 0.2).wait()
    started = start()
    assert started.status_code == 200, "there is room for a call, which nobody answers here"
    assert len(ok(studio.get("/api/runs"))["items"]) == 1


def test_visitors_learn_nothing_of_a_rest(studio: Studio) -> None:
    chat_with(studio, studio.deploy(spender()), tokens=USED + 15, period="day")
    assert ok(studio.client.post("/api/chat/help", **SAY))["success"] is True
    refused = studio.client.post("/api/chat/help", **SAY)
    assert_refused(refused)
    assert NEUTRAL in refused.get_data(as_text=True)
    assert "rest" not in refused.get_data(as_text=True)
    assert len(ok(studio.get("/api/runs"))["items"]) == 1


def test_where_others_call_models_any_rest_starts(studio: Studio) -> None:
    routed = spender()
    route = {"model": "scripted/plain", "mode": "model", "routes": [{"name": "a", "description": "Always."}]}
    routed["blocks"].append({"id": "route", "type": "router", "config": route})
    routed["edges"] = [
        {"source": "start", "target": "route"},
        {"source": "route", "source_handle": "route:a", "target": "agent_1"},
    ]
    _, key = key_with(studio, budget={"tokens": 1, "period": "day"})
    ended = ok(studio.execute(studio.deploy(routed), key=key))
    assert ended["error"]["code"] == "budget_exceeded"


@pytest.mark.parametrize(
    ("budget", "path"),
    [
        ({}, "budget"),
        ({"tokens": 0}, "budget.tokens"),
        ({"tokens": 1.5}, "budget.tokens"),
        ({"cost": -1}, "budget.cost"),
        ({"tokens": 1, "period": "week"}, "budget.period"),
        ({"token": 1}, "budget.token"),
        (100, "budget"),
    ],
)
def test_a_budget_is_checked_where_it_is_given(studio: Studio, budget: t.Any, path: str) -> None:
    body = {"name": "x", "budget": budget}
    assert_error(send(studio, "POST", "/api/keys", body), 400, "validation_failed", path=path)
    workflow = studio.deploy(spender())
    body = {"workflowId": workflow, "slug": "help", "title": "Help", "budget": budget}
    assert_error(send(studio, "POST", "/api/chats", body), 400, "validation_failed", path=path)


def _epoch(instant: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(instant).timestamp()

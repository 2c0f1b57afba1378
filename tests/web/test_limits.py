"""Rate limits: who is counted as what, what is counted, what the answers say, and where it is counted."""

from __future__ import annotations

import logging
import re
import socket
import typing as t
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from flask import g

from app.engine.catalog import Catalog
from app.errors import ApiError, StudioError
from app.schemas.limits import Rates
from app.web import limit_storage, limits, starting
from app.web.visitors import Visitor
from tests.support.redis import Redis, redis
from tests.web.conftest import Studio, assert_error, document, opened

PUBLIC = document("scripted/plain", settings={"public": True})
SMALL = {"STUDIO_RATE_LIMIT_ADDRESS": "2/minute,100/day", "STUDIO_MAX_STREAMS": "100"}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine Redis may need a second to answer; counted elsewhere, from zero, nothing here would hold."""
    monkeypatch.setattr(limit_storage, "REDIS_S", 30.0)


@pytest.fixture
def open_studio(tmp_path: Path) -> Iterator[Callable[..., Studio]]:
    """Opens applications, each with settings of its own, in one folder: on one database."""
    with ExitStack() as stack:

        def make(**more: str) -> Studio:
            return stack.enter_context(opened(tmp_path, {**SMALL, **more}))

        yield make


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """One Redis for the module; each test counts for an address of its own."""
    with redis(tmp_path_factory.mktemp("redis")) as made:
        yield made


def limit_key(studio: Studio, rate_limit: str | None, budget: str | None = None) -> None:
    """Give the run key limits of its own."""
    key = studio.store.keys.find(studio.keys["run"])
    assert key is not None

    def job(link: t.Any) -> None:
        sql = "UPDATE api_keys SET rate_limit = ?, budget = ? WHERE id = ?"
        link.raw.execute(sql, (rate_limit, budget, key.id))
        studio.store._catalog.bump(link)

    studio.store._writer.submit(job).wait()


def items(header: str) -> dict[str, dict[str, int]]:
    """A List of Structured Fields (RFC 9651) whose members are Strings with Integers as parameters."""
    found = {}
    for member in header.split(", "):
        match = re.fullmatch(r'"([a-z-]+)"((?:;[a-z]=\d+)+)', member)
        assert match is not None, member
        pairs = (pair.split("=") for pair in match[2][1:].split(";"))
        found[match[1]] = {name: int(value) for name, value in pairs}
    return found


def hit(studio: Studio, workflow: str, address: str = "192.0.2.1", **more: t.Any) -> t.Any:
    """A run without a key, from an address."""
    return studio.client.post(
        f"/api/workflows/{workflow}/execute", json={}, environ_base={"REMOTE_ADDR": address}, **more
    )


def test_the_headers_say_what_is_left_until_nothing_is(open_studio):
    studio = open_studio()
    workflow = studio.deploy(PUBLIC)
    for left in (1, 0):
        answer = hit(studio, workflow)
        assert answer.status_code == 200
        assert items(answer.headers["RateLimit-Policy"]) == {
            "address-minute": {"q": 2, "w": 60},
            "address-day": {"q": 100, "w": 86_400},
        }
        now = items(answer.headers["RateLimit"])
        assert now["address-minute"]["r"] == now["address-minute"]["a"] == left
        assert 0 < now["address-minute"]["t"] == now["address-minute"]["w"] <= 60
        assert now["address-day"]["r"] == 98 + left
        assert "Retry-After" not in answer.headers
        assert {"RateLimit", "RateLimit-Policy", "Retry-After"} <= set(
            answer.headers["Access-Control-Expose-Headers"].split(", ")
        )
    refused = hit(studio, workflow, headers={"X-Studio-Stream-Protocol": "agent-events-v1"})
    assert_error(refused, 429, "rate_limited", says="your address")
    now = items(refused.headers["RateLimit"])
    assert now["address-minute"]["r"] == 0
    assert int(refused.headers["Retry-After"]) == now["address-minute"]["t"] > 0
    assert now["address-day"]["r"] == 98, "the refused one is not counted for the day"
    assert "X-Run-Id" not in refused.headers
    assert len(studio.get("/api/runs").get_json()["items"]) == 2, "there is no record of it"


def test_streams_have_the_headers_too(open_studio):
    studio = open_studio()
    workflow = studio.deploy(PUBLIC)
    answers = [
        studio.client.post(f"/api/workflows/{workflow}/runs", json={"message": "hi"}),
        studio.client.post(
            "/chat", json={"workflow": workflow, "messages": [{"role": "user", "content": "hi"}]}
        ),
        studio.client.post(f"/api/workflows/{workflow}/execute", json={"stream": True}),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0].mimetype == "text/event-stream"
    assert [items(a.headers["RateLimit"])["address-minute"]["r"] for a in answers] == [1, 0, 0]


def test_what_could_not_start_is_not_counted(open_studio):
    studio = open_studio()
    workflow = studio.deploy(PUBLIC)
    private = studio.deploy({**document("scripted/plain"), "name": "Private"})
    path = f"/api/workflows/{workflow}/execute"
    for wrong, status in (
        (lambda: studio.client.post(path, json={"nonsense": 1}), 400),
        (lambda: studio.client.post(path, data="{", content_type="application/json"), 400),
        (lambda: studio.client.post(path, json={"async": True}), 400),
        (lambda: studio.client.post(f"/api/workflows/{private}/execute", json={}), 401),
        (lambda: studio.client.post("/api/workflows/none/execute", json={}), 401),
        (lambda: studio.client.post(path, json={"selectedOutputs": ["none.content"]}), 400),
        (lambda: studio.client.post(path, json={}, headers={"X-API-Key": "wrong"}), 401),
    ) * 2:
        answer = wrong()
        assert answer.status_code == status
        assert "RateLimit" not in answer.headers
    studio.app.extensions["studio"].runs.draining = True
    assert hit(studio, workflow, "127.0.0.1").status_code == 503
    studio.app.extensions["studio"].runs.draining = False
    assert [hit(studio, workflow, "127.0.0.1").status_code for _ in range(3)] == [200, 200, 429]


def test_addresses_are_counted_apart_and_the_workflow_as_a_whole(open_studio):
    studio = open_studio(STUDIO_RATE_LIMIT_CHAT="3/minute")
    one, other = studio.deploy(PUBLIC), studio.deploy({**PUBLIC, "name": "Other"})
    got = [hit(studio, one, f"192.0.2.{n}").status_code for n in (1, 1, 1, 2)]
    assert got == [200, 200, 429, 200], "who is refused by his own limit uses up nobody else's"
    refused = hit(studio, one, "192.0.2.3")
    error = assert_error(refused, 429, "rate_limited", says="This workflow is asked too often")
    assert "3" not in error["message"].partition("Try again")[0], "what all have used is nobody's business"
    assert set(items(refused.headers["RateLimit"])) == {"address-minute", "address-day", "workflow-minute"}
    assert hit(studio, other, "192.0.2.4").status_code == 200
    assert hit(studio, other, "192.0.2.1").status_code == 429, "an address has one count for all of them"


def test_keys_are_unlimited_unless_somebody_says_otherwise(open_studio):
    studio = open_studio(STUDIO_RATE_LIMIT_ADDRESS="1/minute", STUDIO_RATE_LIMIT_CHAT="1/minute")
    workflow = studio.deploy(PUBLIC)
    for _ in range(3):
        answer = studio.execute(workflow)
        assert answer.status_code == 200
        assert "RateLimit" not in answer.headers
    limit_key(studio, '{"perMinute": 1}')
    assert studio.execute(workflow).status_code == 200
    refused = studio.execute(workflow)
    assert_error(refused, 429, "rate_limited", says="This API key has started 1 runs in the last minute")
    assert set(items(refused.headers["RateLimit"])) == {"key-minute"}
    assert studio.execute(workflow, key="admin").status_code == 200
    limit_key(studio, '{"perHour": 5}')
    assert studio.execute(workflow).status_code == 200, "at once, and by the new limit"


def test_a_default_for_keys(open_studio):
    studio = open_studio(STUDIO_RATE_LIMIT_KEY="1/hour")
    workflow = studio.deploy(PUBLIC)
    assert [studio.execute(workflow).status_code for _ in range(2)] == [200, 429]
    limit_key(studio, '{"perHour": 2}')
    assert [studio.execute(workflow).status_code for _ in range(3)] == [200, 200, 429]


@pytest.mark.parametrize(
    ("hops", "headers", "same"),
    [
        (0, {"X-Forwarded-For": "198.51.100.{}"}, True),
        (0, {"X-Real-IP": "198.51.100.{}", "Forwarded": "for=198.51.100.{}"}, True),
        (1, {"X-Forwarded-For": "198.51.100.{}"}, False),
        (1, {"X-Forwarded-For": "198.51.100.{}, 203.0.113.9"}, True),
        (1, {"X-Forwarded-For": "203.0.113.9:{}"}, True),
        (1, {"X-Forwarded-For": "2001:db8::{}"}, True),
        (1, {"X-Forwarded-For": "2001:db8:0:{}::1"}, False),
        (1, {"X-Real-IP": "198.51.100.{}"}, True),
    ],
)
def test_only_what_a_trusted_proxy_says_of_an_address_counts(open_studio, hops, headers, same):
    studio = open_studio(STUDIO_TRUSTED_PROXIES=str(hops))
    workflow = studio.deploy(PUBLIC)
    got = []
    for n in range(1, 5):
        sent = {name: value.format(n) for name, value in headers.items()}
        got.append(hit(studio, workflow, headers=sent).status_code)
    assert got == ([200, 200, 429, 429] if same else [200] * 4)


@pytest.mark.parametrize("auth", ["public", "password", "email", "sso"])
def test_a_chat_counts_its_visitors_its_addresses_and_itself(open_studio, auth):
    """Where visitors prove who they are, those behind one address do not take from one another."""
    studio = open_studio(STUDIO_RATE_LIMIT_VISITOR="2/minute", STUDIO_RATE_LIMIT_ADDRESS="3/minute")
    workflow = studio.deploy(PUBLIC)
    services = studio.app.extensions["studio"]
    row = {"workflow_id": workflow, "title": "T", "auth_type": auth, "rate_limit": {"perMinute": 5}}
    one, other = (studio.store.chats.create({**row, "slug": slug}) for slug in ("one", "other"))
    found = Catalog(services).find(workflow)

    def starts(chat: t.Any, visitor: str, address: str) -> int | str:
        with studio.app.test_request_context():
            try:
                starting.let_visitor_start(services, chat, Visitor(chat.id, visitor), found, address)
            except ApiError as error:
                assert g.rate_limit_headers is not None
                return str(error.message).split(" ")[0]
            told = set(items(g.rate_limit_headers[1]))
            assert told == {"visitor-minute", *(["address-minute"] if auth in ("public", "password") else [])}
            return 200

    proven = auth in ("email", "sso")
    assert [starts(one, "anna", "192.0.2.1") for _ in range(3)] == [200, 200, "You"]
    assert starts(one, "ben", "192.0.2.1") == 200, "who is refused by his own limit uses up nobody else's"
    assert starts(one, "carl", "192.0.2.1") == (200 if proven else "3")
    assert starts(other, "anna", "192.0.2.1") == 200, "another chat has counts of its own"
    got = [starts(one, f"v{n}", f"192.0.2.{10 + n}") for n in range(4)]
    assert got == ([200] if proven else [200, 200]) + ["This"] * (3 if proven else 2)


@pytest.mark.parametrize(
    ("address", "whose"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7:4711", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::9]:443", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
        ("", ""),
        ("x" * 500, "x" * 100),
    ],
)
def test_who_is_behind_an_address(address, whose):
    assert limits.party(address) == whose


# -- where it is counted ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "storage"),
    [
        ({}, "memory"),
        ({"STUDIO_WORKERS": "2"}, "database"),
        ({"STUDIO_RATE_LIMIT_STORAGE": "database"}, "database"),
        ({"STUDIO_DATABASE_URL": "postgresql://x@127.0.0.1/x"}, "database"),
        ({"STUDIO_REDIS_URL": "redis://127.0.0.1:1"}, "redis"),
        ({"STUDIO_REDIS_URL": "redis://127.0.0.1:1", "STUDIO_RATE_LIMIT_STORAGE": "memory"}, "memory"),
    ],
)
def test_where_is_counted(more, storage, tmp_path):
    from app import config

    settings = config.load({"STUDIO_DATA_DIR": str(tmp_path), **more})
    assert limits.storage_of(settings) == storage


def test_two_processes_share_what_the_database_counts(open_studio):
    shared = {"STUDIO_RATE_LIMIT_STORAGE": "database", "STUDIO_RATE_LIMIT_ADDRESS": "3/minute"}
    one = open_studio(**shared)
    workflow = one.deploy(PUBLIC)
    other = open_studio(**shared)
    got = [hit(studio, workflow).status_code for studio in (one, other, one, other, one)]
    assert got == [200, 200, 200, 429, 429]


def test_two_processes_share_what_redis_counts(open_studio, running):
    shared = {"STUDIO_REDIS_URL": running.url, "STUDIO_RATE_LIMIT_ADDRESS": "3/minute"}
    one = open_studio(**shared)
    workflow = one.deploy(PUBLIC)
    other = open_studio(**shared)
    answers = [hit(studio, workflow, "192.0.2.50") for studio in (one, other, one, other)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert [items(a.headers["RateLimit"])["address-minute"]["r"] for a in answers] == [2, 1, 0, 0]
    assert 0 < int(answers[-1].headers["Retry-After"]) <= 60


def test_without_redis_the_database_counts(open_studio, running, monkeypatch, caplog):
    """It is said once; and once Redis is there again, it counts again."""
    monkeypatch.setattr(limits, "AGAIN_S", 1000.0)
    caplog.set_level(logging.WARNING, "studio.limits")
    studio = open_studio(STUDIO_REDIS_URL=running.url)
    workflow = studio.deploy(PUBLIC)
    assert hit(studio, workflow, "192.0.2.60").status_code == 200
    running.stop()
    try:
        got = [hit(studio, workflow, "192.0.2.60").status_code for _ in range(4)]
        assert got == [200, 200, 429, 429], "the limit holds, counted anew"
    finally:
        running.start()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("Redis does not answer")
    assert "database" in line
    caplog.clear()
    monkeypatch.setattr(studio.app.extensions["studio.limits"], "_down_until", 0.0)
    assert hit(studio, workflow, "192.0.2.60").status_code == 200, "Redis has forgotten all"
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("Redis answers again")


def test_redis_without_its_package_is_refused_at_the_start(open_studio, monkeypatch):
    monkeypatch.setattr(limits, "find_spec", lambda name: None)
    with pytest.raises(StudioError, match=r'pip install -e "\.\[redis\]"') as refused:
        open_studio(STUDIO_REDIS_URL="redis://127.0.0.1:1")
    assert refused.value.code == "redis_missing"


def test_a_redis_that_says_nothing_keeps_nobody_waiting_for_long(open_studio, monkeypatch):
    """It takes connections and never answers; only the first request waits, for the bound."""
    monkeypatch.setattr(limit_storage, "REDIS_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        studio = open_studio(STUDIO_REDIS_URL=url)
        workflow = studio.deploy(PUBLIC)
        assert [hit(studio, workflow).status_code for _ in range(3)] == [200, 200, 429]


@pytest.mark.parametrize("times", [[0] * 3, [0, 20, 50], [0, 55, 55, 80, 90], [0, 59, 59, 61, 90, 110]])
def test_who_is_refused_may_come_when_he_is_told_to(times, monkeypatch):
    """And what is left is what there is: so many more may start, and no more."""
    now = 0.0
    monkeypatch.setattr(limit_storage, "_now_ms", lambda: round(now * 1000))
    storage = limit_storage.Memory()
    strategy = limit_storage.SlidingWindowCounterRateLimiter(storage)
    (window,) = limits._windows(limits.Asked("address", "a", ((3, "minute"),)))

    def starts() -> bool:
        return strategy.hit(window.item, window.kind, window.subject)

    for at in times:
        now = float(at)
        starts()
    left = limits._left(strategy, window)
    assert 0 < left.seconds <= 60
    assert [starts() for _ in range(left.remaining + 1)] == [True] * left.remaining + [False]
    for _ in range(4):
        left = limits._left(strategy, window)
        assert (left.remaining, starts()) == (0, False)
        now += left.seconds
        assert starts()
        while starts():
            pass


def test_no_more_than_the_limit_start_around_the_end_of_a_window(monkeypatch):
    now = 0.0
    monkeypatch.setattr(limit_storage, "_now_ms", lambda: round(now * 1000))
    storage = limit_storage.Memory()

    def starts(at: float) -> int:
        nonlocal now
        now = at
        return sum(storage.acquire_sliding_window_entry("k", 60, 60) for _ in range(200))

    assert [starts(0.0), starts(59.9)] == [60, 0]
    assert starts(60.1) == 1, "a fixed window began again here"
    assert starts(60.9) == 0
    assert starts(75.0) == 15


def test_memory_is_bounded_and_forgets_what_is_over(monkeypatch):
    monkeypatch.setattr(limit_storage, "MOST", 100)
    storage = limit_storage.Memory()
    strategy = limit_storage.SlidingWindowCounterRateLimiter(storage)
    rates: Rates = ((5, "minute"),)

    def count(kind: t.Any, subject: str) -> int:
        (window,) = limits._windows(limits.Asked(kind, subject, rates))
        strategy.hit(window.item, kind, subject)
        return strategy.get_window_stats(window.item, kind, subject).remaining

    assert count("chat", "c") == 4
    for n in range(500):
        assert count("address", str(n)) == 4
        assert len(storage.counts) <= 101
    assert count("chat", "c") == 3, "what protects the purse stays"
    storage.counts = {key: (0, 1, 0, 60_000) for key in storage.counts}
    storage._sweep()
    assert not storage.counts

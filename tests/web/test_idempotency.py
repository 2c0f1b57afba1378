"""``Idempotency-Key``: a start that is repeated starts nothing, and is answered as the first was."""

from __future__ import annotations

import itertools
import random
import typing as t
from collections.abc import Callable, Mapping

import gevent
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as how
from hypothesis import strategies as st

from app.engine.retained import Retained
from app.store import Store
from app.store.run_list import RunFilter
from app.web import claims
from tests.support.servers import NEGOTIATE, wait_until
from tests.web.conftest import TOOL, Studio, assert_error, document, opened
from tests.web.test_chat import Visitor, refused

KEY = {"Idempotency-Key": "3f0e0bd2-first"}
SIM = {"X-Sim-Stream-Protocol": "agent-events-v1"}
_NUMBERS = itertools.count()
SELECTED = {"selectedOutputs": ["agent_1.content", "agent_1.model"]}


def runs_of(studio: Studio, key: str | None = None) -> list[str]:
    """Ids of the runs there are."""
    page, _ = studio.store.run_list.page(RunFilter(key), None, 100)
    return [row["id"] for row in page]


def forget(studio: Studio) -> None:
    """As after a restart: no log is kept."""
    studio.app.extensions["studio"].runs._retained = Retained(0, 0)


@pytest.fixture
def tooling(studio: Studio) -> str:
    return studio.deploy(document("scripted/tooling", tools=[TOOL]))


@pytest.fixture
def plain(studio: Studio) -> str:
    return studio.deploy(document("scripted/plain"))


Post = Callable[..., t.Any]


def poster(studio: Studio, path: str, key: str, body: t.Any, headers: Mapping[str, str]) -> Post:
    """Sends the same request whenever it is called."""

    def post(**more: str) -> t.Any:
        sent = {"X-API-Key": studio.keys[key], **KEY, **headers, **more}
        return studio.app.test_client().post(path, json=body, headers=sent)

    return post


EXECUTE, RUNS, DRAFT = "/api/workflows/{}/execute", "/api/workflows/{}/runs", "/api/workflows/{}/draft/run"
SAY = {"messages": [{"role": "user", "content": "hi"}]}
STREAM = {"Accept": "text/event-stream"}
SURFACES = {
    "json": (EXECUTE, {"input": {"message": "hi"}}, {}),
    "json, selected": (EXECUTE, SELECTED, {}),
    "async": (EXECUTE, {"async": True}, {}),
    "text": (EXECUTE, {"stream": True}, {}),
    "text, selected": (EXECUTE, {"stream": True, **SELECTED}, {}),
    "live": (EXECUTE, {"stream": True}, NEGOTIATE),
    "live, all": (EXECUTE, {"stream": True, "includeToolCalls": True, "includeThinking": True}, NEGOTIATE),
    "live, of Sim": (EXECUTE, {"stream": True, "conversationId": "c"}, SIM),
    "runs": (RUNS, {"message": "hi"}, {}),
    "runs, few": (RUNS, {"message": "hi", "events": "messages", "includeThinking": True}, {}),
    "graph": ("/chat", SAY, {}),
    "graph, streamed": ("/chat", SAY, STREAM),
    "draft": (DRAFT, {"input": {"message": "hi"}}, {}),
}


@pytest.mark.parametrize("surface", SURFACES)
def test_a_repeat_is_answered_as_the_first_was(studio: Studio, tooling: str, surface: str) -> None:
    path, body, headers = SURFACES[surface]
    if path == "/chat":
        body = {**body, "workflow": tooling}
    post = poster(studio, path.format(tooling), "admin", body, headers)
    first = post()
    content = first.get_data()
    assert first.status_code in (200, 202), content
    assert "Idempotent-Replayed" not in first.headers
    for _ in range(2):
        again = post()
        assert again.get_data() == content
        assert again.status_code == first.status_code
        assert again.headers["Idempotent-Replayed"] == "true"
        for name in ("X-Run-Id", "Content-Type", "X-Studio-Stream-Protocol", "X-Sim-Stream-Protocol", "Vary"):
            assert again.headers.get(name) == first.headers.get(name), name
    assert runs_of(studio) == [first.headers["X-Run-Id"]]


@pytest.mark.parametrize("model", ["scripted/plain", "scripted/broken", "scripted/tooling"])
@pytest.mark.parametrize("surface", ["json", "json, selected", "async"])
def test_an_answer_in_json_is_the_same_from_the_record(studio: Studio, model: str, surface: str) -> None:
    path, body, headers = SURFACES[surface]
    tools = [TOOL] if model == "scripted/tooling" else []
    workflow = studio.deploy(document(model, tools=tools, retries=0))
    post = poster(studio, path.format(workflow), "run", body, headers)
    content = post().get_data()
    wait_until(lambda: not len(studio.app.extensions["studio"].runs), "the run has ended")
    forget(studio)
    again = post()
    assert again.get_data() == content
    assert len(runs_of(studio)) == 1


def test_a_stream_is_told_from_the_record_once_its_log_is_gone(studio: Studio, tooling: str) -> None:
    """The text that stands and the end, as for those who attach; what was selected then, also."""
    for body, headers in (({"stream": True, **SELECTED}, {}), ({"stream": True, **SELECTED}, NEGOTIATE)):
        post = poster(studio, EXECUTE.format(tooling), "run", body, {**headers, **KEY, **_own(headers)})
        first = post()
        content = first.get_data()
        forget(studio)
        again = post().get_data()
        if not headers:
            assert again == content
        assert b"It is settled." in again
        assert content.split(b"\n\n")[-3:] == again.split(b"\n\n")[-3:]
        assert first.headers["X-Run-Id"] in runs_of(studio)
    assert len(runs_of(studio)) == 2


def _own(headers: Mapping[str, str]) -> dict[str, str]:
    return {"Idempotency-Key": f"of {len(headers)}"}


def test_a_turn_in_json_is_told_from_the_record(studio: Studio, plain: str) -> None:
    post = poster(studio, "/chat", "run", {**SAY, "workflow": plain}, {})
    first = post().get_json()
    forget(studio)
    again = post().get_json()
    assert again == first


# -- the same request --------------------------------------------------------------------------------


def test_the_order_of_members_means_nothing(studio: Studio, plain: str) -> None:
    sent = {**KEY, "X-API-Key": studio.keys["run"], "Content-Type": "application/json"}
    bodies = (b'{"input": {"a": 1, "b": 2}, "stream": false}', b'{"stream":false,"input":{"b":2,"a":1}}')
    answers = [
        studio.client.post(EXECUTE.format(plain), data=body, headers=sent).get_json() for body in bodies
    ]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "other",
    [{"input": {"message": "ho"}}, {}, {"input": {"message": "hi"}, "stream": True}, {"input": None}],
)
def test_another_body_is_a_conflict(studio: Studio, plain: str, other: t.Any) -> None:
    studio.execute(plain, {"input": {"message": "hi"}}, headers=KEY)
    answer = studio.execute(plain, other, headers=KEY)
    assert_error(answer, 409, "idempotency_conflict", path="Idempotency-Key", says="3f0e0bd2-first")
    assert "Idempotent-Replayed" not in answer.headers
    assert len(runs_of(studio)) == 1


def test_another_route_is_a_conflict(studio: Studio, plain: str) -> None:
    for path in (EXECUTE, RUNS, DRAFT):
        answer = poster(studio, path.format(plain), "admin", {}, {})()
        if path == EXECUTE:
            assert answer.status_code == 200
        else:
            assert_error(answer, 409, "idempotency_conflict")


def test_a_key_means_something_for_its_sender_and_its_workflow(studio: Studio, plain: str) -> None:
    other = studio.deploy(document("scripted/plain"))
    _, stranger = studio.store.keys.create("other", frozenset({"run"}))
    answers = [
        studio.execute(plain, headers=KEY),
        studio.execute(plain, headers=KEY, key="admin"),
        studio.execute(plain, headers=KEY, key=stranger),
        studio.execute(other, headers=KEY),
        studio.execute(plain),
    ]
    assert len({answer.get_json()["runId"] for answer in answers}) == 5
    assert not any("Idempotent-Replayed" in answer.headers for answer in answers)


def test_the_form_of_the_answer_is_the_repeats_own(studio: Studio, plain: str) -> None:
    """What is run is the body's to say; how it is shown, the headers'."""
    first = studio.execute(plain, {"stream": True}, headers=KEY)
    live = studio.execute(plain, {"stream": True}, headers={**KEY, **NEGOTIATE})
    assert live.headers["X-Run-Id"] == first.headers["X-Run-Id"]
    assert live.headers["X-Studio-Stream-Protocol"] == "agent-events-v1"
    assert [b"id: run_" in answer.get_data() for answer in (first, live)] == [False, True]
    assert b'"chunk":"Hello "' in live.get_data()
    turn = poster(studio, "/chat", "run", {**SAY, "workflow": plain}, {"Idempotency-Key": "turn"})
    both = [turn(), turn(**STREAM)]
    assert both[0].headers["X-Run-Id"] == both[1].headers["X-Run-Id"]
    assert [answer.mimetype for answer in both] == ["application/json", "text/event-stream"]


def test_a_version_that_was_deployed_meanwhile_changes_nothing(studio: Studio, tooling: str) -> None:
    body = {"selectedOutputs": ["Agent 1.content"]}
    first = studio.execute(tooling, body, headers=KEY)
    renamed = document("scripted/plain")
    renamed["blocks"][1]["name"] = "Another"
    studio.deploy(renamed, tooling)
    assert studio.execute(tooling, body, headers=KEY).get_data() == first.get_data()
    forget(studio)
    assert studio.execute(tooling, body, headers=KEY).get_data() == first.get_data()


@pytest.mark.parametrize(
    "value", ["", " ", "x" * 256, "é", "tab\there", '"open', '"in"side"', '""', '"a\\b"']
)
def test_what_is_no_key(studio: Studio, plain: str, value: str) -> None:
    answer = studio.client.post(
        EXECUTE.format(plain),
        json={},
        headers={"X-API-Key": studio.keys["run"]},
        environ_overrides={"HTTP_IDEMPOTENCY_KEY": value},
    )
    assert_error(answer, 400, "validation_failed", path="Idempotency-Key")
    assert runs_of(studio) == []


def test_what_is_a_key(studio: Studio, plain: str) -> None:
    """In quotes, as the draft has it, or without, as everybody sends it."""
    for plainly, quoted in (("a key", '"a key"'), ('say "x" \\', '"say \\"x\\" \\\\"'), ("x" * 255, None)):
        first = studio.execute(plain, headers={"Idempotency-Key": plainly}).get_json()
        again = studio.execute(plain, headers={"Idempotency-Key": quoted or plainly}).get_json()
        assert again == first


def test_without_a_key_nobody_can_be_told_apart(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/plain", settings={"public": True}))
    said = {"says": "X-API-Key"}
    assert_error(studio.execute(workflow, key=None, headers=KEY), 400, "not_supported", **said)
    for path, body in ((RUNS.format(workflow), {}), ("/chat", {**SAY, "workflow": workflow})):
        answer = studio.client.post(path, json=body, headers=KEY)
        assert_error(answer, 400, "not_supported", path="Idempotency-Key")
    assert runs_of(studio) == []


# -- starts that were refused ------------------------------------------------------------------------


def test_a_start_that_was_refused_can_be_repeated(studio: Studio, plain: str) -> None:
    draft = studio.store.workflows.save(document("scripted/plain"), "w")
    assert_error(studio.execute(draft, headers=KEY), 409, "not_deployed")
    studio.store.workflows.deploy(draft)
    assert studio.execute(draft, headers=KEY).status_code == 200
    wrong = {"stream": True, "includeThinking": True}
    for _ in range(2):
        assert_error(studio.execute(plain, wrong, headers=KEY), 400, "validation_failed")
    assert studio.execute(plain, {}, headers=KEY).status_code == 200, "with another body, also"


def test_a_start_that_failed_can_be_repeated(studio: Studio, plain: str, monkeypatch: t.Any) -> None:
    runs = studio.app.extensions["studio"].runs

    def fails(*_given: object, **_more: object) -> t.Any:
        raise RuntimeError("no greenlet to be had")

    for body in ({}, {"stream": True}):
        key = {"Idempotency-Key": f"k{len(body)}"}
        with monkeypatch.context() as patch:
            patch.setattr(runs, "start", fails)
            if body:
                with pytest.raises(RuntimeError):
                    studio.execute(plain, body, headers=key).get_data()
            else:
                assert_error(studio.execute(plain, body, headers=key), 500, "internal")
        assert studio.execute(plain, body, headers=key).status_code == 200


def test_an_answer_that_is_thrown_away_lets_go(studio: Studio, plain: str) -> None:
    """Before its run began, that is; see below for after."""
    sent = {"X-API-Key": studio.keys["run"], **KEY}
    with studio.app.test_request_context(
        EXECUTE.format(plain), method="POST", json={"stream": True}, headers=sent
    ):
        studio.app.full_dispatch_request().close()
    assert runs_of(studio) == []
    again = studio.execute(plain, {"stream": True}, headers=KEY)
    assert b"Hello there." in again.get_data()


def test_a_repeat_is_no_start(tmp_path: t.Any) -> None:
    """It counts against no limit, and needs no room."""
    with opened(tmp_path, {"STUDIO_RATE_LIMIT_KEY": "1/hour"}) as studio:
        plain = studio.deploy(document("scripted/plain"))
        first = studio.execute(plain, headers=KEY)
        assert "RateLimit" in first.headers
        studio.app.extensions["studio"].runs.draining = True
        for _ in range(3):
            again = studio.execute(plain, headers=KEY)
            assert again.get_data() == first.get_data()
        studio.app.extensions["studio"].runs.draining = False
        for _ in range(2):
            assert_error(studio.execute(plain, headers={"Idempotency-Key": "second"}), 429, "rate_limited")


def test_as_many_wait_as_may_be_carried(studio: Studio, plain: str) -> None:
    """Who sends one request a thousand times does not hold a thousand greenlets."""
    first = studio.execute(plain, headers=KEY)
    waiting = studio.app.extensions.setdefault("studio.repeats", [])
    waiting += [None] * 4  # STUDIO_MAX_STREAMS of these tests
    answer = studio.execute(plain, headers=KEY)
    assert_error(answer, 503, "at_capacity")
    assert answer.headers["Retry-After"] == "5"
    waiting.clear()
    assert studio.execute(plain, headers=KEY).get_data() == first.get_data()
    assert waiting == [], "each gives its place back"


# -- at the same time --------------------------------------------------------------------------------


@how(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), many=st.integers(2, 5))
def test_many_at_once_make_one_run(studio: Studio, tooling: str, seed: int, many: int) -> None:
    """Whichever form each of them prefers, and whoever goes while it waits."""
    chance = random.Random(seed)
    before = set(runs_of(studio))
    key = {"Idempotency-Key": f"number {next(_NUMBERS)}"}
    streams = chance.random() < 0.5
    body: dict[str, t.Any] = {"stream": True} if streams else {"input": {"message": "hi"}}
    got: dict[tuple[str, ...], set[tuple[str, bytes]]] = {}

    def ask() -> None:
        headers = chance.choice(({}, NEGOTIATE, SIM)) if streams else {}
        for _ in range(chance.randrange(4)):
            gevent.sleep(0)
        sent = {"X-API-Key": studio.keys["run"], **key, **headers}
        answer = studio.app.test_client().post(EXECUTE.format(tooling), json=body, headers=sent)
        assert answer.status_code == 200, answer.get_data()
        got.setdefault(tuple(headers), set()).add((answer.headers["X-Run-Id"], answer.get_data()))

    gevent.joinall([gevent.spawn(ask) for _ in range(many)], raise_error=True)
    assert len({run_id for answers in got.values() for run_id, _ in answers}) == 1
    assert {len(answers) for answers in got.values()} == {1}, "those who asked alike were answered alike"
    assert len(set(runs_of(studio)) - before) == 1


def test_of_many_refused_starts_each_is_refused_for_its_own_reason(studio: Studio) -> None:
    """None of them waits for a run that nobody will begin."""
    draft = studio.store.workflows.save(document("scripted/plain"), "w")
    answers: list[t.Any] = []

    def ask() -> None:
        sent = {"X-API-Key": studio.keys["run"], **KEY}
        answers.append(studio.app.test_client().post(EXECUTE.format(draft), json={}, headers=sent))

    gevent.joinall([gevent.spawn(ask) for _ in range(6)], raise_error=True)
    assert [answer.status_code for answer in answers] == [409] * 6
    assert {answer.get_json()["error"]["code"] for answer in answers} == {"not_deployed"}


@pytest.fixture
def elsewhere(studio: Studio) -> t.Iterator[Store]:
    """The store of another process at the same database."""
    made = Store(studio.app.extensions["studio"].settings)
    made.runs.heartbeat(made.owner_id)
    yield made
    made.close()


def test_a_run_that_does_not_begin_is_waited_for_and_then_refused(
    studio: Studio, plain: str, elsewhere: Store, monkeypatch: t.Any
) -> None:
    monkeypatch.setattr(claims, "WAIT_S", 0.05)
    first = studio.app.extensions["studio"].store.idempotency
    here = elsewhere.idempotency
    claimed = first.claim
    made: list[bytes] = []

    def claim(key: bytes, body: bytes, run_id: str, *more: t.Any) -> t.Any:
        if not made:
            made.append(key)
            here.claim(key, body, "run_of_another", *more)
        return claimed(key, body, run_id, *more)

    monkeypatch.setattr(first, "claim", claim)
    answer = studio.execute(plain, headers=KEY)
    assert_error(answer, 409, "idempotency_pending")
    assert answer.headers["Retry-After"] == "2"
    elsewhere.close()  # and its owner with it
    assert studio.execute(plain, headers=KEY).status_code == 200
    assert len(runs_of(studio)) == 1


# -- who leaves --------------------------------------------------------------------------------------


def test_a_run_that_ended_with_its_reader_is_what_the_repeat_gets(studio: Studio) -> None:
    """The policy was ``cancel``: the work was given up, and is not begun again behind anybody's back."""
    workflow = studio.deploy(document("scripted/silent"))
    sent = {"X-API-Key": studio.keys["run"], **KEY}
    begun = studio.app.test_client().post(EXECUTE.format(workflow), json={"stream": True}, headers=sent)
    begun.close()
    wait_until(lambda: not len(studio.app.extensions["studio"].runs), "the run has ended")
    again = studio.execute(workflow, {"stream": True}, headers=KEY)
    assert again.headers["X-Run-Id"] == begun.headers["X-Run-Id"]
    assert b"The run was stopped." in again.get_data()
    assert len(runs_of(studio)) == 1


# -- chats -------------------------------------------------------------------------------------------


@pytest.fixture
def chat(studio: Studio) -> Callable[..., Visitor]:
    """Deploys a chat; a visitor who has looked at it."""

    def make(model: str = "scripted/tooling", **values: t.Any) -> Visitor:
        tools = [TOOL] if model == "scripted/tooling" else []
        workflow = studio.deploy(document(model, tools=tools))
        row = {"workflow_id": workflow, "slug": "help", "title": "Help", "include_tool_calls": True, **values}
        studio.store.chats.create(row)
        visitor = Visitor(studio)
        visitor.call("GET")
        return visitor

    return make


JSON = {"Accept": "application/json"}


@pytest.mark.parametrize("headers", [{}, NEGOTIATE, SIM, JSON], ids=["text", "live", "sim", "json"])
@pytest.mark.parametrize("named", [{}, {"conversationId": "c"}], ids=["new", "named"])
@pytest.mark.parametrize("kept", [True, False], ids=["log", "record"])
def test_a_message_that_is_sent_again_is_answered_once(
    studio: Studio, chat: t.Any, headers: dict[str, str], named: dict[str, str], kept: bool
) -> None:
    visitor = chat()
    first = visitor.say(headers={**KEY, **headers}, **named)
    content = first.get_data()
    if not kept:
        forget(studio)
    again = visitor.say(headers={**KEY, **headers}, **named)
    assert again.status_code == 200, again.get_data()
    if kept or headers not in (NEGOTIATE, SIM):
        assert again.get_data() == content
    assert b"private" not in again.get_data()
    assert again.headers["Idempotent-Replayed"] == "true"
    for name in ("X-Run-Id", "X-Conversation-Id", "X-Studio-Stream-Protocol"):
        assert again.headers.get(name) == first.headers.get(name), name
    assert len(runs_of(studio)) == 1
    refused(visitor.say("ho", {**KEY, **headers}, **named), 409, "idempotency_conflict")


def test_messages_that_are_sent_at_once_are_answered_once(studio: Studio, chat: t.Any) -> None:
    visitor = chat()
    got: list[t.Any] = []

    def ask() -> None:
        other = Visitor(studio)
        other.client._cookies = visitor.client._cookies
        got.append(other.say(headers={**KEY, **NEGOTIATE}, conversationId="c"))

    gevent.joinall([gevent.spawn(ask) for _ in range(5)], raise_error=True)
    assert {answer.status_code for answer in got} == {200}
    assert len({answer.get_data() for answer in got}) == 1
    assert len(runs_of(studio)) == 1


def test_another_visitor_is_another_sender(studio: Studio, chat: t.Any) -> None:
    visitor = chat()
    stranger = Visitor(studio)
    stranger.call("GET")
    runs = {each.say(headers=KEY).headers["X-Run-Id"] for each in (visitor, stranger)}
    assert len(runs) == 2


def test_who_is_not_known_yet_could_not_be_recognised(studio: Studio, chat: t.Any) -> None:
    chat()
    error = refused(Visitor(studio).say(headers=KEY), 400, "not_supported")
    assert error["details"][0]["path"] == "Idempotency-Key"
    token = {"X-Studio-Visitor": ""}
    refused(Visitor(studio).say(headers={**KEY, **token}), 400, "not_supported")
    assert runs_of(studio) == []
    token = {"X-Studio-Visitor": Visitor(studio).call("GET", headers=token).headers["X-Studio-Visitor"]}
    answers = [Visitor(studio).say(headers={**KEY, **token}) for _ in range(2)]
    assert len({answer.headers["X-Run-Id"] for answer in answers}) == 1


def test_what_gets_a_visitor_in_is_no_part_of_the_message(studio: Studio, chat: t.Any) -> None:
    """And the answer to a repeat lets him in as well."""
    from app.web import passwords

    chat(auth_type="password", password=passwords.hashed("open sesame"))
    visitor = Visitor(studio)
    visitor.call("POST", "/session", {"password": "open sesame"})
    first = visitor.say(headers=KEY, password="open sesame")
    again = visitor.say(headers=KEY)
    assert again.headers["X-Run-Id"] == first.headers["X-Run-Id"]
    visitor.client._cookies.clear()
    refused(visitor.say(headers=KEY), 401, "auth_required_password")


@pytest.mark.parametrize("route", ["execute", "draft/run"])
def test_a_body_too_deep_to_be_compared_is_told_so(studio: Studio, plain: str, route: str) -> None:
    """As deep as can be compared is well; up to what can be read at all, it is the sender's mistake."""
    for levels, status in ((253, 200), (254, 400), (1000, 400)):
        inner = '{"a":' * (levels - 2) + "1" + "}" * (levels - 2)
        answer = studio.client.post(
            f"/api/workflows/{plain}/{route}",
            data=f'{{"input": {{"message": "hi", "deep": {inner}}}}}',
            content_type="application/json",
            headers={"X-API-Key": studio.keys["admin"], "Idempotency-Key": f"{route} {levels}"},
        )
        assert answer.status_code == status, answer.get_data()
        if status == 400:
            error = answer.get_json()["error"]
            assert error["code"] == "validation_failed"
            assert "253 levels" in error["message"]


# -- what is kept ------------------------------------------------------------------------------------


def test_nothing_that_was_sent_is_kept(studio: Studio, plain: str) -> None:
    secret = "my own secret"
    studio.execute(plain, {"input": secret}, headers={"Idempotency-Key": secret})
    import sqlite3

    raw = sqlite3.connect(studio.app.extensions["studio"].settings.data_dir / "studio.db")
    rows = raw.execute("SELECT * FROM idempotency").fetchall()
    raw.close()
    assert len(rows) == 1
    assert secret not in repr(rows)
    assert secret.encode() not in b"".join(value for value in rows[0] if isinstance(value, bytes))


def test_without_the_header_nothing_is_asked_of_the_store(
    studio: Studio, plain: str, monkeypatch: t.Any
) -> None:
    monkeypatch.setattr(studio.app.extensions["studio"].store, "idempotency", None)
    assert studio.execute(plain).status_code == 200
    assert b"Hello there." in studio.execute(plain, {"stream": True}).get_data()

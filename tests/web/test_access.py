"""Who reaches what: the credential table held to the routes there are, and what it cannot say.

Everybody at every route is in ``test_access_matrix.py``.
"""

from __future__ import annotations

import typing as t

import pytest

from app.web.auth import CREDENTIALS, Credential
from tests.support.shared import ROOT
from tests.web.conftest import Studio, assert_error, document
from tests.web.table import OUTPUT, named


def test_every_route_is_in_the_table_and_every_row_is_a_route(studio: Studio) -> None:
    routes = {
        (rule.rule, method)
        for rule in studio.app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert routes == {(row.rule, row.method) for row in CREDENTIALS}


@pytest.mark.parametrize("row", CREDENTIALS, ids=named)
def test_every_route_is_on_the_page_of_the_api(row: Credential) -> None:
    assert f"| `{row.method} {row.rule}` |" in (ROOT / "docs" / "http-api.md").read_text()


def test_lists_show_a_key_without_their_scope_its_own(studio: Studio) -> None:
    for row in CREDENTIALS:
        if row.own == "also" and "<" not in row.rule:
            answer = studio.get(row.rule, key="run")
            assert answer.get_json() == {"items": []}, row.rule


def test_a_key_that_is_revoked_is_dead_at_once(studio: Studio) -> None:
    made, text = studio.store.keys.create("short-lived", frozenset({"admin"}))
    assert studio.get("/api/runs", key=text).status_code == 200
    studio.store.keys.revoke(made.id)
    assert_error(studio.get("/api/runs", key=text), 401, "unauthorized")


@pytest.mark.parametrize("part", ["", "/events", f"/values/{OUTPUT}"])
def test_a_run_is_its_own_keys_and_the_same_404_for_others(studio: Studio, part: str) -> None:
    workflow = studio.deploy(document("scripted/plain"))
    _, other = studio.store.keys.create("other", frozenset({"run"}))
    run = studio.execute(workflow, {"input": "hi"}).get_json()["runId"]
    assert studio.get(f"/api/runs/{run}{part}", key="run").status_code == 200
    assert studio.get(f"/api/runs/{run}{part}", key="read").status_code == 200
    messages = set()
    for each in (run, "run_unknown"):
        error = assert_error(studio.get(f"/api/runs/{each}{part}", key=other), 404, "not_found")
        messages.add(error["message"].replace(each, "ID"))
    assert len(messages) == 1


def test_only_the_own_key_and_admin_stop_a_run(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/plain"))
    _, other = studio.store.keys.create("other", frozenset({"run", "read"}))
    run = studio.execute(workflow).get_json()["runId"]
    path = f"/api/runs/{run}/cancel"

    def stop(key: str) -> t.Any:
        return studio.client.post(path, headers={"X-API-Key": studio.keys.get(key, key)})

    assert_error(stop(other), 404, "not_found")
    assert_error(stop("read"), 403, "forbidden")
    for key in ("run", "admin"):
        assert stop(key).get_json() == {"outcome": "already_finished", "status": "completed"}


def test_a_public_workflow_runs_without_a_key_but_not_with_a_dead_one(studio: Studio) -> None:
    public = studio.deploy(document("scripted/plain", settings={"public": True}))
    assert studio.execute(public, key=None).get_json()["success"] is True
    assert_error(studio.execute(public, key="sk-studio-nobody"), 401, "unauthorized")
    assert_error(studio.execute(public, key="read"), 403, "forbidden")


def test_without_a_key_private_undeployed_and_unknown_workflows_look_the_same(studio: Studio) -> None:
    private = studio.deploy(document("scripted/plain"))
    draft = studio.store.workflows.save(document("scripted/plain", settings={"public": True}), "draft")
    answers = [studio.execute(workflow, key=None) for workflow in (private, draft, "wf_unknown")]
    messages = {assert_error(answer, 401, "unauthorized")["message"] for answer in answers}
    assert len(messages) == 1


def test_a_key_that_is_revoked_while_it_is_looked_for_is_dead_from_then_on(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database server lets others go on while it is read, and what they have read is newer."""
    made, text = studio.store.keys.create("late", frozenset({"read"}))
    find, between = studio.store.keys.find, [studio.store.keys.revoke]

    def slow(plaintext: str) -> t.Any:
        found = find(plaintext)
        if between:
            between.pop()(made.id)
            assert studio.get("/api/runs").status_code == 200, "somebody else asks meanwhile"
        return found

    monkeypatch.setattr(studio.store.keys, "find", slow)
    statuses = [studio.get("/api/runs", text).status_code for _ in range(2)]
    assert statuses == [200, 401]


def test_a_version_that_goes_while_it_is_read_does_not_come_back(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = studio.deploy(document("scripted/plain", settings={"public": True}))
    other = studio.deploy(document("scripted/plain", settings={"public": True}))
    live, between = studio.store.workflows.live, [studio.store.workflows.versions.undeploy]

    def slow(workflow_id: str) -> t.Any:
        found = live(workflow_id)
        if workflow_id == workflow and between:
            between.pop()(workflow)
            assert studio.execute(other, key=None).status_code == 200, "somebody else asks meanwhile"
        return found

    monkeypatch.setattr(studio.store.workflows, "live", slow)
    studio.execute(workflow, key=None)
    assert between == []
    assert_error(studio.execute(workflow), 409, "not_deployed")


def test_without_a_key_a_version_that_was_private_stays_private(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/plain"))
    studio.deploy(document("scripted/plain", settings={"public": True}), workflow)
    assert studio.execute(workflow, {"version": 2}, key=None).status_code == 200
    assert_error(studio.execute(workflow, {"version": 1}, key=None), 401, "unauthorized")


def test_a_refused_request_leaves_no_run(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = studio.deploy(document("scripted/plain"))
    started: list[t.Any] = []
    services = studio.app.extensions["studio"]
    monkeypatch.setattr(services.store.runs, "started", started.append)
    for key in (None, "sk-studio-nobody", "read"):
        studio.execute(workflow, {"stream": True}, key=key)
    assert started == []


def test_preflight_allows_our_headers_and_tells_nothing_else(studio: Studio) -> None:
    asked = {
        "Origin": "https://example.org",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-api-key,x-studio-stream-protocol",
    }
    answers = [
        studio.client.options(path, headers=asked)
        for path in ("/api/workflows/some/execute", "/api/runs/x", "/api/no/such/route")
    ]
    for answer in answers:
        assert answer.status_code == 204
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        allowed = answer.headers["Access-Control-Allow-Headers"].lower()
        for header in ("content-type", "x-api-key", "x-studio-stream-protocol", "x-sim-stream-protocol"):
            assert header in allowed
        assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    shown = [sorted((k, v) for k, v in answer.headers if k != "X-Request-Id") for answer in answers]
    assert shown[0] == shown[1] == shown[2]


@pytest.mark.parametrize(
    ("path", "methods"), [("/capabilities", {"GET"}), ("/decide/nobody-has-this", {"GET", "POST"})]
)
def test_what_is_no_api_says_its_methods_and_allows_no_other_origin(
    studio: Studio, path: str, methods: set[str]
) -> None:
    answer = studio.client.options(path, headers={"Origin": "https://example.org"})
    assert answer.status_code == 200
    assert set(answer.allow) == {"HEAD", "OPTIONS", *methods}
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_answers_expose_the_echo_and_the_run_id_to_browsers(studio: Studio) -> None:
    answer = studio.client.get("/api/runs/x", headers={"Origin": "https://example.org"})
    assert answer.status_code == 401
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    exposed = answer.headers["Access-Control-Expose-Headers"]
    for header in ("X-Run-Id", "X-Studio-Stream-Protocol", "X-Sim-Stream-Protocol"):
        assert header in exposed

"""Compiled workflows: one is made once, whoever asks, on whatever surface."""

from __future__ import annotations

import typing as t
from pathlib import Path

import gevent
import pytest

from app.engine.catalog import Catalog
from app.engine.compiler import Compiler, Recent
from plugins.hookspecs import hookimpl
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily
from providers.auth import NoAuth
from tests.engine.redacted import Model
from tests.support.engine import agent, services
from tests.web.conftest import Studio, document


class Slow:
    """A family whose models take a while to be listed, and which counts how often they were."""

    def __init__(self) -> None:
        self.asked = 0

    def models(self) -> list[str]:
        self.asked += 1
        gevent.sleep(0.01)
        return ["x"]

    @hookimpl
    def provider_families(self) -> list[ProviderFamily]:
        return [
            ProviderFamily(
                "slow",
                "Slow",
                Model(),
                NoAuth(),
                ConnectionSpec(default_base="", key_required=False),
                lambda name, row: Capabilities(),
                models=self.models,
            )
        ]


def test_those_who_want_the_same_workflow_wait_for_the_one_who_makes_it(tmp_path: Path) -> None:
    slow = Slow()
    with services(tmp_path, plugins=(slow,)) as made:
        workflow = made.store.workflows.save(agent("slow/x"), "Test")
        made.store.workflows.deploy(workflow)
        Catalog(made).find(workflow)
        once, slow.asked = slow.asked, 0
        catalog = made.catalog
        found: list[t.Any] = []
        asking = [gevent.spawn(lambda: found.append(catalog.find(workflow))) for _ in range(5)]
        gevent.joinall(asking, raise_error=True)
        assert len(found) == 5
        assert all(each is found[0] for each in found)
        assert slow.asked == once
        assert not len(catalog._queues)


def starts(studio: Studio) -> dict[str, t.Callable[[str, str], t.Any]]:
    """What starts a run of a workflow, by surface: (its id, the message) to the answer."""
    run, admin = ({"X-API-Key": studio.keys[scope]} for scope in ("run", "admin"))
    post = studio.client.post

    def execute(workflow: str, message: str) -> t.Any:
        return post(f"/api/workflows/{workflow}/execute", json={"input": {"message": message}}, headers=run)

    def run_events(workflow: str, message: str) -> t.Any:
        return post(f"/api/workflows/{workflow}/runs", json={"message": message}, headers=run)

    def graph(workflow: str, message: str) -> t.Any:
        body = {"workflow": workflow, "messages": [{"role": "user", "content": message}]}
        return post("/chat", json=body, headers=run)

    def draft(workflow: str, message: str) -> t.Any:
        body = {"input": {"message": message}}
        return post(f"/api/workflows/{workflow}/draft/run", json=body, headers=admin)

    def chat(workflow: str, message: str) -> t.Any:
        return post("/api/chat/shared", json={"input": message}, headers={})

    return {"execute": execute, "run events": run_events, "graph": graph, "draft": draft, "chat": chat}


class Started:
    """The workflows of the runs that were started, as the engine got them."""

    def __init__(self, studio: Studio, patch: pytest.MonkeyPatch) -> None:
        runs = studio.app.extensions["studio"].runs
        start = runs.start
        self.workflows: list[t.Any] = []

        def noted(request: t.Any, *args: t.Any, **more: t.Any) -> t.Any:
            self.workflows.append(request.workflow)
            return start(request, *args, **more)

        patch.setattr(runs, "start", noted)


def published(studio: Studio, says: str) -> str:
    """A public chat of a workflow that says this, and its workflow."""
    workflow = studio.deploy(document("scripted/echo", prompt=says))
    body = {"workflowId": workflow, "slug": "shared", "title": "Shared"}
    made = studio.client.post("/api/chats", json=body, headers={"X-API-Key": studio.keys["admin"]})
    assert made.status_code == 201, made.get_data()
    return workflow


def test_all_surfaces_run_one_object(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = published(studio, "one")
    started = Started(studio, monkeypatch)
    for surface, start in starts(studio).items():
        answer = start(workflow, "hi")
        assert answer.status_code == 200, (surface, answer.get_data())
        assert "one" in answer.get_data(as_text=True), surface
    assert len(started.workflows) == len(starts(studio))
    assert len({id(each) for each in started.workflows}) == 1


def test_a_change_of_something_else_compiles_nothing_anew(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = published(studio, "one")
    started = Started(studio, monkeypatch)
    for start in starts(studio).values():
        start(workflow, "hi")
        studio.store.keys.create("another", frozenset({"read"}))
        studio.deploy(document("scripted/echo", prompt="another"))
    assert len({id(each) for each in started.workflows}) == 1


def test_what_becomes_live_is_live_on_all_surfaces_at_once(studio: Studio) -> None:
    """Also where each of them has run the version before."""
    workflow = published(studio, "first")
    surfaces = {name: start for name, start in starts(studio).items() if name != "draft"}

    def all_say(text: str) -> None:
        for surface, start in surfaces.items():
            assert text in start(workflow, "hi").get_data(as_text=True), surface

    all_say("first")
    studio.deploy(document("scripted/echo", prompt="second"), workflow)
    all_say("second")
    studio.store.workflows.versions.rollback(workflow, 1)
    all_say("first")
    studio.store.workflows.versions.undeploy(workflow)
    told = {surface: start(workflow, "hi").status_code for surface, start in surfaces.items()}
    assert told == {"execute": 409, "run events": 409, "graph": 409, "chat": 403}


def test_a_workflow_that_was_made_again_under_its_id_is_another_one(studio: Studio) -> None:
    """Its first version has the number of the one that is gone."""
    workflow = studio.deploy(document("scripted/echo", prompt="first"))
    assert "first" in studio.execute(workflow).get_data(as_text=True)
    studio.store.workflows.remove(workflow, None)
    studio.deploy(document("scripted/echo", prompt="second"), workflow)
    assert "second" in studio.execute(workflow, {"version": 1}).get_data(as_text=True)


def test_what_is_compiled_is_bounded(tmp_path: Path) -> None:
    with services(tmp_path) as made:
        each = made.compiler(agent("scripted/echo", prompt="0")).size
        compiler = Compiler(made.plugins, most=3 * each)
        catalog = Catalog(made, compiler)
        catalog._known = Recent(3 * each)
        for n in range(10):
            saved = made.store.workflows.save(agent("scripted/echo", prompt=str(n)), "Test")
            made.store.workflows.deploy(saved)
        every = [row.id for row in made.store.workflows.list()]
        for workflow in every:
            assert catalog.find(workflow).workflow_id == workflow
        assert (len(catalog._known), len(compiler._made)) == (3, 3)


def test_what_runs_others_counts_with_them(tmp_path: Path) -> None:
    with services(tmp_path) as made:
        inner = made.store.workflows.save(agent("scripted/echo"), "Inner")
        outer = {
            "name": "Outer",
            "blocks": [
                {"id": "start", "type": "start"},
                {"id": "sub", "type": "workflow", "config": {"workflow": inner}},
            ],
            "edges": [{"source": "start", "target": "sub"}],
        }
        saved = made.store.workflows.save(outer, "Outer")
        for workflow in (inner, saved):
            made.store.workflows.deploy(workflow)
        found = made.catalog.find(saved).workflow
        child = made.catalog.find(inner).workflow
        assert found.children["sub"].workflow is child
        assert found.weight == found.size + child.size
        assert found.size > 0 < child.size

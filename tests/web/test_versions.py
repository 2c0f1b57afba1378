"""Deploying, taking back, rolling back, and what has changed in between."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from tests.web.conftest import Studio, assert_error, document
from tests.web.managing import made, ok, send

GOOD = document("scripted/plain")


def answers(studio: Studio, workflow: str) -> str:
    """What the live version says."""
    return str(ok(studio.execute(workflow, {"input": "Hi"}))["output"]["content"])


def script(name: str) -> dict[str, t.Any]:
    return document(f"scripted/{name}")


def test_deploying_makes_a_version_and_makes_it_live(studio: Studio) -> None:
    workflow, tag = made(studio, GOOD)
    path = f"/api/workflows/{workflow}"
    answer = send(studio, "POST", f"{path}/deploy", {"name": "first", "description": "The first one."})
    body = ok(answer, 201)
    assert answer.headers["Location"] == f"{path}/versions/1"
    assert answer.headers["ETag"] not in (tag, None)
    assert answer.headers["ETag"] == studio.get(path).headers["ETag"]
    assert (body["id"], body["liveVersion"], body["draftDiffers"], body["warnings"]) == (
        workflow,
        1,
        False,
        [],
    )
    version = body["version"]
    admin = studio.store.keys.find(studio.keys["admin"])
    assert admin is not None
    assert version.pop("createdAt").endswith("Z")
    assert version == {
        "version": 1,
        "name": "first",
        "description": "The first one.",
        "live": True,
        "createdBy": admin.id,
    }
    assert answers(studio, workflow) == "Hello there."
    shown = ok(studio.get(f"{path}/versions/1"))
    assert shown["document"] == GOOD
    assert {key: shown[key] for key in version} == version


def test_deploying_the_same_again_makes_no_version(studio: Studio) -> None:
    workflow, _ = made(studio, GOOD)
    path = f"/api/workflows/{workflow}/deploy"
    first = ok(send(studio, "POST", path, {"name": "first"}), 201)
    again = ok(send(studio, "POST", path), 200)
    assert again == first
    assert ok(send(studio, "POST", path, {"name": "first"}), 200) == first
    renamed = ok(send(studio, "POST", path, {"name": "second"}), 201)
    assert (renamed["liveVersion"], renamed["version"]["name"]) == (2, "second")
    reordered = {key: GOOD[key] for key in reversed(GOOD)}
    send(studio, "PUT", f"/api/workflows/{workflow}", reordered, match="*")
    assert ok(send(studio, "POST", path), 200)["liveVersion"] == 2
    send(studio, "DELETE", path)
    assert ok(send(studio, "POST", path), 201)["liveVersion"] == 3, "nothing was live"


def test_a_deployer_may_say_what_it_has_seen(studio: Studio) -> None:
    workflow, tag = made(studio, GOOD)
    path = f"/api/workflows/{workflow}"
    newer = send(studio, "PATCH", path, {"variables": {"a": 1}}, match=tag).headers["ETag"]
    for method, action in (("POST", "deploy"), ("DELETE", "deploy"), ("POST", "rollback")):
        assert_error(send(studio, method, f"{path}/{action}", match=tag), 412, "precondition_failed")
    assert ok(studio.get(path)).get("liveVersion") is None
    assert ok(send(studio, "POST", f"{path}/deploy", match=newer), 201)["liveVersion"] == 1


def test_taking_back_lets_nobody_run_it(studio: Studio) -> None:
    workflow = studio.deploy(GOOD)
    path = f"/api/workflows/{workflow}/deploy"
    body = ok(send(studio, "DELETE", path))
    assert "liveVersion" not in body
    assert "version" not in body
    assert body["draftDiffers"]
    assert_error(studio.execute(workflow), 409, "not_deployed")
    assert ok(studio.execute(workflow, {"version": 1}))["success"], "versions are still there"
    assert ok(send(studio, "DELETE", path)) == body
    assert_error(send(studio, "POST", f"/api/workflows/{workflow}/rollback"), 409, "not_deployed")
    assert_error(studio.get(f"/api/workflows/{workflow}/diff"), 409, "not_deployed")


def test_rolling_back_makes_an_earlier_version_live(studio: Studio) -> None:
    workflow = studio.deploy(script("plain"))
    path = f"/api/workflows/{workflow}"
    for name in ("thinker", "tooling"):
        draft = script(name) if name == "thinker" else {**GOOD, "name": "Third"}
        send(studio, "PUT", path, draft, match="*")
        ok(send(studio, "POST", f"{path}/deploy", {"name": name}), 201)
    draft = ok(studio.get(path))["document"]
    body = ok(send(studio, "POST", f"{path}/rollback"))
    assert (body["liveVersion"], body["version"]["version"], body["draftDiffers"]) == (2, 2, True)
    assert answers(studio, workflow) == "Done."
    assert ok(send(studio, "POST", f"{path}/rollback"))["liveVersion"] == 1
    assert answers(studio, workflow) == "Hello there."
    assert_error(send(studio, "POST", f"{path}/rollback"), 409, "no_earlier_version")
    assert ok(send(studio, "POST", f"{path}/rollback", {"version": 3}))["liveVersion"] == 3
    assert ok(studio.get(path))["document"] == draft, "the draft is left alone"
    assert_error(send(studio, "POST", f"{path}/rollback", {"version": 4}), 404, "not_found")
    assert_error(
        send(studio, "POST", f"{path}/rollback", {"version": 0}), 400, "validation_failed", path="version"
    )
    send(studio, "DELETE", f"{path}/deploy")
    assert ok(send(studio, "POST", f"{path}/rollback", {"version": 2}))["liveVersion"] == 2


def test_rolling_back_takes_the_draft_along_when_asked(studio: Studio) -> None:
    workflow = studio.deploy(script("plain"))
    path = f"/api/workflows/{workflow}"
    changed = {**script("thinker"), "name": "Thinker"}
    send(studio, "PUT", path, changed, match="*")
    send(studio, "POST", f"{path}/deploy")
    needed = send(studio, "POST", f"{path}/rollback", {"draft": True})
    assert_error(needed, 428, "precondition_required")
    tag = studio.get(path).headers["ETag"]
    body = ok(send(studio, "POST", f"{path}/rollback", {"draft": True}, match=tag))
    assert (body["liveVersion"], body["draftDiffers"], body["name"]) == (1, False, "One agent")
    assert ok(studio.get(path))["document"] == script("plain")
    assert ok(studio.get(f"{path}/versions/2"))["document"] == changed


def test_what_would_not_run_any_more_does_not_become_live(studio: Studio) -> None:
    gone = document("scripted/gone")
    workflow = studio.deploy(gone)  # unchecked, as if its script had been there
    path = f"/api/workflows/{workflow}"
    send(studio, "PUT", path, GOOD, match="*")
    send(studio, "POST", f"{path}/deploy")
    refused = send(studio, "POST", f"{path}/rollback")
    assert_error(refused, 400, "validation_failed", path="blocks[1].config.model")
    assert ok(studio.get(path))["liveVersion"] == 2


def test_what_would_run_by_now_becomes_live(studio: Studio, tmp_path: Path) -> None:
    """What a document uses may come without any change in the store: a script, a model of one's own server."""
    workflow, _ = made(studio, document("scripted/to-come"))
    path = f"/api/workflows/{workflow}/deploy"
    refused = send(studio, "POST", path, {})
    assert_error(refused, 400, "validation_failed", path="blocks[1].config.model")
    (tmp_path / "scripts" / "to-come.yaml").write_text(
        yaml.safe_dump({"turns": [{"steps": [{"text": "Hi"}]}]})
    )
    assert ok(send(studio, "POST", path, {}), 201)["liveVersion"] == 1


def test_versions_are_listed_newest_first(studio: Studio) -> None:
    workflow, _ = made(studio, GOOD)
    path = f"/api/workflows/{workflow}"
    assert ok(studio.get(f"{path}/versions")) == {"items": []}
    for number in range(1, 6):
        send(studio, "POST", f"{path}/deploy", {"name": f"v{number}"})
    send(studio, "POST", f"{path}/rollback", {"version": 2})
    first = ok(studio.get(f"{path}/versions?limit=3"))
    assert [item["version"] for item in first["items"]] == [5, 4, 3]
    rest = ok(studio.get(f"{path}/versions?limit=3&cursor={first['nextCursor']}"))
    assert [(item["version"], item["live"]) for item in rest["items"]] == [(2, True), (1, False)]
    assert "nextCursor" not in rest
    assert "document" not in rest["items"][0]
    assert_error(studio.get(f"{path}/versions?cursor=x"), 400, "validation_failed", path="cursor")
    assert_error(studio.get("/api/workflows/nobody/versions"), 404, "not_found")
    for wrong in ("6", "0", "x", "9" * 40):
        assert_error(studio.get(f"{path}/versions/{wrong}"), 404, "not_found")
    out = send(studio, "GET", f"{path}/versions/1", Accept="application/yaml")
    assert yaml.safe_load(out.get_data()) == GOOD


def test_the_difference_of_two_versions(studio: Studio) -> None:
    workflow = studio.deploy(GOOD)
    path = f"/api/workflows/{workflow}"
    later = document("scripted/thinker", settings={"timeout_s": 60}, system="Be brief.")
    later["blocks"].append({"id": "end", "type": "response", "config": {"body": "{{ blocks.agent_1 }}"}})
    later["edges"].append({"source": "agent_1", "target": "end"})
    later["name"] = "Later"
    send(studio, "PUT", path, later, match="*")
    body = ok(studio.get(f"{path}/diff"))
    end = later["blocks"][2]
    assert body == {
        "from": 1,
        "to": "draft",
        "same": False,
        "blocks": {
            "added": [{"id": "end", "type": "response", "path": "blocks[2]", "block": end}],
            "removed": [],
            "changed": [
                {
                    "id": "agent_1",
                    "type": "agent",
                    "name": "Agent 1",
                    "path": "blocks[1]",
                    "changes": [
                        {
                            "path": "blocks[1].config.model",
                            "change": "changed",
                            "from": "scripted/plain",
                            "to": "scripted/thinker",
                        },
                        {"path": "blocks[1].config.system", "change": "added", "to": "Be brief."},
                    ],
                }
            ],
            "reordered": False,
        },
        "edges": {
            "added": [{"path": "edges[1]", "edge": {"source": "agent_1", "target": "end"}}],
            "removed": [],
            "reordered": False,
        },
        "variables": [],
        "settings": [{"path": "settings.timeout_s", "change": "added", "to": 60}],
        "document": [{"path": "name", "change": "changed", "from": "One agent", "to": "Later"}],
    }
    ok(send(studio, "POST", f"{path}/deploy"), 201)
    between = ok(studio.get(f"{path}/diff?from=1&to=2"))
    assert {**between, "to": "draft"} == body
    back = ok(studio.get(f"{path}/diff?from=draft&to=1"))
    assert back["blocks"]["removed"] == body["blocks"]["added"]
    assert ok(studio.get(f"{path}/diff"))["same"]
    assert_error(studio.get(f"{path}/diff?from=3"), 404, "not_found")
    wrong = assert_error(studio.get(f"{path}/diff?from=x&to=0&of=1"), 400, "validation_failed")
    assert {detail["path"] for detail in wrong["details"]} == {"from", "to", "of"}


@pytest.mark.parametrize("action", ["deploy", "rollback"])
def test_bodies_are_strict(studio: Studio, action: str) -> None:
    workflow = studio.deploy(GOOD)
    answer = send(studio, "POST", f"/api/workflows/{workflow}/{action}", {"nme": "x", "version": "1"})
    assert_error(answer, 400, "validation_failed", path="nme")
    taken = send(studio, "DELETE", f"/api/workflows/{workflow}/deploy", {"x": 1})
    assert_error(taken, 400, "validation_failed", path="x")
    assert_error(send(studio, "POST", f"/api/workflows/nobody/{action}"), 404, "not_found")

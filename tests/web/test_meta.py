"""Health, capabilities, plugins."""

from __future__ import annotations

import app
from tests.web.conftest import Studio, assert_error


def test_health_is_open(studio: Studio) -> None:
    answer = studio.client.get("/api/health")
    assert answer.get_json() == {"status": "ok", "version": app.__version__, "draining": False}
    assert studio.client.head("/api/health").status_code == 200


def test_capabilities_are_the_registrys_rows(studio: Studio) -> None:
    rows = studio.client.get("/api/capabilities").get_json()["items"]
    families = {row["family"] for row in rows}
    assert {"anthropic", "openai-compatible", "scripted", "local"} <= families
    for row in rows:
        assert row["thinking"] in ("none", "hidden", "summary", "full", "as_sent")
        assert row["tools"] in ("none", "serial", "parallel")
        assert None not in row.values()
        assert "configured" not in row


def test_capabilities_can_be_narrowed(studio: Studio) -> None:
    get = studio.client.get
    scripted = get("/api/capabilities?family=scripted").get_json()["items"]
    assert {row["family"] for row in scripted} == {"scripted"}
    one = get("/api/capabilities?family=openai-compatible&model=any-name").get_json()["items"]
    assert [row["id"] for row in one] == ["openai-compatible/any-name"]
    assert get("/api/capabilities?family=scripted&model=nonesuch").get_json()["items"] == []
    assert_error(
        get("/api/capabilities?family=nonesuch"), 400, "validation_failed", path="family", says="scripted"
    )
    assert_error(get("/api/capabilities?fam=x"), 400, "validation_failed", path="fam")


def test_plugins_are_listed_with_what_they_contribute(studio: Studio) -> None:
    items = studio.get("/api/plugins").get_json()["items"]
    studio_row = next(item for item in items if item["name"] == "studio")
    assert "agent" in studio_row["contributes"]["block_types"]
    assert "error" not in studio_row

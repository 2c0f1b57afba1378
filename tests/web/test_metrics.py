"""``GET /metrics`` where it is off; where it is on, see test_observability_server.py."""

from __future__ import annotations

from tests.web.conftest import Studio, assert_error


def test_where_they_are_off_there_are_none(studio: Studio) -> None:
    answer = studio.client.get("/metrics", headers={"X-API-Key": studio.keys["admin"]})
    assert_error(answer, 404, "not_found", says="STUDIO_METRICS")


def test_an_empty_token_is_nobody_s(studio: Studio) -> None:
    for header in ("Bearer ", "Bearer", "bearer", ""):
        answer = studio.client.get("/metrics", headers={"Authorization": header})
        assert_error(answer, 401, "unauthorized")


def test_who_sends_nothing_or_a_wrong_token_is_told_of_tokens(studio: Studio) -> None:
    assert_error(studio.client.get("/metrics"), 401, "unauthorized", says="Authorization: Bearer")
    answer = studio.client.get("/metrics", headers={"Authorization": "Bearer nobody"})
    assert_error(answer, 401, "unauthorized", says="The key or token is unknown")

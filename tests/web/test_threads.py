"""``GET /api/threads``: conversations, newest first, to who may read them."""

from __future__ import annotations

import typing as t

from tests.web.conftest import Studio, assert_error, document
from tests.web.managing import ok

PATH = "/api/threads"


def talk(studio: Studio, workflow: str, name: str, key: str = "run") -> None:
    answer = studio.execute(workflow, {"input": "Hi", "conversationId": name}, key)
    assert ok(answer)["success"]


def names(studio: Studio, query: str = "", key: str = "read") -> list[str]:
    return [item["conversationId"] for item in ok(studio.get(PATH + query, key))["items"]]


def test_threads_are_listed_newest_first_and_filtered(studio: Studio) -> None:
    one, two = studio.deploy(document("scripted/plain")), studio.deploy(document("scripted/plain"))
    for workflow, name in ((one, "a"), (one, "b"), (two, "a"), (one, "c")):
        talk(studio, workflow, name)
    assert names(studio) == ["c", "a", "b", "a"]
    assert names(studio, f"?workflowId={one}") == ["c", "b", "a"]
    assert names(studio, f"?conversationId=a&workflowId={two}") == ["a"]
    assert names(studio, "?workflowId=nobody") == []
    first = ok(studio.get(f"{PATH}?limit=3"))
    rest = ok(studio.get(f"{PATH}?limit=3&cursor={first['nextCursor']}"))
    listed: list[dict[str, t.Any]] = [*first["items"], *rest["items"]]
    assert "nextCursor" not in rest
    assert [item["conversationId"] for item in listed] == ["c", "a", "b", "a"]
    assert listed[0] == ok(studio.get(f"{PATH}/{listed[0]['threadId']}"))
    assert (listed[0]["status"], listed[0]["runStatus"]) == ("idle", "completed")


def test_a_key_without_read_sees_its_own(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/plain"))
    _, other = studio.store.keys.create("other", ["run"])
    talk(studio, workflow, "mine")
    talk(studio, workflow, "theirs", other)
    assert names(studio, key="run") == ["mine"]
    assert names(studio, key=other) == ["theirs"]
    assert sorted(names(studio, key="read")) == ["mine", "theirs"]


def test_a_wrong_query_says_everything(studio: Studio) -> None:
    answer = studio.get(f"{PATH}?workflowId=&cursor=x&limit=0&status=idle")
    error = assert_error(answer, 400, "validation_failed")
    assert {detail["path"] for detail in error["details"]} == {"workflowId", "cursor", "limit", "status"}

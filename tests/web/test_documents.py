"""``/api/documents``: replaced only by who has seen them, listed page by page, found and cited exactly."""

from __future__ import annotations

import base64
import typing as t

import pytest

from app.store.documents import Draft
from tests.support import sse
from tests.web.conftest import Studio, assert_error

FOX = {"collection": "pages", "source": "fox.txt", "text": "The quick brown fox jumps over the lazy dog."}


def send(studio: Studio, body: t.Any, key: str = "admin", **headers: str) -> t.Any:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return studio.client.post("/api/documents", json=body, headers={"X-API-Key": studio.keys[key], **sent})


def delete(studio: Studio, document: str, **headers: str) -> t.Any:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return studio.client.delete(
        f"/api/documents/{document}", headers={"X-API-Key": studio.keys["admin"], **sent}
    )


def test_a_document_is_stored_shown_and_found(studio: Studio) -> None:
    answer = send(studio, {**FOX, "title": "Fox", "metadata": {"n": [1, None]}})
    assert answer.status_code == 201
    made = answer.get_json()
    assert answer.headers["Location"] == f"/api/documents/{made['id']}"
    shown = studio.get(f"/api/documents/{made['id']}")
    assert shown.headers["ETag"] == answer.headers["ETag"]
    assert shown.get_json() == {**made, "text": FOX["text"]}
    times = {name: made.pop(name) for name in ("createdAt", "updatedAt")}
    assert all(value.endswith("Z") for value in times.values())
    assert made == {
        "id": made["id"],
        "collection": "pages",
        "source": "fox.txt",
        "version": 1,
        "title": "Fox",
        "mediaType": "text/plain",
        "metadata": {"n": [1, None]},
        "characters": 44,
        "chunks": 1,
    }
    found = studio.get("/api/documents/search?collection=pages&query=Which+foxes%3F").get_json()
    score = found["items"][0].pop("score")
    assert score > 0
    assert found == {
        "items": [
            {
                "text": FOX["text"],
                "source": "fox.txt",
                "title": "Fox",
                "documentId": made["id"],
                "start": 0,
                "end": 44,
            }
        ]
    }


def test_who_has_a_document_gets_a_304(studio: Studio) -> None:
    made = send(studio, FOX)
    path = f"/api/documents/{made.get_json()['id']}"
    headers = {"X-API-Key": studio.keys["read"], "If-None-Match": made.headers["ETag"]}
    assert studio.client.get(path, headers=headers).status_code == 304
    send(studio, {**FOX, "text": "New."}, If_Match=made.headers["ETag"])
    assert studio.client.get(path, headers=headers).status_code == 200


def test_a_file_comes_as_bytes(studio: Studio) -> None:
    page = base64.b64encode(b"<title>A page</title><p>Hello &amp; <b>welcome</b>").decode()
    body = {"collection": "pages", "source": "p", "data": page, "mediaType": "text/html"}
    made = send(studio, body).get_json()
    assert (made["title"], made["mediaType"]) == ("A page", "text/html")
    assert studio.get(f"/api/documents/{made['id']}").get_json()["text"] == "Hello & welcome"


def test_only_who_has_seen_a_document_replaces_it(studio: Studio) -> None:
    made = send(studio, FOX)
    tag = made.headers["ETag"]
    assert_error(send(studio, FOX), 428, "precondition_required", says=tag.strip('"'))
    assert_error(send(studio, FOX, If_Match='"other"'), 412, "precondition_failed")
    again = send(studio, {**FOX, "text": "Owls."}, If_Match=tag)
    assert (again.status_code, again.get_json()["version"]) == (200, 2)
    assert again.get_json()["id"] == made.get_json()["id"]
    assert_error(send(studio, FOX, If_Match=tag), 412, "precondition_failed")
    assert send(studio, FOX, If_Match="*").get_json()["version"] == 3
    new = {**FOX, "source": "new"}
    assert_error(send(studio, new, If_Match="*"), 412, "precondition_failed")
    assert send(studio, new).status_code == 201


def test_only_who_has_seen_a_document_removes_it(studio: Studio) -> None:
    made = send(studio, FOX)
    name = made.get_json()["id"]
    assert_error(delete(studio, name), 428, "precondition_required")
    assert_error(delete(studio, name, If_Match='"x"'), 412, "precondition_failed")
    gone = delete(studio, name, If_Match=made.headers["ETag"])
    assert (gone.status_code, gone.get_data()) == (204, b"")
    assert_error(delete(studio, name, If_Match="*"), 404, "not_found")
    assert_error(studio.get(f"/api/documents/{name}"), 404, "not_found")
    # What comes under the same name later is another document.
    send(studio, FOX)
    assert_error(send(studio, FOX, If_Match=made.headers["ETag"]), 412, "precondition_failed")


def test_lists_go_on_page_by_page(studio: Studio) -> None:
    made = sorted(studio.store.documents.put("many", Draft(f"{n}", "x")).id for n in range(5))
    studio.store.documents.put("one", Draft("x", "one two"))

    def walk(path: str) -> list[t.Any]:
        found, cursor = [], ""
        while True:
            page = studio.get(f"{path}limit=2{cursor}").get_json()
            assert len(page["items"]) <= 2
            found += page["items"]
            if "nextCursor" not in page:
                return found
            cursor = f"&cursor={page['nextCursor']}"

    assert [item["id"] for item in walk("/api/documents?collection=many&")] == made
    names = [(item["name"], item["documents"]) for item in walk("/api/documents/collections?")]
    assert names == [("many", 5), ("one", 1)]
    [one] = studio.get("/api/documents?collection=many&source=3").get_json()["items"]
    assert one["source"] == "3"
    assert studio.get("/api/documents?collection=many&source=nope").get_json() == {"items": []}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"collection": "no/name"}, "collection"),
        ({"collection": ""}, "collection"),
        ({"collection": 5}, "collection"),
        ({"source": ""}, "source"),
        ({"source": "x" * 501}, "source"),
        ({"source": None}, "source"),
        ({"text": None}, "text"),
        ({"text": ["x"]}, "text"),
        ({"data": "aGk="}, "data"),
        ({"title": "t" * 501}, "title"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"x": "y" * 17_000}}, "metadata"),
        ({"mediaType": "image/png"}, "mediaType"),
        ({"mediaType": ""}, "mediaType"),
        ({"mediaType": "text/\0"}, "mediaType"),
        ({"mediaType": "text/plain\nx"}, "mediaType"),
        ({"mediaType": "application/json"}, "text"),
        ({"extra": 1}, "extra"),
    ],
    ids=str,
)
def test_bad_documents_are_refused_with_their_path(studio: Studio, change: t.Any, path: str) -> None:
    assert_error(send(studio, {**FOX, **change}), 400, "validation_failed", path=path)
    assert studio.store.documents.collections() == ([], None)


def test_base64_on_many_lines_is_taken_as_programs_write_it(studio: Studio) -> None:
    data = base64.encodebytes(b"many words " * 50).decode()
    assert data.count("\n") > 5
    made = send(studio, {"collection": "c", "source": "s", "data": data.replace("\n", "\r\n")}).get_json()
    assert studio.get(f"/api/documents/{made['id']}").get_json()["text"] == "many words " * 50


@pytest.mark.parametrize("data", ["%%%", "aGk", "é", "_-8=", "aGk=\0"])
def test_what_is_no_base64_is_refused(studio: Studio, data: str) -> None:
    body = {"collection": "c", "source": "s", "data": data}
    assert_error(send(studio, body), 400, "validation_failed", path="data")


def test_everything_wrong_is_told_at_once(studio: Studio) -> None:
    error = assert_error(send(studio, {"collection": "?", "extra": 1}), 400, "validation_failed")
    assert [d["path"] for d in error["details"]] == ["extra", "source", "text"]
    error = assert_error(send(studio, {"collection": "?", "source": "x" * 999}), 400, "validation_failed")
    assert {d["path"] for d in error["details"]} == {"collection", "source", "text"}


def test_a_body_over_the_limit_is_a_413(studio: Studio) -> None:
    assert_error(send(studio, {**FOX, "text": "x" * 11_000_000}), 413, "payload_too_large")


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("", "collection"),
        ("?collection=a b", "collection"),
        ("?collection=c&limit=0", "limit"),
        ("?collection=c&limit=101", "limit"),
        ("?collection=c&cursor=x", "cursor"),
        ("?collection=c&page=1", "page"),
        ("/search?collection=c", "query"),
        ("/search?query=x", "collection"),
        ("/search?collection=c&query=x&topK=51", "topK"),
        ("/search?collection=c&query=x&query=y", "query"),
        ("/collections?cursor=%3F", "cursor"),
    ],
)
def test_bad_queries_are_refused_with_their_path(studio: Studio, query: str, path: str) -> None:
    assert_error(studio.get(f"/api/documents{query}"), 400, "validation_failed", path=path)


@pytest.mark.parametrize("path", ["?collection=nope", "/search?collection=nope&query=x"])
def test_an_unknown_collection_is_a_404_that_names_those_there_are(studio: Studio, path: str) -> None:
    send(studio, FOX)
    answer = studio.get(f"/api/documents{path}")
    assert_error(answer, 404, "collection_unknown", says="there are pages")


@pytest.mark.parametrize("query", ["%00", '" OR *', "%F0%9F%A6%8A", "the", "", "%ED%A0%80", "NEAR(a b)"])
def test_any_query_is_answered(studio: Studio, query: str) -> None:
    send(studio, FOX)
    answer = studio.get(f"/api/documents/search?collection=pages&query={query}")
    assert answer.get_json() == {"items": []}


def test_a_text_with_what_no_database_takes_is_kept(studio: Studio) -> None:
    body = {**FOX, "source": "s\0", "text": "nul \0 fox", "title": "t\0", "metadata": {"k\0": "\0"}}
    made = send(studio, body).get_json()
    shown = studio.get(f"/api/documents/{made['id']}").get_json()
    assert shown["text"] == "nul \ufffd fox"
    assert shown["source"] == "s\ufffd"
    assert shown["metadata"] == {"k\0": "\0"}
    [found] = studio.get("/api/documents/search?collection=pages&query=fox").get_json()["items"]
    assert shown["text"][found["start"] : found["end"]] == found["text"]


RETRIEVE = {
    "name": "Ask",
    "blocks": [
        {"id": "start", "type": "start"},
        {"id": "find", "type": "retrieve", "config": {"collection": "pages"}},
    ],
    "edges": [{"source": "start", "target": "find"}],
}


def test_a_workflow_finds_them(studio: Studio) -> None:
    made = send(studio, FOX).get_json()
    done = studio.execute(studio.deploy(RETRIEVE), {"input": "What do foxes do?"}).get_json()
    assert done["success"] is True
    [cited] = done["output"]["citations"]
    assert (cited["documentId"], cited["start"], cited["end"]) == (made["id"], 0, 44)
    assert done["output"]["context"] == f"[1] fox.txt\n{FOX['text']}"


@pytest.mark.parametrize("there", [True, False])
def test_run_events_tell_of_the_search(studio: Studio, there: bool) -> None:
    if there:
        send(studio, FOX)
    answer = studio.client.post(
        f"/api/workflows/{studio.deploy(RETRIEVE)}/runs",
        json={"message": "foxes"},
        headers={"X-API-Key": studio.keys["run"]},
    )
    frames = [frame.json() for frame in sse.parse(answer.get_data()) if frame.comment is None]
    told = [frame for frame in frames if frame["data"].get("node_id") == "find"]
    names = ["workflow_node_start", "search_started", "search_finished", "workflow_node_end"]
    assert [frame["type"] for frame in told if frame["type"] in names] == names
    [searched] = [frame["data"] for frame in told if frame["type"] == "search_finished"]
    assert searched["success"] is there
    assert frames[-1]["data"]["status"] == ("completed" if there else "failed")

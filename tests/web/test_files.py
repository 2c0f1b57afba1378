"""``/api/files``: kept for who uploaded them, read by its runs, sent as downloads."""

from __future__ import annotations

import io
import typing as t

import pytest

from app.clock import SteppingClock
from app.web.http import MAX_BODY
from tests.web.conftest import Studio, assert_error, document
from tests.web.managing import ok, send

PATH = "/api/files"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(40))
PDF = b"%PDF-1.7\n1 0 obj\n<< /Type /Page >>\nendobj\n"


def upload(
    studio: Studio, data: bytes, kind: str = "text/plain", *, query: str = "?name=a.txt", key: str = "run"
) -> t.Any:
    """The bytes as the body."""
    headers = {"X-API-Key": studio.keys.get(key, key), "Content-Type": kind}
    return studio.client.post(f"{PATH}{query}", data=data, headers=headers)


def form(studio: Studio, parts: dict[str, t.Any], query: str = "") -> t.Any:
    """A form, as browsers and curl send it."""
    return studio.client.post(
        f"{PATH}{query}",
        data=parts,
        headers={"X-API-Key": studio.keys["run"]},
        content_type="multipart/form-data",
    )


def test_a_file_is_kept_and_comes_back_as_a_download(studio: Studio) -> None:
    answer = upload(studio, PNG, "application/octet-stream", query="?name=%C3%84%20%22b%22.png")
    body = ok(answer, 201)
    row = studio.store.keys.find(studio.keys["run"])
    assert row is not None
    assert (body["name"], body["mediaType"], body["size"], body["createdBy"]) == (
        'Ä "b".png',
        "image/png",
        len(PNG),
        row.id,
    )
    assert body["expiresAt"] > body["createdAt"]
    path = f"{PATH}/{body['id']}"
    assert answer.headers["Location"] == path
    assert ok(studio.get(path, "run")) == body
    out = studio.get(f"{path}/content", "run")
    assert (out.status_code, out.get_data(), out.content_type) == (200, PNG, "image/png")
    assert out.headers["X-Content-Type-Options"] == "nosniff"
    assert out.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    named = """attachment; filename="_ _b_.png"; filename*=UTF-8''%C3%84%20%22b%22.png"""
    assert out.headers["Content-Disposition"] == named
    again = send(studio, "GET", f"{path}/content", key="run", If_None_Match=out.headers["ETag"])
    assert (again.status_code, again.get_data()) == (304, b"")


def test_a_form_brings_one_file(studio: Studio) -> None:
    body = ok(form(studio, {"file": (io.BytesIO(PDF), "reports/q3.pdf")}), 201)
    assert (body["name"], body["mediaType"]) == ("q3.pdf", "application/pdf")
    assert_error(form(studio, {"other": (io.BytesIO(PDF), "a")}), 400, "validation_failed", path="other")
    assert_error(form(studio, {"file": "text"}), 400, "validation_failed", path="file")
    two = {"file": [(io.BytesIO(PDF), "a"), (io.BytesIO(PDF), "b")]}
    assert_error(form(studio, two), 400, "validation_failed", path="file")
    nameless = b"--x\r\nContent-Disposition: form-data\r\n\r\nHi\r\n--x--\r\n"
    assert_error(
        upload(studio, nameless, "multipart/form-data; boundary=x"), 400, "validation_failed", path=""
    )
    assert_error(upload(studio, b"--x\r\n", "multipart/form-data"), 400, "validation_failed")
    assert_error(upload(studio, b"--x", "multipart/form-data; boundary=x"), 400, "validation_failed")
    assert len(ok(studio.get(PATH, "run"))["items"]) == 1


@pytest.mark.parametrize(
    ("data", "kind", "stored"),
    [
        ("Grüße".encode(), "text/csv; charset=utf-8", "text/csv"),
        (b"<script>alert(1)</script>", "text/html", "text/html"),
        (b"\xff\xfe" + "Grüße".encode("utf-16-le"), "", "text/plain"),
        (b"{}", 'text/<"x">', "text/plain"),
        (b"a: 1", "application/x-www-form-urlencoded", "text/plain"),
    ],
)
def test_text_goes_out_as_plain_text(studio: Studio, data: bytes, kind: str, stored: str) -> None:
    body = ok(upload(studio, data, kind), 201)
    assert body["mediaType"] == stored
    out = studio.get(f"{PATH}/{body['id']}/content", "run")
    assert out.content_type == "text/plain; charset=utf-8"
    wanted = "Grüße" if "Gr" in out.get_data(as_text=True) else data.decode()
    assert out.get_data(as_text=True) == wanted


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b"", "text/plain", "is empty"),
        (b"\x7fELF" + bytes(9), "application/octet-stream", "neither an image"),
        (b"plain words", "application/pdf", "bytes are text"),
    ],
)
def test_what_nobody_could_use_is_refused(studio: Studio, data: bytes, kind: str, words: str) -> None:
    assert_error(upload(studio, data, kind), 415, "unsupported_media_type", says=words)


def test_sizes_are_bounded(studio: Studio) -> None:
    assert_error(upload(studio, b"x" * (MAX_BODY + 1)), 413, "payload_too_large")
    object.__setattr__(studio.app.extensions["studio"].settings, "files_mb", 1)
    first = ok(upload(studio, b"x" * 600_000), 201)
    full = assert_error(upload(studio, b"x" * 600_000), 409, "files_full")
    assert "600000 bytes" in full["message"]
    assert ok(upload(studio, b"x" * 600_000, key="admin"), 201), "each keeps its own"
    assert send(studio, "DELETE", f"{PATH}/{first['id']}", key="run").status_code == 204
    assert ok(upload(studio, b"x" * 600_000), 201)


def test_a_wrong_query_says_everything(studio: Studio) -> None:
    answer = upload(studio, b"x", query="?expiresInSeconds=5&nme=x&name=" + "n" * 300)
    error = assert_error(answer, 400, "validation_failed")
    assert {detail["path"] for detail in error["details"]} == {"expiresInSeconds", "nme", "name"}


def test_a_file_is_its_uploaders(studio: Studio) -> None:
    mine = ok(upload(studio, b"mine"), 201)["id"]
    _, other = studio.store.keys.create("other", ["run", "read"])
    theirs = ok(upload(studio, b"theirs", key=other), 201)["id"]
    assert [item["id"] for item in ok(studio.get(PATH, "run"))["items"]] == [mine]
    assert [item["id"] for item in ok(studio.get(PATH, other))["items"]] == [theirs]
    assert {item["id"] for item in ok(studio.get(PATH, "admin"))["items"]} == {mine, theirs}
    for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        foreign = send(studio, method, f"{PATH}/{theirs}{path}", key="run")
        unknown = send(studio, method, f"{PATH}/file_nobody{path}", key="run")
        said = assert_error(foreign, 404, "not_found"), assert_error(unknown, 404, "not_found")
        assert said[0]["message"].replace(theirs, "") == said[1]["message"].replace("file_nobody", "")
    assert studio.get(f"{PATH}/{theirs}/content", "admin").get_data() == b"theirs"
    assert_error(upload(studio, b"x", key="read"), 403, "forbidden")
    assert send(studio, "DELETE", f"{PATH}/{theirs}").status_code == 204
    assert_error(studio.get(f"{PATH}/{theirs}", other), 404, "not_found")


def shows_files() -> dict[str, t.Any]:
    """What the agent sees of files is in its answer."""
    return document("scripted/plain", prompt="{{ input.message }}", files="{{ input.files }}")


@pytest.mark.parametrize("surface", ["execute", "runs"])
def test_an_input_names_files_of_who_runs_it(studio: Studio, surface: str) -> None:
    workflow = studio.deploy(shows_files())
    path = f"/api/workflows/{workflow}/{surface}"
    mine = ok(upload(studio, b"mine"), 201)["id"]
    theirs = ok(upload(studio, b"theirs", key="admin"), 201)["id"]

    def run(*names: t.Any, key: str = "run") -> t.Any:
        given = {"message": "Hi", "files": [{"text": "a"}, *({"file": name} for name in names)]}
        return send(studio, "POST", path, {"input": given}, key=key)

    assert run(mine).status_code == 200
    assert run(theirs, key="admin").status_code == 200
    refused = assert_error(run(mine, theirs, "file_nobody"), 400, "validation_failed")
    assert [detail["path"] for detail in refused["details"]] == [
        "input.files[2].file",
        "input.files[3].file",
    ]
    assert refused["details"][0]["message"] == refused["details"][1]["message"]
    assert_error(run(mine, key="admin"), 400, "validation_failed", path="input.files[1].file")


def test_an_input_names_a_bounded_number_of_files(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/plain"))
    mine = ok(upload(studio, b"text"), 201)["id"]
    path = f"/api/workflows/{workflow}/execute"
    ok(send(studio, "POST", path, {"input": {"files": [{"file": mine}] * 100}}, key="run"))
    answer = send(studio, "POST", path, {"input": {"files": [{"file": mine}] * 101}}, key="run")
    assert_error(answer, 400, "validation_failed", path="input.files")


def test_nobody_in_particular_reaches_no_files(studio: Studio) -> None:
    workflow = studio.deploy({**shows_files(), "settings": {"public": True}})
    mine = ok(upload(studio, b"mine"), 201)["id"]
    answer = studio.execute(workflow, {"input": {"files": [{"file": mine}]}}, key=None)
    assert_error(answer, 400, "validation_failed", path="input.files[0].file")


def test_a_file_that_goes_before_it_is_read_fails_the_run(studio: Studio) -> None:
    other = ok(upload(studio, b"theirs", key="admin"), 201)["id"]
    named = document("scripted/plain", prompt="{{ input.message }}", files=[{"file": "{{ input.which }}"}])
    workflow = studio.deploy(named)
    mine = ok(upload(studio, b"mine"), 201)["id"]
    assert ok(studio.execute(workflow, {"input": {"which": mine}}))["success"]
    for name in (other, "file_nobody"):
        failed = ok(studio.execute(workflow, {"input": {"which": name}}))
        assert failed["error"]["code"] == "files_invalid"
        assert "not there for who started this run" in failed["error"]["message"]


def test_files_end(studio: Studio) -> None:
    clock = SteppingClock(start_ms=studio.app.extensions["studio"].clock.now_ms(), step_ms=0)
    studio.store.files._clock = clock
    short = ok(upload(studio, b"short", query="?expiresInSeconds=60"), 201)["id"]
    long = ok(upload(studio, b"long", query="?expiresInSeconds=315360000"), 201)
    assert long["expiresAt"][:4] == ok(upload(studio, b"default"), 201)["expiresAt"][:4]
    clock.sleep(59)
    assert ok(studio.get(f"{PATH}/{short}", "run"))
    assert studio.store.files.sweep() == 0
    clock.sleep(2)
    assert_error(studio.get(f"{PATH}/{short}", "run"), 404, "not_found")
    assert_error(studio.get(f"{PATH}/{short}/content", "run"), 404, "not_found")
    assert short not in studio.get(PATH, "run").get_data(as_text=True)
    studio.app.extensions["studio"].runs._sweep_kept()
    assert studio.store.files.sweep() == 0
    assert studio.store.files.read(short) is None
    assert studio.store.files.read(long["id"]) == b"long"


def test_changes_are_in_the_audit_log(studio: Studio) -> None:
    name = ok(upload(studio, b"some words"), 201)["id"]
    send(studio, "DELETE", f"{PATH}/{name}", key="run")
    answer = studio.get(f"/api/audit?subject=file:{name}", "admin")
    assert [(row["action"], row.get("details")) for row in ok(answer)["items"]] == [
        ("file.delete", None),
        ("file.upload", {"mediaType": "text/plain", "size": 10}),
    ]

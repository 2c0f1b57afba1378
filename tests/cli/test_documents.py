"""``studio documents``, as processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers import Studio
from tests.support.shared import ROOT


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text("hidden")
    (folder / "leave.md").write_text("# Leave\n\nEvery employee has 30 days of holidays.\n")
    (folder / "travel.html").write_text("<title>Travel</title><p>Trains are booked in first class.")
    return folder


def test_documents_are_added_listed_found_replaced_and_removed(studio: Studio, pages: Path) -> None:
    added = studio.cli("documents", "add", "handbook", str(pages)).splitlines()
    leave, travel = (str(pages / name) for name in ("leave.md", "travel.html"))
    assert [line.split("\t")[1:] for line in added] == [[leave, "1"], [travel, "1"]]
    assert studio.cli("documents", "list").startswith("handbook\t2\t2\t")
    listed = [line.split("\t") for line in studio.cli("documents", "list", "handbook").splitlines()]
    assert [row[:4] for row in listed] == [
        [added[0].split("\t")[0], leave, "Leave", "1"],
        [added[1].split("\t")[0], travel, "Travel", "1"],
    ]
    score, where, text = (
        studio.cli("documents", "search", "handbook", "which trains?").rstrip("\n").split("\t")
    )
    assert float(score) > 0
    assert (where, text) == (f"{travel}:0-33", "Trains are booked in first class.")
    (pages / "leave.md").write_text("Everybody has holidays.")
    again = studio.cli("documents", "add", "handbook", leave, "--title", "Mine").split("\t")
    assert again[0] == listed[0][0]
    assert studio.cli("documents", "show", again[0]) == "Everybody has holidays."
    assert "\tMine\t" in studio.cli("documents", "list", "handbook")
    assert studio.cli("documents", "remove", travel, "--collection", "handbook") == ""
    assert studio.cli("documents", "search", "handbook", "trains") == ""
    assert studio.cli("documents", "list").startswith("handbook\t1\t1\t")


def test_files_that_cannot_be_read_are_named_and_the_others_added(studio: Studio, pages: Path) -> None:
    (pages / "a.pdf").write_bytes(b"%PDF-1.7")
    (pages / "b.bin").write_bytes(b"\xff\xfe\xfd")
    done = studio.run_cli("documents", "add", "handbook", str(pages))
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 2
    assert f"{pages / 'a.pdf'}: it is a PDF, not text. Convert it first" in done.stderr
    assert f"{pages / 'b.bin'}: it is no text" in done.stderr


def test_what_never_ends_is_read_no_further_than_a_text_may_go(studio: Studio, pages: Path) -> None:
    done = studio.run_cli("documents", "add", "handbook", "/dev/zero", str(pages))
    assert done.returncode == 2
    assert "/dev/zero: its text has over 20 million characters" in done.stderr
    assert len(done.stdout.splitlines()) == 2


def test_a_workflow_that_searches_what_is_not_there_yet_is_imported_with_a_warning(
    studio: Studio, pages: Path
) -> None:
    example = str(ROOT / "examples" / "retrieve.yaml")
    done = studio.run_cli("workflow", "import", example)
    assert done.returncode == 0
    assert "warning: blocks[1].config.collection: There is no collection 'handbook'" in done.stderr
    studio.cli("documents", "add", "handbook", str(pages))
    assert studio.run_cli("workflow", "import", example).stderr == ""


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("add", "c"), "FILES"),
        (("add", "no/name", "x"), "COLLECTION"),
        (("add", "c", "/no/such/file"), "/no/such/file"),
        (("list", "nope"), "no collection 'nope'; there is none yet"),
        (("search", "nope", "x"), "no collection 'nope'"),
        (("show", "doc_x"), "no document 'doc_x'"),
        (("remove", "x", "--collection", "c"), "no document 'x' in 'c'"),
        (("search", "c", "x", "--top", "0"), "--top"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_bad_commands_end_with_2(studio: Studio, args: tuple[str, ...], says: str) -> None:
    done = studio.run_cli("documents", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr

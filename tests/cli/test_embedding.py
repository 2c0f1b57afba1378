"""``studio documents embed`` and its kin, as processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers import Studio

SCRIPTED = "scripted/bag-of-words"


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "leave.md").write_text("# Leave\n\nEvery employee has 30 days of holidays.\n")
    (folder / "travel.md").write_text("Trains are booked in first class.\n")
    return folder


def where(studio: Studio, query: str) -> list[str]:
    """The names of the files that a search by vectors finds, best first."""
    lines = studio.cli("documents", "search", "handbook", query, "--vectors").splitlines()
    return [Path(line.split("\t")[1].rpartition(":")[0]).name for line in lines]


def test_vectors_are_made_as_documents_are_added(studio: Studio, pages: Path) -> None:
    done = studio.run_cli("documents", "add", "handbook", str(pages / "leave.md"), "--embed", SCRIPTED)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert done.stderr.startswith(f"1 vectors by {SCRIPTED}, ")
    assert done.stderr.endswith(" tokens, $0.0000\n")
    done = studio.run_cli("documents", "add", "handbook", str(pages / "travel.md"))
    assert done.stderr.startswith("1 vectors by ")
    assert where(studio, "how are trains booked?") == ["travel.md", "leave.md"]
    assert studio.run_cli("documents", "embed", "handbook", SCRIPTED).stderr == ""
    assert studio.run_cli("documents", "embed", "--again", "handbook", SCRIPTED).stderr.startswith(
        "2 vectors"
    )


def test_vectors_are_made_afterwards(studio: Studio, pages: Path) -> None:
    studio.cli("documents", "add", "handbook", str(pages))
    done = studio.run_cli("documents", "search", "handbook", "trains", "--vectors")
    assert done.returncode == 1
    assert "studio documents embed handbook" in done.stderr
    studio.cli("documents", "embed", "handbook", SCRIPTED)
    assert where(studio, "employees on holidays") == ["leave.md", "travel.md"]


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("anthropic/claude-sonnet-5", "makes no embeddings"),
        ("openai/text-embedding-3-small", "OPENAI_API_KEY"),
        ("bag-of-words", "<family>/<model>"),
    ],
)
def test_a_model_that_cannot_be_used_stores_nothing(
    studio: Studio, pages: Path, model: str, says: str
) -> None:
    done = studio.run_cli("documents", "add", "handbook", str(pages), "--embed", model)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert studio.cli("documents", "list") == ""


def test_another_model_than_the_collections_is_refused(studio: Studio, pages: Path) -> None:
    studio.cli("documents", "add", "handbook", str(pages), "--embed", SCRIPTED)
    done = studio.run_cli("documents", "add", "handbook", str(pages), "--embed", "ollama/nomic-embed-text")
    assert done.returncode == 1
    assert f"has vectors of {SCRIPTED}" in done.stderr


def test_a_vendor_that_fails_leaves_the_documents(studio: Studio, pages: Path) -> None:
    done = studio.run_cli(
        "documents", "add", "handbook", str(pages), "--embed", "ollama/m",
        environ={"OLLAMA_API_BASE": "http://127.0.0.1:9", "STUDIO_MODEL_RETRIES": "0"},
    )  # fmt: skip
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    assert "studio documents embed handbook ollama/m" in done.stderr
    assert studio.cli("documents", "list").startswith("handbook\t2\t2\t")

"""``studio new-plugin`` writes a package that passes the kit and its own tests, or nothing at all."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from plugins.scaffold import Refused, scaffold
from tests.support.environments import fresh
from tests.support.servers import studio


@pytest.mark.slow
def test_what_it_writes_installs_conforms_and_passes_its_tests(tmp_path: Path) -> None:
    environment = fresh(tmp_path / "environment")
    with studio(tmp_path / "data", python=environment.python, start=False) as made:
        told = made.cli("new-plugin", "nimbus-labs", "--into", str(tmp_path))
        folder = tmp_path / "studio-nimbus-labs"
        assert str(folder) in told
        assert not [path for path in folder.rglob("*") if path.is_file() and b"@" in _words(path)]
        environment.install(folder)
        assert "nimbus-labs\t0.1.0\tprovider_families: nimbus-labs; tools: nimbus_labs_words" in made.cli(
            "plugins"
        )
        done = made.run_cli("conformance", "--plugin", "nimbus-labs")
        assert (done.returncode, done.stderr) == (0, "")
        assert "nimbus-labs/nimbus-labs-1 over openai_chat: conforms" in done.stdout
        again = made.run_cli("new-plugin", "nimbus-labs", "--into", str(tmp_path))
        assert again.returncode == 2
    tests = subprocess.run(
        [environment.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "setup.cfg"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert "3 passed" in tests.stdout, tests.stdout + tests.stderr


def _words(path: Path) -> bytes:
    """A file without the one place where an at sign belongs: decorators."""
    return path.read_bytes().replace(b"@hookimpl", b"")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a",
        "Acme",
        "acme_x",
        "-acme",
        "acme-",
        "ac--me",
        "9acme",
        "a" * 41,
        "../acme",
        "acme labs",
        "json",
        "class",
    ],
)
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match=r"choose another|cannot be a name"):
        scaffold(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_id_of_a_family_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="has a family"):
        scaffold("acme", tmp_path, frozenset({"acme"}))
    with pytest.raises(Refused, match=r'has a family "acme\.labs"'):  # its variables would be the same
        scaffold("acme-labs", tmp_path, frozenset({"acme.labs"}))


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "studio-acme"
    mine.mkdir()
    (mine / "notes").write_text("mine")
    with pytest.raises(Refused, match="exists already"):
        scaffold("acme", tmp_path)
    assert [path.name for path in mine.iterdir()] == ["notes"]
    with pytest.raises(Refused, match="no folder"):
        scaffold("acme", tmp_path / "nowhere")

"""``studio serve``: the first start, later ones, and what stops a start."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import servers, sse
from tests.support.servers import Studio
from tests.support.shared import ROOT


def test_a_first_start_prints_a_key_and_a_line_that_works_a_second_prints_neither_key(tmp_path: Path) -> None:
    studio = Studio(tmp_path / "data", {"STUDIO_MAX_STEAMS": "3"}, forked=False)
    studio.data.mkdir()
    try:
        studio.start()
        first = studio.log.read_text()
        key = re.search(r"^  (sk-studio-\S+)$", first, re.MULTILINE)
        assert key is not None
        link = re.search(rf"^  http://127\.0\.0\.1:{studio.port}(/setup/\S+)$", first, re.MULTILINE)
        assert link is not None
        assert sse.request(studio.port, "GET", link[1])[0] == 200
        assert "STUDIO_MAX_STEAMS is no setting of Studio; did you mean STUDIO_MAX_STREAMS?" in first
        line = next(text for text in first.splitlines() if text.strip().startswith("curl "))
        words = shlex.split(line)
        assert f"X-API-Key: {key[1]}" in words
        assert f"http://127.0.0.1:{studio.port}/api/workflows/hello-local/execute" in words
        headers = dict(
            word.split(": ", 1) for word, flag in zip(words[1:], words, strict=False) if flag == "-H"
        )
        body = words[words.index("-d") + 1]
        path = "/api/workflows/tour/execute"  # the same line with the other example: it needs no model
        status, answered, data = sse.request(studio.port, "POST", path, body.encode(), headers)
        assert status == 200
        assert answered["X-Studio-Stream-Protocol"] == "agent-events-v1"
        assert data.rstrip().endswith(b'data: "[DONE]"')
        assert studio.stop() == 0
        studio.log.unlink()
        studio.start()
        second = studio.log.read_text()
        assert "sk-studio-" not in second
        assert "/setup/" not in second
        assert "X-API-Key: $STUDIO_API_KEY" in second
        listed = studio.cli("key", "list")
        assert "\towner\tadmin,read,run\t" in listed
        assert {row.split("\t")[0] for row in studio.cli("workflow", "list").splitlines()} == {
            "hello-local",
            "tour",
        }
    finally:
        studio.stop()


def test_variables_of_families_are_judged_before_the_start(tmp_path: Path) -> None:
    environ = {
        "STUDIO_GROK_API_BASE": "http://127.0.0.1:9",
        "STUDIO_GROQ_API_KEY": "x",
        "STUDIO_GROQ_MAX_CONCURRENCY": "abc",
    }
    refused = Studio(tmp_path / "data", environ).run_cli("serve")
    assert refused.returncode != 0
    assert (
        "STUDIO_GROK_API_BASE is no setting of Studio; did you mean STUDIO_GROQ_API_BASE?" in refused.stderr
    )
    assert refused.stderr.count("is no setting") == 1
    assert "is no whole number; give one from 1, or 0 for no limit" in refused.stderr


def test_the_key_is_nowhere_in_the_folder(served: Studio) -> None:
    key = served.key.encode()
    found = [path for path in served.data.rglob("*") if path.is_file() and key in path.read_bytes()]
    assert found == []


def test_a_port_that_is_taken_is_named(studio: Studio) -> None:
    with socket.create_server(("127.0.0.1", studio.port)):
        done = studio.run_cli("serve")
    assert done.returncode == 1
    assert str(studio.port) in done.stderr
    assert "PORT" in done.stderr
    assert "Traceback" not in done.stderr


def test_port_zero_is_a_free_one(tmp_path: Path) -> None:
    studio = Studio(tmp_path / "data", port=0)
    studio.data.mkdir()
    with studio.log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", servers._MAIN, "serve"], cwd=ROOT, env=studio.env(), stdout=out, stderr=out
        )
    try:
        port = servers.wait_until(
            lambda: (
                (m := re.search(r"^Studio on http://127.0.0.1:(\d+)", studio.log.read_text(), re.M))
                and int(m[1])
            ),
            "the address is printed",
        )
        studio.port, studio.process = port, process
        servers.wait_until(studio._healthy, "the server answers", 30)
    finally:
        servers.end(process)


@pytest.mark.parametrize("name", ["plugins", "providers"])
def test_a_package_that_shadows_ours_is_named(tmp_path: Path, name: str) -> None:
    shadow = tmp_path / "shadow"
    (shadow / name).mkdir(parents=True)
    (shadow / name / "__init__.py").touch()
    code = "from app import check_rooms; check_rooms()"
    path = os.pathsep.join((str(shadow), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert str(shadow / name) in done.stderr


def test_starting_imports_no_vendor_sdk_and_no_database_before_the_fork(tmp_path: Path) -> None:
    code = (
        "import app.cli, sys; "
        "print([m for m in ('litellm', 'openai', 'anthropic', 'httpx', 'pydantic', 'langgraph', 'sqlalchemy') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_migrate_makes_the_database(studio: Studio) -> None:
    assert studio.run_cli("migrate").returncode == 0
    assert (studio.data / "studio.db").exists()
    assert studio.run_cli("migrate").returncode == 0

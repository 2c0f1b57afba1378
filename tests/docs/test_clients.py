"""The clients of "Consuming the stream", run exactly as the page prints them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import sse
from tests.support.servers import Studio, studio
from tests.support.shared import ROOT

PAGE = ROOT / "docs" / "consuming-the-stream.md"
FENCE = re.compile(r"^```(\w+)\n(?://|#) (client\.\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CLIENTS = {name: body for _, name, body in FENCE.findall(PAGE.read_text())}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    with studio(tmp_path_factory.mktemp("studio")) as made:
        yield made


def run(name: str, folder: Path, server: Studio, key: str) -> subprocess.CompletedProcess[str]:
    """Save the page's client under its own name and start it the way the page says."""
    if name.endswith(".mjs"):
        node = shutil.which("node")
        if node is None:
            pytest.skip("no node here (Debian: apt install nodejs)")
        command = [node, name]
    else:
        command = [sys.executable, name]
    (folder / name).write_text(CLIENTS[name])
    env = {**os.environ, "STUDIO_URL": f"http://127.0.0.1:{server.port}", "STUDIO_API_KEY": key}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=200, check=False
    )


def test_the_page_has_both_clients() -> None:
    assert sorted(CLIENTS) == ["client.mjs", "client.py"]


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_the_answer_that_stands_is_the_one_that_is_stored(name: str, tmp_path: Path, server: Studio) -> None:
    done = run(name, tmp_path, server, server.key)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stderr.splitlines()
    run_id = first.removeprefix("run ")
    frames = [json.loads(line) for line in lines]
    events = [frame.get("event", "chunk") for frame in frames]
    assert "chunk_reset" in events, "the tour retracts its preamble"
    assert events.count("tool") == 4
    assert "thinking" in events
    assert events[-1] == "final"
    status, _, body = sse.request(
        server.port, "GET", f"/api/runs/{run_id}", headers={"X-API-Key": server.key}
    )
    assert status == 200
    assert done.stdout == json.loads(body)["output"]["content"]
    assert "Show me." in done.stdout


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_a_refusal_is_told(name: str, tmp_path: Path, server: Studio) -> None:
    done = run(name, tmp_path, server, "sk-nobody")
    assert done.returncode == 1
    assert done.stderr.startswith("unauthorized: ")
    assert done.stdout == ""

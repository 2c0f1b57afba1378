"""The lines of "Management API", run one after another exactly as they are printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.servers import studio
from tests.support.shared import ROOT

PAGE = ROOT / "docs" / "management-api.md"
LINES = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
END = "\n---\n"


def answers(port: int, key: str, folder: Path) -> list[str]:
    """What each command of the page prints."""
    (folder / "examples").symlink_to(ROOT / "examples")
    commands = [part for block in LINES.findall(PAGE.read_text()) for part in block.strip().split("\n\n")]
    script = "set -e\n" + "\n".join(f"{command}\nprintf '{END}'" for command in commands)
    done = subprocess.run(
        ["bash", "-c", script.replace("http://127.0.0.1:8000", f"http://127.0.0.1:{port}")],
        cwd=folder,
        env={**os.environ, "STUDIO_API_KEY": key},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(END)[:-1]


def test_the_printed_lines_do_what_the_page_says(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl here (Debian: apt install curl)")
    with studio(tmp_path / "data") as server:
        said = answers(server.port, server.key, tmp_path)
    made, yaml, judged, kept, patched, deployed, versions, _, diff, again, back, gone, key, file, log = said
    assert json.loads(made)["id"] == "support"
    assert json.loads(made)["problems"] == []
    assert yaml == server.cli("workflow", "export", "tour")
    assert [p["path"] for p in json.loads(judged)["problems"]] == [
        "blocks[0].config.model",
        "edges[0].target",
    ]
    assert (kept, gone) == ("", "")
    assert json.loads(patched)["document"]["variables"] == {"greeting": "hello"}
    version = json.loads(deployed)["version"]
    assert (version["version"], version["name"], version["live"]) == (1, "first", True)
    assert [item["description"] for item in json.loads(versions)["items"]] == ["With a greeting."]
    assert json.loads(diff)["variables"] == [
        {"path": "variables.greeting", "change": "changed", "from": "hello", "to": "good morning"}
    ]
    assert json.loads(diff)["blocks"] == {"added": [], "removed": [], "changed": [], "reordered": False}
    assert (json.loads(again)["liveVersion"], json.loads(back)["liveVersion"]) == (2, 1)
    assert json.loads(key)["key"].startswith("sk-studio-")
    assert json.loads(file)["name"] == "tour.yaml"
    actions = [row["action"].partition(".")[2] for row in json.loads(log)["items"]]
    assert actions == ["delete", "rollback", "deploy", "update", "deploy", "update", "create"]

"""The lines of "Management API", run one after another exactly as they are printed."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support import printed
from tests.support.servers import Studio, studio
from tests.support.shared import ROOT

PAGE = ROOT / "docs" / "management-api.md"
END = "\n---\n"


def answers(server: Studio, folder: Path) -> list[str]:
    """What each command of the page prints."""
    (folder / "examples").symlink_to(ROOT / "examples")
    commands = [
        part for block in printed.SHELL.findall(PAGE.read_text()) for part in block.strip().split("\n\n")
    ]
    script = "\n".join(f"{command}\nprintf '{END}'" for command in commands)
    return printed.run(script, server, folder).split(END)[:-1]


def test_the_printed_lines_do_what_the_page_says(tmp_path: Path) -> None:
    printed.need_curl()
    with studio(tmp_path / "data") as server:
        said = answers(server, tmp_path)
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

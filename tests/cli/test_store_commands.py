"""``studio workflow`` and ``studio key``, as processes: what they print where, and how they end."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from tests.support.servers import Studio, free_port
from tests.support.shared import ROOT
from tests.web.conftest import document

TOUR = str(ROOT / "examples" / "tour.yaml")


def test_a_key_is_the_only_thing_printed(studio: Studio) -> None:
    done = studio.run_cli("key", "create", "--name", "one")
    assert done.returncode == 0
    assert done.stderr == ""
    key = done.stdout.removesuffix("\n")
    assert key.split() == [key]
    listed = studio.cli("key", "list")
    assert key not in listed
    assert "\tone\trun\t" in listed
    assert studio.run_cli("key", "revoke", key[:14]).returncode == 0
    assert "revoked" in studio.cli("key", "list")
    assert studio.run_cli("key", "revoke", key[:14]).returncode == 0
    assert studio.cli("audit", "--action", "key.revoke").count("\n") == 1, "the second time changed nothing"


def test_commands_that_begin_at_once_find_one_database(tmp_path: Path) -> None:
    """Whoever comes first makes it, and the others wait until it is there."""
    for number in range(3):
        studio = Studio(tmp_path / str(number))
        studio.data.mkdir()
        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(studio.run_cli, ["key"] * 4, ["list"] * 4))
        assert [(each.returncode, each.stderr) for each in done] == [(0, "")] * 4


def test_a_name_cannot_draw_on_the_terminal(studio: Studio, tmp_path: Path) -> None:
    name = "one\nsk-studio-false\t\x1b[2J\x9b1m\u202e"
    shown = "one\\nsk-studio-false\\t\\x1b[2J\\x9b1m\\u202e"
    refused = studio.run_cli("key", "create", "--name", name)
    assert (refused.returncode, refused.stdout) == (2, "")
    file = tmp_path / "w.json"
    file.write_text(json.dumps({**document("scripted/tour"), "name": name}))
    workflow = studio.cli("workflow", "import", str(file)).strip()
    listed = studio.cli("workflow", "list")
    assert (listed.count("\n"), listed.split("\t")[:2]) == (1, [workflow, shown])
    assert f"name     {shown}\n" in studio.cli("workflow", "show", workflow)
    audited = studio.cli("audit")
    assert (audited.count("\n"), audited.count("\t")) == (1, 4)
    assert not set("\x1b\x9b\u202e") & set(audited)


@pytest.mark.parametrize(
    "args",
    [("create",), ("create", "--name", "x", "--scopes", "run,all"), ("revoke", "nobody")],
    ids=" ".join,
)
def test_bad_key_commands_end_with_2(studio: Studio, args: tuple[str, ...]) -> None:
    done = studio.run_cli("key", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


def test_import_prints_only_the_id_and_export_gives_the_document_back(studio: Studio, tmp_path: Path) -> None:
    done = studio.run_cli("workflow", "import", TOUR)
    assert done.returncode == 0
    workflow = done.stdout.strip()
    assert done.stdout == f"{workflow}\n"
    assert workflow.startswith("wf_")
    exported = studio.cli("workflow", "export", workflow)
    assert yaml.safe_load(exported) == yaml.safe_load(Path(TOUR).read_text())
    again = tmp_path / "again.yaml"
    again.write_text(exported)
    assert studio.run_cli("workflow", "validate", str(again)).returncode == 0


def test_import_under_an_id_replaces_the_draft_and_keeps_versions(studio: Studio, tmp_path: Path) -> None:
    first, second = tmp_path / "1.yaml", tmp_path / "2.yaml"
    first.write_text(yaml.safe_dump(document("scripted/echo")))
    second.write_text(yaml.safe_dump({**document("scripted/tour"), "name": "Second"}))
    assert studio.cli("workflow", "import", str(first), "--id", "mine", "--deploy") == "mine\n"
    assert studio.cli("workflow", "import", str(second), "--id", "mine") == "mine\n"
    shown = studio.cli("workflow", "show", "mine")
    assert "live     version 1" in shown
    assert "scripted/tour" in shown
    assert "scripted/echo" in studio.cli("workflow", "export", "mine", "--version", "1")
    assert studio.cli("workflow", "list").startswith("mine\tSecond\t1\t")


def test_every_problem_is_listed_on_stderr(studio: Studio, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    broken = document("nonesuch/model")
    broken["blocks"].append({"id": "x", "type": "nothing"})
    broken["edges"].append({"source": "agent_1", "target": "ghost"})
    bad.write_text(yaml.safe_dump(broken))
    for command in ("import", "validate"):
        done = studio.run_cli("workflow", command, str(bad))
        assert (done.returncode, done.stdout) == (2, "")
        for path in ("blocks[1].config.model: ", "blocks[2].type: ", "edges[1].target: "):
            assert path in done.stderr
    assert studio.cli("workflow", "list") == ""


@pytest.mark.parametrize("text", ["{", "- a\n- b\n", "a: [", "\x00"])
def test_what_is_no_document_ends_with_2(studio: Studio, tmp_path: Path, text: str) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(text)
    done = studio.run_cli("workflow", "validate", str(bad))
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_a_document_comes_by_standard_input(studio: Studio) -> None:
    done = studio.run_cli("workflow", "import", "-", stdin=Path(TOUR).read_text())
    assert done.returncode == 0


@pytest.mark.parametrize(
    "args",
    [
        ("validate", "/no/such/file.yaml"),
        ("show", "nope"),
        ("export", "nope"),
        ("import", TOUR, "--id", "not an id"),
        ("import", TOUR, "--id", "validate"),
        ("nonsense",),
    ],
    ids=" ".join,
)
def test_bad_workflow_commands_end_with_2(studio: Studio, args: tuple[str, ...]) -> None:
    done = studio.run_cli("workflow", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_an_unusable_setting_is_named(studio: Studio) -> None:
    studio.environ = {"STUDIO_WORKERS": "many"}
    done = studio.run_cli("key", "list")
    assert done.returncode == 2
    assert "STUDIO_WORKERS" in done.stderr


def test_plugins_and_capabilities(studio: Studio) -> None:
    assert studio.cli("plugins").startswith("studio\t")
    head, *rows = studio.cli("capabilities", "--family", "scripted").splitlines()
    assert head.split("\t")[:3] == ["MODEL", "THINKING", "LEVELS"]
    assert any(row.startswith("scripted/tour\t") for row in rows)
    assert studio.run_cli("capabilities", "--family", "nope").returncode == 2


def test_capabilities_can_be_narrowed_sorted_and_sourced(studio: Studio) -> None:
    filters = ("--search", "claude opus", "--thinking", "summary", "--input", "image")
    rows = json.loads(studio.cli("capabilities", "--json", "--sort", "-price", *filters))
    assert rows
    assert all("opus" in row["id"] and row["thinking"] == "summary" for row in rows)
    prices = [row["price"]["input"] for row in rows if row["price"]]
    assert prices == sorted(prices, reverse=True)
    shown = studio.cli("capabilities", "--model", "anthropic/claude-sonnet-4-5", "--sources")
    row = next(row for row in rows if row["family"] == "anthropic")
    assert row["source"] in shown
    assert studio.run_cli("capabilities", "--thinking", "loud").returncode == 2


class ModelServer(BaseHTTPRequestHandler):
    """Says that it has two models."""

    def do_GET(self) -> None:
        body = json.dumps({"object": "list", "data": [{"id": "qwen3"}, {"id": "acme/tuned"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def model_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), ModelServer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(5)


def test_a_server_is_asked_what_it_has_and_its_silence_is_told(studio: Studio, model_server: str) -> None:
    there = dataclasses.replace(studio, environ={"STUDIO_VLLM_API_BASE": model_server})
    rows = json.loads(there.cli("capabilities", "--family", "vllm", "--json"))
    assert [row["id"] for row in rows] == ["vllm/acme/tuned", "vllm/qwen3"]
    nowhere = f"http://127.0.0.1:{free_port()}"
    gone = dataclasses.replace(studio, environ={"STUDIO_VLLM_API_BASE": nowhere})
    done = gone.run_cli("capabilities", "--family", "vllm")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].startswith("vllm/*\t")
    assert "vllm did not say what it has: " in done.stderr
    assert nowhere not in done.stderr, "an address may hold a password"
    off = dataclasses.replace(
        studio, environ={"STUDIO_VLLM_API_BASE": model_server, "STUDIO_LIST_MODELS": "off"}
    )
    assert [row["id"] for row in json.loads(off.cli("capabilities", "--family", "vllm", "--json"))] == [
        "vllm/*"
    ]


def calling(workflow: str) -> str:
    """A document that runs another workflow, as YAML."""
    blocks = [
        {"id": "start", "type": "start"},
        {"id": "sub", "type": "workflow", "config": {"workflow": workflow}},
    ]
    return yaml.safe_dump(
        {"name": "Caller", "blocks": blocks, "edges": [{"source": "start", "target": "sub"}]}
    )


def test_the_workflows_a_document_runs_are_looked_for(studio: Studio, tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner.yaml", tmp_path / "outer.yaml"
    inner.write_text(yaml.safe_dump(document("scripted/echo")))
    outer.write_text(calling("inner"))
    early = studio.run_cli("workflow", "import", str(outer), "--id", "outer")
    assert early.returncode == 0
    assert "warning: blocks[1].config.workflow: There is no workflow 'inner'" in early.stderr
    early = studio.run_cli("workflow", "import", str(outer), "--id", "outer", "--deploy")
    assert (early.returncode, early.stdout) == (2, "")
    assert "blocks[1].config.workflow: There is no workflow 'inner'" in early.stderr
    studio.cli("workflow", "import", str(inner), "--id", "inner", "--deploy")
    studio.cli("workflow", "import", str(outer), "--id", "outer", "--deploy")
    assert (
        json.loads(studio.cli("run", "outer", "--input", "hello", "--json"))["output"]["content"] == "hello"
    )
    assert (
        json.loads(studio.cli("run", str(outer), "--input", "hello", "--json"))["output"]["content"]
        == "hello"
    )
    inner.write_text(calling("outer"))
    ring = studio.run_cli("workflow", "import", str(inner), "--id", "inner")
    assert ring.returncode == 2
    assert "a workflow cannot run inside itself (inner → outer → inner)" in ring.stderr

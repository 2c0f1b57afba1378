"""``studio workflow deploy | undeploy | rollback | versions | diff | delete``, ``studio key`` and ``studio audit``."""

from __future__ import annotations

from pathlib import Path

import yaml

from app.cli import serve
from app.config import Settings
from app.store import Store
from tests.support import databases
from tests.support.servers import Studio
from tests.web.conftest import document


def imported(studio: Studio, folder: Path, model: str, **more: object) -> str:
    file = folder / "draft.yaml"
    file.write_text(yaml.safe_dump({**document(model), **more}))
    return studio.cli("workflow", "import", str(file), "--id", "mine").strip()


def test_versions_come_and_go(studio: Studio, tmp_path: Path) -> None:
    imported(studio, tmp_path, "scripted/echo")
    assert studio.cli("workflow", "deploy", "mine", "--name", "first") == "1\n"
    assert studio.cli("workflow", "deploy", "mine") == "1\n", "nothing has changed"
    imported(studio, tmp_path, "scripted/tour", variables={"tone": "warm"})
    assert studio.cli("workflow", "diff", "mine").splitlines() == [
        '+ variables: {"tone":"warm"}',
        '~ blocks[1].config.model: "scripted/echo" -> "scripted/tour"',
    ]
    assert studio.cli("workflow", "deploy", "mine") == "2\n"
    assert studio.cli("workflow", "diff", "mine") == ""
    assert studio.cli("workflow", "rollback", "mine") == "1\n"
    rows = [line.split("\t") for line in studio.cli("workflow", "versions", "mine").splitlines()]
    assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
        ("2", "", "", "cli"),
        ("1", "live", "first", "cli"),
    ]
    assert studio.cli("workflow", "undeploy", "mine") == ""
    assert "live     none" in studio.cli("workflow", "show", "mine")
    assert studio.cli("workflow", "rollback", "mine", "--version", "2", "--draft") == "2\n"
    assert studio.cli("workflow", "diff", "mine", "--from", "2") == ""
    assert studio.cli("workflow", "delete", "mine") == ""
    assert studio.cli("workflow", "list") == ""
    actions = [line.split("\t")[2] for line in studio.cli("audit", "--subject", "workflow:mine").splitlines()]
    assert actions == [
        "workflow.delete",
        "workflow.rollback",
        "workflow.undeploy",
        "workflow.rollback",
        "workflow.deploy",
        "workflow.import",
        "workflow.deploy",
        "workflow.import",
    ]
    assert len(studio.cli("audit", "--limit", "3", "--actor", "cli").splitlines()) == 3


def test_commands_warn_of_chats_that_lack_something(studio: Studio, tmp_path: Path) -> None:
    imported(studio, tmp_path, "scripted/echo")
    studio.cli("workflow", "deploy", "mine")
    store = Store(Settings(data_dir=studio.data))
    store.open()
    store.chats.create(
        {"workflow_id": "mine", "slug": "help", "title": "Help", "outputs": ("agent_1.content",)}
    )
    store.close()
    renamed = document("scripted/echo")
    renamed["blocks"][1].update(id="writer", name="Writer")
    renamed["edges"][0]["target"] = "writer"
    file = tmp_path / "renamed.yaml"
    file.write_text(yaml.safe_dump(renamed))
    said = "warning: chats.help.outputs[0]: the chat 'help' answers 503 chat_not_ready"
    assert said in studio.run_cli("workflow", "import", str(file), "--id", "mine", "--deploy").stderr
    assert studio.run_cli("workflow", "rollback", "mine").stderr == ""
    done = studio.run_cli("workflow", "deploy", "mine", "--name", "again")
    assert (done.returncode, done.stdout) == (0, "3\n")
    assert said in done.stderr


def test_what_cannot_be_ends_with_2(studio: Studio, tmp_path: Path) -> None:
    imported(studio, tmp_path, "scripted/echo")
    for args, words in (
        (("rollback", "mine"), "No version is live"),
        (("diff", "mine"), "No version is live"),
        (("diff", "mine", "--from", "7"), "no version 7"),
        (("rollback", "mine", "--version", "7"), "no version 7"),
        (("deploy", "nobody"), "no workflow"),
        (("delete", "nobody"), "no workflow"),
    ):
        done = studio.run_cli("workflow", *args)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
    studio.cli("workflow", "deploy", "mine")
    done = studio.run_cli("workflow", "rollback", "mine")
    assert done.returncode == 2
    assert "no version before 1" in done.stderr


def test_a_key_ends_and_says_when_it_was_used(studio: Studio) -> None:
    studio.cli("key", "create", "--name", "short", "--days", "7")
    (row,) = [line.split("\t") for line in studio.cli("key", "list").splitlines()]
    assert (row[2], row[5]) == ("short", "")
    assert row[6].startswith("live until 2")
    studio.cli("key", "revoke", row[0])
    assert "\trevoked 2" in studio.cli("key", "list")
    actions = [line.split("\t")[2] for line in studio.cli("audit", "--subject", f"key:{row[0]}").splitlines()]
    assert actions == ["key.revoke", "key.create"]


def test_an_example_that_was_removed_stays_away(tmp_path: Path) -> None:
    made = Settings(data_dir=tmp_path)
    databases.ready(made)
    store = Store(made)
    try:
        serve._import_examples(store)
        assert {row.id for row in store.workflows.list()} == set(serve.EXAMPLES)
        assert store.workflows.remove("tour", 2)
        serve._import_examples(store)
        assert store.workflows.get("tour") is None
    finally:
        store.close()

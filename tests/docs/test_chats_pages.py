"""The pages on chats: what they print works as printed, one line after the other."""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from app import config
from app.schemas import derive
from app.schemas.chat_deployment import RESERVED, ChatDeploymentBody
from app.schemas.chat_message import ChatMessageBody
from app.store import Store
from tests.support.printed import SHELL, need_curl, run
from tests.support.servers import Studio, studio
from tests.support.shared import ROOT
from tests.web.conftest import document

HASTY = [{"thinking": "Hm."}, {"text": "Here it is."}]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What each block of both pages gave, in one shell, in the order in which they are read."""
    need_curl()
    lines = [*SHELL.findall(page("chats.md")), *SHELL.findall(page("chats-api.md"))]
    folder = tmp_path_factory.mktemp("studio")
    (folder / "hasty.yaml").write_text(yaml.safe_dump({"turns": [{"steps": HASTY}]}))
    with studio(folder / "data", {"STUDIO_SCRIPTS_DIR": str(folder)}) as made:
        _hurry(made)
        yield _run(lines, made, tmp_path_factory.mktemp("shell"))


def _hurry(made: Studio) -> None:
    """In place of the tour, which takes its time, what thinks and answers at once."""
    store = Store(config.load(made.env()))
    try:
        store.workflows.save(document("scripted/hasty"), "Tour", "tour")
        store.workflows.deploy("tour")
    finally:
        store.close()


def _run(lines: list[str], made: Studio, folder: Path) -> list[str]:
    return run("printf '\\036'\n".join(lines), made, folder).split("\x1e")


def frames(text: str) -> list[t.Any]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def test_what_is_printed_works(printed: list[str]) -> None:
    deployed, first, changed, talk, waited, history, run = printed
    chat = json.loads(deployed)
    assert (chat["slug"], chat["hasPassword"], chat["includeToolCalls"]) == ("help", False, False)
    assert json.loads(changed)["includeToolCalls"] is True
    for stream in (first, talk):
        assert frames(stream)[-1] == "[DONE]"
        assert frames(stream)[-2]["data"]["status"] == "completed"
        assert any(isinstance(frame, dict) and frame.get("event") == "thinking" for frame in frames(stream))
    assert json.loads(waited)["success"] is True
    items = json.loads(history)["items"]
    assert [item["input"] for item in items] == ["Once more, please.", "Show me."]
    assert all(item["answers"] for item in items)
    standing, _, rest = run.partition("}")
    assert json.loads(standing + "}")["status"] in ("completed", "running")
    assert frames(rest)[-1] == "[DONE]"
    assert '"outcome":"already_finished"' in rest


@pytest.mark.parametrize(
    ("name", "body"), [("chats.md", ChatDeploymentBody), ("chats-api.md", ChatMessageBody)]
)
def test_every_field_is_on_its_page(name: str, body: type) -> None:
    rows = "\n".join(line.split(" | ")[0] for line in page(name).splitlines() if line.startswith("| `"))
    assert [field.name for field in derive.describe(body) if f"`{field.name}`" not in rows] == []


def test_the_reserved_slugs_are_named() -> None:
    [row] = [line for line in page("chats.md").splitlines() if line.startswith("| `slug`")]
    assert {*re.findall(r"`([a-z]+)`", row)} - {"slug"} == RESERVED

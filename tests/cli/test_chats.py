"""``studio chat``: chats are deployed, changed and taken away, judged as the API judges them."""

from __future__ import annotations

from pathlib import Path

import pytest
from werkzeug.security import check_password_hash

from app.config import Settings
from app.store import Store
from app.store.chats import ChatRow
from tests.support import databases
from tests.support.servers import Studio
from tests.web.conftest import document

PASSWORD = "open sesame, please"


@pytest.fixture
def workflow(studio: Studio) -> str:
    """A workflow that is live."""
    databases.begun(studio.data)
    return studio.deploy(document("scripted/echo"))


def stored(studio: Studio, slug: str) -> ChatRow:
    store = Store(Settings(data_dir=studio.data))
    try:
        row = store.chats.by_slug(slug)
    finally:
        store.close()
    assert row is not None
    return row


def test_a_chat_comes_changes_and_goes(studio: Studio, workflow: str, tmp_path: Path) -> None:
    more = tmp_path / "more.yaml"
    more.write_text("budget: {tokens: 1000, period: day}\ncustomization: {primaryColor: '#123456'}\n")
    chat = studio.cli(
        *("chat", "create", workflow, "help", "--title", "Help", "--output", "agent_1.content", "--thinking"),
        *("--origin", "https://example.org", "--from", str(more)),
    ).strip()
    row = stored(studio, "help")
    assert (row.id, row.workflow_id, row.title, row.auth_type) == (chat, workflow, "Help", "public")
    assert (row.outputs, row.include_thinking) == (("agent_1.content",), True)
    assert row.budget == {"tokens": 1000, "period": "day"}
    assert row.allowed_origins == ("https://example.org",)
    (listed,) = studio.cli("chat", "list", "--workflow", workflow).splitlines()
    assert listed.split("\t")[:6] == [chat, "help", workflow, "public", "active", "Help"]
    assert studio.cli("chat", "list", "--workflow", "none") == ""
    shown = dict(line.split(None, 1) for line in studio.cli("chat", "show", "help").splitlines())
    assert (shown["id"], shown["outputs"], shown["hasPassword"]) == (chat, '["agent_1.content"]', "false")
    assert '"tokens":0' in shown["spent"]
    studio.cli(
        "chat", "update", "help", "--slug", "support", "--inactive", "--unset", "budget", "--no-thinking"
    )
    row = stored(studio, "support")
    assert (row.active, row.budget, row.include_thinking, row.title) == (False, None, False, "Help")
    assert studio.cli("chat", "delete", chat) == ""
    assert studio.cli("chat", "list") == ""
    audited = [line.split("\t")[2] for line in studio.cli("audit", "--subject", f"chat:{chat}").splitlines()]
    assert audited == ["chat.delete", "chat.update", "chat.create"]


def test_a_password_comes_by_a_pipe(studio: Studio, workflow: str) -> None:
    create = ("chat", "create", workflow, "help", "--title", "Help", "--auth", "password")
    made = studio.run_cli(*create, stdin=f"{PASSWORD}\n")
    assert made.returncode == 0, made.stderr
    row = stored(studio, "help")
    assert check_password_hash(str(row.password), PASSWORD)
    assert studio.run_cli("chat", "update", "help", "--password", stdin="another, longer\n").returncode == 0
    changed = stored(studio, "help")
    assert check_password_hash(str(changed.password), "another, longer")
    assert changed.password_version == row.password_version + 1
    everything = studio.cli("chat", "show", "help") + studio.cli("chat", "list") + studio.cli("audit")
    for hidden in (PASSWORD, "another, longer", str(changed.password)):
        assert hidden not in everything + made.stdout + made.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--title", "Help", "--auth", "email", "--allow", "nobody"], "allowedEmails"),
        (["--title", "Help", "--output", "none.content"], "outputs"),
        (["--title", "Help", "--origin", "example.org"], "allowedOrigins"),
        (["--title", "Help", "--auth", "sso"], "authType"),
    ],
)
def test_what_the_api_refuses_is_refused(
    studio: Studio, workflow: str, arguments: list[str], says: str
) -> None:
    done = studio.run_cli("chat", "create", workflow, "Help me", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "slug" in done.stderr, "everything is said at once"
    assert studio.cli("chat", "list") == ""


def test_what_is_not_there_or_taken(studio: Studio, workflow: str) -> None:
    create = ("chat", "create", workflow, "help", "--title", "Help")
    studio.cli(*create)
    for arguments, says in (
        (create, "slug"),
        (("chat", "create", "none", "other", "--title", "Other"), "workflowId"),
        (("chat", "show", "none"), "studio chat list"),
        (("chat", "update", "none", "--title", "x"), "studio chat list"),
        (("chat", "delete", "none"), "studio chat list"),
        (("chat", "update", "help"), "Nothing to change"),
        (("chat", "update", "help", "--unset", "title"), "title"),
        (("chat", "update", "help", "--unset", "authType"), "authType"),
        ((*create, "--auth", "password", "--from", "-"), "Standard input is the file"),
    ):
        done = studio.run_cli(*arguments, stdin="{}")
        assert (done.returncode, says in done.stderr) == (2, True), (arguments, done.stderr)

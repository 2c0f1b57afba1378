"""The page on getting into chats: what it prints works as printed, one line after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.web import email_gate, password_gate
from tests.support import printed
from tests.support.servers import Studio, studio, wait_until
from tests.support.shared import ROOT

PAGE = (ROOT / "docs" / "chat-access.md").read_text()
BLOCKS = printed.SHELL.findall(PAGE)
HELP = (
    'curl -sf http://127.0.0.1:8000/api/chats -H "X-API-Key: $STUDIO_API_KEY" -H "Content-Type: application/json" '
    """-d '{"workflowId": "tour", "slug": "help", "title": "Help"}'"""
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    printed.need_curl()
    more = {
        "STUDIO_MAIL": "console",
        "STUDIO_OIDC_ISSUER": "https://id.example.org",
        "STUDIO_OIDC_CLIENT_ID": "x",
    }
    with studio(tmp_path_factory.mktemp("studio"), more) as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shell")


def test_what_is_printed_works(server: Studio, folder: Path) -> None:
    token, password, enter, ask, give, _, sso, leave = BLOCKS

    def shell(script: str) -> str:
        return printed.run(script, server, folder)

    shell(HELP)
    assert '"title":"Help"' in shell(f'{token}\ntest -n "$token"')
    assert '"hasPassword":true' in shell(password)
    entered = shell(enter)
    assert '"expiresAt":' in entered
    assert '"title":"Team"' in entered
    assert shell(leave) == ""
    assert "AUTH_REQUIRED_PASSWORD" in shell(enter.splitlines()[-1])
    assert f'"validMs":{email_gate.LIVE_MS},"resendMs":{email_gate.PAUSE_MS}' in shell(ask)
    code = wait_until(lambda: re.search(r"^\d{6}$", server.log.read_text(), re.MULTILINE), "the e-mail")[0]
    assert '"title":"Staff"' in shell(give.replace("123456", code))
    assert '"authType":"sso"' in shell(sso)


def test_the_limits_are_those_of_the_program() -> None:
    assert f"while {password_gate.WAITING} wait" in PAGE
    assert (password_gate.MOST, password_gate.MOST_OF_ALL, password_gate.PERIOD_S) == (10, 100, 900)
    assert (email_gate.TO_ONE, email_gate.TRIES) == (5, 5)
    for limit in (email_gate.OF_ALL, email_gate.WRONG_FROM_ONE, email_gate.WRONG_OF_ALL):
        assert re.search(rf"\b{limit}\b", PAGE)
    assert email_gate.FROM_ONE == 10

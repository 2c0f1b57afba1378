"""Tokens that a command prints."""

from __future__ import annotations

import os
import sys
import typing as t
from pathlib import Path

import gevent
import pytest

from app.engine.scope import RunScope
from providers import token_command
from providers.oauth import TokenAuth
from providers.token_command import TokenCommand
from tests.providers.token_endpoint import refusal


class TestCommand:
    @pytest.fixture
    def command(self, tmp_path: Path) -> t.Callable[[str], dict[str, str]]:
        def write(code: str) -> dict[str, str]:
            (tmp_path / "c.py").write_text(code)
            return {"token_command": f"{sys.executable} -S {tmp_path / 'c.py'}"}

        return write

    @pytest.mark.parametrize(
        ("printed", "token", "lasts"),
        [
            ("abc\n", "abc", 300.0),
            ('{"access_token": "abc", "expires_in": 60}', "abc", 60.0),
            ('{"accessToken": "abc", "expiresOn": "x"}', "abc", 300.0),
            ('{"token": "abc", "expires_in": "x"}', "abc", 300.0),
        ],
    )
    def test_what_it_prints(
        self, command: t.Callable[[str], dict[str, str]], printed: str, token: str, lasts: float
    ) -> None:
        with RunScope() as scope:
            got = TokenCommand().fetch(command(f"print({printed!r}, end='')"), 5.0, scope)
        assert (got.value, got.lasts_s) == (token, lasts)

    @pytest.mark.parametrize(
        "code",
        [
            "",
            "print('two words')",
            "print('{}')",
            "print('x' * 100_000)",
            "print('sekret'); raise SystemExit(3)",
        ],
    )
    def test_what_is_no_token(self, command: t.Callable[[str], dict[str, str]], code: str) -> None:
        error = refusal(TokenAuth(TokenCommand()), command(code))
        assert error.code == "provider_auth"
        assert "command" in error.message
        assert "sekret" not in error.message + error.detail

    @pytest.mark.parametrize("line", ["/no/such/command", '"unclosed', ""])
    def test_what_cannot_be_started(self, line: str) -> None:
        error = refusal(TokenAuth(TokenCommand()), {"token_command": line})
        assert "cannot be started" in error.message

    HANGS = (
        "import os, sys, time\n"
        "child = os.fork()\n"
        "if child: open(sys.argv[0] + '.pid', 'w').write(f'{os.getpid()} {child}')\n"
        "time.sleep(60)\n"
    )

    def test_one_that_hangs_is_ended_with_what_it_started(
        self, command: t.Callable[[str], dict[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(token_command, "COMMAND_S", 3.0)
        assert "within 3 s" in refusal(TokenAuth(TokenCommand()), command(self.HANGS)).message
        for pid in (tmp_path / "c.py.pid").read_text().split():
            _gone(int(pid))

    def test_one_that_is_waited_for_no_more(
        self, command: t.Callable[[str], dict[str, str]], tmp_path: Path
    ) -> None:
        with RunScope() as scope:
            given = command(self.HANGS)
            scope.spawn(lambda: TokenAuth(TokenCommand()).prepare(given, 5.0, scope))
            with gevent.Timeout(20):
                while not (tmp_path / "c.py.pid").exists() or not (tmp_path / "c.py.pid").read_text():
                    gevent.sleep(0.01)
            scope.cancel("user_stop")
            scope.join()
        for pid in (tmp_path / "c.py.pid").read_text().split():
            _gone(int(pid))


def _gone(pid: int) -> None:
    """Wait until a process is no more, or nobody's child any more that still has to be collected."""
    with gevent.Timeout(20):
        while True:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            state = Path(f"/proc/{pid}/stat")
            if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
                return
            gevent.sleep(0.01)

"""``studio secret``, as processes: a value goes in by standard input and comes out nowhere."""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
import termios
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from cryptography.fernet import Fernet

from tests.cli.test_run import read
from tests.support.servers import Studio
from tests.support.shared import ROOT

_MAIN = "import sys; from app.cli import main; sys.exit(main())"
VALUE = "s3cret-of-the-crm"


def test_set_list_and_remove(studio: Studio) -> None:
    done = studio.run_cli("secret", "set", "CRM_KEY", stdin=f"{VALUE}\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "stored\n")
    again = studio.run_cli("secret", "set", "CRM_KEY", stdin=f"{VALUE}-2\r\n")
    assert (again.returncode, again.stderr) == (0, "replaced\n")
    listed = studio.run_cli("secret", "list")
    assert [line.split("\t")[0] for line in listed.stdout.splitlines()] == ["CRM_KEY"]
    assert VALUE not in listed.stdout + listed.stderr
    assert studio.run_cli("secret", "remove", "CRM_KEY").returncode == 0
    gone = studio.run_cli("secret", "remove", "CRM_KEY")
    assert (gone.returncode, "studio secret list" in gone.stderr) == (2, True)
    assert studio.cli("secret", "list") == ""


def own_terminal() -> None:
    """In the child: make its standard input the terminal that a prompt opens."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_prompt_shows_nothing_of_the_value(studio: Studio) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [studio.python, "-c", _MAIN, "secret", "set", "CRM_KEY"],
        cwd=ROOT,
        env=studio.env(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=own_terminal,
    ) as process:
        os.close(theirs)
        shown = b""
        for asked in (b"Value: ", b"Repeat for confirmation: "):
            while not shown.endswith(asked):
                piece = read(ours)
                assert piece, shown
                shown += piece
            os.write(ours, f"{VALUE}\n".encode())
        while piece := read(ours):
            shown += piece
        assert process.wait(30) == 0
    os.close(ours)
    assert shown.strip().endswith(b"stored")
    assert VALUE.encode() not in shown


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("crm-key", VALUE, "letters, digits and _"),
        ("CRM_KEY", "abc", "6 to 65536"),
        ("CRM_KEY", f" {VALUE}", "white space"),
        ("CRM_KEY", "", "6 to 65536"),
    ],
)
def test_what_cannot_be_stored_ends_with_2(studio: Studio, name: str, value: str, says: str) -> None:
    done = studio.run_cli("secret", "set", name, stdin=value)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert VALUE not in done.stderr


def test_a_value_is_no_argument(studio: Studio) -> None:
    assert studio.run_cli("secret", "set", "CRM_KEY", VALUE).returncode == 2


def with_key(studio: Studio, key: str, *args: str) -> subprocess.CompletedProcess[str]:
    return replace(studio, environ={"STUDIO_SECRETS_KEY": key}).run_cli(*args, stdin=VALUE)


def test_rotation_and_a_key_that_does_not_fit(studio: Studio) -> None:
    studio.run_cli("secret", "set", "CRM_KEY", stdin=VALUE)
    file = studio.data / "secrets.key"
    old, new = file.read_text().strip(), Fernet.generate_key().decode()
    wrong = with_key(studio, new, "secret", "set", "OTHER")
    assert (wrong.returncode, "another key" in wrong.stderr) == (1, True)
    both = with_key(studio, f"{new},{old}", "secret", "rotate")
    assert (both.returncode, both.stderr) == (0, "1 encrypted with the first key\n")
    after = with_key(studio, new, "secret", "set", "OTHER")
    assert after.returncode == 0
    bad = with_key(studio, "no key", "secret", "list")
    assert (bad.returncode, "(hidden)" in bad.stderr, "no key" in bad.stderr) == (2, True, False)


def test_an_import_warns_of_a_secret_that_is_not_stored(studio: Studio, tmp_path: Path) -> None:
    example = yaml.safe_load((ROOT / "examples" / "secret.yaml").read_text())
    file = tmp_path / "secret.yaml"
    file.write_text(yaml.safe_dump(example))
    done = studio.run_cli("workflow", "import", str(file))
    assert done.returncode == 0
    warning = "blocks[1].config.headers.Authorization: there is no secret HTTPBIN_TOKEN; store it: studio secret set"
    assert warning in done.stderr
    refused = studio.run_cli("run", str(file))
    assert (refused.returncode, warning in refused.stderr) == (2, True)
    studio.run_cli("secret", "set", "HTTPBIN_TOKEN", stdin=VALUE)
    assert studio.run_cli("workflow", "import", str(file)).stderr == ""

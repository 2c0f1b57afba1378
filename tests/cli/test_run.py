"""``studio run``: in process and over HTTP the same, in a pipe and in a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import sqlite3
import subprocess
import sys
import typing as t
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from app.cli.run import is_file, parse_input
from tests.support import commands, servers
from tests.support.servers import Studio
from tests.support.shared import ROOT
from tests.web.conftest import document

TOUR = str(ROOT / "examples" / "tour.yaml")
_MAIN = "import sys; from app.cli import main; sys.exit(main())"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (None, {}),
        ('{"a": 1}', {"a": 1}),
        ("hello", {"message": "hello"}),
        ("[1]", {"message": "[1]"}),
        ("7", {"message": "7"}),
        ("{broken", {"message": "{broken"}),
    ],
)
def test_input(text: str | None, value: t.Any) -> None:
    assert parse_input(text) == value


@pytest.mark.parametrize(
    ("text", "file"), [("tour", False), ("wf_1", False), ("a/b", True), ("x.yaml", True), ("-", True)]
)
def test_what_is_a_file(text: str, file: bool) -> None:
    assert is_file(text) is file


def write(studio: Studio, model: str, **settings: t.Any) -> str:
    path = studio.data / f"{model.replace('/', '-')}.yaml"
    path.write_text(yaml.safe_dump(document(model, settings=settings)))
    return str(path)


def test_a_file_runs_in_this_process(studio: Studio) -> None:
    done = studio.run_cli("run", write(studio, "scripted/echo"), "--input", "one two")
    assert (done.returncode, done.stdout, done.stderr) == (0, "one two\n", "")


def test_a_file_from_standard_input(studio: Studio) -> None:
    text = Path(write(studio, "scripted/echo")).read_text()
    done = studio.run_cli("run", "-", "--input", '{"message": "hi"}', stdin=text)
    assert (done.returncode, done.stdout) == (0, "hi\n")


def test_a_failed_run_ends_with_1_and_an_empty_output(studio: Studio) -> None:
    done = studio.run_cli("run", write(studio, "scripted/error-mid"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "provider_bad_stream" in done.stderr


def test_a_run_that_takes_too_long_ends_with_1(studio: Studio) -> None:
    done = studio.run_cli("run", write(studio, "scripted/silent", timeout_s=1), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "timed_out"


@pytest.mark.parametrize("target", ["nope", "/no/file.yaml"])
def test_what_does_not_exist_ends_with_2(studio: Studio, target: str) -> None:
    done = studio.run_cli("run", target)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_a_missing_vendor_key_ends_with_2_and_names_it(studio: Studio) -> None:
    done = studio.run_cli("run", write(studio, "anthropic/claude-sonnet-4-5"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "ANTHROPIC_API_KEY" in done.stderr


def test_an_interrupt_stops_the_run_and_ends_with_130(studio: Studio) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _MAIN, "run", write(studio, "scripted/silent"), "--json"],
        cwd=ROOT,
        env=studio.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for_run(studio)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["error"]["code"] == "cancelled"


def wait_for_run(studio: Studio, workflow: str = "%") -> None:
    """Until a run of another process stands in the store."""

    def running() -> bool:
        try:
            # Never made here: who runs would find it empty.
            with closing(sqlite3.connect(f"file:{studio.data / 'studio.db'}?mode=ro", uri=True)) as link:
                query = "select count(*) from runs where workflow_id like ?"
                return bool(link.execute(query, (workflow,)).fetchone()[0])
        except sqlite3.OperationalError:
            return False  # no table yet

    servers.wait_until(running, "the run began")


# -- over HTTP ---------------------------------------------------------------------------------------


def remote(studio: Studio, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """``studio run`` against the running server, with nothing of its folder."""
    env = studio.env() | {"STUDIO_URL": f"http://127.0.0.1:{studio.port}", "STUDIO_API_KEY": studio.key}
    env["STUDIO_DATA_DIR"] = str(studio.data / "elsewhere")
    return commands.run(["run", *args], env | environ)


def test_over_http_and_in_process_look_the_same(served: Studio) -> None:
    workflow = served.deploy(document("scripted/echo"))
    over = remote(served, workflow, "--input", "same words")
    here = served.run_cli("run", workflow, "--input", "same words")
    assert over.returncode == here.returncode == 0
    assert over.stdout == here.stdout == "same words\n"
    assert not (served.data / "elsewhere").exists()


def test_json_over_http_has_thinking_when_asked(served: Studio) -> None:
    for flags, thinks in (((), False), (("--thinking", "--tools"), True)):
        body = json.loads(remote(served, "tour", "--input", "hi", "--json", *flags).stdout)
        assert body["success"] is True
        assert ("thinking" in body) is thinks
        assert body["toolCalls"]["guide"]["count"] == 2


@pytest.mark.parametrize(
    ("target", "environ", "status", "says"),
    [
        ("nope", {}, 2, "nope"),
        ("tour", {"STUDIO_API_KEY": "sk-studio-dead"}, 2, "X-API-Key"),
        ("tour", {"STUDIO_URL": "ftp://x"}, 2, "STUDIO_URL"),
        ("tour", {"STUDIO_URL": "http://127.0.0.1:9"}, 1, "127.0.0.1:9"),
    ],
    ids=["unknown", "dead key", "no address", "no server"],
)
def test_what_goes_wrong_over_http(
    served: Studio, target: str, environ: dict[str, str], status: int, says: str
) -> None:
    done = remote(served, target, **environ)
    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupt_over_http_stops_the_run_on_the_server(served: Studio) -> None:
    workflow = served.deploy(document("scripted/silent", settings={"on_disconnect": "continue"}))
    env = served.env() | {"STUDIO_URL": f"http://127.0.0.1:{served.port}", "STUDIO_API_KEY": served.key}
    with subprocess.Popen(
        [sys.executable, "-c", _MAIN, "run", workflow, "--json"],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for_run(served, workflow)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["error"]["code"] == "cancelled"


def test_a_terminal_gets_it_live_with_thinking_chips_and_the_retraction(studio: Studio) -> None:
    parent, child = pty.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, "-c", _MAIN, "run", TOUR, "--input", "hello", "--thinking", "--tools"],
            cwd=ROOT,
            env=studio.env(),
            stdin=subprocess.DEVNULL,
            stdout=child,
            stderr=subprocess.DEVNULL,
        ) as process:
            os.close(child)
            shown = b""
            while piece := read(parent):
                shown += piece
            assert process.wait(60) == 0
    finally:
        os.close(parent)
    text = shown.decode()
    assert "\x1b[2mThe user wants" in text
    assert "▸ clock" in text
    assert "✓ calculator" in text
    assert "taken back" in text
    assert text.index("taken back") < text.index("You said: hello")


def read(terminal: int) -> bytes:
    """What a terminal shows next; nothing once its process has ended."""
    select.select([terminal], [], [], 30)  # cooperative: gevent closes our end of it only when the hub turns
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""

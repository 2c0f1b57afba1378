"""Decisions at the command line: asked in a terminal, left to others in a pipe, listed and answered by name."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from app.cli.main import main
from tests.cli.test_run import read
from tests.support.approvals import fit_to_send
from tests.support.graphs import graph
from tests.support.servers import Studio
from tests.support.shared import ROOT

_MAIN = "import sys; from app.cli import main; sys.exit(main())"
DOCUMENT = fit_to_send(reasons=["It is \x1b[31mnew."])


@pytest.fixture
def here(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> t.Callable[..., tuple[int, str, str]]:
    """Runs ``studio decisions ARGS`` in this process: its exit status and what it printed."""
    monkeypatch.setenv("STUDIO_DATA_DIR", str(studio.data))

    def run(*args: str) -> tuple[int, str, str]:
        status = main(["decisions", *args])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def document(studio: Studio) -> Path:
    path = studio.data / "send.yaml"
    path.write_text(yaml.safe_dump(DOCUMENT))
    return path


def test_in_a_pipe_a_run_that_asks_is_left_to_others(
    studio: Studio, here: t.Callable[..., tuple[int, str, str]]
) -> None:
    """3: how to answer is said; answered on the same folder, it goes on where it was answered."""
    done = studio.run_cli("run", str(document(studio)), "--input", "Hello.")
    assert (done.returncode, done.stdout) == (3, "")
    for words in ("Fit to send?", "Hello.", "It is �[31mnew.", "on this data folder"):
        assert words in done.stderr
    decision, status, about, block = here("list")[1].split("\t")[:4]
    assert (status, about, block) == ("open", "answer", "ask")
    assert f"studio decisions approve {decision}" in done.stderr
    assert "Fit to send?" in here("show", decision)[1]
    assert here("approve", decision, "--arguments", "{}")[0] == 2
    assert here("approve", decision, "--arguments", "{")[0] == 2
    status_, out, err = here("show", "dec_unknown")
    assert (status_, out) == (2, "")
    assert "studio decisions list" in err

    on = studio.run_cli("decisions", "approve", decision, "--text", "Good day.")
    assert (on.returncode, on.stdout) == (0, '{"text":"Good day."}\n'), on.stderr
    assert here("list")[1] == ""
    shown = json.loads(here("show", decision, "--json")[1])
    assert (shown["status"], shown["answeredBy"]) == ("answered", "cli")
    assert shown["answer"] == {"decision": "edit", "text": "Good day."}
    assert "answered by cli" in here("show", decision)[1]
    status_, out, err = here("reject", decision)
    assert (status_, out) == (2, "")
    assert "answered already: edit, by cli" in err


def test_in_a_terminal_it_is_asked(studio: Studio) -> None:
    """One run asks three times, since each start of the program takes seconds."""
    editor = studio.data / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "Hello. Indeed." > "$1"\n')
    editor.chmod(0o755)
    config = {"prompt": "Fit to send?", "draft": "{{ input.message }}", "reasons": ["It is \x1b[31mnew."]}
    said = "{{ blocks.one.content }} {{ blocks.two.reason }} {{ blocks.three.content }}"
    asking = graph(
        [
            *[(name, "approval", config) for name in ("one", "two", "three")],
            ("said", "set", {"values": {"text": said}}),
        ],
        "start > one",
        "one -approved> two",
        "two -rejected> three",
        "three -approved> said",
    )
    path = studio.data / "thrice.yaml"
    path.write_text(yaml.safe_dump(asking))
    command = [sys.executable, "-c", _MAIN, "run", str(path), "--input", "Hello."]
    typed = "a\n" + "x\nr\nNot now.\n" + "e\n"
    shown, status = at_a_terminal(command, {**studio.env(), "EDITOR": str(editor), "TERM": "xterm"}, typed)
    assert status == 0, shown
    assert shown.count("[a]pprove, [e]dit or [r]eject?") == 4, "what is none of them is asked again"
    assert shown.count("Fit to send?") == 3
    assert shown.index("Fit to send?") < shown.index("[a]pprove")
    assert '{"text":"Hello. Not now. Hello. Indeed."}' in shown
    assert "\x1b[31m" not in shown


def at_a_terminal(command: list[str], environ: dict[str, str], typed: str) -> tuple[str, int]:
    """What a command shows at a terminal at which this is typed once it asks, and its exit status."""
    parent, child = pty.openpty()
    try:
        with subprocess.Popen(
            command, cwd=ROOT, env=environ, stdin=child, stdout=child, stderr=child, start_new_session=True
        ) as process:
            os.close(child)
            shown, left = b"", typed
            while piece := read(parent):
                shown += piece
                if left and shown.endswith((b"? ", b": ")):
                    line, _, left = left.partition("\n")
                    os.write(parent, line.encode() + b"\n")
            return shown.decode(), process.wait(60)
    finally:
        os.close(parent)


def test_of_a_server_they_are_answered_over_http(
    served: Studio, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = served.data / "send.yaml"
    path.write_text(yaml.safe_dump(DOCUMENT))
    environ = {
        "STUDIO_URL": f"http://127.0.0.1:{served.port}",
        "STUDIO_API_KEY": served.key,
        "STUDIO_DATA_DIR": str(served.data / "elsewhere"),
    }
    done = served.run_cli("run", served.deploy(path), "--input", "Hello.", environ=environ)
    assert (done.returncode, done.stdout) == (3, "")
    found = re.search(r"studio decisions approve (dec_\w+)", done.stderr)
    assert found is not None
    assert "on this data folder" not in done.stderr

    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert main(["decisions", "list"]) == 0
    assert found[1] in capsys.readouterr().out
    assert main(["decisions", "reject", found[1], "--reason", "Too short."]) == 0
    assert main(["decisions", "show", found[1], "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["answer"] == {"decision": "reject", "reason": "Too short."}
    assert main(["decisions", "reject", found[1]]) == 2
    assert main(["decisions", "show", "dec_unknown"]) == 2


def test_a_server_on_the_same_data_goes_on_with_what_is_answered_beside_it(served: Studio) -> None:
    path = served.data / "send.yaml"
    path.write_text(yaml.safe_dump(DOCUMENT))
    started = served.run_cli("run", served.deploy(path), "--input", "Hello.")
    assert started.returncode == 3
    found = t.cast("re.Match[str]", re.search(r"studio decisions approve (dec_\w+)", started.stderr))
    on = served.run_cli("decisions", "approve", found[1])
    assert (on.returncode, on.stdout) == (0, "")
    assert "the server goes on" in on.stderr

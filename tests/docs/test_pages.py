"""What the README and the guides print works as printed, and what is generated is fresh."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from app import events
from app.engine import settle
from docs._tools.pages_plugins import registry
from tests.support import printed
from tests.support.servers import Studio, studio
from tests.support.shared import ROOT

PAGES = (
    "README.md",
    "docs/quickstart.md",
    "docs/behind-nginx.md",
    "docs/http-api.md",
    "docs/workflow-document.md",
    "docs/agents-together.md",
    "docs/run-events.md",
    "docs/graph-events.md",
)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str, start: str = "") -> list[tuple[str, str]]:
    """(page, text) of every fenced block in ``language`` that begins with ``start``."""
    return [
        (page, text)
        for page in PAGES
        for kind, text in FENCE.findall((ROOT / page).read_text())
        if kind == language and text.startswith(start)
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    with studio(tmp_path_factory.mktemp("studio"), forked=False) as made:
        yield made


def shell(text: str, server: Studio) -> subprocess.CompletedProcess[str]:
    """Run a printed line, with the server's address and key in place of the reader's."""
    for address in ("http://127.0.0.1:8000", "http://localhost"):
        text = text.replace(address + "/", f"http://127.0.0.1:{server.port}/")
    text = text.replace("http://127.0.0.1:8000", f"http://127.0.0.1:{server.port}")
    folder = str(Path(sys.executable).parent)
    env = {**os.environ, "STUDIO_API_KEY": server.key, "NO_COLOR": "1"}
    return subprocess.run(
        ["bash", "-c", text.replace(".venv/bin/", f"{folder}/")],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.parametrize(
    ("page", "text"),
    [*blocks("sh", "curl"), *blocks("sh", "{ printf"), *blocks("sh", "THREAD_ID=$(curl")],
    ids=lambda value: value if value.endswith(".md") else "",
)
def test_curl_lines_answer(page: str, text: str, server: Studio) -> None:
    printed.need_curl()
    done = shell(text, server)
    assert done.returncode == 0, done.stderr
    if "/api/chats" in text:
        assert '"slug":"tour"' in done.stdout
    elif "/chat" in text and "text/event-stream" not in text:
        assert '"status":"complete"' in done.stdout
    elif "/chat" in text:
        assert done.stdout.count("event: graph_topology") == done.stdout.count("event: turn_completed") == 1
        assert '"status":"complete"' in done.stdout
    elif "/graph/topology" in text:
        assert done.stdout.startswith('{"nodes":[{"id":"intake"')
    elif "/runs" in text:
        assert done.stdout.count('"type":"done"') == done.stdout.count('"type":"thread"') == 1
        assert '"status":"completed"' in done.stdout
    elif '"stream": true' in text:
        assert done.stdout.endswith('data: "[DONE]"\n\n'), done.stdout[-500:]
        assert '"event":"final"' in done.stdout
    else:
        assert '"success":true' in done.stdout


def test_the_printed_command_draws_a_run(server: Studio) -> None:
    lines = [text for _, text in blocks("sh", "STUDIO_URL=")]
    assert lines
    done = shell(lines[0], server)
    assert done.returncode == 0, done.stderr
    assert "Show me." in done.stdout


@pytest.mark.parametrize(
    ("page", "text"), blocks("yaml", "name:"), ids=lambda value: value if value.endswith(".md") else ""
)
def test_printed_workflows_are_valid(page: str, text: str, tmp_path: Path) -> None:
    assert yaml.safe_load(text)["name"]
    (tmp_path / "printed.yaml").write_text(text)
    done = Studio(tmp_path).run_cli("workflow", "validate", str(tmp_path / "printed.yaml"))
    assert done.returncode == 0, done.stderr


def test_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, "docs/_tools/generate.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_run_event_is_told_of() -> None:
    page = (ROOT / "docs" / "reference" / "events.md").read_text()
    kinds = [vars(events)[name] for name in events.__all__]
    told = [kind.__name__ for kind in kinds if isinstance(kind, type) and issubclass(kind, events.RunEvent)]
    assert "RunPaused" in told
    bases = ("RunEvent", "Terminal")
    assert [name for name in told if name not in bases and f"\n### {name}\n" not in page] == []


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (events.RunCancelled("stop_requested", {}), "cancelled"),
        (events.RunCancelled("client_disconnected", {}), "cancelled"),
        (events.RunCancelled("server_shutdown", {}), "cancelled"),
        (events.RunTimedOut({}), "timed_out"),
    ],
)
def test_the_fixed_texts_are_on_the_page(end: events.Terminal, code: str) -> None:
    cause = settle.cause_of(end)
    rows = (ROOT / "docs" / "consuming-the-stream.md").read_text().splitlines()
    (row,) = [row for row in rows if f"`{cause}`" in row]
    assert row.startswith(f"| `{settle.reason(end)[1]}` | `{code}` |")


def test_pages_name_no_agreement_that_readers_cannot_look_up() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    named = [
        str(page.relative_to(ROOT))
        for page in pages
        if "_build" not in page.parts and re.search(r"contract section", page.read_text(), re.IGNORECASE)
    ]
    assert not named


def test_the_readme_counts_the_families() -> None:
    (count,) = re.findall(r"and so on for (\d+)\s+families", (ROOT / "README.md").read_text())
    assert int(count) == len(registry().families)


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    dead = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in pages
        if "_build" not in page.parts
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not dead

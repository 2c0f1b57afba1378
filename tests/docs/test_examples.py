"""Every example is a good document, and some page says that it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import builtins, config
from app.engine.recompiled import compiled
from app.workflows.document import parse
from plugins.registry import Registry
from tests.support.shared import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
#: A first start imports these; the guides call them by their ids.
IMPORTED = ("hello-local", "tour")


@pytest.fixture(scope="module")
def plugins() -> Registry:
    servers = str(ROOT / "examples" / "mcp_servers.json")
    return builtins.registry(config.load({"STUDIO_MCP_SERVERS": servers}), "0")


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_a_good_document(plugins: Registry, file: Path) -> None:
    found = compiled(parse(file.read_text()), plugins)
    assert found.name
    assert found.warnings == ()


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_on_a_page(file: Path) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    wanted = f"/api/workflows/{file.stem}/" if file.stem in IMPORTED else f"examples/{file.name}"
    assert any(wanted in page.read_text() for page in pages)

"""Documents with several things wrong with them: each is told, by its path and with a cure, and nothing is stored."""

from __future__ import annotations

import copy
import io
import logging
import re
import typing as t
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cli.main import main
from tests.engine.random_models import FAMILY
from tests.engine.random_runs import MANY, Rig, rig
from tests.engine.random_workflows import TYPES, Workflow, workflows
from tests.support.graphs import told

Document = dict[str, t.Any]
#: What is put into a block, and where the problem is then told. A type that nobody knows hides its config.
_IN_BLOCKS: dict[str, t.Callable[[Document], object]] = {
    "config.zzz": lambda block: block.setdefault("config", {}).update(zzz=1),
    "config.timeout_s": lambda block: block.setdefault("config", {}).update(timeout_s="soon"),
    "config.on_error": lambda block: block.setdefault("config", {}).update(on_error="maybe"),
    "config.retries": lambda block: block.setdefault("config", {}).update(retries=-1),
    "type": lambda block: block.update(type="nonesuch"),
    "colour": lambda block: block.update(colour="red"),
    "name": lambda block: block.update(name=""),
}
_IN_EDGES: dict[str, t.Callable[[Document], object]] = {
    "target": lambda edge: edge.update(target="nobody"),
    "source": lambda edge: edge.update(source="nobody"),
    "source_handle": lambda edge: edge.update(source_handle="sideways"),
    "colour": lambda edge: edge.update(colour="red"),
}
_ON_TOP: dict[str, t.Callable[[Document], object]] = {
    "name": lambda document: document.update(name=""),
    "zzz": lambda document: document.update(zzz=1),
    "settings.timeout_s": lambda document: document.update(settings={"timeout_s": -1}),
    "settings.on_disconnect": lambda document: document.update(settings={"on_disconnect": "maybe"}),
}


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[Workflow, Document, set[str]]:
    """A valid workflow, its document with faults in it, and where those are."""
    drawn = draw(workflows(TYPES))
    document = copy.deepcopy(drawn.document)
    blocks, edges = document["blocks"], document["edges"]
    places = st.lists(st.integers(0, len(blocks) - 1), unique=True, min_size=1, max_size=4)
    paths = set()
    broken = set()
    for place in draw(places):
        where = draw(st.sampled_from(sorted(_IN_BLOCKS)))
        _IN_BLOCKS[where](blocks[place])
        broken.add(blocks[place]["id"])
        paths.add(f"blocks[{place}].{where}")
    whole = [place for place, edge in enumerate(edges) if edge["source"] not in broken]
    for place in draw(st.lists(st.sampled_from(whole), unique=True, max_size=3)) if whole else ():
        where = draw(st.sampled_from(sorted(_IN_EDGES)))
        _IN_EDGES[where](edges[place])
        paths.add(f"edges[{place}].{where}")
    if draw(st.booleans()):
        where = draw(st.sampled_from(sorted(_ON_TOP)))
        _ON_TOP[where](document)
        paths.add(where)
    return drawn, document, paths


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(tmp_path_factory.mktemp("faults")) as opened:
        yield opened


@settings(MANY, max_examples=300)
@given(spoilt())
def test_each_of_several_faults_is_told_with_its_path_and_a_cure(
    made: Rig, drawn: tuple[Workflow, Document, set[str]]
) -> None:
    workflow, document, paths = drawn
    assert told(made.made, workflow.document)[0] == {}
    problems, _ = told(made.made, document)
    assert paths <= set(problems)
    assert all(problems.values())


def test_of_a_document_with_faults_nothing_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUDIO_DATA_DIR", str(tmp_path / "data"))
    file = tmp_path / "document.yaml"

    def run(*args: str) -> tuple[int, str]:
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(out):
            code = main(args)
        return code, out.getvalue()

    @settings(MANY, max_examples=8)
    @given(spoilt())
    def check(drawn: tuple[Workflow, Document, set[str]]) -> None:
        workflow, document, paths = drawn
        good = _installed(workflow.document)
        file.write_text(yaml.safe_dump(good))
        code, output = run("workflow", "import", str(file), "--id", "kept")
        assert code == 0, output
        before = run("workflow", "export", "kept"), run("workflow", "list")
        file.write_text(yaml.safe_dump(_installed(document)))
        code, output = run("workflow", "import", str(file), "--id", "kept")
        assert code != 0
        assert [path for path in paths if path not in output] == []
        assert (run("workflow", "export", "kept"), run("workflow", "list")) == before

    try:
        check()
    finally:  # which every command makes quieter
        logging.getLogger("studio.plugins.report").setLevel(logging.NOTSET)


def _installed(document: Document) -> Document:
    """With models and tools that every installation has."""
    text = re.sub(rf"{FAMILY}/m\d+", "scripted/echo", yaml.safe_dump(document))
    found: Document = yaml.safe_load(text.replace("breathe", "clock_2"))
    for block in found["blocks"]:
        for agent in _agents(block.get("config", {})):
            agent.pop("tools", None)
            agent.pop("fallbacks", None)  # which would name the one model twice
        if block["type"] == "tool" or block.get("config", {}).get("tool"):
            block["config"].update(tool="clock", arguments={})
    return found


def _agents(config: Document) -> Iterator[Document]:
    yield config
    for value in config.values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                yield item

"""The samples of docs/plugins.md work as printed."""

from __future__ import annotations

import re
import sys
import types
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import events as ev
from app.engine.registry import RunRequest
from app.engine.scope import RunScope
from app.workflows.runner_graph import compile_runner
from plugins.conformance import Recording, check, render
from plugins.conformance.server import Answer, byte_server
from plugins.manager import create_manager
from plugins.registry import Registry
from providers.spec import EmbeddingRequest, Usage
from tests.engine.durable_runs import PATIENCE_S, carry_on
from tests.support.engine import Recorder, services, start
from tests.support.shared import ROOT

PAGE = (ROOT / "docs" / "plugins.md").read_text()
SAMPLES = dict(re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture(params=sorted(SAMPLES))
def module(request: pytest.FixtureRequest) -> Iterator[types.ModuleType]:
    yield from load(request.param)


def load(name: str) -> Iterator[types.ModuleType]:
    made = types.ModuleType(name)
    sys.modules[name] = made
    exec(compile(SAMPLES[name], f"docs/plugins.md:{name}", "exec"), made.__dict__)
    yield made
    del sys.modules[name]


def test_every_part_has_a_sample() -> None:
    assert set(SAMPLES) == {
        "studio_shout",
        "studio_acme",
        "studio_lines",
        "studio_dots",
        "studio_words",
        "studio_badges",
        "studio_two_steps",
    }


def test_a_sample_is_a_plugin(module: types.ModuleType) -> None:
    manager = create_manager(False)
    assert manager.register(module)
    Registry(manager)
    (row,) = manager.report()
    assert row.error is None
    assert len(row.contributes) == 1


def test_the_wire_conforms() -> None:
    (module,) = load("studio_lines")
    (family,) = module.provider_families()
    pieces = [b'data: {"say": "It "}\n\n', b'data: {"say": "is "}\n\n', b'data: {"say": "sunny."}\n\n']
    end = b'data: {"end": true, "read": 12, "wrote": 5}\n\n'
    recordings = [
        Recording("text", "one", (*pieces, end), text="It is sunny.", usage={"input": 12, "output": 5}),
        Recording(
            "error",
            "one",
            (b'{"error": "too many"}',),
            status=429,
            content_type="application/json",
            error="provider_rate_limited",
        ),
    ]
    (verdict,) = check(family, recordings)
    assert verdict.ok, "\n" + render([verdict])


def test_the_embeddings_are_made() -> None:
    (module,) = load("studio_dots")
    manager = create_manager(False)
    manager.register(module)
    with byte_server({}) as server:
        server.plan = Answer(200, "application/json", [b'{"dots": [[1, 2], [3, 4]], "tokens": 5}'])
        environ = {"DOTS_API_KEY": "key-1", "STUDIO_DOTS_API_BASE": server.base}
        model = Registry(manager).embedders.resolve("dots/dots-1", environ)
        with RunScope() as scope:
            request = EmbeddingRequest("dots-1", ("a", "b"), "query")
            found = model.wire.embed(request, model.connection, scope)
        assert [list(vector) for vector in found.vectors] == [[1.0, 2.0], [3.0, 4.0]]
        assert (found.usage, model.batch) == (Usage(input=5, total=5), 16)
        (exchange,) = server.exchanges
        assert exchange.path == "/v1/dots/dots-1"
        assert b"Authorization: Bearer key-1" in exchange.head


def test_the_block_runs(tmp_path: Path) -> None:
    (module,) = load("studio_words")
    document: dict[str, t.Any] = {
        "name": "count",
        "blocks": [
            {"id": "start", "type": "start"},
            {"id": "words_1", "type": "words", "config": {"text": "{{ input.message }} you"}},
        ],
        "edges": [{"source": "start", "target": "words_1"}],
    }
    with services(tmp_path, plugins=(module,)) as made:
        run, _ = start(made, document, {"message": "hello to"})
        assert run.done.wait(20)
        assert isinstance(run.state.terminal, ev.RunCompleted)
        assert run.state.outputs()["words_1"] == {"content": "hello to you", "words": 3}


def test_the_help_and_the_page_say_the_same() -> None:
    from app.cli.main import cli

    for command in ("conformance", "new-plugin"):
        options = [
            name for param in cli.commands[command].params for name in param.opts if name.startswith("--")
        ]
        assert options
        for option in options:
            assert option in PAGE, f"{command} {option}"
    scenarios = "text, thinking, tool, parallel, no-arguments, error, cut, stall, cancel, replay"
    help_text = " ".join((cli.commands["conformance"].help or "").split())
    assert scenarios in help_text
    for sentence in (
        "0 when all conform, 1 when one does not or the plugin has an error, 2 when there is nothing",
    ):
        assert sentence in help_text
        assert sentence in " ".join(PAGE.split())


def test_the_runner_asks_and_goes_on(tmp_path: Path) -> None:
    (module,) = load("studio_two_steps")
    with services(tmp_path, plugins=(module,)) as made:
        workflow = compile_runner(made.plugins.runners["demo:two-steps"])
        request = RunRequest("run_1", "demo:two-steps", None, workflow, {}, 30)
        run = made.runs.start(request, (Recorder(),))
        assert run.done.wait(PATIENCE_S)
        (row,) = made.store.decisions.open_of_run(run.id)
        assert (row.node, row.review["prompt"]) == ("say", "May I speak?")
        made.store.decisions.answer(row.id, {"decision": "approve"}, "somebody")
        found = carry_on(made, run.id)
        assert found is not None
        again, recorder = found
        assert again.done.wait(PATIENCE_S)
        assert [event.output for event in recorder.of(ev.RunCompleted)] == [{"content": "I may."}]
        ended = {block: state.execution for block, state in again.state.blocks.items()}
        assert ended == {"think": 1, "say": 1}

"""Each hook works through the built-in plugin, is documented, and has its test here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from app import builtins, config
from plugins import hookspecs
from plugins.manager import create_manager
from plugins.registry import Registry
from plugins.spec import (
    BlockType,
    Detector,
    ProviderFamily,
    RunnerContext,
    RunnerEdge,
    RunnerGraph,
    RunnerNode,
    RunnerSettings,
    Tool,
)


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    settings = config.load({"STUDIO_DATA_DIR": str(tmp_path)})
    return Registry(create_manager(False, builtins.plugins(settings)))


def hooks() -> list[str]:
    return [name for name, value in vars(hookspecs).items() if hasattr(value, "studio_spec")]


@pytest.mark.parametrize("hook", hooks())
def test_every_hook_is_documented_and_tested(hook: str) -> None:
    text = getattr(hookspecs, hook).__doc__
    for part in ("Called ", ":returns:", "Raising ", "Anyone may implement it", "Used in the tree by"):
        assert part in text
    assert f"test_hook_{hook}" in globals()


def test_the_built_in_plugin_is_whole(registry: Registry) -> None:
    (report,) = registry.manager.report()
    assert (report.name, report.error) == ("studio", None)
    assert set(report.contributes) == set(hooks()) - {"workflow_runners"}  # see the plugin langgraph


def test_hook_provider_families(registry: Registry) -> None:
    named = {name.replace("_", "-") for name in builtins.FAMILIES}
    assert named | {"scripted", "local"} <= {key.replace(".", "-") for key in registry.families}
    assert all(isinstance(family, ProviderFamily) for family in registry.families.values())


def test_a_built_in_family_that_fails_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "FAMILIES", ("absent", *builtins.FAMILIES[:2], "gone"))
    settings = config.load({"STUDIO_DATA_DIR": str(tmp_path)})
    made = Registry(create_manager(False, builtins.plugins(settings)))
    assert list(made.families) == ["alibaba", "anthropic", "scripted", "local"]
    error = str(made.manager.report()[0].error)
    for name in ("absent", "gone"):
        assert f'family "{name}" is left out: ModuleNotFoundError' in error


def test_address_and_key_of_every_built_in_family_are_known_without_loading_it(registry: Registry) -> None:
    assert builtins.own_variables() <= registry.variables()
    assert len(builtins.own_variables()) == 2 * len(registry.families)


def test_hook_block_types(registry: Registry) -> None:
    assert {"start", "agent", "condition", "loop", "parallel", "set", "response"} <= set(registry.block_types)
    assert {"http", "tool", "guardrail", "workflow"} <= set(registry.block_types)
    assert all(isinstance(block_type, BlockType) for block_type in registry.block_types.values())


def test_hook_tools(registry: Registry) -> None:
    assert set(registry.tools) == {"clock", "calculator"}
    assert all(isinstance(tool, Tool) for tool in registry.tools.values())


def test_hook_pii_detectors(registry: Registry) -> None:
    assert set(registry.detectors) == {"email", "phone", "card", "iban", "cpf", "cnpj", "us-ssn", "ip"}
    assert all(isinstance(detector, Detector) for detector in registry.detectors.values())


class _Runner:
    """A workflow of one node."""

    id = "test:one"
    title = "One"
    settings = RunnerSettings()

    def topology(self) -> RunnerGraph:
        return RunnerGraph([RunnerNode("one", "One", ends=True, answers=True)], [], ["one"])

    def run(self, context: RunnerContext) -> Mapping[str, Any]:
        context.start("one").finished({"content": "done"})
        return {"content": "done"}


class _Runners:
    plugin_name = "runners"

    def __init__(self, *runners: object) -> None:
        self._runners = runners

    @hookspecs.hookimpl
    def workflow_runners(self) -> Iterable[Any]:
        return self._runners


def test_hook_workflow_runners() -> None:
    made = Registry(create_manager(False, [_Runners(_Runner())]))
    assert set(made.runners) == {"test:one"}
    assert made.manager.report()[0].contributes == {"workflow_runners": ("test:one",)}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": "one"}, 'its id has to be "<kind>:<name>"'),
        ({"graph": RunnerGraph([], [], [])}, "needs nodes, each with an id of its own"),
        ({"graph": RunnerGraph([RunnerNode("a b", "x")], [], ["a b"])}, '"a b" cannot be the id of a node'),
        ({"graph": RunnerGraph([RunnerNode("a/b", "x")], [], ["a/b"])}, '"a/b" cannot be the id of a node'),
        (
            {"graph": RunnerGraph([RunnerNode("a", "x")], [RunnerEdge("a", "b")], ["a"])},
            'to "b", which is no node',
        ),
        ({"graph": RunnerGraph([RunnerNode("a", "x")], [], ["b"])}, "its entries have to be nodes"),
    ],
)
def test_a_runner_that_cannot_be_used_is_left_out(change: dict[str, Any], problem: str) -> None:
    runner = _Runner()
    if "id" in change:
        runner.id = change["id"]
    else:
        runner.topology = lambda: change["graph"]  # type: ignore[method-assign]
    made = Registry(create_manager(False, [_Runners(runner)]))
    assert made.runners == {}
    assert problem in str(made.manager.report()[0].error)


def test_the_public_module_exports_what_it_says() -> None:
    import studio_plugin

    assert sorted(studio_plugin.__all__) == studio_plugin.__all__
    for name in studio_plugin.__all__:
        assert getattr(studio_plugin, name) is not None
    public = {name for name in vars(studio_plugin) if not name.startswith("_")} - {"annotations"}
    assert public | set(studio_plugin._LATER) | {"conformance"} == set(studio_plugin.__all__)

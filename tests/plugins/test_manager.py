"""A broken plugin never stops the server and is named with why."""

from __future__ import annotations

import sys
import types
import typing as t
from pathlib import Path

import pluggy
import pytest

from plugins.hookspecs import hookimpl
from plugins.manager import PluginReport, create_manager
from plugins.registry import Registry
from plugins.spec import Tool

THIRD_PARTY = pluggy.HookimplMarker("studio")


def tool(name: str) -> Tool:
    return Tool(name, "Says its name.", {"type": "object"}, lambda arguments, context: name)


class Good:
    """A plugin that contributes one tool."""

    plugin_name = "good"

    @hookimpl
    def tools(self) -> list[Tool]:
        return [tool("greet")]


def row(rows: t.Iterable[PluginReport], name: str) -> PluginReport:
    return next(each for each in rows if each.name == name)


def assert_only_good_is_used(plugin: object, name: str, *words: str) -> PluginReport:
    """Register ``plugin`` before a good one: the good one works, the report of ``name`` has ``words``."""
    manager = create_manager(False, [plugin, Good()])
    registry = Registry(manager)
    assert list(registry.tools) == ["greet"]
    assert row(manager.report(), "good").error is None
    broken = row(manager.report(), name)
    assert broken.error is not None
    for word in words:
        assert word in broken.error
    return broken


def test_a_plugin_of_pluggy_alone_works() -> None:
    module = types.ModuleType("third_party")

    @THIRD_PARTY
    def tools() -> list[Tool]:
        return [tool("theirs")]

    module.tools = tools  # type: ignore[attr-defined]
    manager = create_manager(False, [module])
    assert list(Registry(manager).tools) == ["theirs"]
    assert manager.report() == (
        PluginReport("third_party", None, {"tools": ("theirs",)}, None, manager.report()[0].seconds),
    )


def test_a_class_is_instantiated() -> None:
    assert list(Registry(create_manager(False, [Good])).tools) == ["greet"]


def test_a_hook_that_raises_loses_only_its_own() -> None:
    class Raising:
        @hookimpl
        def tools(self) -> list[Tool]:
            raise RuntimeError("no\nluck")

    assert_only_good_is_used(Raising(), "Raising", "hook tools raised: RuntimeError: no luck")


def test_a_hook_that_raises_midway_keeps_what_it_gave() -> None:
    class Half:
        @hookimpl
        def tools(self) -> t.Iterator[Tool]:
            yield tool("first")
            raise RuntimeError

    manager = create_manager(False, [Half()])
    assert list(Registry(manager).tools) == ["first"]
    assert row(manager.report(), "Half").error == "hook tools raised: RuntimeError"


def test_a_wrong_signature_names_the_argument() -> None:
    class Wrong:
        @hookimpl
        def block_types(self) -> list[t.Any]:
            return []

        @hookimpl
        def tools(self, config: object) -> list[Tool]:
            return []

    broken = assert_only_good_is_used(Wrong(), "Wrong", "config", "tools")
    assert broken.contributes == {}


def test_an_unknown_hook_names_those_there_are() -> None:
    class Odd:
        @hookimpl
        def toolz(self) -> list[Tool]:
            return []

    assert_only_good_is_used(
        Odd(), "Odd", "unknown hook toolz", "block_types, pii_detectors, provider_families, tools"
    )


def test_a_plugin_without_hooks_is_told_about_the_marker() -> None:
    assert_only_good_is_used(types.SimpleNamespace(plugin_name="bare"), "bare", 'HookimplMarker("studio")')


def test_a_wrapper_is_refused() -> None:
    class Wrapping:
        @hookimpl(wrapper=True)
        def tools(self) -> t.Generator[None, list[Tool], list[Tool]]:
            yield
            return []

    assert_only_good_is_used(Wrapping(), "Wrapping", "wrappers are not supported")


@pytest.mark.parametrize("result", [7, [7], ["greet"]])
def test_results_of_the_wrong_type_are_refused(result: object) -> None:
    class Typed:
        @hookimpl
        def tools(self) -> t.Any:
            return result

    assert_only_good_is_used(Typed(), "Typed", "tools")


def test_a_hook_may_return_nothing() -> None:
    class Nothing:
        @hookimpl
        def tools(self) -> None:
            return None

    manager = create_manager(False, [Nothing()])
    assert Registry(manager).tools == {}
    assert manager.report()[0].error is None


def test_duplicate_ids_name_both_and_the_first_stays() -> None:
    class Second:
        plugin_name = "second"

        @hookimpl
        def tools(self) -> list[Tool]:
            return [tool("greet"), tool("more")]

    manager = create_manager(False, [Good(), Second()])
    registry = Registry(manager)
    assert list(registry.tools) == ["greet", "more"]
    assert row(manager.report(), "good").contributes == {"tools": ("greet",)}
    second = row(manager.report(), "second")
    assert second.contributes == {"tools": ("more",)}
    assert second.error == (
        'tools: "greet" of plugin "second" is left out, plugin "good" has that id already; rename one'
    )


def test_two_plugins_of_one_name() -> None:
    manager = create_manager(False, [Good(), Good()])
    assert list(Registry(manager).tools) == ["greet"]
    assert "also called" in str(manager.report()[0].error)


# -- entry points ---------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Path]:
    """A folder on sys.path that distributions can be put into."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("sp_"):
            del sys.modules[name]


def install(site: Path, name: str, entry_points: str, source: str = "", version: str = "1.2.3") -> None:
    """A distribution as pip leaves it: metadata, entry points and one module of the same name."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)
    (site / f"{name}.py").write_text(source)


WORKING = """
from studio_plugin import Tool, hookimpl

@hookimpl
def tools():
    return [Tool("shout", "Upper case.", {"type": "object"}, lambda arguments, context: "HEY")]
"""


def test_entry_points_are_loaded_one_by_one(site: Path) -> None:
    install(site, "sp_a_syntax", "[studio]\na-syntax = sp_a_syntax\n", "def broken(:\n")
    install(site, "sp_b_exit", "[studio]\nb-exit = sp_b_exit\n", "raise SystemExit(3)\n")
    install(site, "sp_c_import", "[studio]\nc-import = sp_c_import\n", "import no_such_module_anywhere\n")
    install(site, "sp_d_attr", "[studio]\nd-attr = sp_d_attr:plugin\n")
    install(site, "sp_e_malformed", "[studio]\nnonsense without an equals sign\n")
    install(site, "sp_f_good", "[studio]\nf-good = sp_f_good\n[console_scripts]\nx = y:z\n", WORKING)
    install(site, "sp_g_other", "[other]\ng = sp_g_other\n", "raise RuntimeError\n")
    manager = create_manager()
    registry = Registry(manager)
    assert list(registry.tools) == ["shout"]
    rows = {each.name: each for each in manager.report()}
    assert rows["f-good"].version == "1.2.3"
    assert rows["f-good"].contributes == {"tools": ("shout",)}
    assert rows["f-good"].error is None
    assert "SyntaxError" in str(rows["a-syntax"].error)
    assert "SystemExit: 3" in str(rows["b-exit"].error)
    assert "no_such_module_anywhere" in str(rows["c-import"].error)
    assert "import of sp_d_attr:plugin failed: AttributeError" in str(rows["d-attr"].error)
    assert "entry_points.txt is malformed" in str(rows["sp_e_malformed"].error)
    assert not any("sp_g" in name or name == "g" for name in rows)
    assert all(each.seconds >= 0 for each in rows.values())


def test_a_shadowed_distribution_is_loaded_once(site: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    install(site, "sp_twice", "[studio]\ntwice = sp_twice\n", WORKING, "2.0")
    install(site, "Sp_Twice", "[studio]\ntwice = sp_twice\n", WORKING, "1.0")
    manager = create_manager()
    assert list(Registry(manager).tools) == ["shout"]
    assert len([each for each in manager.report() if each.name == "twice"]) == 1


def test_built_ins_come_before_entry_points(site: Path) -> None:
    install(
        site,
        "sp_taker",
        "[studio]\ntaker = sp_taker\n",
        WORKING.replace('"shout"', '"greet"').replace("HEY", "x"),
    )
    manager = create_manager(builtins=[Good()])
    assert Registry(manager).tools["greet"].description == "Says its name."
    assert 'plugin "good" has that id already' in str(row(manager.report(), "taker").error)

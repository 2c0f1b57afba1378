"""What cannot be served is found when the app is made, in words that say what to do."""

from __future__ import annotations

import json
import subprocess
import sys
import types
import typing as t
from pathlib import Path

import pytest

pytest.importorskip("langgraph", reason="needs the extra langgraph, which make test installs")

from langgraph.graph import START, MessagesState, StateGraph

from app import builtins, config
from plugins.langgraph_app import GraphApp
from plugins.manager import create_manager
from plugins.registry import Registry
from tests.support import graphs_of_langgraph as graphs
from tests.support.shared import ROOT


def _ok(state: t.Any) -> dict[str, t.Any]:
    return {}


async def _asynchronous(state: t.Any) -> dict[str, t.Any]:
    return {}


async def _way(state: t.Any) -> str:
    return "one"


def _async_branch() -> t.Any:
    graph = StateGraph(MessagesState)
    graph.add_node("one", _ok)
    graph.add_conditional_edges(START, _way, ["one"])
    return graph.compile()


def _async_tool() -> t.Any:
    from langchain_core.tools import StructuredTool

    async def look_up() -> str:
        return ""

    made = StructuredTool.from_function(coroutine=look_up, name="look_up", description="Look it up.")
    return graphs.with_tools(graphs.Chat(scripts=[[]]), [made])


def _inner_async() -> t.Any:
    graph = StateGraph(MessagesState)
    graph.add_node("around", graphs.nodes(_asynchronous))
    graph.add_edge(START, "around")
    return graph.compile()


class AsyncSaver:
    """As the asynchronous checkpointers are: bound to a loop."""

    loop = None


def _async_saver() -> t.Any:
    graph = graphs.nodes(_ok)
    graph.checkpointer = AsyncSaver()
    return graph


def _raises() -> t.Any:
    raise RuntimeError("no database")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    made = types.ModuleType("my_graphs")
    monkeypatch.setitem(sys.modules, "my_graphs", made)
    made.support = graphs.nodes(_ok)  # type: ignore[attr-defined]
    return made


def registry(tmp_path: Path, apps: str) -> Registry:
    settings = config.load({"STUDIO_DATA_DIR": str(tmp_path), "STUDIO_LANGGRAPH_APPS": apps})
    return Registry(create_manager(False, builtins.plugins(settings)))


def test_graphs_apps_and_functions_that_make_them_are_served(tmp_path: Path, module: t.Any) -> None:
    module.app = GraphApp(module.support, title="Help", timeout_s=7, public=True)
    module.make = lambda: module.support
    module.shop = types.SimpleNamespace(graph=module.support)
    made = registry(tmp_path, "a=my_graphs:support, b=my_graphs:app,c=my_graphs:make, d=my_graphs:shop.graph")
    assert list(made.runners) == ["langgraph:a", "langgraph:b", "langgraph:c", "langgraph:d"]
    assert (made.runners["langgraph:b"].title, made.runners["langgraph:b"].settings.timeout_s) == ("Help", 7)
    report = made.manager.report()[-1]
    assert (report.name, report.error) == ("langgraph", None)
    assert report.contributes == {"workflow_runners": tuple(made.runners)}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, 'my_graphs has no attribute "suport" (did you mean "support"?); it has support'),
        (StateGraph(MessagesState), "my_graphs:suport is not compiled; name what its compile() gives"),
        (
            7,
            "my_graphs:suport is of type int; name a compiled graph, a GraphApp, or a function that makes one",
        ),
        (_raises, "my_graphs:suport() raised RuntimeError: no database"),
        (graphs.nodes(_asynchronous), 'its node "_asynchronous" has an async function only'),
        (_inner_async(), 'its node "_asynchronous" has an async function only'),
        (_async_branch(), 'the way on from its node "__start__" has an async function only'),
        (_async_tool(), 'its tool "look_up" has an async function only'),
        (_async_saver(), "its checkpointer AsyncSaver works under asyncio only; compile it with Saver"),
        (
            graphs.nodes(_ok, interrupt_before=["_ok"]),
            "it stops at _ok by interrupt_before or interrupt_after",
        ),
        (GraphApp(graphs.nodes(_ok), answers=["ok"]), 'answers: there is no node "ok"'),
    ],
    ids=lambda given: given[:40] if isinstance(given, str) else "graph",
)
def test_what_cannot_be_served(tmp_path: Path, module: t.Any, value: t.Any, problem: str) -> None:
    if value is not None:
        module.suport = value
    with pytest.raises(config.ConfigError) as raised:
        registry(tmp_path, "a=my_graphs:support,b=my_graphs:suport")
    (told,) = raised.value.problems
    assert (told.variable, told.value) == ("STUDIO_LANGGRAPH_APPS", "b=my_graphs:suport")
    assert problem in told.cure


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigError, match=r"there is no module no_such_graphs; install the package"):
        registry(tmp_path, "a=no_such_graphs.x:y")


def test_a_module_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_graphs.py").write_text("import no_such_library_of_theirs\n")
    (tmp_path / "raising_graphs.py").write_text("raise ValueError('no key')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        config.ConfigError, match="importing broken_graphs failed: No module named 'no_such_library"
    ):
        registry(tmp_path, "a=broken_graphs:y")
    with pytest.raises(config.ConfigError, match="importing raising_graphs raised ValueError: no key"):
        registry(tmp_path, "a=raising_graphs:y")


@pytest.mark.parametrize("text", ["a", "a=b", "a=b:", "=b:c", "a b=c:d", "a=b:c,a=d:e"])
def test_names_that_cannot_be_read(text: str) -> None:
    with pytest.raises(config.ConfigError):
        config.load({"STUDIO_LANGGRAPH_APPS": text})


_SCRIPT = """
import builtins, json, sys
real = builtins.__import__
def without(name, *args):
    if name.partition(".")[0] in ("langgraph", "langchain_core", "langsmith"):
        raise ImportError(f"No module named {name!r}")
    return real(name, *args)
from app import builtins as own, config
from plugins.manager import create_manager
from plugins.registry import Registry
settings = config.load({"STUDIO_DATA_DIR": sys.argv[1]})
Registry(create_manager(False, own.plugins(settings)))
loaded = [name for name in sys.modules if "lang" in name]
builtins.__import__ = without
try:
    own.plugins(config.load({"STUDIO_DATA_DIR": sys.argv[1], "STUDIO_LANGGRAPH_APPS": "a=b:c"}))
except config.ConfigError as error:
    print(json.dumps([loaded, str(error)]))
"""


def test_without_apps_nothing_of_it_is_loaded_and_without_the_extra_it_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    loaded, error = json.loads(done.stdout)
    assert loaded == []
    assert 'pip install -e ".[langgraph]"' in error

"""Finds a graph by ``module:attribute`` and sees whether it can be served. Every problem names its cure."""

from __future__ import annotations

import importlib
import typing as t
from collections.abc import Iterator

from plugins.langgraph_app.app import AppProblem, GraphApp
from plugins.wording import did_you_mean, listed

if t.TYPE_CHECKING:
    from plugins.langgraph_app.runner import LangGraphRunner

_MAX_DEPTH = 8
_SYNC = (
    "has an async function only, and Studio runs graphs synchronously; give it a function that is not async "
    "(LangChain's RunnableLambda takes both)"
)


def load(name: str, target: str) -> LangGraphRunner:
    """The runner of one app.

    :raises AppProblem: it cannot be served.
    """
    try:
        import langgraph.pregel  # noqa: F401  # whether it is there
    except ImportError as error:
        raise AppProblem(
            name,
            f"needs LangGraph, which is not installed ({error}); in Studio's folder: "
            '.venv/bin/python -m pip install -e ".[langgraph]"',
        ) from None
    from plugins.langgraph_app.runner import LangGraphRunner

    return LangGraphRunner(name, _app(name, target))


def _app(name: str, target: str) -> GraphApp:
    found = _attribute(name, target)
    if callable(found) and not isinstance(found, (type, GraphApp)) and not _is_graph(found):
        try:
            found = found()
        except Exception as error:
            raise AppProblem(name, f"{target}() raised {type(error).__name__}: {error}") from error
    app = found if isinstance(found, GraphApp) else GraphApp(found)
    if not _is_graph(app.graph):
        raise AppProblem(name, _no_graph(target, app.graph))
    for problem in (*_unserved(app.graph), *_unknown_answers(app)):
        raise AppProblem(name, problem)
    return app


def _attribute(name: str, target: str) -> t.Any:
    module_name, _, attribute = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise AppProblem(
                name,
                f"there is no module {error.name}; install the package beside Studio, or put its folder on PYTHONPATH",
            ) from None
        raise AppProblem(name, f"importing {module_name} failed: {error}; install what it needs") from error
    except Exception as error:
        raise AppProblem(name, f"importing {module_name} raised {type(error).__name__}: {error}") from error
    found: t.Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            graphs = [
                key for key, value in vars(module).items() if _is_graph(value) or isinstance(value, GraphApp)
            ]
            has = f"it has {listed(graphs)}" if graphs else "it has no compiled graph"
            raise AppProblem(
                name, f'{module_name} has no attribute "{attribute}"{did_you_mean(attribute, graphs)}; {has}'
            )
        found = getattr(found, part)
    return found


def _is_graph(value: t.Any) -> bool:
    from langgraph.pregel import Pregel

    return isinstance(value, Pregel)


def _no_graph(target: str, value: t.Any) -> str:
    if hasattr(value, "compile") and hasattr(value, "add_node"):
        return f"{target} is not compiled; name what its compile() gives"
    kind = type(value).__name__
    return f"{target} is of type {kind}; name a compiled graph, a GraphApp, or a function that makes one"


def _unknown_answers(app: GraphApp) -> Iterator[str]:
    from plugins.langgraph_app.topology import Nodes

    if app.answers is not None:
        known = [node.name for node in Nodes(app.graph).named()]
        for answer in app.answers:
            if answer not in known:
                yield f'answers: there is no node "{answer}"{did_you_mean(answer, known)}; there are {listed(known)}'


def _unserved(graph: t.Any, depth: int = 0) -> Iterator[str]:
    """What keeps a graph, or one inside of it, from being served."""
    yield from _async_only(graph)
    if stops := (*graph.interrupt_before_nodes, *graph.interrupt_after_nodes):
        yield (
            f"it stops at {listed(map(str, stops))} by interrupt_before or interrupt_after, where nothing can be "
            "asked; call interrupt() in the node instead"
        )
    if depth < _MAX_DEPTH:
        for _, inner in graph.get_subgraphs():
            yield from _unserved(inner, depth + 1)


def _async_only(graph: t.Any) -> Iterator[str]:
    """What works under asyncio alone. A worker runs on greenlets: no event loop runs in it."""
    for name, node in graph.nodes.items():
        if _is_async(node.bound):
            yield f'its node "{name}" {_SYNC}'
        for tool in getattr(node.bound, "tools_by_name", {}).values():
            if getattr(tool, "coroutine", None) is not None and getattr(tool, "func", None) is None:
                yield f'its tool "{tool.name}" {_SYNC}'
    for node, branches in getattr(getattr(graph, "builder", None), "branches", {}).items():
        if any(_is_async(branch.path) for branch in branches.values()):
            yield f'the way on from its node "{node}" {_SYNC}'
    checkpointer = graph.checkpointer
    if hasattr(checkpointer, "loop") and type(checkpointer).__name__.startswith("Async"):
        kind = type(checkpointer).__name__
        yield f"its checkpointer {kind} works under asyncio only; compile it with {kind.removeprefix('Async')}"


def _is_async(runnable: t.Any) -> bool:
    return getattr(runnable, "func", True) is None and getattr(runnable, "afunc", None) is not None

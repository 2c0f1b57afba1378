"""The ``parallel`` block: runs branches, or one body for each of some items, at the same time, and joins them.

Law of this room: a branch advances by itself; nothing waits but the join, which is this block's end. With
``on_error: fail`` the first failure ends the other branches; with ``continue`` it is noted and they go on.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from app.agents.kept import kept
from app.agents.templates import evaluate
from app.agents.values import items_of, only
from app.errors import BlockError
from plugins.spec.blocks import BlockContext, BlockType
from providers.spec import Waits

#: Most bodies that run at once where the block sets no limit of its own.
MOST_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class ParallelConfig:
    """What runs, and how much of it at once."""

    branches: Sequence[str] | None = field(
        default=None,
        metadata={"doc": "Names of the branches; each hangs on the handle `branch:<name>`."},
    )
    items: t.Any = field(
        default=None,
        metadata={
            "doc": "A list, or a template that gives one: the body on the handle `loop` runs once for each, with "
            "`loop.item` and `loop.index`; its blocks are `<id>[0]`, `<id>[1]` …",
            "template": True,
            "expression": True,
        },
    )
    max_concurrency: int | None = field(
        default=None,
        metadata={"doc": f"Most that run at once. Default: {MOST_AT_ONCE}.", "low": 1, "high": 1000},
    )
    on_error: t.Literal["fail", "continue"] = field(
        default="fail",
        metadata={
            "doc": "fail: the first failure ends the others and fails this block; continue: it stands in `errors`."
        },
    )


def check(config: ParallelConfig, path: str) -> list[tuple[str, str]]:
    """Branches or items, one of the two."""
    problems = []
    if (config.branches is None) == (config.items is None):
        problems.append((path, "needs either branches or items"))
    names = config.branches or ()
    problems += [
        (f"{path}.branches[{n}]", "must be a non-empty name without a colon")
        for n, name in enumerate(names)
        if not name or ":" in name
    ]
    if config.branches is not None and not names:
        problems.append((f"{path}.branches", "must name at least one branch"))
    if len(set(map(str, names))) != len(names):
        problems.append((f"{path}.branches", "must have different names"))
    return problems


def run(context: BlockContext, config: ParallelConfig) -> Mapping[str, t.Any]:
    """Run everything and wait for all of it.

    :raises RunError: ``template_failed``. :raises BlockError: a branch failed.
    """
    return _branches(context, config) if config.branches is not None else _items(context, config)


def _branches(context: BlockContext, config: ParallelConfig) -> Mapping[str, t.Any]:
    names = tuple(config.branches or ())
    done: dict[str, t.Any] = {}
    handles = {"exit", *(f"branch:{name}" for name in names)}

    def one(waits: Waits, name: str) -> None:
        result = context.body(f"branch:{name}", waits=waits)
        handles.update(result.leaves)
        done[name] = only(result.outputs)

    expected = [(f"branch:{name}", None) for name in names]
    errors = _at_once(context, config, names, expected, one)
    context.take(*handles)
    return {"branches": {name: done.get(name) for name in names}, "errors": errors}


def _items(context: BlockContext, config: ParallelConfig) -> Mapping[str, t.Any]:
    given = config.items
    if isinstance(given, str):
        given = kept(
            context, f"{context.attempt} runs for", lambda: evaluate(config.items, context.variables())
        )
    items = items_of(given, "items")
    results: list[t.Any] = [None] * len(items)

    def one(waits: Waits, index: int) -> None:
        loop = {"index": index, "iteration": index + 1, "item": items[index], "results": ()}
        results[index] = only(context.body("loop", loop=loop, index=index, waits=waits).outputs)

    expected = [("loop", index) for index in range(len(items))]
    errors = _at_once(context, config, range(len(items)), expected, one)
    context.take("exit")
    return {"results": results, "errors": {str(index): error for index, error in errors.items()}}


def _at_once(
    context: BlockContext,
    config: ParallelConfig,
    keys: Sequence[t.Any],
    expected: Sequence[tuple[str, int | None]],
    one: Callable[[Waits, t.Any], None],
) -> dict[t.Any, Mapping[str, str]]:
    """Run ``one`` for every key, a limited number at once, in order of the keys; the failures that do not end it."""
    errors: dict[t.Any, Mapping[str, str]] = {}
    left = iter(keys)

    def work(waits: Waits) -> None:
        for key in left:
            context.sleep(0)  # bodies that wait for nothing keep nobody waiting
            try:
                one(waits, key)
            except BlockError as error:
                if config.on_error == "fail":
                    raise
                errors[key] = {"error": error.message, "code": error.code}

    workers = min(len(keys), config.max_concurrency or MOST_AT_ONCE)
    if workers:
        context.expect(expected, workers)
        context.gather([work] * workers)
    return {key: errors[key] for key in keys if key in errors}


def _handles(config: ParallelConfig) -> tuple[str, ...]:
    return ("loop",) if config.branches is None else tuple(f"branch:{name}" for name in config.branches)


PARALLEL = BlockType(
    type_name="parallel",
    config=ParallelConfig,
    run=run,
    summary="Runs branches, or a body for each item, at the same time, and joins them.",
    handles=("branch:", "loop", "exit", "error"),
    outputs=("branches", "results", "errors"),
    check=check,
    bodies=_handles,
    returns=("loop",),
    named=_handles,
)

"""The ``loop`` block: runs its body again and again, one iteration after the other.

Law of this room: what steers an iteration is read anew before each, and taken down; the cap is a way out like any other
and is said in the output. The body hangs on the handle ``loop`` and leads back; ``exit`` goes on.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from app.agents.kept import kept
from app.agents.templates import evaluate
from app.agents.values import holds, items_of, only
from app.errors import BlockError
from app.events import LoopIteration
from plugins.spec.blocks import BlockContext, BlockType

MOST = 10_000


@dataclass(frozen=True, slots=True)
class LoopConfig:
    """How often, and with what."""

    kind: t.Literal["while", "for", "for_each"] = field(
        metadata={"doc": "while a condition holds, for a number of times, or for each of some items."}
    )
    condition: str | None = field(
        default=None,
        metadata={
            "doc": "`while`: a Jinja2 expression, asked before each iteration.",
            "template": True,
            "expression": True,
        },
    )
    times: t.Any = field(
        default=None,
        metadata={
            "doc": "`for`: a number, or a template that gives one.",
            "template": True,
            "expression": True,
        },
    )
    items: t.Any = field(
        default=None,
        metadata={
            "doc": "`for_each`: a list, or a template that gives one.",
            "template": True,
            "expression": True,
        },
    )
    max_iterations: int = field(
        default=100,
        metadata={
            "doc": "Most iterations; then the loop goes on by `exit` with `capped: true`.",
            "low": 1,
            "high": MOST,
        },
    )


def check(config: LoopConfig, path: str) -> list[tuple[str, str]]:
    """Each kind has its own setting, and needs it."""
    needs = {"while": "condition", "for": "times", "for_each": "items"}
    problems = []
    for kind, name in needs.items():
        given = getattr(config, name) is not None
        if kind == config.kind and not given:
            problems.append((f"{path}.{name}", f"is required by kind {kind}"))
        elif kind != config.kind and given:
            problems.append((f"{path}.{name}", f"belongs to kind {kind}, not to {config.kind}; leave it out"))
    return problems


def run(context: BlockContext, config: LoopConfig) -> Mapping[str, t.Any]:
    """Run the iterations.

    :raises RunError: ``template_failed``. :raises BlockError: a block of the body failed.
    """
    results: list[t.Any] = []
    capped = False
    for loop in _iterations(context, config, results):
        if len(results) >= config.max_iterations:
            capped = True
            break
        context.sleep(0)  # a body that waits for nothing keeps nobody waiting, and a stop lands here
        with context.waits.wait():  # no iteration begins once a stop was asked for
            pass
        number = len(results) + 1
        context.tell(f"{context.attempt}.{number} begins", LoopIteration(context.block, number, "loop"))
        context.flush()
        results.append(only(context.body("loop", loop=loop).outputs))
    context.tell(f"{context.attempt} exits", LoopIteration(context.block, len(results), "exit"))
    context.take("exit")
    return {
        "iterations": len(results),
        "capped": capped,
        "results": results,
        "last": results[-1] if results else None,
    }


def _iterations(
    context: BlockContext, config: LoopConfig, results: Sequence[t.Any]
) -> Iterator[Mapping[str, t.Any]]:
    """What templates see as ``loop`` in each iteration that is due; ``results`` grows in between."""
    if config.kind == "while":
        while True:
            loop = _loop(results)
            if not kept(
                context,
                f"{context.attempt}.{len(results) + 1} goes on",
                partial(_goes_on, context, config, loop),
            ):
                return
            yield loop
    given = config.times if config.kind == "for" else config.items
    value = given
    if isinstance(given, str):
        value = kept(context, f"{context.attempt} runs for", lambda: evaluate(given, context.variables()))
    items = range(_times(value)) if config.kind == "for" else items_of(value, "items")
    for item in items:
        yield _loop(results, item) if config.kind == "for_each" else _loop(results)


def _goes_on(context: BlockContext, config: LoopConfig, loop: Mapping[str, t.Any]) -> bool:
    return holds(evaluate(str(config.condition), {**context.variables(), "loop": loop}))


def _loop(results: Sequence[t.Any], item: t.Any = None) -> Mapping[str, t.Any]:
    return {"index": len(results), "iteration": len(results) + 1, "item": item, "results": tuple(results)}


def _times(value: t.Any) -> int:
    try:
        times = int(value)
        if isinstance(value, bool) or (isinstance(value, float) and value != times):
            raise ValueError(value)
    except (TypeError, ValueError, OverflowError):
        raise BlockError("loop_invalid", f"times must be a whole number, not {str(value)[:50]!r}.") from None
    return max(0, times)


LOOP = BlockType(
    type_name="loop",
    config=LoopConfig,
    run=run,
    summary="Runs its body while a condition holds, a number of times, or for each item.",
    handles=("loop", "exit", "error"),
    outputs=("iterations", "capped", "results", "last"),
    repeats=("last",),
    check=check,
    bodies=lambda config: ("loop",),
    returns=("loop",),
)

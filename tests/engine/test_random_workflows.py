"""Whatever is connected with whatever: a thousand random workflows keep the order, the pairs and the one end.

The thousand are drawn anew in every run. A failure prints the smallest workflow that fails, and a line
``@reproduce_failure(...)`` that plays it again. Runs that are stopped have ``test_random_stops.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from tests.engine.random_runs import LEFT_OUT, MANY, Rig, faults, rig, told
from tests.engine.random_workflows import TYPES, Workflow, workflows

#: In parts, since each has to end within the time of one test, also where two others share its processor.
PARTS, EXAMPLES = 4, 250

#: Making a failing example small takes longer than any test that passes.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(tmp_path_factory.mktemp("random")) as opened:
        yield opened


@pytest.mark.parametrize("part", range(PARTS))
def test_order_and_pairs_of_random_workflows(made: Rig, part: int) -> None:
    @settings(MANY, max_examples=EXAMPLES)
    @given(workflows(TYPES))
    def check(drawn: Workflow) -> None:
        run, recorder = made.start(drawn)
        assert run.done.wait(30)
        found = faults(made, drawn, run, recorder)
        assert not found, told(drawn, found)

    check()


def test_every_block_type_is_drawn_and_bodies_nest(made: Rig) -> None:
    seen: set[str] = set()
    deepest = 0

    @settings(MANY, max_examples=150)
    @given(workflows(TYPES))
    def look(drawn: Workflow) -> None:
        nonlocal deepest
        seen.update(drawn.types())
        bodies = made.compiled(drawn).inside.values()
        blocks = {block for body in bodies for block in body}
        deepest = max([deepest, *(sum(block in body for body in bodies) for block in blocks)])

    look()
    assert seen == set(made.made.plugins.block_types) - set(LEFT_OUT)
    assert deepest >= 3

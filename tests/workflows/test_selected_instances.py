"""Selectors of blocks that run several times at once, and inside of other workflows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.engine.catalog import Catalog
from app.engine.services import Services
from app.errors import ValidationFailed
from app.workflows.selectors import Selection, resolve
from tests.engine.flows import document, save
from tests.support.engine import services

ECHO = {"model": "scripted/echo"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with services(tmp_path_factory.mktemp("selected")) as opened:
        inner = document(
            [("p", "parallel", {"items": [1, 2]}), ("a", "agent", ECHO)], "start > p", "p -loop> a", "a > p"
        )
        outer = document(
            [
                ("q", "parallel", {"items": [1]}),
                ("c", "workflow", {"workflow": "inner"}),
                ("z", "agent", ECHO),
            ],
            "start > q",
            "q -loop> c",
            "c > q",
            "q -exit> z",
        )
        outer["blocks"][3]["name"] = "End [1]"
        save(opened, inner=inner, outer=outer)
        yield opened


@pytest.mark.parametrize(
    ("selector", "block", "path"),
    [
        ("c", "c", ()),
        ("c[0].results", "c[0]", ("results",)),
        ("C[12]", "c[12]", ()),
        ("c/a.content", "c/a", ("content",)),
        ("c[0]/a[1].content", "c[0]/a[1]", ("content",)),
        ("c/a[0][3].content", "c/a[0][3]", ("content",)),
        ("End [1].content", "z", ("content",)),
    ],
)
def test_an_index_means_the_one_instance(
    made: Services, selector: str, block: str, path: tuple[str, ...]
) -> None:
    assert resolve([selector], Catalog(made).find("outer").workflow) == (Selection(block, path),)


@pytest.mark.parametrize(
    "selector", ["z[0].content", "c[x].results", "c[].results", "c[0", "c[0]/p[0]", "[0]"]
)
def test_what_never_has_instances_has_no_index(made: Services, selector: str) -> None:
    with pytest.raises(ValidationFailed, match="matches no block"):
        resolve([selector], Catalog(made).find("outer").workflow)

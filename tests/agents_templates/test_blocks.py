"""The start and response blocks."""

from types import SimpleNamespace

import pytest

from app.blocks.response import RESPONSE, ResponseConfig
from app.blocks.start import START, StartConfig
from app.errors import RunError


def context(given, blocks=None, predecessors=()):
    seen = {"input": given, "blocks": blocks or {}, "vars": {"x": 1}}
    return SimpleNamespace(variables=lambda: seen, predecessors=predecessors)


@pytest.mark.parametrize(
    ("given", "output"), [({"a": 1}, {"a": 1}), ({}, {}), ([1], {"input": [1]}), (3, {"input": 3})]
)
def test_start_gives_the_input(given, output):
    assert START.run(context(given), StartConfig()) == output


def test_a_response_renders_its_body():
    config = ResponseConfig(
        {"said": "{{ blocks.a.content }}", "list": "{{ input.l }}"}, 201, {"X-A": "{{ vars.x }}!"}
    )
    output = RESPONSE.run(context({"l": [1]}, {"a": {"content": "hi"}}), config)
    assert output == {"status": 201, "headers": {"X-A": "1!"}, "body": {"said": "hi", "list": [1]}}


def test_without_a_body_it_is_what_came_before():
    blocks = {"a": {"content": "A"}, "b": {"content": "B"}, "other": {}}

    def body(*predecessors):
        return RESPONSE.run(context({}, blocks, predecessors), ResponseConfig())["body"]

    assert body("a") == {"content": "A"}
    assert body("a", "b") == {"a": {"content": "A"}, "b": {"content": "B"}}
    assert body("a", "skipped") == {"a": {"content": "A"}}
    assert body("skipped") is None
    assert body() == {}


def test_a_body_that_cannot_be_rendered_fails_the_block():
    with pytest.raises(RunError, match="division"):
        RESPONSE.run(context({}), ResponseConfig("{{ 1 / 0 }}"))

"""Documents compiled once: what counts as the same, what is compiled anew, and how much is kept."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from app.engine.compiler import Compiler, Recent
from app.engine.recompiled import documents_of, workflow_of
from app.engine.services import Services
from app.errors import ValidationFailed
from plugins.hookspecs import hookimpl
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily
from providers.auth import NoAuth
from tests.engine.redacted import Model
from tests.support.engine import agent, services


class Closed:
    """A family that has the models it has at the moment."""

    def __init__(self) -> None:
        self.names = ["x", "y"]

    def models(self) -> list[str]:
        gevent.sleep(0)
        return self.names

    @hookimpl
    def provider_families(self) -> list[ProviderFamily]:
        return [
            ProviderFamily(
                "closed",
                "Closed",
                Model(),
                NoAuth(),
                ConnectionSpec(default_base="", key_required=False),
                lambda name, row: Capabilities(),
                models=self.models,
            )
        ]


@pytest.fixture
def closed() -> Closed:
    return Closed()


@pytest.fixture
def made(tmp_path: Path, closed: Closed) -> Iterator[Services]:
    with services(tmp_path, plugins=(closed,)) as found:
        yield found


def test_what_says_the_same_is_the_same_object(made: Services) -> None:
    first, second = made.compiler(agent("closed/x")), made.compiler(agent("closed/x"))
    assert first is second
    assert made.compiler(agent("closed/y")) is not first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": True}),
        ({"a": 10**30}, {"a": str(10**30)}),
        ({"a": "é"}, {"a": "e\u0301"}),
    ],
)
def test_documents_that_differ_in_anything_do_not_share(made: Services, one: t.Any, other: t.Any) -> None:
    document = agent("closed/x")
    first = made.compiler({**document, "variables": one})
    second = made.compiler({**document, "variables": other})
    assert first is not second
    assert list(first.variables.items()) == list(one.items())
    assert [(k, type(v), v) for k, v in second.variables.items()] == [
        (k, type(v), v) for k, v in other.items()
    ]


def test_what_the_caller_does_to_its_document_later_changes_nothing(made: Services) -> None:
    document = agent("closed/x")
    found = made.compiler(document)
    document["blocks"][1]["config"]["model"] = "closed/y"
    assert found.document["blocks"][1]["config"]["model"] == "closed/x"
    assert made.compiler(agent("closed/x")) is found
    assert made.compiler(document) is not found


def test_one_whose_model_is_gone_is_refused_and_comes_back_with_it(made: Services, closed: Closed) -> None:
    made.compiler(agent("closed/x"))
    closed.names = ["y"]
    with pytest.raises(ValidationFailed) as failed:
        made.compiler(agent("closed/x"))
    assert 'no model "x"' in failed.value.details[0].message
    closed.names = ["x"]
    assert made.compiler(agent("closed/x")) is made.compiler(agent("closed/x"))


def test_what_a_server_says_of_its_models_is_heard(made: Services) -> None:
    found = made.compiler(agent("closed/x"))
    made.plugins.listings.generation += 1
    again = made.compiler(agent("closed/x"))
    assert again is not found
    assert made.compiler(agent("closed/x")) is again


def test_a_document_that_is_no_json_is_judged_like_any_other(made: Services) -> None:
    with pytest.raises(ValidationFailed):
        made.compiler({**agent("closed/x"), "variables": {"a": {1, 2}}})


def test_of_those_who_want_the_same_one_compiles_and_all_get_it(made: Services) -> None:
    asking = [gevent.spawn(made.compiler, agent("closed/x")) for _ in range(5)]
    gevent.joinall(asking, raise_error=True)
    assert len({id(each.value) for each in asking}) == 1
    assert not len(made.compiler._queues)


def test_a_run_that_is_taken_up_again_runs_the_same_object(made: Services) -> None:
    found = made.compiler(agent("closed/x"))
    assert workflow_of(documents_of(found), made.compiler) is found


def test_what_was_not_asked_for_the_longest_makes_room(made: Services) -> None:
    size = made.compiler(agent("closed/x", prompt="0")).size
    compiler = Compiler(made.plugins, most=3 * size)
    first, second, third = (compiler(agent("closed/x", prompt=str(n))) for n in range(3))
    assert compiler(agent("closed/x", prompt="0")) is first
    compiler(agent("closed/x", prompt="3"))
    assert compiler(agent("closed/x", prompt="0")) is first
    assert compiler(agent("closed/x", prompt="2")) is third
    assert compiler(agent("closed/x", prompt="1")) is not second
    assert compiler._made.bytes <= 3 * size


def test_one_that_is_too_large_to_keep_still_runs(made: Services) -> None:
    compiler = Compiler(made.plugins, most=1)
    assert compiler(agent("closed/x")).name == "test"
    assert (len(compiler._made), compiler._made.bytes) == (0, 0)


def test_bytes_are_counted_however_things_come_and_go() -> None:
    recent: Recent[str] = Recent(10)
    recent.keep("a", "1", 4)
    recent.keep("a", "2", 5)
    recent.keep("b", "3", 5)
    assert (recent.get("a"), recent.bytes, len(recent)) == ("2", 10, 2)
    recent.keep("c", "4", 1)
    assert (recent.get("b"), recent.get("a"), recent.bytes) == (None, "2", 6)
    recent.keep("a", "5", 11)
    assert (recent.get("a"), recent.bytes) == (None, 1)
    recent.drop("nothing")
    recent.clear()
    assert (recent.bytes, len(recent)) == (0, 0)

"""Lists of servers: who is asked when, what is kept, what a failure leaves."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Sequence

import pytest

from app import builtins, config
from plugins.capabilities import family_rows, rows
from plugins.hookspecs import hookimpl
from plugins.listing import FAILED_TTL_S, MAX_NAME, MAX_NAMES, Job, Listings
from plugins.manager import create_manager
from plugins.registry import Registry
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily
from providers.auth import NoAuth
from providers.spec import Connection, ProviderError, Waits

Ask = Callable[[Connection, Waits], Sequence[str]]
WAITS = t.cast(Waits, None)
#: The families of these tests; the built-in ones would ask whoever is there.
OURS = ("served", "own", "known", "mapped", "bare")


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def family(ask: Ask | None, name: str = "served", **more: t.Any) -> ProviderFamily:
    return ProviderFamily(
        id=name,
        title="A server",
        wire="openai_chat",
        auth=NoAuth(),
        connection=more.pop("connection", None)
        or ConnectionSpec(default_base="http://127.0.0.1:9", key_required=False),
        capabilities=lambda model, row: Capabilities(thinking="as_sent", tools="parallel"),
        list_models=ask,
        **more,
    )


def says(*answers: Sequence[t.Any] | BaseException) -> Ask:
    """Gives its answers in order, the last again and again."""
    left = list(answers)

    def ask(connection: Connection, waits: Waits) -> Sequence[str]:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return ask


HERE = Connection("http://127.0.0.1:9", NoAuth())


def run(job: Job | None) -> None:
    assert job is not None
    job(WAITS)


def test_an_answer_stands_for_its_time() -> None:
    clock, served = Clock(), family(says(["b", "a"], ["c"]), list_ttl_s=60)
    lists = Listings(clock)
    assert lists.names("served") == ()
    run(lists.job(served, HERE))
    assert (lists.names("served"), lists.reason("served"), lists.generation) == (("a", "b"), None, 1)
    clock.now += 59
    assert lists.job(served, HERE) is None
    clock.now += 2
    assert lists.names("served") == ("a", "b"), "the old list stands until there is a new one"
    run(lists.job(served, HERE))
    assert (lists.names("served"), lists.generation) == (("c",), 2)


def test_an_attempt_under_way_is_not_made_twice() -> None:
    clock, served = Clock(), family(says(["a"]))
    lists = Listings(clock)
    first = lists.job(served, HERE)
    assert first is not None
    assert lists.job(served, HERE) is None
    clock.now += FAILED_TTL_S
    assert lists.job(served, HERE) is not None, "a job that nobody ran is no reason to wait for ever"


class Stopped(BaseException):
    """What a cancelled wait raises."""


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (ProviderError("provider_unavailable", "No connection."), "No connection."),
        (ValueError("no list"), "ValueError: no list"),
        (Stopped(), "gave no answer in time"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_failure_keeps_the_last_good_answer_and_is_remembered_briefly(
    failure: BaseException, reason: str
) -> None:
    clock, served = Clock(), family(says(["a"], failure, ["b"]), list_ttl_s=60)
    lists = Listings(clock)
    run(lists.job(served, HERE))
    clock.now += 60
    job = lists.job(served, HERE)
    if isinstance(failure, Stopped):
        with pytest.raises(Stopped):
            run(job)
    else:
        run(job)
    assert (lists.names("served"), lists.reason("served"), lists.generation) == (("a",), reason, 1)
    clock.now += FAILED_TTL_S - 1
    assert lists.job(served, HERE) is None
    clock.now += 1
    run(lists.job(served, HERE))
    assert (lists.names("served"), lists.reason("served")) == (("b",), None)


def test_another_address_or_key_is_another_server() -> None:
    clock, served = Clock(), family(says(["mine"], ["theirs"], ["late"]))
    lists = Listings(clock)
    run(lists.job(served, HERE))
    moved = Connection("http://127.0.0.1:10", NoAuth())
    job = lists.job(served, moved)
    assert lists.names("served") == (), "the old server's models are not the new one's"
    run(job)
    assert lists.names("served") == ("theirs",)
    keyed = lists.job(served, Connection("http://127.0.0.1:10", NoAuth(), {"api_key": "k"}))
    back = lists.job(served, HERE)
    run(keyed)
    assert lists.names("served") == (), "an answer of where the family no longer is is dropped"
    run(back)
    assert lists.names("served") == ("late",)


def test_a_list_is_asked_for_quickly_and_only_what_can_be_shown_is_kept() -> None:
    asked: list[Connection] = []

    def ask(connection: Connection, waits: Waits) -> Sequence[str]:
        asked.append(connection)
        odd: list[t.Any] = ["ok", "ok", "", "new\nline", 5, None, "x" * (MAX_NAME + 1)]
        return [*odd, *(f"m{n:05}" for n in range(MAX_NAMES + 5))]

    lists = Listings(Clock())
    run(lists.job(family(ask), Connection("http://x", NoAuth(), connect_s=600, idle_s=600)))
    assert (asked[0].connect_s, asked[0].idle_s) == (3, 5)
    names = lists.names("served")
    assert len(names) == MAX_NAMES
    assert names[0] == "m00000"
    assert all(name.isprintable() for name in names)


class Plugin:
    """Offers families."""

    def __init__(self, *families: ProviderFamily) -> None:
        self._families = families

    @hookimpl
    def provider_families(self) -> Sequence[ProviderFamily]:
        return self._families


def registry(*families: ProviderFamily) -> Registry:
    builtin = builtins.plugins(config.load({}))
    return Registry(create_manager(False, (*builtin, Plugin(*families))))


def test_a_servers_models_become_rows_and_warnings_never_refusals() -> None:
    made = registry(family(says(["qwen3:latest", "llama3"])))
    assert [row["id"] for row in rows(made, "served", environ=None)] == ["served/*"]
    assert made.check_model("served/nonesuch") is None, "nothing is known yet, so there is no opinion"
    for job in made.lists_due({}, OURS):
        job(WAITS)
    assert [row["id"] for row in rows(made, "served", environ=None)] == [
        "served/llama3",
        "served/qwen3:latest",
    ]
    (summary,) = family_rows(made, "served")
    assert (summary["models"], summary["origin"]) == (2, "server")
    assert made.check_model("served/llama3") is None
    assert made.check_model("served/qwen3") is None, "an untagged name means the latest"
    warning = made.check_model("served/lama3")
    assert warning is not None
    assert 'did you mean "llama3"' in warning
    assert made.resolve("served/nonesuch", {}).model == "nonesuch"


def test_only_configured_families_are_asked() -> None:
    made = registry(family(says(["a"]), "keyed", connection=KEYED), family(None, "silent"))
    of_ours = ("keyed", "silent")
    assert made.lists_due({}, of_ours) == []
    assert len(made.lists_due({"TEST_KEY": "k"}, of_ours)) == 1


KEYED = ConnectionSpec(default_base="http://127.0.0.1:9", key_vars=("TEST_KEY",))


def test_a_server_of_ones_own_names_its_models_better_than_the_registry() -> None:
    made = registry(family(says(["mine"]), "own", registry_prefix="groq", known=("k",)))
    assert [row["model"] for row in rows(made, "own", environ=None)] == ["k"]
    assert made.shows_its_list(made.families["own"])
    for job in made.lists_due({}, OURS):
        job(WAITS)
    assert [row["model"] for row in rows(made, "own", environ=None)] == ["mine"]
    assert made.check_model("own/k") is not None, "that server does not have it"


def test_a_vendors_list_comes_last_for_the_table_is_open() -> None:
    ask = says(["ft:gpt-4o:acme"])
    made = registry(
        family(ask, "known", known=("k",), connection=KEYED),
        family(ask, "mapped", registry_prefix="groq", connection=KEYED),
        family(ask, "bare", connection=KEYED),
    )
    assert [made.shows_its_list(made.families[name]) for name in ("known", "mapped", "bare")] == [
        False,
        False,
        True,
    ]
    for job in made.lists_due({"TEST_KEY": "k"}, OURS):
        job(WAITS)
    assert [row["model"] for row in rows(made, "bare", environ=None)] == ["ft:gpt-4o:acme"]
    assert [row["model"] for row in rows(made, "known", environ=None)] == ["k"]
    assert "ft:gpt-4o:acme" not in [row["model"] for row in rows(made, "mapped", environ=None)]
    origins = {row["id"]: row["origin"] for row in family_rows(made)}
    assert (origins["known"], origins["mapped"], origins["scripted"]) == ("known", "registry", "closed")
    assert made.check_model("known/ft:gpt-4o:acme") is None, "the holder of the key may well name it"
    assert made.check_model("known/other") is not None


def test_a_family_whose_rules_raise_loses_only_itself() -> None:
    def broken(*_: t.Any) -> t.Any:
        raise RuntimeError("boom")

    bad = family(None, "bad", models=broken)
    worse = family(None, "worse", model_wire=broken)
    made = registry(bad, worse)
    assert rows(made, "bad", environ=None) == []
    assert {row["id"]: row["wires"] for row in family_rows(made)}["worse"] == ["openai_chat"]
    errors = [row.error for row in made.manager.report() if row.error]
    assert any("boom" in error for error in errors)

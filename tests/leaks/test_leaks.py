"""Nothing that is marked is told to anybody who may not know it; what is redacted, to nobody.

300 cases in every run of the tests, drawn anew; ``make leak-test`` plays 10,000 (``LEAK_CASES``) and makes a case that
leaks as small as it can. They are drawn in parts of 100, each from a seed of its own. A failure begins with the seed of
its part: ``LEAK_SEED=… LEAK_CASES=100 make leak-test`` plays it again, whatever else has changed. Each mutation below
takes one protection away and must be found within as many cases as CI plays: else the search could not find anything.
"""

from __future__ import annotations

import importlib
import os
import random
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from app.engine import redacting
from app.events import AgentMessage
from app.redaction import log_lines
from app.redaction.finders import DetectorFinder
from app.redaction.known import KnownValues
from app.streams import final, public, rights
from app.streams.rights import Rights
from tests.leaks.cases import Case, cases
from tests.leaks.judge import leaks
from tests.leaks.play import play
from tests.leaks.seeds import nothing_loaded
from tests.leaks.world import SECRETS, World, worlds

CASES = int(os.environ.get("LEAK_CASES", "300"))
SEED = int(os.environ.get("LEAK_SEED", random.randrange(2**32)))
#: Cases of one part. What Hypothesis remembers of those it has drawn goes with the part.
PART = min(100, CASES)
DRAWN = settings(
    max_examples=PART,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # Making a failing case small takes minutes, which CI does not have.
    phases=[Phase.generate, *([Phase.shrink] if "LEAK_CASES" in os.environ else [])],
)

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, World]]:
    with worlds(tmp_path_factory.mktemp("leaks")) as made:
        yield made


@pytest.fixture(scope="module")
def unsafe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, World]]:
    """For those without a protection: what they keep is not for the search of the others."""
    with worlds(tmp_path_factory.mktemp("unsafe")) as made:
        yield made


@pytest.fixture(autouse=True)
def _same_everywhere() -> Iterator[None]:
    with nothing_loaded():
        yield


@pytest.mark.parametrize("part", range(-(-CASES // PART)))
def test_nothing_leaks(both: dict[bool, World], part: int) -> None:
    again = f"LEAK_SEED={SEED + part} LEAK_CASES={PART}"
    print(again)
    played = first = 0

    @seed(SEED + part)
    @settings(DRAWN)
    @given(cases())
    def check(case: Case) -> None:
        nonlocal played, first
        played += 1
        found = leaks(play(both[case.secrets], case))
        if found:
            first = first or played  # what follows makes it smaller
            raise AssertionError(
                f"{again} make leak-test finds it again, in case {first}\n" + "\n".join(found)
            )

    check()
    assert played >= PART
    _see_that_nothing_is_kept(both[True])


def _see_that_nothing_is_kept(world: World) -> None:
    """After all that: not a byte of a secret on the disk, but in the sealed ones."""
    kept = world.files()
    for secret in SECRETS:
        assert secret.encode() not in kept
        assert secret.encode().hex().encode() not in kept
    assert b"ZqMarkw" in kept, "the answers are there, so the search looked at the right place"


def test_a_seed_draws_the_same_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was loaded since."""

    def drawn() -> list[int]:
        found: list[int] = []

        @seed(7)
        @settings(DRAWN, max_examples=300, phases=[Phase.generate])
        @given(st.integers(0, 2**32))
        def take(number: int) -> None:
            found.append(number)

        take()
        return found

    before = drawn()
    (tmp_path / "with_numbers.py").write_text(f"NUMBERS = {list(range(5000, 5900))}\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("with_numbers")
    assert drawn() == before


# -- that it can fail ------------------------------------------------------------------------------------


#: A seed with which all of them are found: with another one each time some would be missed at times.
FOUND_WITH = 11


class Leaked(Exception):
    """Something was found."""


def found_by(both: dict[bool, World], wanted: str) -> int:
    """The number of cases until a leak of these classes is found; 0: there is none within as many as CI plays."""
    played = 0

    @seed(FOUND_WITH)
    @settings(DRAWN, max_examples=300, phases=[Phase.generate])
    @given(cases())
    def check(case: Case) -> None:
        nonlocal played
        played += 1
        lines = leaks(play(both[case.secrets], case))
        if any(line.split(" / ")[2][0] in wanted for line in lines):
            raise Leaked

    try:
        check()
    except Leaked:
        return played
    return 0


def _hold_nothing(patch: pytest.MonkeyPatch) -> None:
    """What might become a match is let go at once."""
    patch.setattr(KnownValues, "hold", lambda self, text: len(text))
    patch.setattr(DetectorFinder, "hold", lambda self, text: len(text))


def _think_aloud(patch: pytest.MonkeyPatch) -> None:
    """Thinking goes past the filter."""
    thinking = next(kind for kind in redacting._HANDLERS if kind.__name__ == "ThinkingDelta")
    bare = dict(redacting._HANDLERS)
    del bare[thinking]
    patch.setattr(redacting, "_HANDLERS", bare)


def _always_thinking(patch: pytest.MonkeyPatch) -> None:
    """Everybody sees thinking, whether it was asked for or not."""
    patch.setattr(Rights, "__post_init__", lambda self: object.__setattr__(self, "thinking", True))


def _see_all(patch: pytest.MonkeyPatch) -> None:
    """Visitors see events as keys do."""
    patch.setattr(public, "SEEN", {kind: public._same for kind in public.SEEN})


def _bare_lines(patch: pytest.MonkeyPatch) -> None:
    """What a run logs goes past its policy."""
    patch.setattr(log_lines, "also", lambda further: None)


def _whole_calls(patch: pytest.MonkeyPatch) -> None:
    """Calls of tools keep what they were given and gave."""
    for module in (rights, public, final):
        patch.setattr(module, "strip_call", lambda call, rights: call)


def _by_name(patch: pytest.MonkeyPatch) -> None:
    """Visitors read who speaks."""
    patch.setitem(t.cast("dict[t.Any, t.Any]", public.SEEN), AgentMessage, public._same)


MUTATIONS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "no hold-back": (_hold_nothing, "sP"),
    "thinking is not redacted": (_think_aloud, "sP"),
    "thinking without its flag": (_always_thinking, "t"),
    "visitors see everything": (_see_all, "nmarpe"),
    "calls with arguments and results": (_whole_calls, "ar"),
}
#: What takes a hundred cases or so to be found, for whom has the time.
RARER: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "log lines without the policy": (_bare_lines, "P"),
    "speakers by name": (_by_name, "n"),
}
if "LEAK_CASES" in os.environ:
    MUTATIONS |= RARER


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_missing_protection_is_found(
    unsafe: dict[bool, World], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    mutate, wanted = MUTATIONS[name]
    mutate(monkeypatch)
    played = found_by(unsafe, wanted)
    print(f"{name}: found in case {played}")
    assert played

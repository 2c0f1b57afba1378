"""What was probably meant: as the standard library says it, of few enough names."""

from __future__ import annotations

import difflib

from hypothesis import given
from hypothesis import strategies as st

from plugins import wording

NAMES = st.text(alphabet="abcAB_1", max_size=12)


@given(name=NAMES, known=st.lists(NAMES, max_size=wording._CLOSELY))
def test_near_are_those_that_the_standard_library_finds(name: str, known: list[str]) -> None:
    by_lower = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), by_lower, 3, 0.6)
    assert wording.near(name, known) == [by_lower[match] for match in found]


def test_of_many_names_the_nearest_is_found() -> None:
    known = [f"agent_number_{number}" for number in range(1000)]
    assert wording.near("agent_numbr_717", known)[0] == "agent_number_717"


def test_only_so_many_names_are_looked_for_and_the_same_one_once() -> None:
    known = ["weather", "clock"]
    with wording.at_most(2):
        assert [wording.near(name, known) for name in ("wether", "clok", "wether", "weathr", "clok")] == [
            ["weather"],
            ["clock"],
            ["weather"],
            [],
            ["clock"],
        ]
        assert wording.near("clok", ["cloak"]) == []  # the same of others is another question
    assert wording.near("weathr", known) == ["weather"]

"""JSON values without what was found in them: texts, keys, numbers; all else stays the very same."""

from __future__ import annotations

import base64
import decimal
import re
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.redaction.finders import DetectorFinder, finders_of
from app.redaction.known import KnownValues
from app.redaction.masking import AskedMasking, Masking
from app.redaction.policy import Policy
from app.redaction.sieve import sieved
from plugins.detectors import DETECTORS

FINDERS = (
    KnownValues(["987654321"]),
    *finders_of(Policy(), {detector.name: detector for detector in DETECTORS}),
)
MASKING = Masking(FINDERS)
MAIL, CARD = "jane.doe@example.com", 4111111111111111


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        (MAIL, "[email]"),
        (CARD, "[card]"),
        (float(CARD), "[card]"),
        (-CARD, "-[card]"),
        (987654321, "***"),
        ([1, [MAIL]], [1, ["[email]"]]),
        ({"a": {"b": (MAIL, 2)}}, {"a": {"b": ["[email]", 2]}}),
        (
            {MAIL: 1, "joe@example.com": 2, "ann@example.com": 3},
            {"[email]": 1, "[email] 2": 2, "[email] 3": 3},
        ),
        ({CARD: 1}, {"[card]": 1}),
        (decimal.Decimal(CARD), "[card]"),
        ({"x": {MAIL}}, {"x": ["[email]"]}),
    ],
)
def test_what_is_found_is_masked(value: t.Any, masked: t.Any) -> None:
    assert MASKING.value(value) == masked


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "plain",
        "",
        12345,
        1796053825296 + 4,
        0.12345678901234,
        float("nan"),
        float("inf"),
        10**100,
        ["a", {"b": (1, 2)}],
        {"tokens": {"input": 6}, "at": "2026-11-30T15:50:25.476Z", "id": "call_01m8pjcxy370bhs3hg206p9e2a"},
        decimal.Decimal("1.5"),
        object(),
    ],
)
def test_what_holds_nothing_is_the_very_same(value: t.Any) -> None:
    assert MASKING.value(value) is value


def test_what_is_very_deep_is_masked_all_the_same() -> None:
    deep: t.Any = MAIL
    for _ in range(5000):
        deep = [deep]
    assert MAIL not in str(MASKING.value(deep))


def test_the_data_of_files_is_not_looked_at_and_all_else_of_them_is() -> None:
    text = f"{MAIL} " * 100
    data = base64.b64encode(text.encode()).decode()
    given = {"message": MAIL, "files": [{"name": MAIL, "data": data}, {"data": MAIL}, {"text": text}, MAIL]}
    masked = AskedMasking(FINDERS).value(given)
    assert masked["message"] == "[email]"
    assert masked["files"][0] == {"name": "[email]", "data": data}
    assert masked["files"][1:] == [{"data": "[email]"}, {"text": "[email] " * 100}, "[email]"]
    with_type = {"files": [{"data": f"data:text/plain;base64,{data}"}]}
    assert AskedMasking(FINDERS).value(with_type) == with_type


@pytest.mark.parametrize("start", ["", "data:text/plain,", "data:;base64,"])
def test_data_that_is_no_base64_is_masked_however_long(start: str) -> None:
    """It may be an address that says its text as it is, or anything a caller calls so."""
    given = {"files": [{"data": start + "x " * 1000 + MAIL}]}
    assert AskedMasking(FINDERS).value(given) == {"files": [{"data": start + "x " * 1000 + "[email]"}]}


@given(
    text=st.lists(st.sampled_from([MAIL, "987654321", "word", " ", "4111 1111 1111 1111", "::1", "é"])).map(
        "".join
    )
)
def test_texts_without_any_sign_of_a_match_are_masked_as_all_others(text: str) -> None:
    for finders in (FINDERS, FINDERS[:1], FINDERS[1:], (*FINDERS, DetectorFinder(Words(), "<word>"))):
        assert Masking(finders).text(text) == sieved(finders, text)


class Words:
    """A detector of a plugin that names no signs."""

    name = "words"
    longest = 6

    def find(self, text: str) -> t.Iterator[tuple[int, int]]:
        return (match.span() for match in re.finditer(r"\bword\b", text))

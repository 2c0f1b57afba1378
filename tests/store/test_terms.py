"""Terms: words as people look for them, in any script, and never anything but letters, digits and marks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store.terms import MAX_QUERY_TERMS, MAX_TERM, query_terms, terms


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Café", "cafe"),
        ("STRASSE", "Straße"),
        ("employees", "employee"),
        ("cancelling", "cancelled"),
        ("Ａｂｃ１", "abc1"),
        ("re\u0301sume\u0301", "résumé"),
        ("Ἀθῆναι", "αθηναι"),
        ("מִקְדָּשׁ", "מקדש"),
        ("snake_case", "snake case"),
    ],
)
def test_words_that_mean_the_same_have_the_same_terms(one: str, other: str) -> None:
    assert list(terms(one)) == list(terms(other))


def test_words_of_scripts_without_blanks_are_found_by_their_parts() -> None:
    stored = set(terms("私は東京タワーに行きました"))
    assert set(query_terms("東京タワー")) <= stored
    assert set(query_terms("行")) <= stored
    assert not set(query_terms("大阪")) & stored


def test_marks_stay_in_their_words() -> None:
    assert list(terms("हिन्दी भाषा।")) == ["हिन्दी", "भाषा"]


@pytest.mark.parametrize("query", ["", "  ", "?!", "the of and", "What is it?", "\x00", "🙂", '"" OR *'])
def test_nothing_is_asked_by_stop_words_and_signs(query: str) -> None:
    assert query_terms(query) == ()


def test_a_long_query_is_cut() -> None:
    assert len(query_terms(" ".join(f"w{n}" for n in range(10**5)))) == MAX_QUERY_TERMS
    assert query_terms("x" * 10**5) == ("x" * MAX_TERM,)


@given(st.text())
def test_terms_hold_no_blanks_and_no_signs(text: str) -> None:
    for term in (*terms(text), *query_terms(text)):
        assert 0 < len(term) <= MAX_TERM
        assert not any(c.isspace() or c in "'\"\\*:&|!()^" for c in term)


@given(st.text())
def test_a_text_is_found_by_all_that_can_be_asked_of_it(text: str) -> None:
    assert set(query_terms(text)) <= set(terms(text))

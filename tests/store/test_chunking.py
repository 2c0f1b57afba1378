"""Chunks: exact spans of any text, all of it covered, cut where a reader would."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store.chunking import CHUNK, OVERLAP, spans

# Blanks and ends of sentences often, so that borders of every kind lie near one another.
_TEXTS = st.lists(
    st.one_of(
        st.sampled_from([" ", "\n", "\n\n", "\r\n\r\n", ". ", "。", "! ", "\t", "\u2028", "\x00", " " * 300]),
        st.text(max_size=80),
        st.sampled_from(["word ", "x" * 700, "Sentence one. ", "字" * 500]),
    ),
    max_size=60,
).map("".join)


@given(_TEXTS)
def test_chunks_are_exact_bounded_in_order_and_cover_all_but_blanks(text: str) -> None:
    covered, before = set(), (-1, -1)
    for start, end in spans(text):
        assert 0 < end - start <= CHUNK
        assert text[start:end] == text[start:end].strip()
        assert start > before[0]
        assert end > before[1]
        assert start >= before[1] - OVERLAP
        covered.update(range(start, end))
        before = (start, end)
    assert all(text[place].isspace() for place in set(range(len(text))) - covered)


@pytest.mark.parametrize("text", ["", " ", "\n\r\n\t", "\u2003"])
def test_a_blank_text_has_no_chunks(text: str) -> None:
    assert list(spans(text)) == []


def test_paragraphs_stay_whole_and_nothing_is_repeated_between_them() -> None:
    paragraphs = [f"{name * 149} end." for name in "abcd"]
    text = "\n\n".join(f"{p} {p} {p} {p} {p}" for p in paragraphs)
    assert [text[s:e] for s, e in spans(text)] == text.split("\n\n")


def test_a_long_paragraph_is_cut_between_sentences_and_the_last_is_repeated() -> None:
    sentences = [f"This is sentence number {n:03}." for n in range(100)]
    text = " ".join(sentences)
    chunks = [text[s:e] for s, e in spans(text)]
    assert len(chunks) > 2
    for chunk in chunks:
        assert chunk.startswith("This is")
        assert chunk.endswith(".")
    for one, next_one in pairwise(chunks):
        assert next_one.startswith(one[one.rindex("This is") :][:24]) or one.endswith(next_one[:29])
        assert next_one[:28] in one


def test_words_stay_whole_where_there_are_no_sentences() -> None:
    words = [f"word{n}" for n in range(1000)]
    text = " ".join(words)
    for start, end in spans(text):
        assert set(text[start:end].split()) <= set(words)

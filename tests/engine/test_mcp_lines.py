"""Log lines that come in pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.engine.mcp_lines import LineSplitter

TEXTS = st.lists(st.sampled_from([b"\n", b"a", b"bc", b"def" * 5]), max_size=40).map(b"".join)


@given(text=TEXTS, sizes=st.lists(st.integers(1, 9), min_size=1), most=st.integers(1, 20))
def test_lines_are_the_same_in_whatever_pieces_they_come(text: bytes, sizes: list[int], most: int) -> None:
    splitter = LineSplitter(most)
    lines, at, turn = [], 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        lines += splitter.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    lines += splitter.last()
    *whole, rest = text.split(b"\n")
    assert lines == [line[:most] for line in (*whole, *([rest] if rest else []))]

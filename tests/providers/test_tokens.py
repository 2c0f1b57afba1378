"""Counting tokens: by the table where there is one, by length otherwise, in bounded time always."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from providers import tokens
from providers.tokens import Counter, by_length
from tests.support.shared import ROOT


@pytest.fixture(scope="module")
def loaded() -> Counter:
    counter = Counter(tokens._table)
    counter.load()
    return counter


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("hello world", 2),
        ("tiktoken is great!", 6),  # OpenAI's cookbook, "How to count tokens with tiktoken"
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 9),
    ],
)
def test_the_published_examples(loaded: Counter, text: str, count: int) -> None:
    assert loaded.count(text) == count


def test_a_long_text_is_sampled(loaded: Counter) -> None:
    words = "The quick brown fox jumps over the lazy dog, again and again. "
    exact = loaded.count(words * 1_000, most=10**9) * 3
    assert loaded.count(words * 3_000) == pytest.approx(exact, rel=0.05)


def test_half_characters_and_nonsense_are_counted_too(loaded: Counter) -> None:
    for text in ("\ud800 half", "\0\x01", "a" * 300_000, "<|endoftext|>"):
        assert loaded.count(text) > 0
        assert by_length(text) > 0


def test_without_a_table_length_decides() -> None:
    counter = Counter(lambda: None)
    counter.load()
    assert counter.loaded
    assert counter.count("twelve bytes") == by_length("twelve bytes") == 3


@pytest.mark.parametrize("content", [b"", b"not a table", b"AAAA 0\nAAAA"])
def test_a_broken_table_is_no_failure(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "table"
    path.write_bytes(content)
    counter = Counter(lambda: path)
    counter.load()
    assert counter.loaded
    assert counter.count("twelve bytes") == 3


def test_before_it_is_loaded_length_decides_and_nothing_is_imported() -> None:
    code = (
        "import sys; from providers.tokens import COUNTER; assert COUNTER.count('twelve bytes') == 3; "
        "assert not COUNTER.loaded; assert not {'tiktoken', 'litellm', 'regex'} & set(sys.modules); "
        "COUNTER.load(); assert COUNTER.count('hello world') == 2; "
        "assert 'litellm' not in sys.modules and 'requests' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=200)

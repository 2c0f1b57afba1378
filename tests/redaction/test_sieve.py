"""What comes out of a sieve does not depend on where its text was cut, and holds nothing that a detector finds."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.redaction import finders as finders_module
from app.redaction.finders import DetectorFailed, DetectorFinder, Finder, finders_of
from app.redaction.known import KnownValues
from app.redaction.policy import Policy
from app.redaction.sieve import Sieve, sieved
from plugins.detectors import DETECTORS
from plugins.spec import Detector
from tests.redaction.samples import SAMPLES

KNOWN: dict[str, Detector] = {detector.name: detector for detector in DETECTORS}
ALL = finders_of(Policy(), KNOWN)
SECRETS = ("sk-test-ABCDEF123456", "pass word/with+signs", "häßlich-😀-geheim", "aaaaaaab")

#: Texts in which matches begin, almost begin, overlap and touch.
_BROKEN_UP = ["sk-te", "aaaaaa", "4111 1111 ", "1111 1111", "jane.", "doe@", "example.com", "DE89 ", "3704"]
_SIGNS = (*" .-:+()/@10aéx\n\x00", "12", "日本語", "\ud800")
PIECES = st.sampled_from(
    [*(sample for samples in SAMPLES.values() for sample in samples), *SECRETS, *_BROKEN_UP, *_SIGNS]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join) | st.text(
    alphabet="0123456789 .-/:()+@aFzDEé", max_size=200
)


def cut(text: str, places: Sequence[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places})
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def streamed(finders: Sequence[Finder], pieces: Sequence[str]) -> str:
    sieve = Sieve(finders)
    return "".join([*(sieve.feed(piece) for piece in pieces), sieve.end()])


@settings(max_examples=300)
@given(text=TEXTS, places=st.lists(st.integers(0, 400), max_size=20))
def test_how_a_text_is_cut_makes_no_difference(text: str, places: list[int]) -> None:
    for finders in ([KnownValues(SECRETS)], ALL, [KnownValues(SECRETS), *ALL]):
        assert streamed(finders, cut(text, places)) == sieved(finders, text)
        assert streamed(finders, list(text)) == sieved(finders, text)


@pytest.mark.parametrize("finder", ALL, ids=lambda finder: t.cast(DetectorFinder, finder).name)
@settings(max_examples=60)
@given(text=TEXTS)
def test_each_detector_by_itself_is_local(finder: Finder, text: str) -> None:
    """What it finds needs no more of the text than it holds back, and one character before."""
    assert streamed([finder], list(text)) == sieved([finder], text)


@settings(max_examples=200)
@given(text=TEXTS, piece=st.integers(1, 60))
def test_what_is_found_in_a_long_text_is_what_is_found_in_its_pieces(text: str, piece: int) -> None:
    whole = [finder.spans(text) for finder in ALL]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finders_module, "_PIECE", piece)
        assert [finder.spans(text) for finder in ALL] == whole


def test_a_detector_that_is_too_slow_is_not_asked_about_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    class Slow:
        name = "slow"
        longest = 5

        def find(self, text: str) -> t.Iterable[tuple[int, int]]:
            looked.append(len(text))
            return ()

    monkeypatch.setattr(finders_module, "_PIECE", 100)
    finder = DetectorFinder(Slow(), "")
    assert finder.spans("x" * 1000) == []
    assert looked == [106, *[107] * 8, 101]
    looked.clear()
    monkeypatch.setattr(finders_module, "LIMIT_S", -1.0)
    with pytest.raises(DetectorFailed, match="the detector slow failed: it took too long"):
        finder.spans("x" * 1000)
    assert looked == [106]


@settings(max_examples=200)
@given(text=TEXTS, places=st.lists(st.integers(0, 400), max_size=20))
@example(text="4111 1111 1111 1111", places=[9])
def test_what_comes_out_holds_no_match_of_the_whole(text: str, places: list[int]) -> None:
    out = streamed(ALL, cut(text, places))
    marked = list(text)
    for finder in ALL:
        for start, end in finder.spans(text):
            marked[start:end] = ["\0"] * (end - start)
    left = "".join(marked)
    kept = "".join(out)
    for mask in {finder.mask for finder in ALL}:
        kept = kept.replace(mask, "")
    assert kept == left.replace("\0", "") or "[" in text or "\0" in text


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_cut_anywhere_are_masked(name: str) -> None:
    for sample in SAMPLES[name]:
        for before, after in (("", ""), ("see ", " now"), ("(", ")"), ("日本", "。")):
            if before == "日本" and name != "email":
                before = "日 "
            text = f"{before}{sample}{after}"
            for place in range(len(text) + 1):
                out = streamed(ALL, [text[:place], text[place:]])
                assert sample not in out
                assert out == sieved(ALL, text)
            assert streamed(ALL, list(text)) == sieved(ALL, text)


def test_prose_flows_word_by_word() -> None:
    sieve = Sieve([KnownValues(SECRETS), *ALL])
    out = [sieve.feed(piece) for piece in ("The", " quick", " brown", " fox", ", 3", " of", " them", ".")]
    assert out == ["", "The ", "quick ", "brown ", "fox, ", "3 ", "of ", "them."[:0]]
    assert sieve.end() == "them."


def test_text_without_spaces_flows() -> None:
    sieve = Sieve(ALL)
    out = "".join(sieve.feed(sign) for sign in "日本語の文章は空白を使わない。" * 20)
    assert len(out) > 200


def test_a_match_over_the_end_of_a_part_is_masked_in_the_next() -> None:
    sieve = Sieve(ALL)
    assert sieve.feed("card 4111 1111 ") + sieve.end() == "card 4111 1111 "
    assert sieve.feed("1111 1111 done") + sieve.end() == "[card] done"


def test_what_is_dropped_is_never_told() -> None:
    sieve = Sieve(ALL)
    assert sieve.feed("card 4111 1111 ") == "card "
    sieve.drop()
    assert sieve.feed("1111 1111 done") + sieve.end() == "1111 1111 done"


def test_what_is_held_is_bounded() -> None:
    for piece in (
        "1 ",
        "12 ",
        "1",
        "a",
        "a@a.",
        "DE00 ",
        "f:",
        "+1 ",
        "(",
        "-",
        "日",
        " ",
        "a@" + "b" * 63 + ".",
    ):
        sieve = Sieve(ALL)
        for _ in range(1000):
            sieve.feed(piece)
            assert len(sieve._held) <= max(finder.longest for finder in ALL) + 2


class Plugin:
    """A detector without ``holds``, by a pattern of the standard library."""

    name = "ticket"
    longest = 12

    def find(self, text: str) -> t.Iterator[tuple[int, int]]:
        import re

        return (match.span() for match in re.finditer(r"\bT-\d{1,10}\b", text))


@given(text=st.text(alphabet="T-0123 a", max_size=80), places=st.lists(st.integers(0, 80), max_size=10))
def test_a_detector_that_does_not_say_what_it_holds(text: str, places: list[int]) -> None:
    finders = [DetectorFinder(Plugin(), "[{kind}]")]
    assert streamed(finders, cut(text, places)) == sieved(finders, text)


@pytest.mark.parametrize(
    "answer",
    [[(0, 99)], [(2, 1)], [(-1, 2)], [("a", "b")], [(0, 20)], [(5, 6), (0, 1)], None, 7, ["ab"], [(1.5, 2)]],
)
def test_nonsense_is_a_failure(answer: t.Any) -> None:
    class Broken:
        name = "broken"
        longest = 12

        def find(self, text: str) -> t.Any:
            return answer

    with pytest.raises(DetectorFailed, match="broken"):
        sieved([DetectorFinder(Broken(), "x")], "some text that is long enough")


def test_a_detector_that_raises_is_a_failure_that_tells_nothing_of_the_text() -> None:
    class Raises:
        name = "raises"
        longest = 12

        def find(self, text: str) -> t.Any:
            raise ValueError(text)

        def holds(self, text: str) -> int:
            raise ValueError(text)

    finder = DetectorFinder(Raises(), "x")
    for use in (finder.spans, finder.hold):
        with pytest.raises(DetectorFailed) as failed:
            use("jane@example.com")
        assert "jane" not in str(failed.value)
        assert failed.value.__cause__ is None


def test_a_detector_that_is_not_there_is_a_failure() -> None:
    with pytest.raises(DetectorFailed, match="nope"):
        finders_of(Policy(detectors=("nope",)), KNOWN)

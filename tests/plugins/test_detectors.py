"""Detectors find what is personal data, leave what only looks like it, and are linear in their text."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from plugins.check_digits import luhn_sums
from plugins.detectors import DETECTORS
from plugins.spec import Detector
from plugins.spec.detectors import finds
from tests.plugins.plain_detectors import found_by
from tests.redaction.samples import SAMPLES

BY_NAME: dict[str, Detector] = {detector.name: detector for detector in DETECTORS}

#: Detector to (text with the finds in guillemets).
FOUND = [
    ("email", "write to «ana.silva+x@exemplo.com.br», or «j@q.io»."),
    ("email", "«müller@straße.de»"),
    ("phone", "call «+55 11 91234-5678» or «(11) 91234-5678» today"),
    ("phone", "«+1 (415) 555-2671», «415-555-2671», «+442079460958»"),
    ("phone", "«+1 415 555 2671» 2nd floor"),
    ("phone", "Tel. «030 901 820 0», «01 42 68 53 00»"),
    ("card", "«4111 1111 1111 1111» expires 12 2030"),
    ("card", "«4111111111111111», «5500-0000-0000-0004» and «378282246310005»"),
    ("card", "order 17 «4111111111111111» 99"),
    ("iban", "to «DE89 3704 0044 0532 0130 00» AND then"),
    ("iban", "«GB82WEST12345698765432»; «br1500000000000010932840814p2»"),
    ("cpf", "CPF «529.982.247-25», sem pontos «52998224725»"),
    ("cnpj", "CNPJ «11.222.333/0001-81» ou «12.ABC.345/01DE-35»"),
    ("us-ssn", "SSN «078-05-1120», «219 09 9999»"),
    ("ip", "from «192.168.0.1:8080» and «2001:db8::ff00:42:8329»".replace(":8080»", "»:8080")),
    ("ip", "«fe80::1»: refused, «::1» too, «::ffff:10.0.0.1» as well"),
]

#: Detector to text that has nothing for it.
NOTHING = [
    ("email", "a @ b, user@localhost, @name, mail@.com"),
    (
        "phone",
        "on 2024-01-15 at 10:20, 01.02.2024 10:20, 01/02/2024 11, 3.14159 26535 89793, version 1.2.3, ABC415-555-2671",
    ),
    ("card", "4111 1111 1111 1112 and 0000 0000 0000 0000, A4111111111111111"),
    ("iban", "DE89 3704 0044 0532 0130 01, ZZ68 1234 1234 1234, XDE89370400440532013000"),
    ("cpf", "111.111.111-11 529.982.247-26 529982247250"),
    ("cnpj", "11.222.333/0001-82 00.000.000/0000-00"),
    ("us-ssn", "000-12-3456 666-12-3456 900-12-3456 123-00-4567 123-45-0000 123456789"),
    ("ip", "300.1.1.1, 10.0.0, 12:30:45, std::vector, ::"),
]


def marked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without guillemets, and the spans they marked."""
    plain, spans, opened = "", [], 0
    for sign in text:
        if sign == "«":
            opened = len(plain)
        elif sign == "»":
            spans.append((opened, len(plain)))
        else:
            plain += sign
    return plain, spans


@pytest.mark.parametrize(("name", "text"), FOUND)
def test_it_finds(name: str, text: str) -> None:
    plain, spans = marked(text)
    assert finds(BY_NAME[name].find(plain)) == spans


@pytest.mark.parametrize(("name", "text"), NOTHING)
def test_it_leaves(name: str, text: str) -> None:
    assert list(BY_NAME[name].find(text)) == []


def test_every_kind_of_the_contract_is_there() -> None:
    assert set(BY_NAME) == {"email", "phone", "card", "iban", "cpf", "cnpj", "us-ssn", "ip"}
    assert all(isinstance(detector, Detector) for detector in DETECTORS)


NUMBERLIKE = st.text(alphabet="0123456789 .-/:()+@aFzDEé", max_size=300)


@given(NUMBERLIKE)
def test_spans_are_ordered_and_within_the_bound(text: str) -> None:
    for detector in DETECTORS:
        before = 0
        for start, end in detector.find(text):
            assert before <= start < end <= len(text)
            assert end - start <= detector.longest
            before = start


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: t.cast(Detector, detector).name)
@pytest.mark.parametrize("piece", ["1 ", "12 ", "1", "a@a.", "DE00 ", "1.1.", "f:", "+1 (1) ", "((("])
def test_a_long_text_of_near_misses_ends(detector: Detector, piece: str) -> None:
    """Quadratic work on this much text would take minutes and meet the test's own limit."""
    assert isinstance(list(detector.find(piece * (100_000 // len(piece)))), list)


def test_a_search_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """RE2 prints by itself, past every log, when a pattern takes more memory than it has."""
    for detector in DETECTORS:
        list(detector.find("Some words, and ann@example.com among them. " * 50))
    assert capfd.readouterr() == ("", "")


#: Parts of what is found, whole samples, and what stands between them.
_BITS = "1|0|00|12|4111 1111 |ab|ffff|::|:|.|255|256|1.2.3.4|01|DE89 |BE00|@|a@|b.io|.com|_|é|²|ı| |-|/|(|)|+|.c.c.c.c"
_PARTS = st.sampled_from(
    [*(sample for samples in SAMPLES.values() for sample in samples), *_BITS.split("|"), "a" * 63, "x" * 24]
)
#: Signs of which each kind is made, so that short texts come near to it.
_ALPHABETS = (
    "0123456789 .-/:()+@aFzDEé_",
    "01:.af",
    "f1::.",
    "0123-. ",
    "@.a_-é²1",
    "AB01./-",
    "DE89ı ",
    "+ 019()-",
)
RANDOM = st.lists(_PARTS, max_size=12).map("".join) | st.sampled_from(_ALPHABETS).flatmap(
    lambda signs: st.text(alphabet=signs, max_size=120)
)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: t.cast(Detector, detector).name)
@settings(max_examples=150)
@given(text=RANDOM)
def test_it_finds_what_its_shape_and_check_say_of_each_place(detector: Detector, text: str) -> None:
    assert list(detector.find(text)) == found_by(detector.name, text)


@given(st.text(alphabet="0459", min_size=13, max_size=30), st.integers(0, 17), st.integers(13, 19))
def test_sums_say_of_every_part_whether_its_check_digit_is_right(text: str, first: int, size: int) -> None:
    number = text[first : first + size]
    assume(len(number) == size)
    values = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(number))]
    right = sum(value - 9 if value > 9 else value for value in values) % 10 == 0
    last = first + size
    sums = luhn_sums(text)[last % 2]
    assert ((sums[last] - sums[first]) % 10 == 0) == right

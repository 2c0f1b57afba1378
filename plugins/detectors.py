"""The built-in detectors of personal data: e-mail, phone, card, IBAN, CPF and CNPJ, US SSN, IP address.

Law of this room: a detector is linear in its text whatever the text is (patterns run on RE2), prefers what can be
proved (check digits, allocated ranges) over what only looks alike, and knows no policy: what becomes of a match is
for its caller to say. Numbers without a check (phone, SSN) are found only in the shapes people write them in.
"""

from __future__ import annotations

import ipaddress
import string
import typing as t
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_DIGITS = frozenset(string.digits)
_IBAN_SIGNS = frozenset(string.digits + string.ascii_uppercase)

#: Characters of an IBAN by country; SWIFT's IBAN registry, release 99.
_IBAN_LENGTHS: t.Final = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29,
    "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29,
    "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28,
    "HN": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20,
    "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19,
    "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29,
    "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24,
    "SM": 27, "SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
    "YE": 30,
}  # fmt: skip


class _Lazy:
    """A pattern that is compiled when it is first used: the e-mail's takes 35 MB, which a server that redacts nothing
    shall not hold.
    """

    __slots__ = ("_compiled", "_source")

    def __init__(self, source: str) -> None:
        self._source = source
        self._compiled: t.Any = None

    def finditer(self, text: str) -> t.Iterator[t.Any]:
        """As of RE2's own pattern."""
        if self._compiled is None:
            import re2  # type: ignore[import-untyped]  # ships no types

            options = re2.Options()
            options.log_errors = False  # it would print a line whenever it goes over to its slower way
            self._compiled = re2.compile(self._source, options)
        found: t.Iterator[t.Any] = self._compiled.finditer(text)
        return found


@dataclass(frozen=True, slots=True)
class PatternDetector:
    """Candidates of a pattern that stand by themselves and pass a check.

    :ivar longest: most characters of a match.
    :ivar pattern: RE2 pattern of a candidate.
    :ivar check: whether the candidate's text is what it looks like.
    :ivar separators: signs inside a candidate at which it may end early, for patterns that may take in what follows.
    """

    name: str
    longest: int
    pattern: _Lazy
    check: Callable[[str], bool] = bool
    separators: str = ""

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See :class:`plugins.spec.Detector`."""
        for match in self.pattern.finditer(text):
            start, end = match.span()
            while end > start:
                # RE2 cannot look around: the neighbours are looked at here.
                if _stands_alone(text, start, end, str.isalnum) and self.check(text[start:end]):
                    yield start, end
                    break
                end = max((text.rfind(sign, start, end) for sign in self.separators), default=start)


class CardDetector:
    """Payment card numbers: 13 to 19 digits, in groups of two or more or in one, with the Luhn check digit."""

    name = "card"
    longest = 19 + 8
    _RUN = _Lazy(r"[0-9]{2,}(?:[ -][0-9]{2,})*")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See :class:`plugins.spec.Detector`. Among other numbers any group can be the first or last."""
        for match in self._RUN.finditer(text):
            start, end = match.span()
            if _stands_alone(text, start, end, str.isalpha):
                yield from self._within(text, start, end)

    @staticmethod
    def _within(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        at = [i for i in range(start, end) if text[i] in _DIGITS]
        starts = [n for n, i in enumerate(at) if n == 0 or at[n - 1] != i - 1]
        ends = {n + 1 for n, i in enumerate(at) if n + 1 == len(at) or at[n + 1] != i + 1}
        free = 0
        for first in starts:
            if first < free:
                continue
            for size in range(19, 12, -1):
                last = first + size
                if last in ends and luhn("".join(text[i] for i in at[first:last])):
                    yield at[first], at[last - 1] + 1
                    free = last
                    break


class IbanDetector:
    """IBANs of the registry's countries, with or without a space after every fourth sign, checksum 97-10."""

    name = "iban"
    longest = max(_IBAN_LENGTHS.values()) + max(_IBAN_LENGTHS.values()) // 4
    _HEAD = _Lazy(r"[A-Za-z]{2}[0-9]{2}")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See :class:`plugins.spec.Detector`."""
        free = 0
        for match in self._HEAD.finditer(text):
            start = match.start()
            length = _IBAN_LENGTHS.get(text[start : start + 2].upper())
            if start < free or length is None:
                continue
            end, signs = _grouped(text, start, length)
            if _stands_alone(text, start, end, str.isalnum) and _is_iban(signs, length):
                yield start, end
                free = end


def _grouped(text: str, start: int, length: int) -> tuple[int, str]:
    """``length`` signs from ``start`` on, a space after every fourth left out; where they end, and they."""
    signs: list[str] = []
    at = start
    while at < len(text) and len(signs) < length:
        sign = text[at].upper()
        if sign in _IBAN_SIGNS:
            signs.append(sign)
        elif not (sign == " " and len(signs) % 4 == 0 and text[at - 1] != " "):
            break
        at += 1
    return at, "".join(signs)


def _is_iban(signs: str, length: int) -> bool:
    if len(signs) != length:
        return False
    return int("".join(str(int(sign, 36)) for sign in signs[4:] + signs[:4])) % 97 == 1


def _stands_alone(text: str, start: int, end: int, part_of_more: Callable[[str], bool]) -> bool:
    return not (start > 0 and part_of_more(text[start - 1])) and not (
        end < len(text) and part_of_more(text[end])
    )


def luhn(digits: str) -> bool:
    """Whether ``digits`` end in their Luhn check digit and are not one digit repeated."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0 and len(set(digits)) > 1


def is_cpf(text: str) -> bool:
    """Whether the digits of ``text`` are a CPF: eleven with two check digits, not one digit repeated."""
    digits = [int(sign) for sign in text if sign in _DIGITS]
    if len(digits) != 11 or len(set(digits)) == 1:
        return False
    return all(
        sum(digit * (size + 1 - place) for place, digit in enumerate(digits[:size])) * 10 % 11 % 10
        == digits[size]
        for size in (9, 10)
    )


def is_cnpj(text: str) -> bool:
    """Whether the signs of ``text`` are a CNPJ: twelve letters or digits (letters since July 2026), two check digits.

    A letter counts as its ASCII code less 48 (Receita Federal, IN RFB 2.229/2024).
    """
    signs = [ord(sign) - 48 for sign in text.upper() if sign.isalnum()]
    if len(signs) != 14 or len(set(signs)) == 1:
        return False
    for size in (12, 13):
        rest = sum(sign * (2 + (size - 1 - place) % 8) for place, sign in enumerate(signs[:size])) % 11
        if signs[size] != (0 if rest < 2 else 11 - rest):
            return False
    return True


def _is_ssn(text: str) -> bool:
    """Whether an SSN could have been given out: areas 000, 666 and 900 on, group 00 and serial 0000 never were."""
    area, group, serial = text[:3], text[4:6], text[7:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


def _is_ip(text: str) -> bool:
    if not any(sign in string.hexdigits for sign in text):
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_phone(text: str) -> bool:
    """Whether a candidate has as many digits as a number can have (E.164: at most 15)."""
    return 8 <= sum(sign in _DIGITS for sign in text) <= 15


EMAIL = PatternDetector(
    "email",
    64 + 1 + 63 + 3 * 64 + 25,
    _Lazy(r"[\pL\pN._%+'-]{1,64}@[\pL\pN-]{1,63}(?:\.[\pL\pN-]{1,63}){0,3}\.\pL{2,24}"),
)
PHONE = PatternDetector(
    "phone",
    2 + 14 * 4,
    _Lazy(
        r"\+[0-9](?:[ ./-]?\(?[0-9]\)?){7,14}"  # with a country code
        r"|\(?[2-9][0-9]{2}\)?[ .-][2-9][0-9]{2}[ .-][0-9]{4}"  # North America
        r"|\([1-9][0-9]\) ?9?[0-9]{4}[ -]?[0-9]{4}"  # Brazil
        r"|0[1-9](?:[ .][0-9]{2}){4}"  # France
        r"|0[1-9][0-9]{1,3}(?:[ /-][0-9]{1,4}){2,4}"  # with a trunk zero; a date has no third digit there
    ),
    _is_phone,
    " -./",
)
CPF = PatternDetector("cpf", 14, _Lazy(r"[0-9]{3}\.?[0-9]{3}\.?[0-9]{3}-?[0-9]{2}"), is_cpf)
CNPJ = PatternDetector(
    "cnpj",
    18,
    _Lazy(r"[0-9A-Za-z]{2}\.?[0-9A-Za-z]{3}\.?[0-9A-Za-z]{3}/?[0-9A-Za-z]{4}-?[0-9]{2}"),
    is_cnpj,
)
SSN = PatternDetector("us-ssn", 11, _Lazy(r"[0-9]{3}(?:-[0-9]{2}-| [0-9]{2} )[0-9]{4}"), _is_ssn)
IP = PatternDetector(
    "ip",
    45,
    _Lazy(
        r"[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\.[0-9]{1,3}){3}"
        r"|[0-9]{1,3}(?:\.[0-9]{1,3}){3}"
        r"|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}"
    ),
    _is_ip,
    ":",
)

#: In the order they are tried; each by its own name.
DETECTORS = (EMAIL, PHONE, CardDetector(), IbanDetector(), CPF, CNPJ, SSN, IP)

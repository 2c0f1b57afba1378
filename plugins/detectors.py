"""The built-in detectors of personal data: e-mail, phone, card, IBAN, CPF and CNPJ, US SSN, IP address.

Law of this room: a detector is linear in its text whatever the text is (patterns run on RE2), prefers what can be
proved (check digits, allocated ranges) over what only looks alike, and knows no policy: what becomes of a match is
for its caller to say. Numbers without a check (phone, SSN) are found only in the shapes people write them in.
"""

from __future__ import annotations

import ipaddress
import re
import string
import typing as t
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from plugins.check_digits import is_cnpj, is_cpf, luhn_sums

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
    """A pattern that is compiled when it is first used, so that a server that redacts nothing does not load RE2."""

    __slots__ = ("_compiled", "_source")

    def __init__(self, source: str) -> None:
        self._source = source
        self._compiled: t.Any = None

    def finditer(self, text: str) -> t.Iterator[t.Any]:
        """As of RE2's own pattern."""
        found: t.Iterator[t.Any] = self._pattern().finditer(text)
        return found

    def end(self, text: str) -> int:
        """Where a match at the very beginning of ``text`` ends; 0 for none."""
        found = self._pattern().match(text)
        return 0 if found is None else int(found.end())

    def _pattern(self) -> t.Any:
        if self._compiled is None:
            import re2  # type: ignore[import-untyped]  # ships no types

            options = re2.Options()
            options.log_errors = False  # it would print a line whenever it goes over to its slower way
            self._compiled = re2.compile(self._source, options)
        return self._compiled


#: From where on the end of a text may be the beginning of a match, which has so many characters at most.
Holds = Callable[[str, int], int]


def made_of(signs: str, first: str) -> Holds:
    """Of matches made of ``signs`` alone, which begin with one of ``first``."""
    rest = "".join(sign for sign in signs if sign not in first)

    def holds(text: str, longest: int) -> int:
        tail = text[-longest - 1 :]
        return len(text) - len(tail[len(tail.rstrip(signs)) :].lstrip(rest))

    return holds


def within_word(text: str, longest: int) -> int:
    """Of matches without white space."""
    tail = text[-longest - 1 :]
    if not tail or tail[-1].isspace():
        return len(text)
    return len(text) - len(tail.rsplit(None, 1)[-1])


@dataclass(frozen=True, slots=True)
class PatternDetector:
    """Candidates of a pattern that stand by themselves and pass a check.

    :ivar longest: most characters of a candidate.
    :ivar pattern: RE2 pattern of a candidate.
    :ivar begins: see :data:`Holds`. :ivar signs, fewest: every match has so many of these.
    :ivar check: whether the candidate's text is what it looks like.
    :ivar separators: signs inside a candidate at which it may end early, for patterns that may take in what follows.
    """

    name: str
    longest: int
    pattern: _Lazy
    begins: Holds
    fewest: int
    signs: str = string.digits
    check: Callable[[str], bool] = bool
    separators: str = ""

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See :class:`plugins.spec.Detector`."""
        for match in self.pattern.finditer(text):
            start, end = match.span()
            yield from self._at(text, start, end)
            # The pattern goes on behind its match; what begins inside of it is looked at here.
            for inner in range(start + 1, end):
                if not text[inner - 1].isalnum():
                    size = self.pattern.end(text[inner : inner + self.longest + 1])
                    if size:
                        yield from self._at(text, inner, inner + size)

    def _at(self, text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        while end > start:
            # RE2 cannot look around: the neighbours are looked at here.
            if _stands_alone(text, start, end) and self.check(text[start:end]):
                yield start, end
                return
            end = max((text.rfind(sign, start, end) for sign in self.separators), default=start)

    def holds(self, text: str) -> int:
        """See :class:`plugins.spec.Detector`."""
        return self.begins(text, self.longest)


class EmailDetector:
    """E-mail addresses, by hand: a pattern with the letters of all scripts takes 35 MB and a third of a second."""

    name = "email"
    #: Most signs before the ``@``, of a label, of the last label; most labels before that.
    _LOCAL, _LABEL, _LAST, _LABELS = 64, 63, 24, 4
    longest = _LOCAL + 1 + _LABELS * (_LABEL + 1) + _LAST
    signs = "@"
    _INSIDE = frozenset("._%+'-")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See :class:`plugins.spec.Detector`. Behind each sign inside of a name another name may begin."""
        at = text.find("@")
        while at >= 0:
            end = self._end(text, at + 1)
            if end:
                yield from ((start, end) for start in self._starts(text, at))
            at = text.find("@", at + 1)

    def _starts(self, text: str, at: int) -> Iterator[int]:
        first, least = at, max(0, at - self._LOCAL)
        while first > least and (text[first - 1].isalnum() or text[first - 1] in self._INSIDE):
            first -= 1
        for start in range(first, at):
            if start == 0 or not text[start - 1].isalnum():
                yield start

    def _end(self, text: str, start: int) -> int:
        """Where the longest domain that begins at ``start`` ends; 0 when none does."""
        found = 0
        for number in range(self._LABELS + 1):
            end = start
            while (
                end < len(text) and end <= start + self._LABEL and (text[end].isalnum() or text[end] == "-")
            ):
                end += 1
            letters = start
            while letters < end and text[letters].isalpha():
                letters += 1
            alone = letters == len(text) or not text[letters].isalnum()
            if number and alone and 2 <= letters - start <= self._LAST:
                found = letters
            if not 1 <= end - start <= self._LABEL or text[end : end + 1] != ".":
                break
            start = end + 1
        return found

    def holds(self, text: str) -> int:
        """See :class:`plugins.spec.Detector`. Without an ``@`` it is at most a name."""
        start = within_word(text, self.longest)
        if "@" not in text[start:]:
            start = max(start, len(text) - self._LOCAL)
        # None begins inside of a word: text in a script without spaces goes on flowing.
        while 0 < start < len(text) and text[start - 1].isalnum():
            start += 1
        return start


class CardDetector:
    """Payment card numbers: 13 to 19 digits, in groups of two or more or in one, with the Luhn check digit."""

    name = "card"
    longest = 19 + 8
    signs, fewest = string.digits, 13
    _RUN = re.compile(r"[0-9]{2,}(?:[ -][0-9]{2,})*")
    _HOLDS = staticmethod(made_of(string.digits + " -", string.digits))

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See :class:`plugins.spec.Detector`. Among other numbers any group can be the first or last."""
        for match in self._RUN.finditer(text):
            start, end = match.span()
            if end - start >= 13:
                yield from self._within(text, start, end)

    def holds(self, text: str) -> int:
        """See :class:`plugins.spec.Detector`."""
        return self._HOLDS(text, self.longest)

    @staticmethod
    def _within(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        at = [i for i in range(start, end) if text[i] in _DIGITS]
        if len(at) < 13:
            return
        starts = [n for n, i in enumerate(at) if n == 0 or at[n - 1] != i - 1]
        ends = {n + 1 for n, i in enumerate(at) if n + 1 == len(at) or at[n + 1] != i + 1}
        digits = "".join(text[i] for i in at)
        sums = luhn_sums(digits)
        for first in starts:
            for last in range(first + 19, first + 12, -1):
                if last not in ends or (sums[last % 2][last] - sums[last % 2][first]) % 10:
                    continue
                if digits.count(digits[first], first, last) == last - first:  # one digit repeated
                    continue
                if _stands_alone(text, at[first], at[last - 1] + 1):
                    yield at[first], at[last - 1] + 1
                    break


class IbanDetector:
    """IBANs of the registry's countries, with or without a space after every fourth sign, checksum 97-10."""

    name = "iban"
    longest = max(_IBAN_LENGTHS.values()) + max(_IBAN_LENGTHS.values()) // 4
    signs, fewest = string.digits, 2
    _HEAD = re.compile(r"[A-Za-z]{2}[0-9]{2}")
    #: A head and what may follow it, or the beginning of a head, at the end of a text.
    _OPEN = re.compile(r"(?<![^\W_])(?:[A-Za-z]{2}[0-9]{2}[A-Za-z0-9 ]*|[A-Za-z]{1,2}[0-9]?)\Z")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See :class:`plugins.spec.Detector`."""
        for match in self._HEAD.finditer(text):
            start = match.start()
            length = _IBAN_LENGTHS.get(text[start : start + 2].upper())
            if length is None:
                continue
            end, signs = _grouped(text, start, length)
            if _stands_alone(text, start, end) and _is_iban(signs, length):
                yield start, end

    def holds(self, text: str) -> int:
        """See :class:`plugins.spec.Detector`."""
        begin = max(0, len(text) - self.longest - 2)  # one before, that tells where a word begins
        found = self._OPEN.search(text, begin)
        return len(text) if found is None else found.start()


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


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether no letter or digit is beside a candidate."""
    return not (start > 0 and text[start - 1].isalnum()) and not (end < len(text) and text[end].isalnum())


def _is_ssn(text: str) -> bool:
    """Whether an SSN could have been given out: areas 000, 666 and 900 on, group 00 and serial 0000 never were."""
    area, group, serial = text[:3], text[4:6], text[7:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


def _is_ip(text: str) -> bool:
    """Whether a candidate is an address: of the shape of one, most are told without taking them apart."""
    colons = text.count(":")
    if not colons:
        parts = text.split(".")
        return len(parts) == 4 and all((part == "0" or part[0] != "0") and int(part) < 256 for part in parts)
    if "::" not in text:
        if colons != (6 if "." in text else 7) or ":" in (text[0], text[-1]):
            return False
        if "." not in text:
            return True
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


_PHONE_SIGNS = string.digits + "+()-./ "

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
    made_of(_PHONE_SIGNS, string.digits + "+("),
    8,
    check=_is_phone,
    separators=" -./",
)
CPF = PatternDetector(
    "cpf",
    14,
    _Lazy(r"[0-9]{3}\.?[0-9]{3}\.?[0-9]{3}-?[0-9]{2}"),
    made_of(string.digits + ".-", string.digits),
    11,
    check=is_cpf,
)
CNPJ = PatternDetector(
    "cnpj",
    18,
    _Lazy(r"[0-9A-Za-z]{2}\.?[0-9A-Za-z]{3}\.?[0-9A-Za-z]{3}/?[0-9A-Za-z]{4}-?[0-9]{2}"),
    within_word,
    2,
    check=is_cnpj,
)
SSN = PatternDetector(
    "us-ssn",
    11,
    _Lazy(r"[0-9]{3}(?:-[0-9]{2}-| [0-9]{2} )[0-9]{4}"),
    made_of(string.digits + " -", string.digits),
    9,
    check=_is_ssn,
)
IP = PatternDetector(
    "ip",
    4 + 7 * 5 + 3 * 4,
    _Lazy(
        r"[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\.[0-9]{1,3}){3}"
        r"|[0-9]{1,3}(?:\.[0-9]{1,3}){3}"
        r"|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}"
    ),
    made_of(string.hexdigits + ":.", string.hexdigits + ":"),
    2,
    ":.",
    _is_ip,
    ":",
)

#: In the order they are tried; each by its own name.
DETECTORS = (EmailDetector(), PHONE, CardDetector(), IbanDetector(), CPF, CNPJ, SSN, IP)

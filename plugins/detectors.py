"""The built-in detectors of personal data: e-mail, phone, card, IBAN, CPF and CNPJ, US SSN, IP address.

Law of this room: a detector is linear in its text whatever the text is, prefers what can be proved (check digits,
allocated ranges) over what only looks alike, and knows no policy: what becomes of a match is for its caller to say.
Numbers without a check (phone, SSN) are found only in the shapes people write them in.
"""

from __future__ import annotations

import re
import string
import typing as t
from collections.abc import Iterator
from itertools import accumulate

from plugins.check_digits import is_97_10, is_cnpj, is_cpf, is_luhn, luhn_sums
from plugins.detecting import ALONE, END, SIGN, Lazy, PatternDetector, made_of, within_word
from plugins.ip_detector import IpDetector

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


class EmailDetector:
    """E-mail addresses, with letters of all scripts."""

    name = "email"
    #: Most signs before the ``@``, of a label, of the last label; most labels before that.
    _LOCAL, _LABEL, _LAST, _LABELS = 64, 63, 24, 4
    longest = _LOCAL + 1 + _LABELS * (_LABEL + 1) + _LAST
    signs = "@"
    _INSIDE = "._%+'-"
    _NAME = string.ascii_letters + string.digits + _INSIDE
    _PARTS = re.compile(rf"[{_INSIDE}]")
    #: The sign with a domain behind it, the longest one, in a text with spaces for underscores: no domain has those.
    _AT = Lazy(
        rf"@(?<=[\w {_INSIDE}]@)(?=((?:[\w-]{{1,{_LABEL}}}+\.){{1,{_LABELS}}}[^\W\d_]{{2,{_LAST}}}{END}))"
    )

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See :class:`plugins.spec.Detector`. Behind each sign inside of a name another name may begin."""
        for match in self._AT().finditer(text.replace("_", " ")):
            at = match.start()
            # Among the digits of other scripts are some that the pattern takes for letters.
            end = match.end(1) if match[1].isascii() else self._end(text, at + 1)
            if end:
                for start in self._starts(text, at):
                    yield start, end

    def _starts(self, text: str, at: int) -> Iterator[int]:
        least = max(0, at - self._LOCAL)
        head = text[least:at].rstrip(self._NAME)
        while head and head[-1].isalnum():  # of another script
            head = head[:-1].rstrip(self._NAME)
        first = least + len(head)
        if first < at and not (first and text[first - 1].isalnum()):
            yield first
        for sign in self._PARTS.finditer(text, first, at - 1):
            yield sign.end()

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


class PhoneDetector:
    """Phone numbers, in the shapes people write."""

    name = "phone"
    longest = 2 + 14 * 4
    signs, fewest = string.digits, 8
    _SHAPES = Lazy(
        rf"[0-9+(]{ALONE}(?=("
        r"(?<=\+)[0-9](?:[ ./-]?\(?[0-9]\)?){7,14}"  # with a country code
        r"|(?:(?<=\()[2-9][0-9]{2}|(?<=[2-9])[0-9]{2})\)?[ .-][2-9][0-9]{2}[ .-][0-9]{4}"  # North America
        r"|(?<=\()[1-9][0-9]\) ?9?[0-9]{4}[ -]?[0-9]{4}"  # Brazil
        r"|(?<=0)[1-9](?:[ .][0-9]{2}){4}"  # France
        r"|(?<=0)[1-9][0-9]{1,3}(?:[ /-][0-9]{1,4}){2,4}"  # with a trunk zero; a date has no third digit there
        r"))"
    )
    #: At such a sign a number may end before its shape does, which may have taken in what follows.
    _SEPARATORS = " -./"
    _OTHERS = str.maketrans("", "", "+()" + _SEPARATORS)
    _HOLDS = staticmethod(made_of(string.digits + "+()" + _SEPARATORS, string.digits + "+("))

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See :class:`plugins.spec.Detector`."""
        for match in self._SHAPES().finditer(text):
            start, end = match.start(), match.end(1)
            if text[end : end + 1].isalnum():
                end = self._shorter(text, start, end)
            # As many digits as a number can have (E.164: at most 15).
            while (digits := len(text[start:end].translate(self._OTHERS))) > 15:
                end = self._shorter(text, start, end)
            if digits >= self.fewest:
                yield start, end

    def holds(self, text: str) -> int:
        """See :class:`plugins.spec.Detector`."""
        return self._HOLDS(text, self.longest)

    def _shorter(self, text: str, start: int, end: int) -> int:
        return max(start, *(text.rfind(sign, start, end) for sign in self._SEPARATORS))


class CardDetector:
    """Payment card numbers: 13 to 19 digits, in groups of two or more or in one, with the Luhn check digit."""

    name = "card"
    longest = 19 + 8
    signs, fewest = string.digits, 13
    _RUN = re.compile(r"[0-9](?=[0-9 -]{12})[0-9]+(?:[ -][0-9]{2,})*")
    _HOLDS = staticmethod(made_of(string.digits + " -", string.digits))

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See :class:`plugins.spec.Detector`. Among other numbers any group can be the first or last."""
        for match in self._RUN.finditer(text):
            start, end = match.span()
            if end - start < 13:
                continue
            groups = match[0].replace("-", " ").split(" ")
            if len(groups) > 1:
                yield from self._among(text, start, end, groups)
            elif end - start <= 19 and is_luhn(match[0]) and _stands_alone(text, start, end):
                yield start, end

    def holds(self, text: str) -> int:
        """See :class:`plugins.spec.Detector`."""
        return self._HOLDS(text, self.longest)

    @staticmethod
    def _among(text: str, start: int, end: int, groups: list[str]) -> Iterator[tuple[int, int]]:
        """Of groups with one sign between them, from ``start`` to ``end``."""
        digits = "".join(groups)
        if len(digits) < 13:
            return
        bounds = [0, *accumulate(map(len, groups))]
        # To the place among the digits that of the group that ends there, or begins.
        group_of = dict(zip(bounds, range(len(bounds)), strict=True))
        begins = bounds[start > 0 and text[start - 1].isalnum() : -1]
        ends = set(bounds[1:-1] if text[end : end + 1].isalnum() else bounds[1:])
        sums = luhn_sums(digits)
        found: dict[int, int] = {}
        for size in range(13, 20):  # of one place the longest is kept
            for firsts in ([first for first in begins if first % 2 == odd] for odd in (0, 1)):
                if firsts:
                    total = sums[(firsts[0] + size) % 2]
                    for first in [
                        f for f in firsts if f + size in ends and not (total[f + size] - total[f]) % 10
                    ]:
                        if digits.count(digits[first], first, first + size) < size:  # not one digit repeated
                            found[first] = first + size
        for first, last in sorted(found.items()):
            yield start + first + group_of[first], start + last + group_of[last] - 1


class IbanDetector:
    """IBANs of the registry's countries, with or without a space after every fourth sign, checksum 97-10."""

    name = "iban"
    longest = max(_IBAN_LENGTHS.values()) + max(_IBAN_LENGTHS.values()) // 4
    signs, fewest = string.digits, 2
    #: The first digit of a head.
    _HEAD = Lazy(rf"[0-9](?<=[A-Za-z]{{2}}.)[0-9](?<!{SIGN}.{{4}})")
    #: What follows a head, by how many signs it has. The two others are written in capitals as I and S are.
    _RESTS: t.ClassVar = {
        length: Lazy(
            rf"(?: ?[A-Za-z0-9ıſ]{{4}}){{{length // 4 - 1}}}(?: ?[A-Za-z0-9ıſ]{{{length % 4}}})?{END}"
        )
        for length in set(_IBAN_LENGTHS.values())
    }
    #: A head and what may follow it, or the beginning of a head, at the end of a text.
    _OPEN = re.compile(r"(?<![^\W_])(?:[A-Za-z]{2}[0-9]{2}[A-Za-z0-9 ]*|[A-Za-z]{1,2}[0-9]?)\Z")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See :class:`plugins.spec.Detector`."""
        for match in self._HEAD().finditer(text):
            start = match.start() - 2
            length = _IBAN_LENGTHS.get(text[start : start + 2].upper())
            found = None if length is None else self._RESTS[length]().match(text, start + 4)
            if found is not None and is_97_10(text[start : found.end()].replace(" ", "").upper()):
                yield start, found.end()

    def holds(self, text: str) -> int:
        """See :class:`plugins.spec.Detector`."""
        begin = max(0, len(text) - self.longest - 2)  # one before, that tells where a word begins
        found = self._OPEN.search(text, begin)
        return len(text) if found is None else found.start()


def _before(parts: tuple[tuple[str, str], ...], tail: str) -> str:
    """A pattern of what ends where it is looked at: ``tail``, and before it all parts, the first of them the last.

    A look behind takes patterns of one length only, so each way to leave out separators is one, with its own group.
    """
    if not parts:
        return rf"(?<!{SIGN}{tail})()"
    (part, separator), *others = parts
    ways = (part + each + tail for each in ("", separator))
    return f"(?:{'|'.join(rf'(?<={way}){_before(tuple(others), way)}' for way in ways)})"


class CnpjDetector:
    """CNPJ: twelve letters or digits and two check digits, with or without each of the usual separators."""

    name = "cnpj"
    longest = 18
    signs, fewest = string.digits, 2
    _ANY = "[0-9A-Za-z]"
    _PARTS = ((f"{_ANY}{{4}}", "-"), (f"{_ANY}{{3}}", "/"), (f"{_ANY}{{3}}", "[.]"), (f"{_ANY}{{2}}", "[.]"))
    #: From its last digit: what is in a text by the thousand are letters and digits, and few are at the end of a word.
    _SHAPE = Lazy(rf"[0-9]{END}(?<=[0-9]{{2}}){_before(_PARTS, '[0-9]{2}')}")
    #: Characters by group: each of four separators is there or not.
    _SIZES = tuple(14 + ways.bit_count() for ways in range(16))

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See :class:`plugins.spec.Detector`."""
        for match in self._SHAPE().finditer(text):
            start, end = match.end() - self._SIZES[(match.lastindex or 1) - 1], match.end()
            if is_cnpj(text[start:end]):
                yield start, end

    def holds(self, text: str) -> int:
        """See :class:`plugins.spec.Detector`."""
        return within_word(text, self.longest)


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether no letter or digit is beside a candidate."""
    return not (start > 0 and text[start - 1].isalnum()) and not (end < len(text) and text[end].isalnum())


def _is_ssn(text: str) -> bool:
    """Whether an SSN could have been given out: areas 000, 666 and 900 on, group 00 and serial 0000 never were."""
    area, group, serial = text[:3], text[4:6], text[7:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


CPF = PatternDetector(
    "cpf",
    14,
    Lazy(rf"[0-9]{ALONE}(?=([0-9]{{2}}\.?[0-9]{{3}}\.?[0-9]{{3}}-?[0-9]{{2}}{END}))"),
    made_of(string.digits + ".-", string.digits),
    11,
    is_cpf,
)
SSN = PatternDetector(
    "us-ssn",
    11,
    Lazy(rf"[0-9]{ALONE}(?=([0-9]{{2}}(?:-[0-9]{{2}}-| [0-9]{{2}} )[0-9]{{4}}{END}))"),
    made_of(string.digits + " -", string.digits),
    9,
    _is_ssn,
)

#: In the order they are tried; each by its own name.
DETECTORS = (
    EmailDetector(),
    PhoneDetector(),
    CardDetector(),
    IbanDetector(),
    CPF,
    CnpjDetector(),
    SSN,
    IpDetector(),
)

"""What the built-in detectors find, said in the plainest way: at each place the whole shape, then its check.

Law of this room: a reference to compare with, in quadratic time and by other means than the detectors use.
"""

from __future__ import annotations

import ipaddress
import re
import string
import typing as t
from collections.abc import Callable, Iterator

from plugins.detectors import _IBAN_LENGTHS

_NAME = frozenset("._%+'-")
_PIECES = "[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}"
_SHAPES = {
    "phone": r"\+[0-9](?:[ ./-]?\(?[0-9]\)?){7,14}"
    r"|\(?[2-9][0-9]{2}\)?[ .-][2-9][0-9]{2}[ .-][0-9]{4}"
    r"|\([1-9][0-9]\) ?9?[0-9]{4}[ -]?[0-9]{4}"
    r"|0[1-9](?:[ .][0-9]{2}){4}"
    r"|0[1-9][0-9]{1,3}(?:[ /-][0-9]{1,4}){2,4}",
    "cpf": r"[0-9]{3}\.?[0-9]{3}\.?[0-9]{3}-?[0-9]{2}",
    "cnpj": r"[0-9A-Za-z]{2}\.?[0-9A-Za-z]{3}\.?[0-9A-Za-z]{3}/?[0-9A-Za-z]{4}-?[0-9]{2}",
    "us-ssn": r"[0-9]{3}(?:-[0-9]{2}-| [0-9]{2} )[0-9]{4}",
    "ip": rf"{_PIECES}(?:\.[0-9]{{1,3}}){{3}}|[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}}|{_PIECES}",
}
#: Signs at which what a shape took in may end earlier.
_SEPARATORS = {"phone": " -./", "ip": ":"}


def found_by(name: str, text: str) -> list[tuple[int, int]]:
    """The spans of one detector, by the places they begin at."""
    if name == "email":
        return list(_emails(text))
    found = ((start, _ENDS[name](text, start)) for start in range(len(text)) if _alone(text, start))
    return [(start, end) for start, end in found if end]


def _alone(text: str, place: int) -> bool:
    """Whether something may begin here: no letter or digit is before it."""
    return not text[max(0, place - 1) : place].isalnum()


def _over(text: str, place: int) -> bool:
    return not text[place : place + 1].isalnum()


def _shaped(name: str, check: Callable[[str], bool]) -> Callable[[str, int], int]:
    def end_of(text: str, start: int) -> int:
        match = re.compile(_SHAPES[name]).match(text, start)
        end = start if match is None else match.end()
        while end > start:
            if _over(text, end) and check(text[start:end]):
                return end
            end = max((text.rfind(sign, start, end) for sign in _SEPARATORS.get(name, "")), default=0)
        return 0

    return end_of


def _digits(text: str) -> list[int]:
    return [int(sign) for sign in text if sign in string.digits]


def _cpf(text: str) -> bool:
    digits = _digits(text)
    sums = (sum(d * (size + 1 - p) for p, d in enumerate(digits[:size])) * 10 % 11 % 10 for size in (9, 10))
    return len(set(digits)) > 1 and list(sums) == digits[9:]


def _cnpj(text: str) -> bool:
    signs = [ord(sign) - 48 for sign in text.upper() if sign.isalnum()]
    rests = [sum(s * (2 + (size - 1 - p) % 8) for p, s in enumerate(signs[:size])) % 11 for size in (12, 13)]
    return len(set(signs)) > 1 and [0 if rest < 2 else 11 - rest for rest in rests] == signs[12:]


def _ssn(text: str) -> bool:
    area, group, serial = text[:3], text[4:6], text[7:]
    return not (area in ("000", "666") or area >= "900" or group == "00" or serial == "0000")


def _ip(text: str) -> bool:
    if not any(sign in string.hexdigits for sign in text):
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _card(text: str, start: int) -> int:
    if start and text[start - 1 : start] in string.digits:
        return 0
    for end in range(min(len(text), start + 27), start + 12, -1):
        number, digits = text[start:end], _digits(text[start:end])
        if not (re.fullmatch("[0-9]{2,}(?:[ -][0-9]{2,})*", number) and _over(text, end)):
            continue
        doubled = [d * (1 + p % 2) for p, d in enumerate(reversed(digits))]
        right = sum(d - 9 if d > 9 else d for d in doubled) % 10 == 0
        if 13 <= len(digits) <= 19 and len(set(digits)) > 1 and right:
            return end
    return 0


def _iban(text: str, start: int) -> int:
    length = _IBAN_LENGTHS.get(text[start : start + 2].upper(), 0)
    if not length or not text[start : start + 2].isascii():
        return 0
    for end in range(start + length, start + length + length // 4 + 1):
        taken = re.fullmatch("((?:[A-Za-z0-9ıſ]{4} ?)*)[A-Za-z0-9ıſ]{0,4}", text[start:end])
        signs = text[start:end].replace(" ", "").upper()
        if taken and len(signs) == length and text[end - 1] != " " and end <= len(text) and _over(text, end):
            number = "".join(str(int(sign, 36)) for sign in signs[4:] + signs[:4])
            return end if re.match("[0-9]{2}", text[start + 2 : end]) and int(number) % 97 == 1 else 0
    return 0


def _emails(text: str) -> Iterator[tuple[int, int]]:
    for at in (place for place, sign in enumerate(text) if sign == "@"):
        end = _domain(text, at + 1)
        for start in range(max(0, at - 64), at) if end else ():
            if all(sign.isalnum() or sign in _NAME for sign in text[start:at]) and _alone(text, start):
                yield start, end


def _domain(text: str, start: int) -> int:
    """Where the longest one ends: one to four labels with a dot behind each, then letters."""
    for end in range(min(len(text), start + 4 * 64 + 24), start, -1):
        *labels, last = text[start:end].split(".")
        names = all(0 < len(label) <= 63 and label.replace("-", "a").isalnum() for label in labels)
        if 1 <= len(labels) <= 4 and names and 2 <= len(last) <= 24 and last.isalpha() and _over(text, end):
            return end
    return 0


_ENDS: t.Final[dict[str, Callable[[str, int], int]]] = {
    "phone": _shaped("phone", lambda text: 8 <= len(_digits(text)) <= 15),
    "card": _card,
    "iban": _iban,
    "cpf": _shaped("cpf", _cpf),
    "cnpj": _shaped("cnpj", _cnpj),
    "us-ssn": _shaped("us-ssn", _ssn),
    "ip": _shaped("ip", _ip),
}

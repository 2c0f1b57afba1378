"""Check digits of numbers that can be told from any others by them.

Law of this room: pure arithmetic; whether a number stands by itself is for its detector to say.
"""

from __future__ import annotations

import string
from itertools import accumulate
from operator import mul

#: From a digit to what it is twice, the digits of that added up, and both from text to numbers.
_ONCE = bytes.maketrans(b"0123456789", bytes(range(10)))
_TWICE = bytes.maketrans(b"0123456789", bytes((0, 2, 4, 6, 8, 1, 3, 5, 7, 9)))
#: What each digit but the last two counts for the first check digit of a CPF; for the second one more.
_CPF_WEIGHTS = range(10, 1, -1)
#: What letters and digits count by ISO 7064.
_SIGN_VALUES = {sign: str(int(sign, 36)) for sign in string.digits + string.ascii_uppercase}


def luhn_sums(digits: str) -> tuple[list[int], list[int]]:
    """What the digits before each place add up to by Luhn's rule: of a number that ends at an even place, at an odd."""
    once, twice = digits.encode().translate(_ONCE), digits.encode().translate(_TWICE)
    even, odd = bytearray(once), bytearray(once)
    even[::2] = twice[::2]
    odd[1::2] = twice[1::2]
    return [0, *accumulate(even)], [0, *accumulate(odd)]


def is_luhn(digits: str) -> bool:
    """Whether the last of ``digits`` is their check digit by Luhn's rule, and they are not one digit repeated."""
    found = digits.encode()
    total = sum(found[::-2].translate(_ONCE)) + sum(found[-2::-2].translate(_TWICE))
    return not total % 10 and digits.count(digits[0]) < len(digits)


def is_97_10(signs: str) -> bool:
    """Whether digits and capitals, of which the third and fourth are check digits, pass ISO 7064's 97-10."""
    head, rest = "".join(map(_SIGN_VALUES.__getitem__, signs[:4])), signs[4:]
    if not rest.isdecimal():
        rest = "".join(map(_SIGN_VALUES.__getitem__, rest))
    return int(rest + head) % 97 == 1


def is_cpf(text: str) -> bool:
    """Whether the digits of ``text`` are a CPF: eleven with two check digits, not one digit repeated."""
    digits = text.replace(".", "").replace("-", "")
    if len(digits) != 11 or not digits.isdecimal() or digits.count(digits[0]) == 11:
        return False
    values = digits.encode().translate(_ONCE)
    first: int = sum(map(mul, values, _CPF_WEIGHTS))
    if first * 10 % 11 % 10 != values[9]:
        return False
    second = first + sum(values[:9]) + values[9] * 2
    return second * 10 % 11 % 10 == values[10]


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

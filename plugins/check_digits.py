"""Check digits of numbers that can be told from any others by them.

Law of this room: pure arithmetic; whether a number stands by itself is for its detector to say.
"""

from __future__ import annotations

import string


def luhn_sums(digits: str) -> tuple[list[int], list[int]]:
    """What the digits before each place add up to by Luhn's rule: of a number that ends at an even place, at an odd."""
    sums: tuple[list[int], list[int]] = [0], [0]
    for place, digit in enumerate(map(int, digits)):
        twice = digit * 2 - 9 if digit > 4 else digit * 2
        for ends, found in enumerate(sums):
            found.append(found[-1] + (twice if place % 2 == ends else digit))
    return sums


def is_cpf(text: str) -> bool:
    """Whether the digits of ``text`` are a CPF: eleven with two check digits, not one digit repeated."""
    digits = [int(sign) for sign in text if sign in string.digits]
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

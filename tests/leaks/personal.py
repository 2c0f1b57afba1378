"""Made-up personal data of every kind that is detected, another one each time.

Law of this room: nothing here knows the program; check digits are worked out here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping


def personal(kind: str, serial: int, number: int) -> str:
    """A piece of personal data: the same for the same numbers, another one for others."""
    digits = str(int(hashlib.sha256(f"{kind} {serial} {number}".encode()).hexdigest(), 16))[:30]
    return KINDS[kind](digits, f"{serial:05d}{number:02d}")


def _email(digits: str, name: str) -> str:
    return f"zqpii{name}@mail{digits[:3]}.example.com"


def _phone(digits: str, name: str) -> str:
    return f"+1 ({2 + int(digits[7]) % 7}{digits[8:10]}) {2 + int(digits[0]) % 8}{digits[1:3]}-{digits[3:7]}"


def _card(digits: str, name: str) -> str:
    body = "4" + digits[:14]
    total = sum(_luhn(int(sign) * (2 if place % 2 == 0 else 1)) for place, sign in enumerate(body))
    whole = body + str(-total % 10)
    return " ".join(whole[place : place + 4] for place in range(0, 16, 4))


def _luhn(value: int) -> int:
    return value - 9 if value > 9 else value


def _iban(digits: str, name: str) -> str:
    account = digits[:18]
    check = 98 - int(account + "131400") % 97  # DE00
    return f"DE{check:02d}{account}"


def _cpf(digits: str, name: str) -> str:
    body = digits[:9]
    for weights in (range(10, 1, -1), range(11, 1, -1)):
        rest = sum(int(sign) * weight for sign, weight in zip(body, weights, strict=True)) * 10 % 11
        body += str(rest % 10)
    return f"{body[:3]}.{body[3:6]}.{body[6:9]}-{body[9:]}"


def _cnpj(digits: str, name: str) -> str:
    body = digits[:8] + "0001"
    for weights in ((5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2), (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)):
        rest = sum(int(sign) * weight for sign, weight in zip(body, weights, strict=True)) % 11
        body += str(0 if rest < 2 else 11 - rest)
    return f"{body[:2]}.{body[2:5]}.{body[5:8]}/{body[8:12]}-{body[12:]}"


def _ssn(digits: str, name: str) -> str:
    return f"{100 + int(digits[:3]) % 500}-{10 + int(digits[3:5]) % 89}-{1000 + int(digits[5:9]) % 8999}"


def _ip(digits: str, name: str) -> str:
    first, second, third, fourth = (100 + int(digits[place : place + 3]) % 99 for place in (0, 3, 6, 9))
    return f"{first}.{second}.{third}.{fourth}"


KINDS: Mapping[str, Callable[[str, str], str]] = {
    "email": _email,
    "phone": _phone,
    "card": _card,
    "iban": _iban,
    "cpf": _cpf,
    "cnpj": _cnpj,
    "us-ssn": _ssn,
    "ip": _ip,
}

"""Samples of every built-in detector, for all tests of redaction."""

from __future__ import annotations

SAMPLES = {
    "email": ("jane.doe+x@mail.example.com", "müller@straße.de", "a@b.io"),
    "phone": ("+55 11 91234-5678", "(11) 91234-5678", "+1 (415) 555-2671", "415-555-2671", "030 901 820 0"),
    "card": ("4111 1111 1111 1111", "5500000000000004", "3782-822463-10005"),
    "iban": ("DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432"),
    "cpf": ("529.982.247-25", "52998224725"),
    "cnpj": ("11.222.333/0001-81", "12.ABC.345/01DE-35"),
    "us-ssn": ("078-05-1120", "219 09 9999"),
    "ip": ("192.168.17.23", "2001:db8::ff00:42:8329"),
}

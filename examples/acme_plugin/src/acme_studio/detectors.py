"""``acme-customer``: Acme's customer numbers, which lead to a person."""

from __future__ import annotations

import re
from collections.abc import Iterator


class CustomerNumbers:
    """``AC`` and eight digits whose last is the sum of the others, modulo ten."""

    name = "acme-customer"
    longest = 11
    _PATTERN = re.compile(r"(?<!\w)AC-?(\d{7})(\d)(?!\w)")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """See ``studio_plugin.Detector``."""
        for match in self._PATTERN.finditer(text):
            if sum(map(int, match[1])) % 10 == int(match[2]):
                yield match.span()

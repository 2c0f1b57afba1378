"""IP addresses in text.

Law of this room: as of :mod:`plugins.detecting`; the pattern alone says what an address is (RFC 4291, section 2.2),
since taking candidates apart would cost several times as much.
"""

from __future__ import annotations

import string

from plugins.detecting import ALONE, END, SIGN, Lazy, made_of

#: A number up to 255, without zeros before it; the rest of one whose first digit was taken; four of them.
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9][0-9]|[0-9])"
_REST = "(?:(?<=1)[0-9]{0,2}|(?<=2)(?:[0-4][0-9]?|5[0-5]?|[6-9])?|(?<=[3-9])[0-9]?|(?<=0))"
_FOUR = rf"{_BYTE}(?:[.]{_BYTE}){{3}}{END}"
#: A piece of an address of version 6, and the end of an address: what looks like the other version is not left behind.
_HEX = "[0-9A-Fa-f]"
_PIECE = f"{_HEX}{{1,4}}"
_OVER = rf"{END}(?!(?:[.][0-9]{{1,3}}){{3}})"
_LAST = _PIECE + _OVER


def _tail(most: int, empty: bool) -> str:
    """What may stand behind ``::``: up to ``most`` pieces; two of them may be an address of version 4."""
    ways = [rf"(?:{_PIECE}:){{0,{most - 2}}}{_FOUR}"] if most > 1 else []
    ways.append(rf"(?:{_PIECE}:){{0,{most - 1}}}{_LAST}")
    return f"(?:{'|'.join([*ways, _OVER] if empty else ways)})"


def _shortened(pieces: int) -> str:
    """The rest of an address with ``::`` after so many pieces, each with its colon, or after more."""
    here = f":{_tail(7 - pieces, empty=True)}"
    return f"(?:{here}|{_PIECE}:{_shortened(pieces + 1)})" if pieces < 6 else here


#: From the first colon on. An address before which there is a piece, and how long that is; one that begins here.
_SIX = (
    rf":(?:(?=((?:{_PIECE}:){{6}}{_LAST}|(?:{_PIECE}:){{5}}{_FOUR}|{_shortened(1)}))"
    + f"(?:{'|'.join(f'(?<={_HEX * size}:)(?<!{SIGN}{_HEX * size}:)()' for size in range(1, 5))})"
    + rf"|{ALONE}(?=(:{_tail(6, empty=False)})))"
)
_BEGINS_HERE = 6


class IpDetector:
    """IP addresses of both versions. Of one that goes on, what is one by itself."""

    name = "ip"
    longest = 4 + 7 * 5 + 3 * 4
    signs, fewest = ":.", 2
    _FOURS = Lazy(rf"[0-9]{ALONE}(?=({_REST}(?:[.]{_BYTE}){{3}}{END}))")
    _SIXES = Lazy(_SIX)
    _HOLDS = staticmethod(made_of(string.hexdigits + ":.", string.hexdigits + ":"))

    def find(self, text: str) -> list[tuple[int, int]]:
        """See :class:`plugins.spec.Detector`."""
        found = [(match.start(), match.end(1)) for match in self._FOURS().finditer(text)]
        if ":" in text:
            fours = len(found)
            for match in self._SIXES().finditer(text):
                group = match.lastindex or _BEGINS_HERE
                if group == _BEGINS_HERE:
                    found.append((match.start(), match.end(group)))
                else:  # the groups from the second on say how long the piece before is
                    found.append((match.start() + 1 - group, match.end(1)))
            if fours < len(found):
                found.sort()
        return found

    def holds(self, text: str) -> int:
        """See :class:`plugins.spec.Detector`."""
        return self._HOLDS(text, self.longest)

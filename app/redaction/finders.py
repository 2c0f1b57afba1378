"""Detectors as the filter uses them: checked, bounded, each with what stands in place of its matches.

Law of this room: a detector is somebody's code. What it raises or answers that cannot be is a :class:`DetectorFailed`,
which names it and never the text; whoever meets one tells nothing more.
"""

from __future__ import annotations

import re
import time
import typing as t
from collections.abc import Callable, Mapping
from operator import index

from app.redaction.policy import KIND, Policy
from plugins.spec import Detector
from plugins.spec.detectors import HoldsBack

#: Seconds of the processor that one look at a text may take, and how many more for each million characters.
LIMIT_S, LIMIT_S_PER_MILLION = 1.0, 2.0
#: A long text is looked at in pieces of so many characters, so that a detector that is too slow is not waited for.
_PIECE = 65_536
#: Fewer characters are looked at once rather than once for each sign.
_SHORT = 1024
_SURROGATES = re.compile("[\ud800-\udfff]")


class DetectorFailed(Exception):
    """A detector raised, answered nonsense, took too long or is not there."""


class Finder(t.Protocol):
    """Finds what is masked.

    :ivar mask: what stands in place of a match. :ivar longest: most characters of one.
    :ivar reach: characters before those it looks at that it has to see.
    """

    mask: str
    longest: int
    reach: int

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The matches in ``text``, in order of their starts."""

    def hold(self, text: str) -> int:
        """From which place on ``text`` may still become part of a match."""


class DetectorFinder:
    """See :class:`Finder`: a detector of a plugin."""

    __slots__ = ("_detector", "_holds", "_may", "longest", "mask", "name", "reach", "signs")

    def __init__(self, detector: Detector, mask: str) -> None:
        self._detector = detector
        self.name = detector.name
        self.mask = mask.replace(KIND, detector.name)
        self.longest = detector.longest
        signs = getattr(detector, "signs", None)
        #: A text without any of these has no match; empty: it may have one.
        self.signs = signs if isinstance(signs, str) else ""
        self._may = _looker(signs, getattr(detector, "fewest", 1))
        self._holds = detector.holds if isinstance(detector, HoldsBack) else None
        # One that says what it holds knows where its matches begin; of another one all is kept that might matter.
        self.reach = 1 if self._holds is not None else self.longest + 1

    def spans(self, text: str) -> list[tuple[int, int]]:
        """See :class:`Finder`. :raises DetectorFailed: it failed."""
        if not self._may(text):
            return []
        text = encodable(text)
        began = time.thread_time()
        found: list[tuple[int, int]] = []
        for first in range(0, len(text), _PIECE):
            found += self._beginning(text, first, first + _PIECE)
            read = min(len(text), first + _PIECE)
            if time.thread_time() - began > LIMIT_S + read / 1e6 * LIMIT_S_PER_MILLION:
                raise self._failed("it took too long")
        return found

    def _beginning(self, text: str, first: int, last: int) -> list[tuple[int, int]]:
        """The matches that begin from ``first`` on and before ``last``."""
        before = max(0, first - 1)
        piece = text[before : last + self.longest + 1]
        size, longest, at_least = len(piece), self.longest, first - before
        found: list[tuple[int, int]] = []
        came = 0
        try:
            for span in self._detector.find(piece):
                start, end = map(index, span)
                if not came <= start < end <= size or end - start > longest:
                    raise ValueError("its spans cannot be, or are in no order")
                came = start
                if start >= at_least and start + before < last:
                    found.append((start + before, end + before))
        except Exception as error:
            raise self._failed(type(error).__name__) from None
        return found

    def hold(self, text: str) -> int:
        """See :class:`Finder`. :raises DetectorFailed: it failed."""
        if self._holds is None:
            return max(0, len(text) - self.longest - 1)
        try:
            place = self._holds(text)
            if not 0 <= place <= len(text):
                raise ValueError("no place in the text")
        except Exception as error:
            raise self._failed(type(error).__name__) from None
        return place

    def _failed(self, why: str) -> DetectorFailed:
        return DetectorFailed(f"the detector {self.name} failed: {why}")


def finders_of(policy: Policy, known: Mapping[str, Detector]) -> tuple[DetectorFinder, ...]:
    """The detectors of a policy.

    :param known: all there are, by name.
    :raises DetectorFailed: one of them is not there.
    """
    missing = [name for name in policy.detectors if name not in known]
    if missing:
        raise DetectorFailed(f"there is no detector {missing[0]}")
    names = policy.detectors or tuple(known)
    return tuple(DetectorFinder(known[name], policy.mask) for name in names)


def encodable(text: str) -> str:
    """A text of the same length that every pattern takes: without lone surrogates."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _looker(signs: t.Any, fewest: t.Any) -> Callable[[str], t.Any]:
    """Whether a text has enough of some characters; without any, whether it has anything."""
    if not isinstance(signs, str) or not signs or not isinstance(fewest, int):
        return bool
    one, other = f"[{re.escape(signs)}]", f"[^{re.escape(signs)}]"
    enough = re.compile(f"{one}(?:{other}*{one}){{{min(max(fewest, 1), 100) - 1}}}").search

    def may(text: str) -> t.Any:
        # One sign is looked for many times as quickly as one of several.
        return (len(text) < _SHORT or any(sign in text for sign in signs)) and enough(text)

    return may

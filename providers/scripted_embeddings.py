"""Vectors without a model: the words of a text, counted.

Law of this room: deterministic, free and plainly named, for examples, demos and tests. It finds texts that share words
or their beginnings with a question, and knows nothing of what they mean.
"""

from __future__ import annotations

import math
import re
import zlib
from array import array
from collections.abc import Iterator

from providers.spec import Connection, Embedded, EmbeddingRequest, Usage, Waits

#: The one model there is, and the length of its vectors.
MODEL, DIMENSIONS = "bag-of-words", 256
#: Letters of a word's beginning that count as a word, so that forms of one word resemble each other.
_STEM = 5
#: What so many texts hold that it tells none from another.
_COMMON = (
    "a an and are as at be but by can do does for from has have how i in is it its me my not of on or our so that the "
    "their them they this to was we were what when where which who why will with you your"
)
_WORD = re.compile(r"\w+")


class BagOfWords:
    """See ``providers.spec.EmbeddingWire``."""

    name = "scripted_embeddings"

    def embed(self, request: EmbeddingRequest, connection: Connection, waits: Waits) -> Embedded:
        """A vector of unit length for each text; one without words has nothing but zeros."""
        with waits.wait():  # a run that is to end ends here
            pass
        counts = [len(_WORD.findall(text)) for text in request.texts]
        return Embedded(tuple(map(vector, request.texts)), Usage(input=sum(counts), total=sum(counts)))


def vector(text: str) -> array[float]:
    """Each word and each beginning adds one, with a sign, to the place that its checksum names."""
    sums = [0.0] * DIMENSIONS
    for word in _words(text):
        mark = zlib.crc32(word.encode("utf-8", "replace"))
        sums[mark % DIMENSIONS] += 1.0 if mark & 0x8000_0000 else -1.0
    length = math.hypot(*sums)
    return array("f", (value / length for value in sums) if length else sums)


def _words(text: str) -> Iterator[str]:
    common = frozenset(_COMMON.split())
    for word in _WORD.findall(text.lower()):
        if word not in common:
            yield word
            if len(word) > _STEM:
                yield word[:_STEM] + "*"


WIRE = BagOfWords()

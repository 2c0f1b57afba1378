"""Counting tokens ourselves, for vendors that do not say.

Law of this room: an estimate, cheap and bounded, never a reason to fail and never a byte of network. Texts are
counted with the encoding ``cl100k_base`` (OpenAI's, published with tiktoken; other vendors' differ by some per
cent), whose table litellm ships as a file; it is found beside litellm, which is not imported for it. Without the
table, or before it is loaded, four bytes of UTF-8 stand for a token. Of a long text samples are counted.
"""

from __future__ import annotations

import base64
import logging
import typing as t
from importlib.util import find_spec
from pathlib import Path

from gevent.monkey import get_original

log = logging.getLogger("studio.providers")

#: Characters that are counted at most; longer texts are sampled. About ten milliseconds at worst.
MAX_COUNTED = 65_536
#: Characters that may be counted where others wait: well under a millisecond.
SMALL = 4_096
_SAMPLES = 16
_BYTES_PER_TOKEN = 4
#: Of the table in ``litellm/litellm_core_utils/tokenizers``, which tiktoken names by the address it is published at:
#: the SHA-1 of https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken.
_TABLE = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
#: How the encoding splits a text (``tiktoken_ext/openai_public.py``, cl100k_base).
_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s"
)


class Counter:
    """Counts tokens; :meth:`load` makes it exact.

    :param find: gives the table's path, or None where there is none.
    """

    def __init__(self, find: t.Callable[[], Path | None]) -> None:
        self._find = find
        self._encode: t.Callable[[str], t.Sized] | None = None
        self._tried = False
        # A native lock: it is held by a native thread for as long as the table takes.
        self._lock = get_original("_thread", "allocate_lock")()

    @property
    def loaded(self) -> bool:
        """Whether :meth:`load` ran; it may have found nothing."""
        return self._tried

    def load(self) -> None:
        """Read the table, once. Takes a quarter of a second and 40 MB: call it in a native thread."""
        with self._lock:
            if not self._tried:
                try:
                    self._encode = _encoder(self._find())
                except Exception:  # whatever is wrong with it, an estimate remains
                    log.warning("tokens are counted by length: the tokenizer cannot be used", exc_info=True)
                self._tried = True

    def count(self, text: str, most: int = MAX_COUNTED) -> int:
        """Tokens of ``text``, looking at ``most`` characters of it at most."""
        encode = self._encode
        if encode is None:
            return by_length(text)
        if len(text) <= most:
            return len(encode(text))
        piece = max(1, most // _SAMPLES)
        step = (len(text) - piece) // (_SAMPLES - 1)
        counted = sum(len(encode(text[at * step : at * step + piece])) for at in range(_SAMPLES))
        return max(1, counted * len(text) // (piece * _SAMPLES))


def by_length(text: str) -> int:
    """Tokens of ``text`` by its length alone."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)


def _table() -> Path | None:
    found = find_spec("litellm")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "litellm_core_utils" / "tokenizers" / _TABLE
    return path if path.is_file() else None


def _encoder(table: Path | None) -> t.Callable[[str], t.Sized] | None:
    if table is None:
        return None
    import tiktoken  # not on the start path

    pairs = (line.split() for line in table.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
    encoding = tiktoken.Encoding(
        name="cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={}
    )
    return encoding.encode_ordinary


#: The process's counter.
COUNTER = Counter(_table)

"""How long to wait before a failed call of a provider is repeated, or why it is not.

Law of this room: a vendor's ``Retry-After`` is kept, whoever has none gets full jitter under a doubling bound.
"""

from __future__ import annotations

import random

from providers.spec import ProviderError

#: What may be over a moment later; ``provider_idle`` and ``provider_bad_stream`` only while nothing was shown, as all.
RETRYABLE = frozenset(
    (
        "provider_rate_limited",
        "provider_overloaded",
        "provider_unavailable",
        "provider_bad_stream",
        "provider_idle",
    )
)
#: Longest wait before a repetition, in seconds, by our own reckoning and by the vendor's ``Retry-After``. A vendor that
#: asks for more has no room for this run: it fails at once, or the next model is asked.
MAX_BACKOFF_S = 8.0
MAX_RETRY_AFTER_S = 60.0
_FIRST_BACKOFF_S = 1.0
#: Part of the vendor's own ``Retry-After`` that is added at most, lest all who were sent away come back at once.
_JITTER = 0.1
#: Why a call is not repeated that was.
LAST = "it was the last attempt"


def before_next(error: ProviderError, attempt: int, retries: int) -> float | str:
    """Seconds before the attempt after ``attempt``, which counts from 1; a text says why there is none."""
    asked = error.retry_after
    if error.code not in RETRYABLE:
        return "a repetition would fail as well"
    if asked is not None and asked > MAX_RETRY_AFTER_S:
        return f"Retry-After of {asked:g} s is more than {MAX_RETRY_AFTER_S:g} s"
    if attempt > retries:
        return LAST if retries else "no repetition is wanted"
    if asked is None:
        return random.uniform(0, min(MAX_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** (attempt - 1)))
    return asked + random.uniform(0, asked * _JITTER)

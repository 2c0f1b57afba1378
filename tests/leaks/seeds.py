"""Seeds that draw the same cases everywhere.

Law of this room: what a seed draws depends on the code of the cases alone. Hypothesis also draws numbers that stand in
whatever modules are loaded: with other tests before it, or another change anywhere, a seed would draw other cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis.internal.conjecture.providers import HypothesisProvider


@contextmanager
def nothing_loaded() -> Iterator[None]:
    """While open, draw as if no module were loaded."""
    with pytest.MonkeyPatch.context() as patch:
        never = property(lambda self: lambda *told, **more: None)
        patch.setattr(HypothesisProvider, "_maybe_draw_constant", never, raising=False)
        yield

"""What a run may use: tokens and money, of its own and of what it was started through.

Law of this room: a budget that is used up ends the run as ``budget_exceeded``, after the model call that used it up;
one that was used up before refuses the start. A run without a budget pays nothing.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on what is used.

    :ivar subject: ``<kind>:<id>`` of whose it is: ``chat:…``, ``key:…``, ``workflow:…``.
    :ivar period: ``run``: each run may use that much; else all runs of the subject in that time (UTC) together.
    :ivar tokens: most tokens, input and output. :ivar cost: most money, in US dollars. None: not limited.
    """

    subject: str
    period: t.Literal["run", "day", "month"] = "run"
    tokens: int | None = None
    cost: float | None = None

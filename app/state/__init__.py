"""How a run stands, by what it has said.

Law of this room: :mod:`app.state.fold` is the only one that changes anything, envelope by envelope; what it changes is
in :mod:`app.state.parts`.
"""

from __future__ import annotations

from app.state.fold import RunState
from app.state.parts import BlockState, CallState, InvariantBroken, call_entry, plain

__all__ = ["BlockState", "CallState", "InvariantBroken", "RunState", "call_entry", "plain"]

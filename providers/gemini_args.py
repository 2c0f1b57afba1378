"""Arguments of a Gemini call that arrive member by member.

Law of this room: pure values. An entry of ``partialArgs`` names a place in the arguments (a JSONPath of names and
indexes) and holds a value for it, or one more piece of a string that ``willContinue`` left open.
"""

from __future__ import annotations

import re
import typing as t

from providers.errors import failure

#: ``.name``, ``[3]``, ``['name']`` or ``["name"]``.
_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\]""")
_VALUES = ("stringValue", "numberValue", "boolValue")
#: Longest list; an index beyond it would fill the memory and means nothing.
_MAX_INDEX = 10_000


class PartialArgs:
    """The arguments of one call under assembly."""

    def __init__(self) -> None:
        self.args: dict[str, t.Any] = {}
        self._open: str | None = None  # the path whose string goes on

    def put(self, entry: t.Any) -> None:
        """Take one entry.

        :raises ProviderError: ``provider_bad_stream`` for a place that cannot be.
        """
        if not isinstance(entry, dict):
            return
        path = str(entry.get("jsonPath") or "")
        steps = [int(step[2]) if step[2] else step[1] or step[3] or step[4] or "" for step in _steps(path)]
        if not steps:
            return
        value = next((entry[name] for name in _VALUES if name in entry), None)
        if isinstance(value, str) and self._open == path:
            value = str(_get(self.args, steps) or "") + value
        self._open = path if entry.get("willContinue") and isinstance(value, str) else None
        _set(self.args, steps, value)


def _steps(path: str) -> t.Iterator[re.Match[str]]:
    return _STEP.finditer(path)


def _get(at: t.Any, steps: list[str | int]) -> t.Any:
    for step in steps:
        try:
            at = at[step]
        except (KeyError, IndexError, TypeError):
            return None
    return at


def _set(at: t.Any, steps: list[str | int], value: t.Any) -> None:
    """Put ``value`` there, making the objects and lists on the way."""
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(step, int) != isinstance(at, list) or (isinstance(step, int) and step > _MAX_INDEX):
            raise failure("provider_bad_stream", detail=f"a call's argument at an impossible place: {steps}")
        if isinstance(step, int):
            at.extend([None] * (step + 1 - len(at)))
        if after is None:
            at[step] = value
            return
        below = at[step] if isinstance(step, int) else at.get(step)
        if not isinstance(below, list if isinstance(after, int) else dict):
            below = at[step] = [] if isinstance(after, int) else {}
        at = below

"""Values that steer a block, taken down when they are first made.

Law of this room: a block that is run again goes on with the values it began with, whatever its templates would say now.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from plugins.spec import BlockContext

_T = t.TypeVar("_T")


def kept(context: BlockContext, key: str, make: Callable[[], _T]) -> _T:
    """What ``make`` gave in this execution the first time: JSON.

    :param key: names it among what is taken down of the execution.
    """
    row = context.journal.find(0, key)
    if row is not None:
        return t.cast(_T, row.value)
    value = make()
    context.journal.write(0, key, "chosen", "done", value)
    return value

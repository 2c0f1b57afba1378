"""How long work on the hub lets others go on.

Law of this room: only where nothing is half done that others can see.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import gevent

#: Any time that is not none.
_MOMENT_S = 0.0001
#: Seconds after which work gives way; a stream may be that late.
_LONG_S = 0.005


def give_way() -> None:
    """Let others go on in the middle of long work, those too that wait for a socket or a timer.

    ``gevent.sleep(0)`` lets only those go on that wait for nothing: the hub looks at sockets and timers after fifty
    such turns.
    """
    gevent.sleep(_MOMENT_S)


def giving_way(
    now: Callable[[], float] = time.perf_counter, give: Callable[[], None] = give_way
) -> Callable[[], None]:
    """For long work to call at each of its steps: it gives way whenever it has gone on for long enough.

    :param now: seconds, of any clock that does not stand still. :param give: lets others go on.
    """
    began = now()

    def step() -> None:
        nonlocal began
        if now() - began >= _LONG_S:
            give()
            began = now()

    return step

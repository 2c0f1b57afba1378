"""The gate that asks for a password.

Law of this room: a guess costs its guesser one of his tries before the password is looked at, and one of those of all
guessers together, so that nobody gets further with many addresses; who is in already is asked nothing. Right and wrong
take equally long.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from contextlib import contextmanager

from flask import current_app

from app.errors import ApiError
from app.web import passwords, tries
from app.web.limits import network
from app.web.tries import Limit

if t.TYPE_CHECKING:
    from app.store.chats import ChatRow

PERIOD_S = 15 * 60
#: Wrong passwords in that time: from one address (contract section 8), and for one chat from everywhere.
MOST, MOST_OF_ALL = 10, 100
#: Guesses of a worker that wait for one another; each takes a tenth of a second of one processor.
WAITING = 16
_WAITING = "studio.guesses"


def is_right(chat: ChatRow, password: str) -> bool:
    """Whether this is the chat's password.

    :raises ApiError: 429 there were too many wrong ones, 503 too many are looked at.
    """
    what = "wrong passwords"
    limits = (
        Limit(f"password:{chat.id}:{network()}", MOST, PERIOD_S, what),
        Limit(f"password:{chat.id}", MOST_OF_ALL, PERIOD_S, what, tries.closed(chat.slug)),
    )
    with _turn():
        tries.take(limits)
        try:
            right = passwords.matches(chat.password, password)
        except ApiError:
            tries.give_back(limits)
            raise
        if right:
            tries.give_back(limits)
        return right


@contextmanager
def _turn() -> Iterator[None]:
    waiting = current_app.extensions.get(_WAITING, 0)
    if waiting >= WAITING:
        message = "Many passwords are being looked at. Try again in a moment."
        raise ApiError(503, "at_capacity", message, headers={"Retry-After": "1"})
    current_app.extensions[_WAITING] = waiting + 1
    try:
        yield
    finally:
        current_app.extensions[_WAITING] -= 1

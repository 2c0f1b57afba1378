"""The gate that asks for a password.

Law of this room: a guess costs its guesser one of his tries before the password is looked at, and one of those of all
guessers together, so that nobody gets further with many addresses; who is in already is asked nothing. While somebody
guesses, who was in before comes in again: he has the password, so he has tries of his own. Right and wrong take equally
long.
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
    from app.web.visitors import Visitor

PERIOD_S = 15 * 60
#: Wrong passwords in that time: from one address (contract section 8), and for one chat from everywhere.
MOST, MOST_OF_ALL = 10, 100
#: Guesses of a worker that wait for one another; each takes a tenth of a second of one processor.
WAITING = 16
_WAITING = "studio.guesses"


def is_right(chat: ChatRow, password: str, visitor: Visitor | None = None) -> bool:
    """Whether this is the chat's password.

    :param visitor: who says it, if he was here before.
    :raises ApiError: 429 there were too many wrong ones, 503 too many are looked at.
    """
    with _turn():
        taken = tries.take(_limits(chat, visitor))
        try:
            right = passwords.matches(chat.password, password)
        except ApiError:
            tries.give_back(taken)
            raise
        if right:
            tries.give_back(taken)
        return right


def _limits(chat: ChatRow, visitor: Visitor | None) -> tuple[Limit, ...]:
    """The tries of who says a password. Whoever has shown the one that the chat has now learns nothing by guessing."""
    what = "wrong passwords"
    shown = None if visitor is None else visitor.passed
    if visitor and shown and (shown.mode, shown.version) == (chat.auth_type, chat.password_version):
        return (Limit(f"password:{chat.id}:visitor:{visitor.id}", MOST, PERIOD_S, what),)
    return (
        Limit(f"password:{chat.id}:{network()}", MOST, PERIOD_S, what),
        Limit(f"password:{chat.id}", MOST_OF_ALL, PERIOD_S, what, tries.closed(chat.slug)),
    )


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

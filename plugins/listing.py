"""What servers say that they have: asked off the hot path, kept for a while.

Law of this room: nobody waits for a list but who asks for it. A list is a claim of its server: it fills tables and
makes warnings, never a refusal. The last good answer is kept, through failures and after its time, until a better
one comes or the family is called elsewhere; a failure is remembered briefly, with its reason.
"""

from __future__ import annotations

import logging
import time
import typing as t
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from plugins.spec.families import ProviderFamily
from providers.spec import Connection, ProviderError, Waits

log = logging.getLogger("studio.plugins")

#: Seconds that a failure stands, and that an attempt under way keeps others from making the same.
FAILED_TTL_S = 30.0
#: Most seconds for connecting, and of silence, while a list is asked for.
CONNECT_S, IDLE_S = 3.0, 5.0
#: Most names of one list, and characters of one name; what is beyond is left out.
MAX_NAMES, MAX_NAME = 2_000, 200

#: Asks one server and keeps what it says; raises nothing but what a cancelled wait raises.
Job = Callable[[Waits], None]


@dataclass(frozen=True, slots=True)
class Listing:
    """What is known of one family's server.

    :ivar place: stands for the address and the credentials that were asked.
    :ivar names: the last good answer.
    :ivar until: when it is to be asked again, by the clock of :class:`Listings`.
    :ivar reason: why the last attempt brought nothing; None when it brought ``names``.
    """

    place: int
    names: tuple[str, ...]
    until: float
    reason: str | None


class Listings:
    """The lists of one app.

    :param now: seconds that only grow.
    :ivar generation: grows whenever a list changed.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._found: dict[str, Listing] = {}
        self.generation = 0

    def names(self, family_id: str) -> tuple[str, ...]:
        """The last good answer of a family's server, however old; empty before there was one."""
        found = self._found.get(family_id)
        return found.names if found is not None else ()

    def reason(self, family_id: str) -> str | None:
        """Why the last attempt brought nothing; None when it did, or there was none."""
        found = self._found.get(family_id)
        return found.reason if found is not None else None

    def job(self, family: ProviderFamily, connection: Connection) -> Job | None:
        """What is to be done for a fresh list of ``family``; None while the last answer or failure still stands.

        Taking a job claims it: nobody else gets it for :data:`FAILED_TTL_S` seconds, run or not.
        """
        ask = family.list_models
        if ask is None:
            return None
        place = hash((connection.base_url, *_items(connection.credentials), *_items(connection.options)))
        found = self._found.get(family.id)
        if found is not None and found.place == place and self._now() < found.until:
            return None
        names = found.names if found is not None and found.place == place else ()
        self._keep(family.id, Listing(place, names, self._now() + FAILED_TTL_S, "not answered yet"))
        quick = replace(
            connection,
            connect_s=min(connection.connect_s, CONNECT_S),
            idle_s=min(connection.idle_s, IDLE_S),
        )
        return partial(self._ask, family, place, partial(ask, quick))

    def _ask(
        self, family: ProviderFamily, place: int, ask: Callable[[Waits], Iterable[str]], waits: Waits
    ) -> None:
        old = self._found[family.id]
        if old.place != place:  # the family has moved since
            return
        reason = "gave no answer in time"
        names: tuple[str, ...] | None = None
        try:
            names = _clean(ask(waits))
        except ProviderError as error:
            reason = error.message
        except Exception as error:  # a plugin's own code
            reason = f"{type(error).__name__}: {error}"
            log.warning("the model list of %s could not be asked for: %s", family.id, reason)
        finally:  # a cancelled wait passes through and is a failure, too
            if self._found[family.id].place == place:
                stands = FAILED_TTL_S if names is None else family.list_ttl_s
                kept = old.names if names is None else names
                self._keep(
                    family.id, Listing(place, kept, self._now() + stands, reason if names is None else None)
                )

    def _keep(self, family_id: str, listing: Listing) -> None:
        if self.names(family_id) != listing.names:
            self.generation += 1
        self._found[family_id] = listing


def _items(mapping: t.Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(mapping.items()))


def _clean(names: Iterable[t.Any]) -> tuple[str, ...]:
    """What can be shown and called: printable texts of a sane length, once each, in order of name."""
    good = {
        name for name in names if isinstance(name, str) and 0 < len(name) <= MAX_NAME and name.isprintable()
    }
    return tuple(sorted(good)[:MAX_NAMES])

"""How often the owner's password may be guessed, and how the owner gets in while somebody guesses.

Law of this room: nobody who guesses can lock the owner out. A browser that the owner has signed in with is known by a
signed cookie and has tries of its own (OWASP calls it a device cookie). All others have those of their address, and
together those of the account: whoever has many addresses gets no further, and while he tries, browsers that are not
known have to wait. Known ones, sessions, and the links of ``studio owner link`` do not.
"""

from __future__ import annotations

import hashlib
import secrets

from app.web import cookies, signing
from app.web.limits import network
from app.web.tries import Limit, take

#: Tries of a known browser, of an address, or of somebody signed in who says the password again.
EACH, EACH_S = 10, 15 * 60
#: Tries of all unknown browsers together (NIST SP 800-63B: at most 100 for an account).
ALL, ALL_S = 100, 60 * 60

_COOKIE = "studio_known"
_KNOWN_S = 400 * 86400
_WHAT = "tries at the owner's password"


def take_for_sign_in() -> tuple[str, ...]:
    """Let the sender of this request try the password.

    :returns: what to give back when it was right (:func:`app.web.tries.give_back`).
    :raises ApiError: 429 ``rate_limited``.
    """
    known = _known()
    if known is not None:
        return take((Limit(f"owner-browser:{known}", EACH, EACH_S, _WHAT),))
    limits = (
        Limit(f"owner-address:{network()}", EACH, EACH_S, f"{_WHAT} from this address"),
        Limit("owner-account", ALL, ALL_S, _WHAT),
    )
    return take(limits)


def take_for(who: str) -> tuple[str, ...]:
    """Let somebody who is in already say the password again; otherwise as :func:`take_for_sign_in`.

    :param who: the id of the session or of the key.
    """
    return take((Limit(f"owner-again:{hashlib.sha256(who.encode()).hexdigest()}", EACH, EACH_S, _WHAT),))


def know() -> None:
    """Let the answer of this request tell the browser that it is known."""
    cookies.give(_COOKIE, signing.sign(_COOKIE, _known() or secrets.token_urlsafe(16)), _KNOWN_S)


def _known() -> str | None:
    found = signing.read(_COOKIE, cookies.sent(_COOKIE), _KNOWN_S)
    return found if isinstance(found, str) else None

"""Keyed digests: what is compared with something secret, and names that say nothing of whom they are for.

Law of this room: each purpose has digests of its own; without the keys of this installation nobody can tell what one is
of, however few things it can be.
"""

from __future__ import annotations

import hashlib
import hmac

from flask import current_app

from app.web.http import services


def digest(purpose: str, *parts: str) -> bytes:
    """32 bytes of ``parts``, by the newest key.

    :raises SecretsLocked: the keys of this installation are not here.
    """
    key: bytes | None = current_app.extensions.get("studio.digests")
    if key is None:
        key = current_app.extensions["studio.digests"] = services().store.secrets.derived("digests")[0]
    text = "".join(f"{len(part)}:{part}" for part in (purpose, *parts))
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256)

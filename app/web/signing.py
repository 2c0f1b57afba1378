"""Signed values: what a browser keeps for us and may not change: sessions, visitors' passes, states of a sign-in.

Law of this room: a value is signed for one purpose and is read for no other; it is not encrypted, so it holds nothing
that its bearer may not see. Signatures are compared in constant time (itsdangerous).
"""

from __future__ import annotations

import hashlib
import typing as t

from flask import current_app
from itsdangerous import BadData, URLSafeTimedSerializer

from app.web.http import services

_MAX = 4096


def sign(purpose: str, value: t.Any) -> str:
    """``value`` (JSON) with its time and a signature, as URL-safe text.

    :param purpose: such as ``session``.
    :raises SecretsLocked: the keys of this installation are not here.
    """
    return _serializer(purpose).dumps(value)


def read(purpose: str, text: str | None, max_age_s: int) -> t.Any | None:
    """What was signed; None for what was not signed for this purpose by this installation, or is older.

    :raises SecretsLocked: the keys of this installation are not here.
    """
    if not text or len(text) > _MAX:
        return None
    try:
        return _serializer(purpose).loads(text, max_age=max_age_s)
    except BadData:
        return None


def _serializer(purpose: str) -> URLSafeTimedSerializer:
    keys = current_app.extensions.get("studio.signing")
    if keys is None:
        # The oldest first: the last one signs.
        keys = tuple(reversed(services().store.secrets.derived("signing")))
        current_app.extensions["studio.signing"] = keys
    return URLSafeTimedSerializer(
        list(keys), salt=f"studio.{purpose}", signer_kwargs={"digest_method": hashlib.sha256}
    )

"""The credential table in tests: how its routes are called."""

from __future__ import annotations

import base64
import re
import typing as t
from collections.abc import Mapping

from app.web.auth import Credential
from app.web.http import is_api
from tests.web.conftest import Studio

#: The reference of a run's output (:mod:`app.streams.references`).
OUTPUT = base64.urlsafe_b64encode(b'["output"]').decode().rstrip("=")
_IDS = {"surface": "agent-text", "name": "sign_in.css", "ref": OUTPUT}


def named(row: Credential) -> str:
    """For people."""
    return f"{row.method} {row.rule}"


def call(studio: Studio, row: Credential, sent: Mapping[str, str], method: str = "", **ids: str) -> t.Any:
    """A request to a row's route, read to the end of its answer.

    :param sent: headers. :param method: another than the row's. :param ids: of what is asked for; it is of nobody's.
    """
    known = {**_IDS, **ids}
    path = re.sub(r"<(?:\w+:)?(\w+)>", lambda match: known.get(match[1], "nobody_has_this"), row.rule)
    if row.rule == "/api/stream-check":
        path += "?small=0&padded=0&spacing_ms=10"  # as short as it gets
    body = {"json" if is_api(path) else "data": {}} if row.method in ("POST", "PUT", "PATCH") else {}
    answer = studio.client.open(path, method=method or row.method, headers=dict(sent), **body)
    answer.get_data()
    return answer


def without(body: Mapping[str, t.Any] | None, ids: Mapping[str, str]) -> str:
    """An error's body as it is for every request and every id."""
    plain = dict(body or {})
    if isinstance(plain.get("error"), dict):
        plain["error"] = {name: value for name, value in plain["error"].items() if name != "requestId"}
    text = str(plain)
    for each in ids.values():
        text = text.replace(each, "ID")
    return text

"""What tests of the management API share."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from tests.web.conftest import Studio

ADMIN, RUN, READ = "admin", "run", "read"


def send(
    studio: Studio,
    method: str,
    path: str,
    body: t.Any = None,
    *,
    key: str = ADMIN,
    match: str | None = None,
    **headers: str,
) -> t.Any:
    """One request with a key of that scope; ``match``: the ``If-Match`` header."""
    sent = {"X-API-Key": studio.keys.get(key, key), **{k.replace("_", "-"): v for k, v in headers.items()}}
    if match is not None:
        sent["If-Match"] = match
    more: dict[str, t.Any] = {} if body is None else {"json": body}
    return studio.client.open(path, method=method, headers=sent, **more)


def made(studio: Studio, document: Mapping[str, t.Any]) -> tuple[str, str]:
    """A new workflow with this draft: its id and its ETag."""
    answer = send(studio, "POST", "/api/workflows", dict(document))
    assert answer.status_code == 201, answer.get_data()
    return answer.get_json()["id"], answer.headers["ETag"]


def ok(answer: t.Any, status: int = 200) -> t.Any:
    """The body of an answer that must have this status."""
    assert answer.status_code == status, answer.get_data()
    return answer.get_json()

"""Values too large to be handed over whole: a reference in their place, and the way back (contract 3.5).

Law of this room: pure. A reference is a path into the run's record as ``GET /api/runs/{id}`` has it, so whoever may
read the record may follow it, and it shows nothing the record would not.
"""

from __future__ import annotations

import base64
import typing as t
from collections.abc import Mapping, Sequence

from app import encoding
from app.encoding import clean_text

#: Most bytes of one value, as JSON.
VALUE_LIMIT = 8 * 1024 * 1024
#: Characters of its beginning that a reference shows.
PREVIEW = 500

Path = tuple[str | int, ...]


def referring(run_id: str, value: t.Any, path: Path) -> t.Any:
    """``value`` with a reference in place of each value in it that is too large; the innermost such ones.

    :param path: where it stands in the record.
    """
    return _Referring(run_id).inside(encoding.plain(value), path)


def whole(run_id: str, value: t.Any, path: Path) -> t.Any:
    """``value``, or a reference where it is too large itself; as :func:`referring`."""
    return _Referring(run_id).look(encoding.plain(value), path)


def reference(run_id: str, value: t.Any, path: Path) -> dict[str, t.Any]:
    """What stands in the place of a value that is told no second time; as :func:`referring`, whatever its size."""
    plain = encoding.plain(value)
    return _Referring(run_id).reference(plain, encoding.dumps(plain), path)


class _Referring:
    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def look(self, value: t.Any, path: Path) -> t.Any:
        encoded = encoding.dumps(value)
        if len(encoded) <= VALUE_LIMIT:
            return value
        found = self.inside(value, path)
        if _keeps(value) or (found is not value and len(encoding.dumps(found)) <= VALUE_LIMIT):
            return found
        return self.reference(value, encoded, path)

    def inside(self, value: t.Any, path: Path) -> t.Any:
        """What a container holds, looked at one by one; anything else as it is."""
        if isinstance(value, Mapping):
            return {key: self.look(item, (*path, str(key))) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.look(item, (*path, place)) for place, item in enumerate(value)]
        return value

    def reference(self, value: t.Any, encoded: bytes, path: Path) -> dict[str, t.Any]:
        """The reference itself."""
        ref = _written(path)
        text = clean_text(value) if isinstance(value, str) else encoded[: 4 * PREVIEW].decode(errors="ignore")
        return {
            "ref": ref,
            "url": f"/api/runs/{self._run_id}/values/{ref}",
            "size": len(encoded),
            "kind": _kind(value),
            "preview": text[:PREVIEW],
        }


def _keeps(value: t.Any) -> bool:
    """Whether it is of a shape that clients rely on: an agent's output, its calls, one of them. Only what such a
    value holds is referred to.
    """
    if isinstance(value, list):
        return bool(value) and _keeps(value[0])
    if not isinstance(value, Mapping):
        return False
    return (
        "toolCalls" in value
        or {"list", "count"} <= value.keys()
        or {"id", "name", "startTime"} <= value.keys()
    )


def _kind(value: t.Any) -> str:
    if isinstance(value, str):
        return "text"
    return (
        "object" if isinstance(value, Mapping) else "list" if isinstance(value, (list, tuple)) else "number"
    )


def _written(path: Path) -> str:
    return base64.urlsafe_b64encode(encoding.dumps(list(path))).rstrip(b"=").decode()


def read(ref: str) -> Sequence[t.Any] | None:
    """The path that a reference stands for; None when it is none."""
    try:
        path = encoding.loads(base64.b64decode(ref + "=" * (-len(ref) % 4), b"-_", validate=True))
    except ValueError:
        return None
    return path if isinstance(path, list) else None


def follow(body: t.Any, path: Sequence[t.Any]) -> tuple[bool, t.Any]:
    """Whether there is something at ``path`` of a run's record, and what.

    Of ``blocks`` the path names one by its id.
    """
    for place, part in enumerate(path):
        if isinstance(body, Mapping) and str(part) in body:
            body = body[str(part)]
        elif place == 1 and path[0] == "blocks" and isinstance(body, list):
            named = [block for block in body if block["blockId"] == part]
            if not named:
                return False, None
            body = named[-1]
        elif isinstance(body, (list, tuple)) and type(part) is int and 0 <= part < len(body):
            body = body[part]
        else:
            return False, None
    return True, body

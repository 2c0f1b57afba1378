"""From ``redact`` as it is written, in a document or in a deployment, to a policy.

Law of this room: strict. What is not understood is refused with its path and the cure: a policy that was meant and does
not hold would be found out too late.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping, Sequence

from app.errors import Problem
from app.redaction.policy import KIND, PARTS, Policy
from plugins import wording

MODES = ("strict", "live")
_DEFAULT = Policy()
#: Most characters of a mask.
MOST_MASK = 40
#: Keys of ``redact`` and what each means, for the reference.
KEYS: Mapping[str, str] = {
    "mode": "`strict` (default): nothing is told before it is whole and masked. `live`: text is told as soon as the "
    "detectors have passed over it.",
    "detectors": "Names of detectors. Default: all there are.",
    "mask": "What stands in place of a match, up to 40 characters; `{kind}` becomes the detector's name. Default: "
    "`[{kind}]`.",
    "applies": "What is covered: `input`, `answer`, `thinking`, `tools`. Default: all of it.",
}


def load_policy(
    raw: t.Any, path: str, known: Collection[str] | None = None
) -> tuple[Policy | None, list[Problem]]:
    """The policy in ``raw``; None for none (null), and where something is wrong with it.

    :param path: where it stands; the problems' paths begin with it.
    :param known: names of the detectors there are; None: not judged.
    """
    if raw is None:
        return None, []
    if not isinstance(raw, Mapping):
        return None, [Problem(path, f"must be an object such as {{mode: strict}}, not {_kind(raw)}")]
    problems = [
        Problem(f"{path}.{key}" if str(key).isidentifier() else path, _unknown(str(key), KEYS))
        for key in raw
        if key not in KEYS
    ]
    given = {key: value for key, value in raw.items() if value is not None}
    problems += _mode(given.get("mode", "strict"), f"{path}.mode")
    problems += _names(given.get("detectors", ()), f"{path}.detectors", known, "detector")
    problems += _mask(given.get("mask", _DEFAULT.mask), f"{path}.mask")
    problems += _names(given.get("applies", PARTS), f"{path}.applies", PARTS, "part")
    if problems:
        return None, problems
    applies = given.get("applies", PARTS)
    return (
        Policy(
            given.get("mode", "strict"),
            tuple(dict.fromkeys(given.get("detectors", ()))),
            given.get("mask", _DEFAULT.mask),
            tuple(part for part in PARTS if part in applies),
        ),
        [],
    )


def policy_of(raw: t.Any) -> Policy | None:
    """The policy in what was checked when it was stored. One that is not understood any more redacts all, strictly."""
    policy, problems = load_policy(raw, "redact")
    return _DEFAULT if problems else policy


def _mode(value: t.Any, path: str) -> list[Problem]:
    if value in MODES:
        return []
    return [Problem(path, f"must be {' or '.join(MODES)}, not {_kind(value)}")]


def _names(value: t.Any, path: str, known: Collection[str] | None, what: str) -> list[Problem]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return [Problem(path, f"must be a list of names, not {_kind(value)}")]
    if not value and path.endswith(".applies"):
        return [Problem(path, f"must name at least one of {wording.listed(PARTS)}; leave it out for all")]
    problems = []
    for place, name in enumerate(value):
        where = f"{path}[{place}]"
        if not isinstance(name, str):
            problems.append(Problem(where, f"must be the name of a {what}, not {_kind(name)}"))
        elif known is not None and name not in known:
            problems.append(Problem(where, f"there is no {what} {_kind(name)}. {_there(name, known)}"))
    return problems


def _mask(value: t.Any, path: str) -> list[Problem]:
    if not isinstance(value, str):
        return [Problem(path, f"must be text, not {_kind(value)}")]
    if not value.strip() or len(value) > MOST_MASK or not value.isprintable():
        return [Problem(path, f"must be 1 to {MOST_MASK} printable characters")]
    if set("{}") & set(value.replace(KIND, "")):
        return [Problem(path, f"may have no braces but those of {KIND}")]
    return []


def _unknown(key: str, known: Collection[str]) -> str:
    return f"is not known here. {_there(key, known)}"


def _there(name: str, known: Collection[str]) -> str:
    names = list(known)
    near = wording.near(name, names)
    return (f"Did you mean {wording.either(near)}? " if near else "") + f"There are: {wording.listed(names)}."


def _kind(value: t.Any) -> str:
    """A value as a message may quote it."""
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 60 else f'"{value[:57]}…"'
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    if isinstance(value, (int, float)):
        return str(value) if abs(value) < 1e20 else "a huge number"
    return "an object" if isinstance(value, Mapping) else "a list"

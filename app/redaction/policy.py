"""What is redacted in a run: the policy of an agent, a workflow or a chat, and the stricter of two.

Law of this room: values alone. A policy that is there redacts; nothing in it can make another one weaker.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

Mode = t.Literal["strict", "live"]
Part = t.Literal["input", "answer", "thinking", "tools"]

#: What a policy covers unless it says otherwise: what was asked (as it is stored and shown; the model gets it as it
#: is), what is answered, what a model thinks, and arguments and results of tools.
PARTS: tuple[Part, ...] = ("input", "answer", "thinking", "tools")
#: In a mask, what becomes the detector's name.
KIND: t.Final = "{kind}"


@dataclass(frozen=True, slots=True)
class Policy:
    """``redact`` of contract section 2.

    :ivar mode: ``strict``: nothing is told before it is whole and masked. ``live``: text is told once the detectors
        have passed over it.
    :ivar detectors: names; empty: all there are.
    :ivar mask: what stands in place of a match; ``{kind}`` in it becomes the detector's name.
    :ivar applies: the parts that are covered.
    """

    mode: Mode = "strict"
    detectors: tuple[str, ...] = ()
    mask: str = "[{kind}]"
    applies: tuple[Part, ...] = PARTS


def stored(policy: Policy | None) -> dict[str, t.Any] | None:
    """A policy as JSON."""
    return None if policy is None else {each.name: getattr(policy, each.name) for each in fields(Policy)}


def restored(value: Mapping[str, t.Any] | None) -> Policy | None:
    """The inverse of :func:`stored`."""
    if value is None:
        return None
    return Policy(value["mode"], tuple(value["detectors"]), value["mask"], tuple(value["applies"]))


def stricter(one: Policy | None, other: Policy | None) -> Policy | None:
    """What holds where both do: the slower mode, all detectors and parts of either; the first one's mask."""
    if one is None or other is None:
        return one or other
    everything = not one.detectors or not other.detectors
    return Policy(
        "strict" if "strict" in (one.mode, other.mode) else "live",
        () if everything else tuple(dict.fromkeys((*one.detectors, *other.detectors))),
        one.mask,
        tuple(part for part in PARTS if part in one.applies or part in other.applies),
    )


def strictest(policies: Iterable[Policy | None]) -> Policy | None:
    """See :func:`stricter`; None where nothing is redacted."""
    found: Policy | None = None
    for policy in policies:
        found = stricter(found, policy)
    return found

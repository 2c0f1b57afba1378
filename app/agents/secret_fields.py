"""Fields that may use secrets, rendered: their values, and what of them is secret.

Law of this room: secrets are read only where a template names one, and only those; whoever sends a field is told
what no answer to it may repeat.
"""

from __future__ import annotations

import itertools
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.agents import templates
from app.errors import RunError
from app.redaction.values import value_mask
from app.workflows.secret_use import names_in

Secrets = Callable[[], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Filled:
    """Rendered fields.

    :ivar private: names of those that hold a secret.
    :ivar hidden: the secrets that were used, and what templates made of them.
    """

    values: Mapping[str, t.Any] = field(repr=False)
    private: frozenset[str] = frozenset()
    hidden: frozenset[str] = field(default=frozenset(), repr=False)


def filled(given: Mapping[str, str], variables: Mapping[str, t.Any], secrets: Secrets) -> Filled:
    """The fields with their templates rendered.

    :param secrets: asked only when a template names one.
    :raises RunError: ``template_failed``. :raises BlockError: ``secret_unknown``.
    """
    by_field = {field: names for field, text in given.items() if (names := names_in(text))}
    if not by_field:
        return Filled(templates.render_value(given, variables))
    stored = secrets()
    used = {name: stored[name] for name in sorted(frozenset[str]().union(*by_field.values()))}
    plain = {field: text for field, text in given.items() if field not in by_field}
    secret = {field: given[field] for field in by_field}
    try:
        made = templates.render_value(secret, {**variables, "secrets": used})
    except RunError as error:  # its detail may quote what a filter was given
        detail = value_mask(used.values()).text(error.detail)
        raise RunError(error.code, error.message, detail=detail) from None
    words = {word for field in secret for word in _made_of(secret[field], str(made[field]), variables, used)}
    values = {**templates.render_value(plain, variables), **made}
    return Filled(values, frozenset(secret), frozenset({*used.values(), *words}))


def _made_of(source: str, rendered: str, variables: Mapping[str, t.Any], used: Mapping[str, str]) -> set[str]:
    """What a template made of secrets, by a filter for instance, as a whole and by its words: as secret as those."""
    for value in used.values():
        rendered = rendered.replace(value, "")
    try:
        blank = str(templates.render_value(source, {**variables, "secrets": dict.fromkeys(used, "")}))
    except RunError:
        blank = ""
    return {_beyond(rendered, blank), *(set(rendered.split()) - set(blank.split()))}


def _beyond(text: str, plain: str) -> str:
    """The part of ``text`` between what both begin and both end with."""
    start = _alike(text, plain)
    text, plain = text[start:], plain[start:]
    return text[: len(text) - _alike(text[::-1], plain[::-1])].strip()


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))

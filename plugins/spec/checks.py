"""Whether what somebody's plugin states is of the kinds that it may be.

Law of this room: pure, and looked at once, when a plugin is loaded or a rule has answered; whatever reads a statement
afterwards need not ask again.
"""

from __future__ import annotations

import math
import os
import typing as t
from collections.abc import Callable, Mapping, Sequence
from string import Formatter

from plugins.spec.families import Capabilities, Embeddings, ProviderFamily, Setting

_CHOICES: Mapping[str, tuple[t.Any, ...]] = {
    name: t.get_args(hint)
    for name, hint in t.get_type_hints(Capabilities).items()
    if t.get_origin(hint) is t.Literal
}
_FLAGS = tuple(name for name, hint in t.get_type_hints(Capabilities).items() if hint is bool)


def are_capabilities(found: object) -> bool:
    """Whether these are capabilities, and of the words there are."""
    return isinstance(found, Capabilities) and not odd_claims(found)


def odd_claims(found: Capabilities) -> list[str]:
    """The fields of ``found`` that hold what such a field cannot."""
    odd = [name for name, choices in _CHOICES.items() if getattr(found, name) not in choices]
    for names, good in _KINDS:
        odd += [name for name in names if not good(getattr(found, name))]
    return odd


def _is_tuple_of_names(value: object) -> bool:
    return type(value) is tuple and are_names(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_flag(value: object) -> bool:
    return type(value) is bool


def _is_map_of_names(value: object) -> bool:
    return isinstance(value, Mapping) and are_names((*value, *value.values()))


def _is_count_or_none(value: object) -> bool:
    return value is None or (type(value) is int and value >= 0)


def _is_price_or_none(value: object) -> bool:
    return value is None or (type(value) is tuple and len(value) == 2 and all(map(is_amount, value)))


def is_amount(value: object) -> bool:
    """A finite number from 0."""
    return type(value) in (int, float) and math.isfinite(t.cast(float, value)) and t.cast(float, value) >= 0


_KINDS: tuple[tuple[tuple[str, ...], Callable[[object], bool]], ...] = (
    (("inputs", "thinking_control"), _is_tuple_of_names),
    (("notes", "source"), _is_text),
    (("sources",), _is_map_of_names),
    (_FLAGS, _is_flag),
    (("context_window", "max_output"), _is_count_or_none),
    (("price", "cache_price"), _is_price_or_none),
)


def are_names(found: t.Any) -> bool:
    """Texts, and nothing else."""
    return all(isinstance(name, str) for name in found)


def is_text_or_none(found: object) -> bool:
    """A text, or nothing."""
    return found is None or isinstance(found, str)


def is_problem_or_none(found: t.Any) -> bool:
    """What a connection's ``check`` gives."""
    return found is None or (isinstance(found, tuple) and len(found) == 2 and are_names(found))


def family_problem(family: ProviderFamily) -> str | None:
    """What is wrong with the plain facts of a family; None when nothing is."""
    bad = [name for name, good in (*_facts(family), *_connection_facts(family.connection)) if not good]
    return (
        f'family "{family.id}": {", ".join(bad)} cannot be used; see the field\'s documentation'
        if bad
        else None
    )


def _facts(family: t.Any) -> list[tuple[str, bool]]:
    most, prefix = family.max_concurrency, family.registry_prefix
    return [
        ("title", _is_text(family.title) and bool(family.title)),
        ("models", family.models is None or callable(family.models) or _is_list(family.models)),
        ("dialect", isinstance(family.dialect, Mapping)),
        ("other_wires", _is_list_of_names(family.other_wires)),
        ("list_ttl_s", _is_seconds(family.list_ttl_s)),
        ("max_concurrency", most is None or (type(most) is int and most > 0)),
        ("registry_prefix", prefix is None or isinstance(prefix, str)),
        ("registry_providers", _is_list_of_names(family.registry_providers)),
        ("known", _is_list_of_names(family.known)),
        (
            "recordings",
            family.recordings is None or isinstance(family.recordings, (str, os.PathLike, Sequence)),
        ),
        ("embeddings", family.embeddings is None or _are_embeddings(family.embeddings)),
    ]


def _are_embeddings(found: t.Any) -> bool:
    if not isinstance(found, Embeddings):
        return False
    wire: object = found.wire
    return (
        (isinstance(wire, str) or callable(getattr(wire, "embed", None)))
        and _is_text(found.source)
        and _is_list_of_names(found.known)
        and (found.models is None or _is_list_of_names(found.models))
        and (callable(found.batch) or is_batch(found.batch))
        and _is_mapping(found.dialect)
        and (found.model_dialect is None or callable(t.cast(object, found.model_dialect)))
        and _is_list_of_names(found.registry_providers)
        and (found.price is None or is_amount(found.price))
    )


def is_batch(found: object) -> bool:
    """How many texts one call may take."""
    return type(found) is int and found > 0


def _connection_facts(connection: t.Any) -> list[tuple[str, bool]]:
    settings, headers = connection.settings, connection.headers
    there = _is_list(settings) and all(isinstance(each, Setting) for each in settings)
    names = {setting.name for setting in settings} if there else set()
    headed = _is_map_of_names(headers)
    base = connection.default_base
    return [
        ("connection.default_base", base is None or callable(base) or _is_template(base, names)),
        ("connection.base_vars", _is_list_of_names(connection.base_vars)),
        ("connection.key_vars", _is_list_of_names(connection.key_vars)),
        ("connection.version_path", isinstance(connection.version_path, str)),
        ("connection.settings", there),
        ("connection.headers", headed and all(_is_template(value, names) for value in headers.values())),
        ("connection.idle_s", _is_seconds(connection.idle_s)),
    ]


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_list_of_names(value: t.Any) -> bool:
    return _is_list(value) and are_names(value)


def _is_seconds(value: object) -> bool:
    return is_amount(value) and bool(value)


def _is_template(value: object, names: set[str]) -> bool:
    """A text whose braces, if it has any, name settings."""
    if not isinstance(value, str):
        return False
    try:
        return {name for _, name, _, _ in Formatter().parse(value) if name is not None} <= names
    except ValueError:
        return False

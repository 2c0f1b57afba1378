"""The model registry: what litellm's model map knows of a model's size, price and inputs.

Law of this room: the map is read as a file and litellm is never imported for it (its import takes seconds and
100 MB). Only the fields named here are kept. A row is found by prefix and name, or by name and provider; never by
a bare guess, because the same name means other prices at other vendors. That a model can reason says nothing about
what of it is exposed: ``Row.supports_reasoning`` never becomes a claim about shown thinking by itself.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import logging
import re
import typing as t
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from plugins.spec.rows import Row

log = logging.getLogger("studio.plugins")

_FILE = "model_prices_and_context_window_backup.json"
#: Modes of rows that answer in text.
_MODES = frozenset({"chat", "responses", "completion"})
_EMBEDDING = frozenset({"embedding"})
#: USD per token of a vector that nobody asks for: such a row states the price of a thousand tokens (one does).
_IMPLAUSIBLE = 1e-5
#: What a name may have behind it and mean the same model: a date, ``latest``.
_DATED = re.compile(r"[-@:](?:\d{6,8}|\d{4}-\d\d-\d\d|latest)(?:-v\d.*)?$")


def lookup(prefix: str | None, providers: Iterable[str], model: str) -> Row | None:
    """The row of ``model``: ``<prefix>/<model>``, else ``<model>`` when its provider is one of ``providers``.

    :param prefix: a family's ``registry_prefix``.
    :param providers: a family's ``registry_providers``.
    :returns: None when the map does not know it, or is not installed.
    """
    known = rows()
    if prefix and (row := known.get(f"{prefix}/{model}")) is not None:
        return row
    row = known.get(model)
    return row if row is not None and row.litellm_provider in tuple(providers) else None


def names(prefix: str | None, providers: Iterable[str]) -> tuple[str, ...]:
    """The models of a family that the map lists, without the prefix, sorted."""
    return _names(prefix, tuple(providers))


@functools.lru_cache(maxsize=256)
def _names(prefix: str | None, wanted: tuple[str, ...]) -> tuple[str, ...]:
    found = set()
    for name, row in rows().items():
        if row.mode not in _MODES:
            continue
        if prefix and name.startswith(f"{prefix}/"):
            found.add(name[len(prefix) + 1 :])
        elif row.litellm_provider in wanted:
            found.add(name)
    return tuple(sorted(found))


@functools.lru_cache(maxsize=1)
def version() -> str | None:
    """The version of the map, which is that of the installed litellm; None when there is none."""
    try:
        return importlib.metadata.version("litellm")
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.lru_cache(maxsize=1)
def rows() -> Mapping[str, Row]:
    """Every row that answers in text; empty when litellm is not installed or its file cannot be read."""
    return _rows(_MODES)


@functools.lru_cache(maxsize=1)
def embedding_rows() -> Mapping[str, Row]:
    """Every row that makes vectors; empty as :func:`rows` may be."""
    return _rows(_EMBEDDING)


def embedding_price(prefix: str | None, providers: Iterable[str], model: str) -> float | None:
    """USD per million tokens of a model that makes vectors, found as by :func:`lookup`; None when nobody says."""
    known = embedding_rows()
    row = known.get(f"{prefix}/{model}") if prefix else None
    if row is None and (row := known.get(model)) is not None and row.litellm_provider not in tuple(providers):
        row = None
    cost = number(row.input_cost_per_token) if row is not None else None
    return None if cost is None or cost > _IMPLAUSIBLE else cost * 1e6


def _rows(modes: frozenset[str]) -> Mapping[str, Row]:
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    try:
        return _read(Path(spec.origin).with_name(_FILE), modes)
    except (OSError, msgspec.DecodeError) as error:
        log.warning("the model map of litellm cannot be read, capabilities are the families' own: %s", error)
        return {}


def _read(path: Path, modes: frozenset[str]) -> Mapping[str, Row]:
    raw = msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
    decoder = msgspec.json.Decoder(Row)
    found: dict[str, Row] = {}
    for name, text in raw.items():
        try:
            row = decoder.decode(text)
        except msgspec.DecodeError:  # one odd row (a template, a new shape) loses only itself
            continue
        if row.mode in modes:
            found[name] = row
    return found


def number(value: t.Any) -> float | None:
    """A figure of a row, None where it is missing or no number."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def is_known(model: str, known: Iterable[str]) -> bool:
    """Whether ``model`` is in ``known`` as written, or with a date or ``latest`` behind a known name."""
    bare = _DATED.sub("", model)
    return any(name in (model, bare) or _DATED.sub("", name) == model for name in known)

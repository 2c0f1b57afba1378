"""Both tables of ``docs/normalised.md`` say what the wires read, label by label and count by count.

Law of this room: the wires are asked, not listed: a map of labels or a count that a wire gains is missed here until
the page has it.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import typing as t
from collections.abc import Iterable, Iterator

import pytest

import providers
from providers.spec import FinishReason
from tests.support.shared import ROOT

PAGE = (ROOT / "docs" / "normalised.md").read_text()
FAILURE, UNLABELLED = "a failure", "no label"
#: Module that reads a wire's events to its column of the tables.
COLUMNS = {
    "openai_chat_events": "chat completions",
    "litellm_bridge": "chat completions",
    "openai_responses_events": "Responses",
    "anthropic_events": "Messages",
    "gemini": "Gemini",
    "bedrock_converse": "Bedrock Converse",
    "cohere_chat": "Cohere",
    "ollama_chat": "Ollama",
}
#: (column, row, labels) that stand in a condition of the wire and in no map of it.
CONDITIONS = [
    ("Responses", "stop", {"completed"}),
    ("Responses", FAILURE, {"failed", "cancelled"}),
    ("Gemini", UNLABELLED, {"FINISH_REASON_UNSPECIFIED"}),
]
#: Names of collections of labels by which a vendor says that it failed.
_FAILURES = ("_FAILED", "_MALFORMED")

Rows = dict[str, dict[str, str]]


def table(heading: str) -> Rows:
    """The table under ``heading``: row to column to cell."""
    section = PAGE.partition(f"## `{heading}`\n")[2].partition("\n## ")[0]
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line[:1] == "|"
    ]
    head, _, *rows = lines
    return {row[0].strip("`"): dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def names(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def modules() -> Iterator[tuple[str, t.Any]]:
    for found in pkgutil.iter_modules(providers.__path__):
        yield found.name, importlib.import_module(f"providers.{found.name}")


def label_maps() -> Iterator[tuple[str, str, str]]:
    """(module, row, label) of every label that a wire knows."""
    for name, module in modules():
        for variable, value in vars(module).items():
            if isinstance(value, dict) and _gives_reasons(value.values()):
                yield from ((name, reason or UNLABELLED, label) for label, reason in value.items() if label)
            elif variable in _FAILURES:
                yield from ((name, FAILURE, label) for label in value)


def _gives_reasons(values: Iterable[t.Any]) -> bool:
    reasons = [value for value in values if value is not None]
    return bool(reasons) and all(value in t.get_args(FinishReason) for value in reasons)


def test_every_wire_has_a_column() -> None:
    assert {name for name, _, _ in label_maps()} <= set(COLUMNS)
    assert {name for name, module in modules() if _counts(module)} <= set(COLUMNS)


@pytest.mark.parametrize("column", sorted(set(COLUMNS.values())))
def test_every_label_stands_in_its_row_and_no_other_does(column: str) -> None:
    known: dict[str, set[str]] = {}
    for name, row, label in label_maps():
        if COLUMNS.get(name) == column:
            known.setdefault(row, set()).add(label)
    for where, row, labels in CONDITIONS:
        if where == column:
            known.setdefault(row, set()).update(labels)
    rows = table("finishReason")
    assert set(rows) == {*t.get_args(FinishReason), FAILURE, UNLABELLED}
    assert {row: found for row in rows if (found := names(rows[row][column]))} == known


def test_what_stands_in_a_condition_is_in_the_wire() -> None:
    sources = {
        column: (ROOT / "providers" / f"{name}.py").read_text()
        for name, column in COLUMNS.items()
        if name != "litellm_bridge"
    }
    for column, _, labels in CONDITIONS:
        for label in labels - {"completed"}:  # the end that is neither of the others
            assert f'"{label}"' in sources[column]


def _counts(module: t.Any) -> set[str]:
    """What the module reads by ``providers.decoding.count``."""
    if module.__name__ == "providers.decoding":
        return set()
    with open(module.__file__) as file:
        tree = ast.parse(file.read())
    return {
        argument.value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "count"
        for argument in call.args
        if isinstance(argument, ast.Constant)
    }


@pytest.mark.parametrize("column", sorted(set(COLUMNS.values())))
def test_every_count_stands_in_the_table_and_no_other_does(column: str) -> None:
    read: set[str] = set()
    for name, where in COLUMNS.items():
        if where == column:
            read |= _counts(importlib.import_module(f"providers.{name}"))
    rows = table("tokens")
    shown = {name.rpartition(".")[2] for row in rows.values() for name in names(row[column])}
    assert shown == read

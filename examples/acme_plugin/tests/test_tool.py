"""The tool reads good numbers and says no to others in a way a model can act on."""

from __future__ import annotations

import pytest
from acme_studio.tools import PART

from studio_plugin import ToolContext, ToolFailed, conformance


def ask(number: str) -> object:
    context = ToolContext(conformance.KitWaits(), "run_1", "call_1", 5.0)
    return PART.run({"number": number}, context)


def test_a_part() -> None:
    assert ask("an-2431-0") == {"number": "AN-2431-0", "kind": "anvil", "model_year": "2024"}


@pytest.mark.parametrize(("number", "words"), [("AN2431", "look like"), ("AN-2431-1", "does not exist")])
def test_no_part(number: str, words: str) -> None:
    with pytest.raises(ToolFailed, match=words):
        ask(number)
